//! What stands in for tokio where the crate runs under shuttle: the little of tokio that it needs
//! beside `std`.
//!
//! - `runtime`: a runtime whose tasks do nothing, and the threads that are in its context.
//! - `time`: its time driver, which a program turns, and sleeps. They behave as tokio 1.54's do,
//!   down to who wakes what under which lock.
//!
//! `Runtime` has what a program calls, and what tokio does not have.

pub mod runtime;
pub mod sync;
pub mod task;
pub mod time;
