//! The [`IdleTimeout`] of a stream: an `Elapsed` for each gap that is too long.
//!
//! Invariant: `gap` is what is left of the current gap. It is `None` once the gap was told, and
//! after the end of the stream. So nothing is armed then.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::runtime::coop;
use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

use crate::error::Elapsed;
use crate::future::ended::Ended;
use crate::future::timeout::poll_deadline;
use crate::{Sleep, Timer};

pin_project! {
    /// A stream that gives an [`Elapsed`] for each gap that is too long:
    /// [`StreamExt::idle_timeout`](super::StreamExt::idle_timeout).
    ///
    /// - **One for each gap.** After it the stream waits for the next item, however long that
    ///   takes. tokio-stream's `timeout` does so too. Its `timeout_repeating` tells again and
    ///   again.
    /// - **What is a gap.** The first one begins when this is made, and each other one when an item
    ///   is given. The end of the stream ends the last one.
    /// - **An item that is ready wins**, also over a gap that is over.
    /// - **Fused.** The stream within is not polled after its end. Nothing is armed then.
    /// - **Zero** tells of each item that is not ready at once. [`Duration::MAX`] tells of none.
    ///
    /// # When the timer's runtime has shut down
    ///
    /// A stream that waits in another runtime gives one [`Elapsed`], at once. No gap is counted
    /// after that, and items pass as they come.
    ///
    /// # Cancel safety
    ///
    /// If `next()` is dropped before it is ready, no item is lost and the gap goes on.
    ///
    /// # Cost
    ///
    /// A gap is armed when the stream has to wait in it, and disarmed by the next item. An item
    /// that is ready at once costs no lock.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct IdleTimeout<S> {
        #[pin]
        stream: S,
        // None once its runtime has shut down.
        timer: Option<Timer>,
        timeout: Duration,
        gap: Option<Sleep>,
        is_at_end: bool,
    }
}

impl<S> IdleTimeout<S> {
    /// As [`StreamExt::idle_timeout`](super::StreamExt::idle_timeout), on this timer.
    pub fn with_timer(timer: &Timer, stream: S, timeout: Duration) -> IdleTimeout<S> {
        IdleTimeout {
            stream,
            gap: Some(timer.sleep(timeout)),
            timer: Some(timer.clone()),
            timeout,
            is_at_end: false,
        }
    }

    /// The stream within.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream within, to be changed.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// As [`get_mut`](IdleTimeout::get_mut), for a stream that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for IdleTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.is_at_end {
            return Poll::Ready(None);
        }
        let had_budget = coop::has_budget_remaining();
        match this.stream.poll_next(cx) {
            Poll::Ready(Some(item)) => {
                // A gap that is armed is disarmed here, and the new one is armed when it waits.
                *this.gap = this.timer.as_ref().map(|timer| timer.sleep(*this.timeout));
                return Poll::Ready(Some(Ok(item)));
            }
            Poll::Ready(None) => {
                *this.is_at_end = true;
                *this.gap = None;
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        let Some(gap) = this.gap else {
            return Poll::Pending;
        };
        let ended = ready!(poll_deadline(gap, had_budget, cx));
        *this.gap = None;
        if ended == Ended::ShutDown {
            *this.timer = None;
        }
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    /// Between two items, and before the first and after the last one, there may be an [`Elapsed`].
    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_at_end {
            return (0, Some(0));
        }
        let (least, most) = self.stream.size_hint();
        if self.timer.is_none() {
            return (least, most);
        }
        let untold = usize::from(self.gap.is_some());
        let most = most.and_then(|most| most.checked_mul(2)?.checked_add(untold));
        (least, most)
    }
}

impl<S: Stream> FusedStream for IdleTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.is_at_end
    }
}
