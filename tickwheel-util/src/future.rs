//! Timeouts as methods of a future: [`FutureExt`], under the path of tokio-util's trait.

use std::future::Future;

use tickwheel::{Duration, Instant, Timeout, timeout, timeout_at};

/// Methods for every [`Future`], under the names of tokio-util's trait.
///
/// tokio-util's trait also has `with_cancellation_token`. If both traits are imported,
/// `.timeout(..)` is ambiguous. Then call `tickwheel::timeout(duration, future)`.
///
/// ```
/// use tickwheel::Duration;
/// use tickwheel_util::future::FutureExt; // was: use tokio_util::future::FutureExt;
///
/// # tokio_test::block_on(async {
/// assert!(std::future::pending::<()>().timeout(Duration::from_millis(1)).await.is_err());
/// # });
/// ```
pub trait FutureExt: Future {
    /// Bounds this future by a duration from now: [`tickwheel::timeout`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::future::FutureExt;
    ///
    /// # tokio_test::block_on(async {
    /// assert_eq!(async { "pong" }.timeout(Duration::from_secs(1)).await?, "pong");
    /// # Ok::<(), tickwheel::error::Elapsed>(()) }).unwrap();
    /// ```
    #[track_caller]
    #[inline]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout(duration, self)
    }

    /// Bounds this future by an instant: [`tickwheel::timeout_at`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::{Duration, Instant};
    /// use tickwheel_util::future::FutureExt;
    ///
    /// # tokio_test::block_on(async {
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert!(std::future::pending::<()>().timeout_at(deadline).await.is_err());
    /// # });
    /// ```
    #[track_caller]
    #[inline]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout_at(deadline, self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
