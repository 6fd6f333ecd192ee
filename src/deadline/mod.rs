//! The [`Deadline`] future. It shares its state, a [`Word`](crate::shard::word::Word), with its
//! handles and its timer in the wheel.
//!
//! Invariant: only the deadline restarts its word, through `&mut`. So a word that it has seen
//! ended stays so until then, and another poll returns the same answer.

mod handle;
pub mod warn_before;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::Cancelled;
use crate::shard::Shard;
use crate::shard::word::MapTag;
pub use handle::ResetHandle;

/// A deadline that one task awaits and any task pushes back:
/// [`Timer::deadline`](crate::Timer::deadline).
///
/// It resolves to `Ok(())` when its timeout has passed since its last reset, and to [`Cancelled`]
/// when it is cancelled or its runtime shuts down. Other tasks act on it through a [`ResetHandle`].
///
/// ```
/// use tickwheel::{Duration, Timer, sleep};
///
/// # tokio_test::block_on(async { tokio::time::pause();
/// let idle = Timer::current().deadline(Duration::from_secs(30));
/// let handle = idle.handle();
/// tokio::spawn(async move {
///     sleep(Duration::from_secs(20)).await;
///     assert!(handle.reset(), "a heartbeat, in time");
/// });
/// assert_eq!(idle.await, Ok(())); // after 50 seconds
/// # });
/// ```
///
/// # Usage
///
/// - It is armed when it is made, and runs whether or not it is polled.
/// - It is never early, and at most one tick of its timer late. Tokio's rounding to a millisecond
///   and its scheduling come on top.
/// - It has exactly one outcome. A reset that returned `true` was in time.
/// - Once ready, it returns the same answer from each poll until [`restart`](Deadline::restart).
/// - The task that polled last is woken.
/// - [`warn_before`](Deadline::warn_before) adds a warning ahead of it.
///
/// # Stalls
///
/// A [stall](crate::guarantees#what-a-stall-is) does not count: a deadline that comes due while the
/// process is stopped or blocked, or soon after, gets a grace, once between two resets. It then
/// lives for at least 100 ms after the stall, or for its timeout if that is shorter, and at most
/// for its timeout. [`Builder::stall_grace`](crate::timer::Builder::stall_grace) switches that off.
///
/// # Cost
///
/// Making it, a poll that stays pending, and dropping it take one short lock of its timer's shard
/// each. A reset to later takes none: see [`ResetHandle`].
///
/// # Cancel safety
///
/// Dropping it takes its timer out, in O(1), and its handles then return `false`. Awaiting `&mut
/// deadline` and dropping that future, as `select!` does, loses nothing.
#[must_use = "a deadline is cancelled when it is dropped; `.await` it"]
pub struct Deadline {
    handle: ResetHandle,
}

impl Deadline {
    pub(crate) fn new(shard: Arc<Shard>, timeout: Duration) -> Deadline {
        let now = shard.clock().now();
        let word = shard.arm_deadline(now, timeout, MapTag::default());
        Deadline {
            handle: ResetHandle { shard, word },
        }
    }

    /// A handle that resets, cancels or expires this deadline from anywhere.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// let handle = idle.handle();
    /// let reader = tokio::spawn(async move { handle.cancel() });
    /// assert!(idle.await.is_err());
    /// assert!(reader.await.unwrap());
    /// # });
    /// ```
    pub fn handle(&self) -> ResetHandle {
        self.handle.clone()
    }

    /// Makes the deadline pending again, after any outcome. It expires when its timeout has passed
    /// from now.
    ///
    /// On a pending deadline this is a reset. Existing handles stay valid. If the runtime that
    /// drives the timer has shut down, the deadline stays [`Cancelled`].
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut idle = Timer::current().deadline(Duration::from_secs(30));
    /// (&mut idle).await?;
    /// idle.restart(); // the peer connects again
    /// assert!(idle.handle().reset());
    /// idle.await?; // after another 30 seconds
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    pub fn restart(&mut self) {
        self.handle.as_ref().restart();
    }
}

impl Future for Deadline {
    type Output = Result<(), Cancelled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.handle.as_ref().poll(cx)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.handle.as_ref().cancel_unawaited();
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline")
            .field("timeout", &self.handle.timeout())
            .field("outcome", &self.handle.as_ref().word.outcome())
            .finish_non_exhaustive()
    }
}
