//! [`IdleTimeout`]: a timeout for a peer that has to stay alive.
//!
//! Invariant: the deadline is the current gap. Once that was reported, nothing polls the deadline
//! until the next item restarts it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tickwheel::error::Elapsed;
use tickwheel::{Deadline, ResetHandle, Timer};
use tokio::task::coop;

use super::hint_with_gaps;
use crate::access::access_within;
use crate::budget::poll_after_inner;

pin_project! {
    /// A stream that yields an [`Elapsed`] when it was silent for too long:
    /// [`StreamExt::idle_timeout`](super::StreamExt::idle_timeout). For a stream of bytes, such as
    /// a socket, see [`tickwheel::io::IdleTimeout`].
    ///
    /// - **A stall does not count**, unlike with [`Timeout`](super::Timeout): a process that
    ///   resumes first yields the items that came meanwhile. See [`Deadline`] for the grace.
    /// - **One for each gap.** After it the stream waits for the next item, however long that
    ///   takes, unlike [`TimeoutRepeating`](super::TimeoutRepeating).
    /// - **Gaps.** The first begins at the construction, each later one with an item, and includes
    ///   the work of the consumer. The end of the stream ends the last one. A ready item wins, even
    ///   over a gap that has ended.
    /// - **A consumer that works for longer** than the timeout may be told of a peer that is
    ///   healthy. Bound each wait there in its place: `timeout(d, stream.next())`.
    /// - **Zero** reports each item that is not ready by the next tick. [`Duration::MAX`] reports
    ///   none.
    /// - **When the timer's runtime has shut down**, a stream that waits in another runtime yields
    ///   one [`Elapsed`] at once. After that, items pass without a timeout.
    /// - **Cancel safe.** Dropping `next()` loses no item, and the gap goes on. It is fused.
    /// - **Cost.** The construction arms one [`Deadline`]. An item resets it, which takes no lock.
    ///   Each poll that has to wait takes one short lock of the timer's shard. The first item after
    ///   a gap that has ended takes two.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct IdleTimeout<S> {
        #[pin]
        stream: S,
        // None once its runtime has shut down, and after the end.
        gap: Option<Gap>,
        is_at_end: bool,
    }
}

#[derive(Debug)]
struct Gap {
    deadline: Deadline,
    handle: ResetHandle,
    is_reported: bool,
}

impl Gap {
    fn new(timer: &Timer, timeout: Duration) -> Gap {
        let deadline = timer.deadline(timeout);
        Gap {
            handle: deadline.handle(),
            deadline,
            is_reported: false,
        }
    }

    fn start_anew(&mut self) {
        self.is_reported = false;
        // Without a lock, unless the last gap has ended.
        if !self.handle.reset() {
            self.deadline.restart();
        }
    }
}

impl<S> IdleTimeout<S> {
    /// Like [`StreamExt::idle_timeout`](super::StreamExt::idle_timeout), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt, stream};
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::stream::IdleTimeout;
    ///
    /// # tokio_test::block_on(async {
    /// let timer = Timer::current(); // kept by the server, which saves a look-up
    /// let messages = stream::iter(["hello"]);
    /// let mut messages = IdleTimeout::new_on(&timer, messages, Duration::from_secs(60));
    /// assert_eq!(messages.next().await, Some(Ok("hello")));
    /// assert_eq!(messages.next().await, None);
    /// # });
    /// ```
    pub fn new_on(timer: &Timer, stream: S, timeout: Duration) -> IdleTimeout<S> {
        IdleTimeout {
            stream,
            gap: Some(Gap::new(timer, timeout)),
            is_at_end: false,
        }
    }

    access_within!(pinned stream: S);
}

impl<S: Stream> Stream for IdleTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.is_at_end {
            return Poll::Ready(None);
        }
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            *this.is_at_end = item.is_none();
            if *this.is_at_end {
                *this.gap = None;
            }
            if let Some(gap) = this.gap {
                gap.start_anew();
            }
            return Poll::Ready(item.map(Ok));
        }
        let Some(gap) = this.gap.as_mut().filter(|gap| !gap.is_reported) else {
            return Poll::Pending;
        };
        let mut deadline = Pin::new(&mut gap.deadline);
        let poll_deadline = |cx: &mut Context<'_>| deadline.as_mut().poll(cx);
        let end = ready!(poll_after_inner(had_budget, cx, poll_deadline));
        gap.is_reported = true;
        if end.is_err() {
            *this.gap = None;
        }
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    /// An [`Elapsed`] may come between two items, before the first and after the last one.
    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_at_end {
            return (0, Some(0));
        }
        let items = self.stream.size_hint();
        match &self.gap {
            Some(gap) => hint_with_gaps(items, gap.is_reported),
            None => items,
        }
    }
}

impl<S: Stream> FusedStream for IdleTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.is_at_end
    }
}
