//! What stands in for `std` where the crate runs under shuttle.
//!
//! It is the standard library, but for what a schedule is to control: locks, atomics, threads,
//! thread-locals, the clock and the keys of hashes.
//!
//! What stays the standard library's is no point at which shuttle switches threads. `Arc` is that,
//! as in shuttle. `OnceLock` may be, because what the crate initialises one with switches no
//! thread.

pub use std::*;

pub use shuttle::thread_local;

pub mod hash;
pub mod sync;
pub mod thread;
pub mod time;
