//! Programs that leave a trace, each run with tokio's timers and with tickwheel's: both leave the
//! same.
//!
//! A program is written once, against `time`, and compiled against either `time` module. What it
//! asserts itself holds for both. A program that hangs or spins fails.

#[path = "../common/mod.rs"]
mod common;

/// A program as a test: for each seed it is run with either `time`, each time in a fresh runtime.
macro_rules! same_as_tokio {
    ($(#[$attribute:meta])* async fn $name:ident() -> Vec<$event:ty> in $runtime:ident $program:block) => {
        same_as_tokio! {
            $(#[$attribute])*
            async fn $name(_seed in 0..1) -> Vec<$event> in $runtime $program
        }
    };
    (
        $(#[$attribute:meta])*
        async fn $name:ident($seed:ident in $seeds:expr) -> Vec<$event:ty> in $runtime:ident $program:block
    ) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            mod with_tokio {
                #[allow(unused_imports)]
                use super::{tokios as time, *};
                pub(super) async fn run($seed: u64) -> Vec<$event> $program
            }
            mod with_tickwheel {
                #[allow(unused_imports)]
                use super::{tickwheels as time, *};
                pub(super) async fn run($seed: u64) -> Vec<$event> $program
            }
            for seed in $seeds {
                let expected = watched(move || $runtime().block_on(with_tokio::run(seed)));
                let trace = watched(move || $runtime().block_on(with_tickwheel::run(seed)));
                assert_same(seed, &trace, &expected);
            }
        }
    };
}

mod between;
mod far;
mod fired;
mod foreign;
mod tasks;

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use tokio::runtime::Runtime;
use tokio::time::{Duration, Instant};

use crate::common::{MS, multi_thread};

const NS: Duration = Duration::from_nanos(1);

const US: Duration = Duration::from_micros(1);

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Real time that no program comes near.
const WATCHDOG: Duration = Duration::from_secs(20);

fn two_workers() -> Runtime {
    multi_thread(2)
}

/// Runs a program on a thread of its own, and leaves the thread behind if the program does not end.
fn watched<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    let runner = thread::spawn(move || drop(done.send(run())));
    match outcome.recv_timeout(WATCHDOG) {
        Ok(trace) => trace,
        Err(RecvTimeoutError::Timeout) => panic!("it spins or hangs"),
        Err(RecvTimeoutError::Disconnected) => resume_unwind(runner.join().unwrap_err()),
    }
}

/// Shows the first difference only, because traces are long.
fn assert_same<E: PartialEq + Debug>(seed: u64, trace: &[E], expected: &[E]) {
    for (at, (ours, tokios)) in trace.iter().zip(expected).enumerate() {
        assert_eq!(
            ours, tokios,
            "event {at} of seed {seed}, tokio's is the right one"
        );
    }
    assert_eq!(
        trace.len(),
        expected.len(),
        "length of the trace of seed {seed}"
    );
}

/// Blocks the thread, and with it the runtime's time driver, until the deadline has passed.
fn block_until(deadline: Instant) {
    while Instant::now() <= deadline + MS {
        thread::sleep(deadline.saturating_duration_since(Instant::now()) + 2 * MS);
    }
}

/// Up to `most`, to the nanosecond, never zero.
fn some_time(random: &mut fastrand::Rng, most: Duration) -> Duration {
    Duration::from_nanos(random.u64(1..=u64::try_from(most.as_nanos()).unwrap()))
}
