//! The clock as tokio shows it, and sleeps.

pub(crate) mod driver;
mod instant;
mod sleep;

/// The crate sees by it that a clock may be paused. A runtime of `Kind::Paused` is.
#[cfg(feature = "test-util")]
pub fn pause() {}

pub use std::time::Duration;

pub use instant::Instant;
pub use sleep::{Sleep, sleep, sleep_until};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    #[default]
    Burst,
    Delay,
    Skip,
}

pub mod error {
    #[derive(Debug)]
    pub struct Elapsed(());

    #[derive(Debug)]
    pub struct Error(());
}
