//! What a whole program pays: the CPU of the process, for few timers that fire and for many that do
//! not.
//!
//! *Sparse*: one task that sleeps a millisecond again and again. *Bursts*: four tasks, each with a
//! burst of timeouts every 5 ms, each pending once.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "program",
    about: "CPU of the process: one sleeper, and bursts of timeouts at several rates",
    how: How::Apart {
        contenders: &[name::DROP_IN, name::TOKIO, name::NO_TIMER],
        rounds: 5,
        run,
    },
};

/// Timeouts a second.
pub const RATES: &[u32] = &[10_000, 50_000, 100_000, 300_000];

const TASKS: u32 = 4;
const BURST: Duration = Duration::from_millis(5);

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    match contender {
        name::DROP_IN => measure(contender, settings, tickwheel::sleep, |pending| async {
            tickwheel::timeout(Duration::from_secs(30), pending)
                .await
                .ok()
        }),
        name::TOKIO => measure(contender, settings, tokio::time::sleep, |pending| async {
            tokio::time::timeout(Duration::from_secs(30), pending)
                .await
                .ok()
        }),
        _ => bursts(contender, settings, |pending| async {
            pending.await;
            Some(())
        }),
    }
}

fn measure<S, T>(
    contender: &str,
    settings: &Settings,
    sleep: fn(Duration) -> S,
    timeout: fn(Once) -> T,
) -> Vec<Record>
where
    S: Future<Output = ()> + Send + 'static,
    T: Future<Output = Option<()>> + Send + 'static,
{
    let sleeps = settings.either(1_000_u32, 100);
    let mut records = Vec::new();
    for workers in [1, 2] {
        let cpu = cpu_of(workers, async move {
            for _ in 0..sleeps {
                sleep(Duration::from_millis(1)).await;
            }
        });
        let each = cpu.as_nanos() as f64 / f64::from(sleeps);
        records.push(Record::new(
            &format!("sparse-{workers}"),
            contender,
            vec![each],
        ));
    }
    records.extend(bursts(contender, settings, timeout));
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

fn bursts<T>(contender: &str, settings: &Settings, timeout: fn(Once) -> T) -> Vec<Record>
where
    T: Future<Output = Option<()>> + Send + 'static,
{
    let time = settings.either(Duration::from_secs(2), Duration::from_millis(200));
    let measure = |&rate: &u32| {
        let begin = Instant::now();
        let cpu = cpu_of(2, async move {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| tokio::spawn(burst_after_burst(rate, time, timeout)))
                .collect();
            for task in tasks {
                task.await.expect("no task panics");
            }
        });
        let percent = 100.0 * cpu.as_secs_f64() / begin.elapsed().as_secs_f64();
        Record::new(&format!("bursts-{rate}"), contender, vec![percent])
    };
    RATES.iter().map(measure).collect()
}

async fn burst_after_burst<T>(rate: u32, time: Duration, timeout: fn(Once) -> T)
where
    T: Future<Output = Option<()>>,
{
    let each = rate * BURST.as_millis() as u32 / 1_000 / TASKS;
    let mut pause = tokio::time::interval(BURST);
    let begin = Instant::now();
    while begin.elapsed() < time {
        pause.tick().await;
        for _ in 0..each {
            timeout(once()).await;
        }
    }
}

/// The CPU that the process takes while a task runs.
fn cpu_of(workers: usize, task: impl Future<Output = ()> + Send + 'static) -> Duration {
    let runtime = runtime(workers);
    runtime.block_on(async {
        let cpu = ProcessTime::now();
        tokio::spawn(task).await.expect("the task does not panic");
        cpu.elapsed()
    })
}
