//! Memory follows what is pending, and all of it comes back: the oracle's programs leave none
//! behind, each kind costs what it may and comes back in any order, and a full map takes no more.
//!
//! It counts what the allocator gives to the whole process. So it is one test, which runs again in
//! a process of its own.

mod full;
mod kinds;

use std::future::Future;

use peak_alloc::PeakAlloc;

use crate::common::is_alone_in_a_process;
use crate::paused::{program, replay};
use crate::paused_clock::paused;

/// No other test may allocate while one counts.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The bytes that are in use now.
fn used() -> usize {
    ALLOCATOR.current_usage()
}

/// How many bytes more are in use than once were, or zero if there are fewer.
fn grown_since(before: usize) -> usize {
    used().saturating_sub(before)
}

#[test]
fn memory_follows_what_is_pending() {
    if !is_alone_in_a_process("memory::memory_follows_what_is_pending") {
        return;
    }
    programs_leave_nothing_behind();
    kinds::wheels_of_large_values();
    on_paused_clock(kinds::timers());
    on_paused_clock(kinds::deadline_map());
    on_paused_clock(kinds::delay_map());
    on_paused_clock(full::a_refused_insert_allocates_nothing_that_stays());
}

fn on_paused_clock(future: impl Future<Output = ()>) {
    paused().block_on(tokio::task::unconstrained(future));
}

/// What a program of the oracle made is gone with its runtime.
fn programs_leave_nothing_behind() {
    for seed in 0..60 {
        let program = program::random(seed, 120);
        let run = || replay(&program).map(drop);
        assert_eq!(run(), Ok(()), "seed {seed}");
        let before = used();
        // Twice, because the registry of runtimes lets ended ones go at every second new one.
        for _ in 0..2 {
            assert_eq!(run(), Ok(()), "seed {seed}");
        }
        let grown = grown_since(before);
        assert!(grown < 1_000, "seed {seed}: {grown} bytes are lost");
    }
}
