//! [`Timeout`]: tokio-stream's timeout for each item.
//!
//! Invariant: the sleep is the rest of the current gap, and is polled only until that is reported.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tickwheel::error::Elapsed;
use tickwheel::{Sleep, Timer};
use tokio::task::coop;

use super::fuse::Fuse;
use super::hint_with_gaps;
use crate::budget::poll_after_inner;

pin_project! {
    /// A stream that yields an [`Elapsed`] if an item takes too long:
    /// [`StreamExt::timeout`](super::StreamExt::timeout).
    ///
    /// It behaves like tokio-stream's `Timeout`. [`IdleTimeout`](super::IdleTimeout) differs when
    /// the process cannot run: see [Two timeouts](super#two-timeouts).
    ///
    /// - **One for each gap.** After it the stream waits for the next item, however long that
    ///   takes, unlike [`TimeoutRepeating`](super::TimeoutRepeating).
    /// - **Gaps.** The first begins at the construction, each later one with an item, and includes
    ///   the work of the consumer. A ready item wins, even over a gap that is too long.
    /// - **Zero** reports each item that is not ready by the next tick. [`Duration::MAX`] reports
    ///   none.
    /// - **The end** of the stream ends the last gap. After it the inner stream is dropped, and
    ///   nothing is armed. The stream is fused.
    /// - **When the timer's runtime has shut down**, a stream that waits in another runtime yields
    ///   one [`Elapsed`] at once. After that, items pass without a timeout.
    /// - **Cancel safe.** Dropping `next()` loses no item, and the gap goes on.
    /// - **Cost.** Nothing is armed until the stream has to wait. Then the first item takes one
    ///   short lock and allocates 56 bytes, and each further one costs a lock-free
    ///   [reset](Sleep::reset_at). After a gap that is reported, the next item arms the sleep at
    ///   once, under one short lock. The item after it pays like the first one.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Timeout<S> {
        #[pin]
        stream: Fuse<S>,
        // None once its runtime has shut down, and after the end.
        sleep: Option<Sleep>,
        duration: Duration,
        is_reported: bool,
    }
}

impl<S> Timeout<S> {
    /// Like [`StreamExt::timeout`](super::StreamExt::timeout), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt, executor::block_on, stream};
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::stream::Timeout;
    ///
    /// // Under an executor that is not tokio's.
    /// let silent = stream::pending::<()>();
    /// let mut bounded = Timeout::new_on(Timer::global(), silent, Duration::from_millis(1));
    /// assert!(block_on(bounded.next()).unwrap().is_err());
    /// ```
    pub fn new_on(timer: &Timer, stream: S, duration: Duration) -> Timeout<S> {
        Timeout {
            stream: Fuse::new(stream),
            sleep: Some(timer.sleep(duration)),
            duration,
            is_reported: false,
        }
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_none() {
                *this.sleep = None;
            }
            if let Some(sleep) = this.sleep {
                sleep.reset_after(*this.duration);
                *this.is_reported = false;
            }
            return Poll::Ready(item.map(Ok));
        }
        let Some(sleep) = this.sleep.as_mut().filter(|_| !*this.is_reported) else {
            return Poll::Pending;
        };
        let end = ready!(poll_after_inner(had_budget, cx, |cx| sleep.try_poll(cx)));
        *this.is_reported = true;
        if end.is_err() {
            *this.sleep = None;
        }
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let items = self.stream.size_hint();
        if self.sleep.is_none() {
            return items;
        }
        hint_with_gaps(items, self.is_reported)
    }
}

impl<S: Stream> FusedStream for Timeout<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
