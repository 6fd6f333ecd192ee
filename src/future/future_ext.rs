//! The trait [`FutureExt`]: a timeout at the end of a chain of calls.
//!
//! Invariant: each method is the free function of its name, with the future as the receiver.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::limit;
use super::timeout::Timeout;
use crate::timer::current;

/// Methods for every [`Future`], under the names of tokio-util's trait.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, future::FutureExt};
///
/// let (_sender, receiver) = tokio::sync::oneshot::channel::<u8>();
/// assert!(receiver.timeout(Duration::from_millis(10)).await.is_err());
/// # }
/// ```
pub trait FutureExt: Future {
    /// Bounds the time of this future: [`timeout`](crate::timeout()).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    #[track_caller]
    #[inline]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        let sleep = limit::sleep_after(current::shard(), duration);
        Timeout {
            future: self,
            sleep,
        }
    }

    /// Bounds the time of this future by an instant: [`timeout_at`](crate::timeout_at()).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    #[track_caller]
    #[inline]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        let sleep = limit::sleep_until(current::shard(), deadline);
        Timeout {
            future: self,
            sleep,
        }
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
