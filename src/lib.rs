//! Timers for tokio programs that hold very many deadlines which almost never fire.
#![forbid(unsafe_code)]

mod atomic;
mod clock;
mod driver;
mod shard;
mod signal;
mod tick;
pub mod wheel;
mod word;
