//! The [`IntervalStream`]: the ticks of an [`Interval`] as a stream.
//!
//! Invariant: it has nothing but the interval, and whether it is at its end. So taking the interval
//! out and wrapping it again loses no tick.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use tokio::time::Instant;

use crate::Interval;

/// The ticks of an [`Interval`] as a [`Stream`], with the names of tokio-stream's wrapper.
///
/// Each item is the instant that its tick was planned for. The stream ends only when the
/// runtime that drives the timer has shut down, and it is polled in another runtime then.
///
/// # Cancel safety
///
/// If `next()` is dropped before it is ready, no tick is lost.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures::StreamExt;
/// use tickwheel::{Duration, Instant, interval, stream::IntervalStream};
///
/// let start = Instant::now();
/// let mut ticks = IntervalStream::new(interval(Duration::from_secs(15)));
/// assert_eq!(ticks.next().await, Some(start));
/// assert_eq!(ticks.next().await, Some(start + Duration::from_secs(15)));
/// # }
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct IntervalStream {
    interval: Interval,
    is_at_end: bool,
}

impl IntervalStream {
    /// Wraps an interval.
    pub fn new(interval: Interval) -> IntervalStream {
        IntervalStream {
            interval,
            is_at_end: false,
        }
    }

    /// Gives the interval back.
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        if self.is_at_end {
            return Poll::Ready(None);
        }
        let tick = ready!(self.interval.try_poll_tick(cx));
        self.is_at_end = tick.is_none();
        Poll::Ready(tick)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_at_end {
            return (0, Some(0));
        }
        (usize::MAX, None)
    }
}

impl FusedStream for IntervalStream {
    fn is_terminated(&self) -> bool {
        self.is_at_end
    }
}

impl From<Interval> for IntervalStream {
    fn from(interval: Interval) -> IntervalStream {
        IntervalStream::new(interval)
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}
