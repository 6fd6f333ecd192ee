//! [`IntervalStream`]: the ticks of an interval as a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use tickwheel::{Instant, Interval};

/// The ticks of an [`Interval`] as a [`Stream`] of their scheduled instants.
///
/// It has the name and the semantics of tokio-stream's. It ends only if the timer's runtime has
/// shut down while another runtime polls it. Dropping `next()` loses no tick.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct IntervalStream {
    interval: Interval,
    is_at_end: bool,
}

impl IntervalStream {
    /// Makes a stream of an interval's ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tickwheel::{Duration, interval};
    /// use tickwheel_util::stream::IntervalStream;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let ticks = IntervalStream::new(interval(Duration::from_secs(15)));
    /// let [first, second] = ticks.take(2).collect::<Vec<_>>().await[..] else { unreachable!() };
    /// assert_eq!(second - first, Duration::from_secs(15));
    /// # });
    /// ```
    pub fn new(interval: Interval) -> IntervalStream {
        IntervalStream {
            interval,
            is_at_end: false,
        }
    }

    /// Returns the interval.
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
        let tick = ready!(self.interval.try_poll_tick(cx)).ok();
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
