//! A million tasks that sleep and wake: what firing costs, how late it is, and that it is never
//! early.

use std::future::Future;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use hdrhistogram::Histogram;
use tokio::task::yield_now;

use crate::harness::{Standing, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "expire",
    about: "1,000,000 tasks that sleep and expire over 2 s: CPU, lateness, early ones",
    state: "The timers of the row are due first, and a sleep stands behind them. Unlike a \
            server: all tasks begin at once, none does anything but sleep, and every timer \
            fires.",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::TOKIO, name::PINGORA, name::NO_TIMER],
        rounds: 3,
        run,
    },
};

fn run(contender: &str, settings: &Settings) -> Vec<(String, f64)> {
    match contender {
        name::TICKWHEEL => measure(contender, settings, tickwheel::sleep),
        name::TOKIO => measure(contender, settings, tokio::time::sleep),
        name::PINGORA => measure(contender, settings, pingora_timeout::sleep),
        // Nothing is late: of all figures the CPU is left.
        _ => measure(contender, settings, |_| yield_now())
            .drain(..1)
            .collect(),
    }
}

fn measure<F: Future<Output = ()> + Send + 'static>(
    contender: &str,
    settings: &Settings,
    sleep: fn(Duration) -> F,
) -> Vec<(String, f64)> {
    let tasks: usize = settings.either(1_000_000, 50_000);
    // All tasks are to sleep before the first one is due.
    let begin = Duration::from_millis(settings.either(2_000, 300));
    let span = begin;
    let runtime = runtime(2);
    let _standing = Standing::of(contender, &runtime);
    let cpu = ProcessTime::now();
    let (late, early) = runtime.block_on(async move {
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

    let late = |quantile| late.value_at_quantile(quantile) as f64 / 1e3;
    let rows = ["cpu", "p50", "p99", "max", "early"].map(|row| format!("expire-{row}"));
    let figures = [cpu, late(0.5), late(0.99), late(1.0), f64::from(early)];
    rows.into_iter().zip(figures).collect()
}
