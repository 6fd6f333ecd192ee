//! Programs that run with tokio's timers and with this crate's, and leave the same trace: what the
//! random programs of the oracle do not try. These are the shapes of the items, nanoseconds,
//! centuries, budgets, threads that are blocked, and what is so before the driver comes round.

mod drop_in;
mod paused;
mod where_made;

use std::fmt::Debug;

use tokio::runtime::Runtime;

use crate::common::in_time;

/// A program as a test, written against `time`: for each seed it runs with either, in a fresh
/// runtime.
macro_rules! same_as_tokio {
    (
        $(#[$attribute:meta])*
        async fn $name:ident($seed:ident in $seeds:expr) -> Vec<$event:ty> in $runtime:ident $program:block
    ) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            mod on_tokio {
                use super::*;
                use tokio::time;
                pub(super) async fn run($seed: u64) -> Vec<$event> $program
            }
            mod on_tickwheel {
                use super::*;
                use tickwheel::time;
                pub(super) async fn run($seed: u64) -> Vec<$event> $program
            }
            for seed in $seeds {
                crate::parity::assert_same(
                    crate::parity::trace(seed, $runtime, on_tickwheel::run),
                    crate::parity::trace(seed, $runtime, on_tokio::run),
                );
            }
        }
    };
}
use same_as_tokio;

/// Runs a program, which may panic, spin or hang.
fn trace<E, F>(seed: u64, build: fn() -> Runtime, program: fn(u64) -> F) -> Vec<E>
where
    E: Send + 'static,
    F: Future<Output = Vec<E>> + 'static,
{
    in_time(move || build().block_on(program(seed)))
}

/// Shows the first difference alone, because traces are long.
fn assert_same<E: PartialEq + Debug>(ours: Vec<E>, tokios: Vec<E>) {
    for (number, (ours, tokios)) in ours.iter().zip(&tokios).enumerate() {
        assert_eq!(ours, tokios, "event {number}, tokio's is the right one");
    }
    assert_eq!(ours.len(), tokios.len());
}
