//! Time for streams: [`StreamExt::idle_timeout`], [`StreamExt::throttle`] and [`IntervalStream`].
//!
//! Invariant: the names and the semantics are those of tokio-stream, where it has the same.
//!
//! | here | in tokio-stream |
//! |---|---|
//! | [`StreamExt::idle_timeout`] | `StreamExt::timeout` |
//! | [`StreamExt::throttle`] | `StreamExt::throttle` |
//! | [`IntervalStream`] | `wrappers::IntervalStream` |
//!
//! # Beside tokio-stream's trait
//!
//! tokio-stream's `StreamExt` has a `throttle` too. A call of `.throttle(..)` is ambiguous where
//! both traits are imported. Then name the trait in the call. `idle_timeout` has a name of its own,
//! so it can be called as a method beside tokio-stream's `timeout`, which does the same:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use tickwheel::stream::StreamExt as _;
//! use tokio_stream::StreamExt;
//!
//! let slow = tickwheel::stream::StreamExt::throttle(tokio_stream::iter(1..=3), Duration::from_secs(1));
//! let mut items = Box::pin(slow.idle_timeout(Duration::from_secs(5)));
//! assert_eq!(items.next().await, Some(Ok(1)));
//! # }
//! ```
//!
//! # When the timer's runtime has shut down
//!
//! A stream may be polled in another runtime than the one that drives its timer. If that one shuts
//! down, an [`IdleTimeout`] gives one [`Elapsed`](crate::error::Elapsed) and counts no more gaps. A
//! [`Throttle`] holds nothing up any more. An [`IntervalStream`] ends. None of them panics.

mod idle_timeout;
mod interval_stream;
mod throttle;

use std::time::Duration;

use futures_core::Stream;

pub use idle_timeout::IdleTimeout;
pub use interval_stream::IntervalStream;
pub use throttle::Throttle;

use crate::Timer;

/// Methods for every [`Stream`].
pub trait StreamExt: Stream {
    /// Gives an [`Elapsed`](crate::error::Elapsed) for each gap between two items that is longer
    /// than `timeout`, on the current runtime's own timer.
    ///
    /// The first gap begins now. See [`IdleTimeout`] for the rest.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use futures::StreamExt as _;
    /// use tickwheel::{Duration, stream::StreamExt as _};
    /// use tokio_stream::wrappers::UnboundedReceiverStream;
    ///
    /// let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    /// let mut events = UnboundedReceiverStream::new(receiver).idle_timeout(Duration::from_secs(1));
    /// sender.send("event").unwrap();
    /// assert_eq!(events.next().await, Some(Ok("event")));
    /// assert!(matches!(events.next().await, Some(Err(_elapsed))), "one for the gap");
    /// # let later = sender.clone();
    /// # tokio::spawn(async move {
    /// #     tickwheel::sleep(Duration::from_secs(3600)).await;
    /// #     later.send("after an hour").unwrap();
    /// # });
    /// assert_eq!(events.next().await, Some(Ok("after an hour")));
    /// # }
    /// ```
    #[track_caller]
    fn idle_timeout(self, timeout: Duration) -> IdleTimeout<Self>
    where
        Self: Sized,
    {
        IdleTimeout::with_timer(&Timer::current(), self, timeout)
    }

    /// Lets at least `duration` pass between an item and the next one, on the current runtime's own
    /// timer.
    ///
    /// The first item is not held up. See [`Throttle`] for the rest.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use futures::{StreamExt as _, stream};
    /// use tickwheel::{Duration, Instant, stream::StreamExt as _};
    ///
    /// let start = Instant::now();
    /// let slow = stream::iter(1..=3).throttle(Duration::from_secs(1));
    /// assert_eq!(slow.collect::<Vec<_>>().await, [1, 2, 3]);
    /// assert_eq!(start.elapsed(), Duration::from_secs(3), "the end comes a second after the last");
    /// # }
    /// ```
    #[track_caller]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::with_timer(&Timer::current(), self, duration)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}
