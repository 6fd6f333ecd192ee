//! What several test programs need: lengths of time, runtimes, single polls.
//!
//! A test program in `tests/` says `mod common;`. One in a directory of its own says
//! `#[path = "../common/mod.rs"] mod common;`.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test program compiles all of this and uses a part of it"
)]

mod budget;
mod outcome;
mod panics;
mod poll;
mod process;
mod runtime;

use std::time::Duration;

pub(crate) use budget::{use_up_the_budget, without_a_budget};
pub(crate) use outcome::{assert_cancelled, assert_nothing_armed, assert_timed_out};
pub(crate) use panics::{assert_panics_here, catch, panic_of};
pub(crate) use poll::{arm, poll_once, poll_with, waker_fn};
pub(crate) use process::{again, alone, ended, in_time, is_alone_in_a_process, is_shown_in};
pub(crate) use runtime::{current_thread, multi_thread, tells_workers};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Real time that nothing comes near unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
