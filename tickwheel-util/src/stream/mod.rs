//! Time for streams: [`StreamExt`], under the names of tokio-stream's trait, and
//! [`IntervalStream`].
//!
//! | call | what | semantics |
//! |---|---|---|
//! | [`timeout`](StreamExt::timeout) | reports a gap between two items that is too long | tokio-stream's |
//! | [`idle_timeout`](StreamExt::idle_timeout) | the same, but a stall of the process does not count | those of [`tickwheel::io::IdleTimeout`] |
//! | [`throttle`](StreamExt::throttle) | pauses after each item | tokio-stream's |
//! | [`chunks_timeout`](StreamExt::chunks_timeout) | collects items into chunks, bounded by size and by time | tokio-stream's |
//! | [`timeout_repeating`](StreamExt::timeout_repeating) | reports a gap again at each tick of an interval | tokio-stream's |
//!
//! If tokio-stream's `StreamExt` is imported too, a call by one of its names is ambiguous. Name the
//! trait then: `tickwheel_util::stream::StreamExt::timeout(stream, duration)`.
//!
//! Each of these is [`Unpin`] if the inner stream is. None panics when the timer's runtime has shut
//! down.
//!
//! # Two timeouts
//!
//! [`Timeout`] and [`IdleTimeout`] both yield one [`Elapsed`](tickwheel::error::Elapsed) for each
//! gap that is too long, and pass all items on. They differ when the process cannot run, because it
//! was stopped, or because a call blocked its thread:
//!
//! | | [`Timeout`] | [`IdleTimeout`] |
//! |---|---|---|
//! | for | an item that should come soon; programs that move from tokio-stream | a peer that has to stay alive, such as the messages of a WebSocket |
//! | a gap that gets too long while the process cannot run | is reported, unless an item is ready | has a grace, so that the items that lie unread in the socket come first |
//! | built on | a [`Sleep`](tickwheel::Sleep), armed when the stream first has to wait | a [`Deadline`](tickwheel::Deadline), armed at once |

mod chunks_timeout;
mod fuse;
mod idle_timeout;
mod interval_stream;
mod throttle;
mod timeout;
mod timeout_repeating;

use std::time::Duration;

use futures_core::Stream;
use tickwheel::{Interval, Timer};

pub use chunks_timeout::ChunksTimeout;
pub use idle_timeout::IdleTimeout;
pub use interval_stream::IntervalStream;
pub use throttle::Throttle;
pub use timeout::Timeout;
pub use timeout_repeating::TimeoutRepeating;

/// Methods for every [`Stream`], on the current runtime's own timer.
///
/// For another timer, each type has a `new_on`, and an [`Interval`] brings its own.
pub trait StreamExt: Stream {
    /// Yields an [`Elapsed`](tickwheel::error::Elapsed) if an item takes longer than `duration`.
    ///
    /// The first gap begins now, each later one with an item. After an `Elapsed` the stream waits
    /// for the next item, however long that takes. A stall of the process counts, unlike with
    /// [`idle_timeout`](StreamExt::idle_timeout), but an item that came within it wins. See
    /// [`Timeout`] for the rest.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt as _, stream};
    /// use tickwheel::Duration;
    /// use tickwheel_util::stream::StreamExt; // was: use tokio_stream::StreamExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let answers = stream::iter(["first"]).chain(stream::pending());
    /// let mut answers = answers.timeout(Duration::from_secs(1));
    /// assert_eq!(answers.next().await, Some(Ok("first")));
    /// assert!(answers.next().await.unwrap().is_err(), "the second takes too long");
    /// # });
    /// ```
    #[track_caller]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new_on(&Timer::current(), self, duration)
    }

    /// Yields an [`Elapsed`](tickwheel::error::Elapsed) if the stream is silent for longer than
    /// `timeout`, and the process could run.
    ///
    /// It is [`timeout`](StreamExt::timeout) for a peer that has to stay alive: after a stall of
    /// the process, items that came in time are yielded first. See [`IdleTimeout`] for the rest.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt as _, stream};
    /// use tickwheel::{Duration, Instant};
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let start = Instant::now();
    /// let messages = stream::iter(["hello"]).chain(stream::pending());
    /// let mut messages = messages.idle_timeout(Duration::from_secs(60));
    /// while let Some(Ok(message)) = messages.next().await {
    ///     println!("{message}");
    /// }
    /// assert!(start.elapsed() >= Duration::from_secs(60), "the peer has gone");
    /// # });
    /// ```
    #[track_caller]
    fn idle_timeout(self, timeout: Duration) -> IdleTimeout<Self>
    where
        Self: Sized,
    {
        IdleTimeout::new_on(&Timer::current(), self, timeout)
    }

    /// Pauses for `duration` after each item.
    ///
    /// See [`Throttle`] for the rest.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt as _, stream};
    /// use tickwheel::{Duration, Instant};
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let start = Instant::now();
    /// let slow = stream::iter(1..=3).throttle(Duration::from_secs(1));
    /// assert_eq!(slow.collect::<Vec<_>>().await, [1, 2, 3]);
    /// assert!(start.elapsed() >= Duration::from_secs(3));
    /// # });
    /// ```
    #[track_caller]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new_on(&Timer::current(), self, duration)
    }

    /// Collects items into chunks of at most `max_size`, and yields a chunk that is smaller once
    /// `duration` has passed since its first item.
    ///
    /// See [`ChunksTimeout`] for the rest.
    ///
    /// # Panics
    ///
    /// If `max_size` is zero. Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt as _, stream};
    /// use tickwheel::Duration;
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let rows = stream::iter(1..=5).chain(stream::pending());
    /// let mut inserts = rows.chunks_timeout(3, Duration::from_millis(100));
    /// assert_eq!(inserts.next().await, Some(vec![1, 2, 3]));
    /// assert_eq!(inserts.next().await, Some(vec![4, 5])); // after 100 milliseconds
    /// # });
    /// ```
    #[track_caller]
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new_on(&Timer::current(), self, max_size, duration)
    }

    /// Yields an [`Elapsed`](tickwheel::error::Elapsed) at each tick of `interval`, until the next
    /// item, which resets the interval.
    ///
    /// It is on the interval's timer. The first tick of [`interval`](tickwheel::interval) is at
    /// once: take [`interval_at`](tickwheel::interval_at) to give the first item time. See
    /// [`TimeoutRepeating`] for the rest.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt as _, stream};
    /// use tickwheel::{Duration, Instant, interval_at};
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let second = Duration::from_secs(1);
    /// let events = stream::iter(["event"]).chain(stream::pending());
    /// let mut events = events.timeout_repeating(interval_at(Instant::now() + second, second));
    /// assert_eq!(events.next().await, Some(Ok("event")));
    /// for _second in 1..=3 {
    ///     assert!(events.next().await.unwrap().is_err(), "time to send a ping");
    /// }
    /// # });
    /// ```
    fn timeout_repeating(self, interval: Interval) -> TimeoutRepeating<Self>
    where
        Self: Sized,
    {
        TimeoutRepeating::new(self, interval)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

/// The size hint of a stream that may yield an error in each gap: between two items, before the
/// first and after the last one.
fn hint_with_gaps(
    (least, most): (usize, Option<usize>),
    is_gap_reported: bool,
) -> (usize, Option<usize>) {
    let present = usize::from(!is_gap_reported);
    let most = most.and_then(|most| most.checked_mul(2)?.checked_add(present));
    (least, most)
}
