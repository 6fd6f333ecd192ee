//! Random programs on tokio's paused clock, each with a plain model of all that the crate has.
//!
//! [`run`] makes a program from a seed and runs it. Each step is done to the real thing and to the
//! model, and every answer, wake-up and number is compared with what the model allows. A program
//! that fails is cut down to the shortest one that still does.
//!
//! | file | what |
//! |---|---|
//! | `program` | the operations, and how random ones are made |
//! | `world` | what a program has made so far, how it does an operation, how time passes |
//! | `sleepers`, `deadlines`, `delay_maps` | the models, each next to the real thing |
//! | `clock`, `waiter` | time as the model counts it; wakers that count |
//! | `shrink` | cutting a failing program down |
//!
//! It takes nothing but the public surface.

mod clock;
mod deadlines;
mod delay_maps;
pub(crate) mod program;
mod shrink;
mod sleepers;
mod waiter;
mod world;

pub(crate) use program::{Ending, Op, Program};
pub(crate) use shrink::shrink;
pub(crate) use sleepers::{Gate, gate};

use crate::common::{catch, ended};
use crate::paused_clock::paused;

/// Makes a program from a seed and runs it. Returns how many timers have fired, or what failed and
/// the shortest program that fails.
pub(crate) fn run(seed: u64) -> Result<u64, String> {
    try_out(seed, program::random(seed, 160))
}

/// As [`run`], with a program of a great many keys.
pub(crate) fn run_large(seed: u64) -> Result<u64, String> {
    try_out(seed, program::random_large(seed))
}

fn try_out(seed: u64, program: Program) -> Result<u64, String> {
    let with = |ops: &[Op]| Program {
        ops: ops.to_vec(),
        ..program.clone()
    };
    let shortest = shrink(program.ops.clone(), |ops| replay(&with(ops)));
    shortest.map_err(|(ops, message)| format!("seed {seed}: {message}\n{:?}", with(&ops)))
}

/// Runs a program once.
pub(crate) fn replay(program: &Program) -> Result<u64, String> {
    let tried = program.clone();
    let attempt = move || {
        let runtime = paused();
        let (fired, world, now) = runtime.block_on(world::run(&tried))?;
        let handle = runtime.handle().clone();
        drop(runtime);
        // Its clock can still be read here, and stands.
        let _context = handle.enter();
        if tried.ending == Ending::WithItsRuntime && !world.is_void() {
            let left = world.after_shutdown(now);
            left.map_err(|message| format!("{message} (after the runtime)"))?;
        }
        Ok(fired)
    };
    let outcome = ended(|| catch(attempt)).unwrap_or_else(|| panic!("this hangs: {program:?}"));
    outcome.unwrap_or_else(|(message, _)| Err(message))
}
