//! Where workers contend: a task on each of them arms and disarms all the time, on tokio's usual
//! timer and on its alternative one, which has a wheel for each worker.
//!
//! tokio's alternative timer is in a build with `--cfg tokio_unstable` alone. So this runs in a
//! program of its own that is built with it. All contenders take turns in that one process, and the
//! CPU is the process's.

use std::future::Future;
use std::hint::black_box;
use std::time::Duration;

use cpu_time::ProcessTime;
use tickwheel::Timer;
use tokio::runtime::Runtime;
use tokio::select;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;

use crate::harness::{Durations, PendingOnce, Record, Standing, in_turn, pending_once, runtime};
use crate::part::{Build, How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "meet",
    about: "timeouts on 1, 2 and 4 workers, with tokio's alternative timer in the same run",
    state: "Each worker has a standing sleep. There are as many tasks, or pairs of them, as workers. \
            Each timeout yields once, or waits for a message. Unlike a server: the tasks do nothing \
            but arm and disarm, so the workers contend as often as they can, and nothing fires.",
    how: How::Built {
        program: "tickwheel-bench-meet",
        arguments: "",
        build: Build {
            folder: "unstable",
            environment: &[("RUSTFLAGS", "--cfg tokio_unstable")],
        },
    },
};

const WORKERS: [usize; 3] = [1, 2, 4];
/// How many messages a channel holds.
const CAPACITY: usize = 32;

const CONTENDERS: [&str; 6] = [
    name::TICKWHEEL,
    name::DROP_IN,
    name::TOKIO,
    name::ON_ALTERNATIVE,
    name::DROP_IN_ON_ALTERNATIVE,
    name::TOKIO_ALTERNATIVE,
];

/// Only in a program that is built with `--cfg tokio_unstable`.
pub fn run(settings: &Settings) -> Vec<Record> {
    let rows = WORKERS.into_iter().flat_map(|workers| {
        [("timeout", Load::Timeout), ("select", Load::Select)]
            .map(|(row, load)| (format!("meet-{row}-{workers}"), load, workers))
    });
    rows.flat_map(|(row, load, workers)| measure(&row, load, workers, settings))
        .collect()
}

fn measure(row: &str, load: Load, workers: usize, settings: &Settings) -> Vec<Record> {
    let times = settings.either(400_000, 20_000) / workers;
    let runtimes = CONTENDERS.map(|contender| match contender {
        name::TICKWHEEL | name::DROP_IN | name::TOKIO => runtime(workers),
        _ => alternative(workers),
    });
    let turn = |index: usize| {
        let (contender, runtime) = (CONTENDERS[index], &runtimes[index]);
        let standing = Standing::on_each_worker(contender, runtime, workers);
        let run = Run {
            load,
            tasks: workers,
            times,
        };
        let cpu = runtime.block_on(async {
            match contender {
                name::TICKWHEEL | name::ON_ALTERNATIVE => run.cpu(Timer::current()).await,
                name::DROP_IN | name::DROP_IN_ON_ALTERNATIVE => run.cpu(DropIn).await,
                _ => run.cpu(Tokio).await,
            }
        });
        standing.end();
        [cpu.as_nanos() as f64 / (workers * times) as f64]
    };
    (0..CONTENDERS.len()).for_each(|index| _ = turn(index)); // warms up
    in_turn(&[row], &CONTENDERS, settings.either(15, 3), turn)
}

#[cfg(tokio_unstable)]
fn alternative(workers: usize) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(workers).enable_all();
    builder
        .enable_alt_timer()
        .build()
        .expect("the runtime starts")
}

#[cfg(not(tokio_unstable))]
fn alternative(_: usize) -> Runtime {
    panic!("tokio's alternative timer needs RUSTFLAGS=\"--cfg tokio_unstable\"");
}

/// What a task does over and over.
#[derive(Clone, Copy)]
enum Load {
    /// A timeout around a future that is pending once.
    Timeout,
    /// A `select!` of a message and a fresh sleep. Another task sends the messages.
    Select,
}

struct Run {
    load: Load,
    tasks: usize,
    times: usize,
}

impl Run {
    /// The CPU that the process takes for it, from the present runtime on.
    async fn cpu(&self, timers: impl Timers) -> Duration {
        let durations: Vec<_> = (0..self.tasks).map(|_| Durations::of_timeouts()).collect();
        let cpu = ProcessTime::now();
        let mut tasks = JoinSet::new();
        for durations in durations {
            let (timers, times) = (timers.clone(), self.times);
            match self.load {
                Load::Timeout => _ = tasks.spawn(time_out(timers, durations, times)),
                Load::Select => {
                    let (sender, messages) = channel(CAPACITY);
                    tasks.spawn(async move {
                        for message in 0..times {
                            sender.send(message).await.expect("the receiver is there");
                        }
                    });
                    tasks.spawn(receive(timers, durations, messages));
                }
            }
        }
        tasks.join_all().await;
        cpu.elapsed()
    }
}

async fn time_out(timers: impl Timers, durations: Durations, times: usize) {
    for index in 0..times {
        assert!(timers.timeout(durations.get(index)).await.is_ok());
    }
}

async fn receive(timers: impl Timers, durations: Durations, mut messages: Receiver<usize>) {
    for index in 0.. {
        select! {
            message = messages.recv() => match message {
                Some(message) => _ = black_box(message),
                None => break,
            },
            () = timers.sleep(durations.get(index)) => unreachable!("it is in time"),
        }
    }
}

/// What a contender makes of a timeout and of a sleep.
trait Timers: Clone + Send + 'static {
    type Sleep: Future<Output = ()> + Send;
    type Elapsed: Send;
    type Timeout: Future<Output = Result<(), Self::Elapsed>> + Send;

    fn sleep(&self, after: Duration) -> Self::Sleep;

    /// Around a future that is pending once.
    fn timeout(&self, after: Duration) -> Self::Timeout;
}

/// A task keeps it.
impl Timers for Timer {
    type Sleep = tickwheel::Sleep;
    type Elapsed = tickwheel::error::Elapsed;
    type Timeout = tickwheel::Timeout<PendingOnce>;

    fn sleep(&self, after: Duration) -> Self::Sleep {
        self.sleep(after)
    }

    fn timeout(&self, after: Duration) -> Self::Timeout {
        self.timeout(after, pending_once())
    }
}

#[derive(Clone)]
struct DropIn;

impl Timers for DropIn {
    type Sleep = tickwheel::Sleep;
    type Elapsed = tickwheel::error::Elapsed;
    type Timeout = tickwheel::Timeout<PendingOnce>;

    fn sleep(&self, after: Duration) -> Self::Sleep {
        tickwheel::sleep(after)
    }

    fn timeout(&self, after: Duration) -> Self::Timeout {
        tickwheel::timeout(after, pending_once())
    }
}

#[derive(Clone)]
struct Tokio;

impl Timers for Tokio {
    type Sleep = tokio::time::Sleep;
    type Elapsed = tokio::time::error::Elapsed;
    type Timeout = tokio::time::Timeout<PendingOnce>;

    fn sleep(&self, after: Duration) -> Self::Sleep {
        tokio::time::sleep(after)
    }

    fn timeout(&self, after: Duration) -> Self::Timeout {
        tokio::time::timeout(after, pending_once())
    }
}
