//! What a whole program pays: the CPU of the process, for few timers that fire and for many that do
//! not.
//!
//! *Sparse*: one task that sleeps a millisecond again and again. *Intervals*: 100 tasks that tick
//! every 10 ms. *Bursts*: four tasks, each with a burst of timeouts every 5 ms, each pending once.
//! *Smooth*: the same with a pause of 1 ms, the shortest that tokio's timers have. These two are
//! run with the drop-in functions and with a `Timer` that the task holds.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use itertools::iproduct;
use tickwheel::Timer;
use tokio::task::JoinSet;

use crate::harness::{PendingOnce, Standing, TIMEOUT, pending_once, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "program",
    about: "CPU of the process: few timers that fire, and timeouts at several rates",
    state: "A sleep stands next to the load, and an interval of tokio paces all contenders. In \
            the rows with timers that fire, those are due first. Unlike a server: the process \
            has no socket, all timeouts are of 30 s, none passes, and the bursts come at even \
            times. A program that changes its `use` would also pace itself by this crate's interval.",
    how: How::Apart {
        contenders: &[name::DROP_IN, name::TICKWHEEL, name::TOKIO, name::NO_TIMER],
        rounds: 9,
        run,
    },
};

/// Timeouts a second.
pub const RATES: &[u32] = &[1_000, 10_000, 50_000, 100_000, 300_000, 1_000_000];

/// How the timeouts come: the name of the rows, and the pause between two bursts.
pub const LOADS: &[(&str, Duration)] = &[
    ("bursts", Duration::from_millis(5)),
    ("smooth", Duration::from_millis(1)),
];

/// So many tasks share a load.
pub(super) const TASKS: u32 = 4;

fn run(contender: &str, settings: &Settings) -> Vec<(String, f64)> {
    /// With the same functions of either crate.
    macro_rules! free {
        ($($time:ident)::+) => {{
            use $($time)::+::{interval, sleep, timeout};
            let sleeps = settings.either(500_u32, 100);
            let mut figures = Vec::new();
            for workers in [0, 1, 2] {
                let cpu = cpu_of(contender, workers, async move {
                    for _ in 0..sleeps {
                        sleep(Duration::from_millis(1)).await;
                    }
                });
                let each = cpu.as_nanos() as f64 / f64::from(sleeps);
                figures.push((format!("sparse-{workers}"), each));
            }
            let time = Duration::from_millis(settings.either(500, 200));
            let cpu = cpu_of(contender, 2, async move {
                let ticking = |_| async {
                    let mut ticks = interval(PERIOD);
                    loop {
                        ticks.tick().await;
                    }
                };
                let tasks: JoinSet<()> = (0..100).map(ticking).collect();
                sleep(time).await;
                drop(tasks);
            });
            let percent = 100.0 * cpu.as_secs_f64() / time.as_secs_f64();
            figures.push(("intervals".to_owned(), percent));
            figures.extend(loads(contender, settings, || {
                |pending| async { timeout(TIMEOUT, pending).await.ok() }
            }));
            figures
        }};
    }
    match contender {
        name::DROP_IN => free!(tickwheel::time),
        name::TOKIO => free!(tokio::time),
        name::TICKWHEEL => loads(contender, settings, || {
            // For as long as the process runs, which has this one load.
            let timer: &Timer = Box::leak(Box::new(Timer::current()));
            move |pending| async { timer.timeout(TIMEOUT, pending).await.ok() }
        }),
        _ => loads(contender, settings, || {
            |pending| async {
                pending.await;
                Some(())
            }
        }),
    }
}

const PERIOD: Duration = Duration::from_millis(10);

/// Boxed, as what a timeout bounds often is.
type Once = Pin<Box<PendingOnce>>;

/// Each task calls `make` once.
fn loads<F, T>(contender: &str, settings: &Settings, make: fn() -> F) -> Vec<(String, f64)>
where
    F: Fn(Once) -> T + Copy + Send + Sync + 'static,
    T: Future<Output = Option<()>> + Send + 'static,
{
    let time = Duration::from_millis(settings.either(500, 200));
    let measure = |(&(load, pause), &rate): (&(&str, Duration), &u32)| {
        let begin = Instant::now();
        let cpu = cpu_of(contender, 2, async move {
            let task = |_| async move {
                let timeout = make();
                let burst = |times| async move {
                    for _ in 0..times {
                        timeout(Box::pin(pending_once())).await;
                    }
                };
                bursts(rate, pause, time, burst).await;
            };
            (0..TASKS)
                .map(task)
                .collect::<JoinSet<()>>()
                .join_all()
                .await;
        });
        let percent = 100.0 * cpu.as_secs_f64() / begin.elapsed().as_secs_f64();
        (format!("{load}-{rate}"), percent)
    };
    iproduct!(LOADS, RATES).map(measure).collect()
}

/// What one of the [`TASKS`] does of a load for a time: `act` so often, after each pause. `rate` is
/// what all tasks do in a second.
pub(super) async fn bursts<F: Future<Output = ()>>(
    rate: u32,
    pause: Duration,
    time: Duration,
    mut act: impl FnMut(u32) -> F,
) {
    // At a low rate each task has one timeout now and then.
    let pause = pause.max(Duration::from_secs(1) * TASKS / rate);
    let times = (f64::from(rate / TASKS) * pause.as_secs_f64()).round() as u32;
    let (begin, mut pause) = (Instant::now(), tokio::time::interval(pause));
    while begin.elapsed() < time {
        pause.tick().await;
        act(times).await;
    }
}

/// The CPU that the process takes while a task runs, on a runtime of its own, next to a standing
/// sleep.
fn cpu_of(
    contender: &str,
    workers: usize,
    task: impl Future<Output = ()> + Send + 'static,
) -> Duration {
    let runtime = runtime(workers);
    let standing = Standing::of(contender, &runtime);
    let cpu = ProcessTime::now();
    let task = runtime.spawn(task);
    runtime.block_on(task).expect("the task does not panic");
    let cpu = cpu.elapsed();
    standing.end();
    cpu
}
