//! [`TimeoutRepeating`]: a timeout for each item that is reported again and again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tickwheel::Interval;
use tickwheel::error::Elapsed;
use tokio::task::coop;

use super::fuse::Fuse;
use crate::budget::poll_after_inner;

pin_project! {
    /// A stream that yields an [`Elapsed`] at each tick of an [`Interval`], until the next item:
    /// [`StreamExt::timeout_repeating`](super::StreamExt::timeout_repeating).
    ///
    /// It behaves like tokio-stream's `TimeoutRepeating`.
    ///
    /// - **An item resets the interval**: the next tick comes one period after it. A ready item
    ///   wins over a tick that has come.
    /// - **Missed ticks**, while the consumer works, follow the interval's
    ///   [`MissedTickBehavior`](tickwheel::MissedTickBehavior).
    /// - **The end** of the stream ends the ticks. After it the inner stream is dropped, and
    ///   nothing is armed. The stream is fused.
    /// - **When the timer's runtime has shut down**, a stream that waits in another runtime yields
    ///   one [`Elapsed`] at once. After that, items pass without a timeout.
    /// - **Cancel safe.** Dropping `next()` loses no item and no tick.
    /// - **Cost.** A tick is armed when the stream has to wait. Then the first item takes one short
    ///   lock and allocates 56 bytes, and each further one costs a lock-free
    ///   [reset](Interval::reset). After a tick, this begins anew.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct TimeoutRepeating<S> {
        #[pin]
        stream: Fuse<S>,
        // None once its runtime has shut down, and after the end.
        interval: Option<Interval>,
    }
}

impl<S> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> TimeoutRepeating<S> {
        TimeoutRepeating {
            stream: Fuse::new(stream),
            interval: Some(interval),
        }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_none() {
                *this.interval = None;
            }
            if let Some(interval) = this.interval {
                interval.reset();
            }
            return Poll::Ready(item.map(Ok));
        }
        let Some(interval) = this.interval else {
            return Poll::Pending;
        };
        let poll_tick = |cx: &mut Context<'_>| interval.try_poll_tick(cx);
        let tick = ready!(poll_after_inner(had_budget, cx, poll_tick));
        if tick.is_err() {
            *this.interval = None;
        }
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    /// There is no upper bound while the interval ticks.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.stream.size_hint();
        if self.interval.is_none() {
            return (least, most);
        }
        (least, None)
    }
}

impl<S: Stream> FusedStream for TimeoutRepeating<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
