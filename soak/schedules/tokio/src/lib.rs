//! What stands in for tokio where the crate runs under shuttle: the little of tokio that it needs
//! in addition to `std`.
//!
//! - `runtime`: a runtime, its tasks, and the threads that are in its context.
//! - `time`: its time driver, which a program turns, and sleeps. They behave as tokio 1.54's do,
//!   down to who wakes what under which lock. `tests/tokio.rs` of the schedules runs the same
//!   programs on both.
//!
//! `Runtime` has what a program calls, and what tokio does not have. The feature `test-util` is
//! tokio's: with it a clock may be paused.
//!
//! `shuttle-tokio` 1.0, from shuttle's own authors, does not serve in its place. It says that it
//! does not model time: a sleep is ready at its first poll, or never if it is a year away; `reset`
//! wakes no task; `Instant` is the system's clock, and `pause` and `advance` do nothing. So nothing
//! would ever call the driver of the crate. It has one runtime, without `Handle::enter`,
//! `worker_index`, a flavour or an end: no runtime drops its tasks and then fires its timers. It
//! has no `coop::poll_proceed`, and counts no workers.

pub mod io {
    //! tokio's own traits, for the source to compile. No program under shuttle uses them.

    pub use tokios::io::{AsyncRead, AsyncWrite, ReadBuf};
}
pub mod runtime;
pub mod sync;
pub mod task;
pub mod time;
