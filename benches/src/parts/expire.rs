//! A million tasks that sleep and wake: what firing costs, how late it is, and that it is never
//! early.

use std::future::Future;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use hdrhistogram::Histogram;
use tokio::task::yield_now;

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "expire",
    about: "1,000,000 tasks that sleep and expire over 2 s: CPU, lateness, early ones",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::TOKIO, name::PINGORA, name::NO_TIMER],
        rounds: 3,
        run,
    },
};

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    match contender {
        name::TICKWHEEL => measure(contender, settings, tickwheel::sleep),
        name::TOKIO => measure(contender, settings, tokio::time::sleep),
        name::PINGORA => measure(contender, settings, pingora_timeout::sleep),
        _ => measure(contender, settings, |_| yield_now()),
    }
}

fn measure<F: Future<Output = ()> + Send + 'static>(
    contender: &str,
    settings: &Settings,
    sleep: fn(Duration) -> F,
) -> Vec<Record> {
    let tasks: usize = settings.either(1_000_000, 50_000);
    // All tasks are to sleep before the first one is due.
    let begin = settings.either(Duration::from_millis(2_000), Duration::from_millis(300));
    let span = settings.either(Duration::from_millis(2_000), Duration::from_millis(300));
    let cpu = ProcessTime::now();
    let found = runtime(2).block_on(async move {
        // Spawned from a task, like the tasks of a server.
        let spawner = tokio::spawn(async move {
            let start = Instant::now();
            let tasks: Vec<_> = (0..tasks)
                .map(|_| {
                    let due = start + begin + span.mul_f64(fastrand::f64());
                    tokio::spawn(async move {
                        let now = Instant::now();
                        let after = due.saturating_duration_since(now);
                        sleep(after).await;
                        Instant::now().checked_duration_since(now + after)
                    })
                })
                .collect();
            let (mut late, mut early) = (Histogram::<u64>::new(3).expect("it is allowed"), 0);
            for task in tasks {
                match task.await.expect("a sleep does not panic") {
                    Some(time) => late += time.as_micros() as u64,
                    None => early += 1,
                }
            }
            (late, early)
        });
        spawner.await.expect("no task panics")
    });
    let cpu = cpu.elapsed().as_nanos() as f64 / tasks as f64;

    let record = |row, value| Record::new(row, contender, vec![value]);
    let mut records = vec![record("expire-cpu", cpu)];
    if contender != name::NO_TIMER {
        let (late, early) = found;
        let late = |quantile| late.value_at_quantile(quantile) as f64 / 1e3;
        records.push(record("expire-p50", late(0.5)));
        records.push(record("expire-p99", late(0.99)));
        records.push(record("expire-max", late(1.0)));
        records.push(record("expire-early", f64::from(early)));
    }
    records
}
