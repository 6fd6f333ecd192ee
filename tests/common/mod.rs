//! What several test programs need: lengths of time, runtimes, the paused clock.
//!
//! A test program in `tests/` says `mod common;`. One in a directory of its own says
//! `#[path = "../common/mod.rs"] mod common;`.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test program compiles all of this and uses a part of it"
)]

mod alone;
mod clock;
mod poll;
mod runtime;

use std::time::Duration;

pub(crate) use alone::alone;
pub(crate) use clock::{idle_for_a_moment, move_the_clock_only, settle};
pub(crate) use poll::{arm, poll_once};
pub(crate) use runtime::{current_thread, multi_thread, paused};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Real time that nothing comes near unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
