//! Random programs on tokio's paused clock, beside a plain model of all that the crate has.
//!
//! [`run`] makes a program from a seed and runs it. Each step is done to the real thing and to the
//! model, and every answer, wake-up and number is compared with what the model allows. A program
//! that fails is cut down to the shortest one that still does.
//!
//! | file | what |
//! |---|---|
//! | `program` | the operations, and how random ones are made |
//! | `world` | what a program has made so far, how it does an operation, how time passes |
//! | `sleepers`, `deadlines`, `delay_maps` | the models, each beside the real thing |
//! | `clock`, `waiter` | time as the model counts it; wakers that count |
//! | `shrink`, `watch`, `quiet` | cutting a failing program down; noticing one that hangs; panics that are expected |
//!
//! It takes nothing but the public surface.

mod clock;
mod deadlines;
mod delay_maps;
pub(crate) mod program;
mod quiet;
mod shrink;
mod sleepers;
mod waiter;
pub(crate) mod watch;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use program::{Ending, Op, Program};
pub(crate) use shrink::one_by_one;

/// How large the programs are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// At most so many operations in a program.
    pub(crate) operations: usize,
    /// At most so many runs to cut a failing program down.
    pub(crate) shrinking: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            operations: 160,
            shrinking: 1_500,
        }
    }
}

/// What a program did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) operations: usize,
    pub(crate) timers_fired: u64,
}

/// A program that the crate failed.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) message: String,
    /// The shortest program that was found.
    pub(crate) program: Program,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.message)?;
        write!(f, "{:?}", self.program)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Makes a program from a seed and runs it.
pub(crate) fn run(seed: u64, config: Config) -> Result<Report, Failure> {
    try_out(
        seed,
        program::random(seed, config.operations),
        config.shrinking,
    )
}

/// As [`run`], with a program of a great many keys.
pub(crate) fn run_large(seed: u64) -> Result<Report, Failure> {
    try_out(seed, program::random_large(seed), 100)
}

fn try_out(seed: u64, program: Program, shrinking: usize) -> Result<Report, Failure> {
    replay(&program).map_err(|message| {
        let (program, message) = shrink::shrink(program, message, shrinking);
        Failure {
            seed,
            message,
            program,
        }
    })
}

/// Runs a program once.
pub(crate) fn replay(program: &Program) -> Result<Report, String> {
    let attempt = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be built");
        let (report, world, now) = runtime.block_on(world::run(program))?;
        let handle = runtime.handle().clone();
        drop(runtime);
        // Its clock can still be read here, and stands.
        let _context = handle.enter();
        if program.ending == Ending::WithItsRuntime && !world.is_void() {
            let left = world.after_shutdown(now);
            left.map_err(|message| format!("{message} (after the runtime)"))?;
        }
        Ok(report)
    };
    let outcome = watch::over(program.clone(), || catch_unwind(AssertUnwindSafe(attempt)));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}
