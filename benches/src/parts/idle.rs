//! 100,000 deadlines an hour away: how often the process wakes for nothing.
//!
//! The part counts the voluntary context switches of all threads of the process, which Linux
//! counts. It also counts the wake-ups of tickwheel's driver, which the driver counts.

use std::fs;
use std::thread;
use std::time::Duration;

use tickwheel::Timer;
use tokio_util::time::DelayQueue;

use crate::harness::{Durations, Standing, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "idle",
    about: "100,000 deadlines an hour away: wake-ups",
    state: "A sleep stands before the deadlines, and all tasks wait. Unlike a server: nothing \
            happens at all, which is what the row asks for.",
    how: How::Apart {
        contenders: &[
            name::TICKWHEEL,
            name::TOKIO,
            name::DELAY_QUEUE,
            name::NO_TIMER,
        ],
        rounds: 1,
        run,
    },
};

const DEADLINES: usize = 100_000;

fn run(contender: &str, settings: &Settings) -> Vec<(String, f64)> {
    let runtime = runtime(2);
    let standing = Standing::of(contender, &runtime);
    let _within = runtime.enter();
    let durations = Durations::seconds(3_600..3_900);
    let away = (0..DEADLINES).map(|index| durations.get(index));
    let mut ours = None;
    match contender {
        name::TICKWHEEL => {
            let timer = ours.insert(Timer::current());
            away.for_each(|after| drop(tokio::spawn(timer.deadline(after))));
        }
        name::TOKIO => away.for_each(|after| drop(tokio::spawn(tokio::time::sleep(after)))),
        name::DELAY_QUEUE => {
            let mut queue = DelayQueue::new();
            for after in away {
                queue.insert((), after);
            }
            tokio::spawn(async move { std::future::poll_fn(|cx| queue.poll_expired(cx)).await });
        }
        _ => {}
    }

    let time = Duration::from_millis(settings.either(2_000, 500));
    thread::sleep(time / 4);
    let turns = || ours.as_ref().map(|timer| timer.metrics().wake_ups());
    let before = [context_switches(), turns()];
    thread::sleep(time);
    let after = [context_switches(), turns()];

    standing.end();
    let figure = |(row, (before, after)): (&str, (Option<u64>, Option<u64>))| {
        let each_second = (after? - before?) as f64 / time.as_secs_f64();
        Some((row.to_owned(), each_second))
    };
    let rows = ["idle", "idle-driver"].into_iter();
    rows.zip(before.into_iter().zip(after))
        .filter_map(figure)
        .collect()
}

/// How often a thread of this process has gone to sleep so far, where the system counts it. The
/// thread that asks is not counted, because it sleeps meanwhile.
fn context_switches() -> Option<u64> {
    let own = fs::read_link("/proc/thread-self").ok()?;
    let mut switches = 0;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?;
        if own.ends_with(thread.file_name()) {
            continue;
        }
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        switches += line.trim().parse::<u64>().ok()?;
    }
    Some(switches)
}
