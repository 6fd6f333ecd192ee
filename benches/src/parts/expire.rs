//! A million tasks that sleep and wake: what firing costs, how late it is, and that it is never
//! early.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    let sleeps = Arc::new(Sleeps::new(tasks));
    let cpu = ProcessTime::now();
    let all = sleeps.clone();
    runtime(2).block_on(async move {
        // Spawned from a task, like the tasks of a server.
        let spawner = tokio::spawn(async move {
            let start = Instant::now();
            let tasks: Vec<_> = (0..tasks)
                .map(|index| {
                    let due = start + begin + span.mul_f64(fastrand::f64());
                    let sleeps = all.clone();
                    tokio::spawn(async move {
                        let now = Instant::now();
                        let after = due.saturating_duration_since(now);
                        sleep(after).await;
                        sleeps.fired(index, now + after);
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("a sleep does not panic");
            }
        });
        spawner.await.expect("no task panics");
    });
    let cpu = cpu.elapsed().as_nanos() as f64 / tasks as f64;

    let record = |row, value| Record::new(row, contender, vec![value]);
    let mut records = vec![record("expire-cpu", cpu)];
    if contender != name::NO_TIMER {
        let late = sleeps.lateness();
        let late = |quantile| late.value_at_quantile(quantile) as f64 / 1e3;
        records.push(record("expire-p50", late(0.5)));
        records.push(record("expire-p99", late(0.99)));
        records.push(record("expire-max", late(1.0)));
        records.push(record(
            "expire-early",
            sleeps.early.load(Ordering::Relaxed) as f64,
        ));
    }
    records
}

/// How late each sleep fired.
struct Sleeps {
    micros_late: Vec<AtomicU64>,
    early: AtomicU64,
}

impl Sleeps {
    fn new(count: usize) -> Sleeps {
        Sleeps {
            micros_late: (0..count).map(|_| AtomicU64::new(0)).collect(),
            early: AtomicU64::new(0),
        }
    }

    fn fired(&self, index: usize, due: Instant) {
        match Instant::now().checked_duration_since(due) {
            Some(late) => self.micros_late[index].store(late.as_micros() as u64, Ordering::Relaxed),
            None => {
                self.early.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// In microseconds.
    fn lateness(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("three digits are allowed");
        for late in &self.micros_late {
            histogram
                .record(late.load(Ordering::Relaxed))
                .expect("it grows by itself");
        }
        histogram
    }
}
