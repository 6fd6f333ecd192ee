//! The [`Timeout`] future.
//!
//! Invariant: the inner future is polled first, and wins if it is ready, even after the deadline. A
//! timeout whose future is ready at the first poll arms nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::FusedFuture;
use pin_project_lite::pin_project;

use super::access::access_within;
use crate::error::{Cancelled, Elapsed};
use crate::future::sleep::{Sleep, panic_shut_down};
use crate::runtime::coop;

pin_project! {
    /// A future that is bounded in time: [`timeout`](crate::timeout),
    /// [`timeout_at`](crate::timeout_at).
    ///
    /// It returns the output of the inner future, or [`Elapsed`] if that future was not ready
    /// before the deadline. It behaves like [`tokio::time::Timeout`]:
    ///
    /// - The inner future is polled first, and wins if it is ready, even after the deadline.
    /// - Dropping it drops the inner future. To keep that future, pass `&mut future` to the
    ///   timeout, or take it back with [`into_inner`](Timeout::into_inner).
    /// - If the inner future uses up the task's budget, the poll still checks the deadline.
    /// - A timeout made within a [`scope`](crate::scope) ends no later than that scope.
    ///
    /// # Panics
    ///
    /// If it is polled while pending and the runtime that drives its timer has shut down.
    ///
    /// ```
    /// # use tickwheel::{Duration, timeout};
    /// # tokio_test::block_on(async {
    /// match timeout(Duration::from_secs(1), async { "pong" }).await {
    ///     Ok(answer) => println!("{answer}"),
    ///     Err(elapsed) => println!("{elapsed}"),
    /// }
    /// # });
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Timeout<F> {
        #[pin]
        pub(crate) future: F,
        pub(crate) sleep: Sleep,
    }
}

impl<F> Timeout<F> {
    access_within!(future: F);
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let ended = ready!(poll_capped(this.future, this.sleep, cx));
        Poll::Ready(ended.unwrap_or_else(|_| panic_shut_down()))
    }
}

/// Terminated once it has returned its output or [`Elapsed`].
impl<F: Future> FusedFuture for Timeout<F> {
    fn is_terminated(&self) -> bool {
        self.sleep.is_over()
    }
}

/// Polls a future, and then the sleep that bounds it.
// Always inlined, because a timeout whose future is ready must not pay for a second function.
#[inline(always)]
pub(crate) fn poll_capped<F: Future>(
    future: Pin<&mut F>,
    sleep: &mut Sleep,
    cx: &mut Context<'_>,
) -> Poll<Result<Result<F::Output, Elapsed>, Cancelled>> {
    let had_budget = coop::has_budget_remaining();
    if let Poll::Ready(output) = future.poll(cx) {
        sleep.note_output();
        return Poll::Ready(Ok(Ok(output)));
    }
    sleep
        .poll_after_inner(had_budget, cx)
        .map_ok(|()| Err(Elapsed::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_adds_a_cache_line_to_its_future() {
        let size = size_of::<Timeout<()>>();
        assert!(size <= 64, "{size}");
    }
}
