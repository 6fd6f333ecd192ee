//! Timers for tokio programs that hold very many deadlines which almost never fire.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod atomic;
mod clock;
mod deadline;
mod driver;
pub mod error;
mod interval;
mod metrics;
mod shard;
mod signal;
mod sleep;
mod snapshot;
mod tick;
mod timeout;
mod timer;
pub mod wheel;
mod word;

use std::future::IntoFuture;

#[doc(no_inline)]
pub use tokio::time::{Duration, Instant, MissedTickBehavior};
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
#[doc(no_inline)]
pub use tokio::time::{advance, pause, resume};

pub use crate::deadline::{Deadline, ResetHandle};
pub use crate::interval::Interval;
pub use crate::metrics::Metrics;
pub use crate::sleep::Sleep;
pub use crate::snapshot::{LevelSnapshot, ShardSnapshot, Snapshot};
pub use crate::timeout::Timeout;
pub use crate::timer::{Builder, Timer};

use crate::timer::current;

/// Waits until `duration` has passed.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::after(current::shard(), duration)
}

/// Waits until `deadline`.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(current::shard(), deadline)
}

/// Bounds the time of a future.
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep(duration))
}

/// Bounds the time of a future.
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// Ticks with a period.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval::assert_period(period);
    Interval::starting_now(current::shard(), period)
}

/// Ticks with a period from `start` on.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    interval::assert_period(period);
    Interval::starting_at(current::shard(), start, period)
}
