//! What a whole program pays: the CPU of the process, for few timers that fire and for many that do
//! not.
//!
//! *Sparse*: one task that sleeps a millisecond again and again. *Intervals*: 100 tasks that tick
//! every 10 ms. *Bursts*: four tasks, each with a burst of timeouts every 5 ms, each pending once.
//! *Smooth*: the same with a pause of 1 ms, the shortest that tokio's timers have. These two are
//! run with the drop-in functions and with a `Timer` that the task holds.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tickwheel::Timer;
use tokio::time::{Interval, interval};

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "program",
    about: "CPU of the process: few timers that fire, and timeouts at several rates",
    how: How::Apart {
        contenders: &[name::DROP_IN, name::TICKWHEEL, name::TOKIO, name::NO_TIMER],
        rounds: 5,
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

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    /// With the same functions of either crate.
    macro_rules! free {
        ($($time:ident)::+) => {{
            let mut records = few(contender, settings, $($time)::+::sleep, || {
                let mut ticks = $($time)::+::interval(PERIOD);
                async move {
                    loop {
                        ticks.tick().await;
                    }
                }
            });
            records.extend(loads(contender, settings, || {
                |pending| async { $($time)::+::timeout(TIMEOUT, pending).await.ok() }
            }));
            records
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

const TIMEOUT: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_millis(10);

/// Few timers, all of which fire.
fn few<S, I>(
    contender: &str,
    settings: &Settings,
    sleep: fn(Duration) -> S,
    ticks: fn() -> I,
) -> Vec<Record>
where
    S: Future<Output = ()> + Send + 'static,
    I: Future<Output = std::convert::Infallible> + Send + 'static,
{
    let sleeps = settings.either(500_u32, 100);
    let mut records = Vec::new();
    for workers in [0, 1, 2] {
        let cpu = cpu_of(workers, async move {
            for _ in 0..sleeps {
                sleep(Duration::from_millis(1)).await;
            }
        });
        let each = cpu.as_nanos() as f64 / f64::from(sleeps);
        let row = format!("sparse-{workers}");
        records.push(Record::new(&row, contender, vec![each]));
    }
    let time = settings.either(Duration::from_millis(500), Duration::from_millis(200));
    let cpu = cpu_of(2, async move {
        let tasks: Vec<_> = (0..100)
            .map(|_| tokio::spawn(async move { ticks().await }))
            .collect();
        sleep(time).await;
        tasks.iter().for_each(|task| task.abort());
    });
    let percent = 100.0 * cpu.as_secs_f64() / time.as_secs_f64();
    records.push(Record::new("intervals", contender, vec![percent]));
    records
}

/// Ready at its second poll.
type Once = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn once() -> Once {
    let mut polled = false;
    Box::pin(poll_fn(move |cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }))
}

/// Each task calls `make` once.
fn loads<F, T>(contender: &str, settings: &Settings, make: fn() -> F) -> Vec<Record>
where
    F: Fn(Once) -> T + Send + 'static,
    T: Future<Output = Option<()>> + Send + 'static,
{
    let time = settings.either(Duration::from_millis(500), Duration::from_millis(200));
    let loads = LOADS
        .iter()
        .flat_map(|load| RATES.iter().map(move |rate| (load, *rate)));
    let measure = |(&(load, pause), rate): (&(&str, Duration), u32)| {
        let begin = Instant::now();
        let cpu = cpu_of(2, async move {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| tokio::spawn(timeouts(Bursts::new(rate, pause, time), make)))
                .collect();
            for task in tasks {
                task.await.expect("no task panics");
            }
        });
        let percent = 100.0 * cpu.as_secs_f64() / begin.elapsed().as_secs_f64();
        Record::new(&format!("{load}-{rate}"), contender, vec![percent])
    };
    loads.map(measure).collect()
}

async fn timeouts<F, T>(mut bursts: Bursts, make: fn() -> F)
where
    F: Fn(Once) -> T,
    T: Future<Output = Option<()>>,
{
    let timeout = make();
    while let Some(times) = bursts.next().await {
        for _ in 0..times {
            timeout(once()).await;
        }
    }
}

/// What one of the [`TASKS`] does of a load: a burst after each pause, for a time.
pub(super) struct Bursts {
    pause: Interval,
    times: u32,
    begin: Instant,
    time: Duration,
}

impl Bursts {
    /// Within a runtime. `rate` is what all tasks do in a second.
    pub(super) fn new(rate: u32, pause: Duration, time: Duration) -> Bursts {
        // At a low rate each task has one timeout now and then.
        let pause = pause.max(Duration::from_secs(1) * TASKS / rate);
        Bursts {
            pause: interval(pause),
            times: (f64::from(rate / TASKS) * pause.as_secs_f64()).round() as u32,
            begin: Instant::now(),
            time,
        }
    }

    /// Waits for the next burst, and returns how often it does what it does. `None` once the time
    /// is over.
    pub(super) async fn next(&mut self) -> Option<u32> {
        if self.begin.elapsed() >= self.time {
            return None;
        }
        self.pause.tick().await;
        Some(self.times)
    }
}

/// The CPU that the process takes while a task runs, on a runtime of its own.
fn cpu_of(workers: usize, task: impl Future<Output = ()> + Send + 'static) -> Duration {
    runtime(workers).block_on(cpu_while(task))
}

/// The CPU that the process takes while a task runs.
pub(super) async fn cpu_while(task: impl Future<Output = ()> + Send + 'static) -> Duration {
    let cpu = ProcessTime::now();
    tokio::spawn(task).await.expect("the task does not panic");
    cpu.elapsed()
}
