//! The [`Timeout`] future.
//!
//! Invariant: the inner future is polled first, and wins if it is ready, even after the deadline. A
//! timeout whose future is ready at the first poll arms nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::access::access_within;
use crate::error::{Elapsed, ShutDown};
use crate::future::sleep::{Sleep, panic_shut_down};
use crate::runtime::coop;

pin_project! {
    /// A future that is bounded in time: [`timeout`](crate::timeout),
    /// [`timeout_at`](crate::timeout_at).
    ///
    /// It returns the output of the inner future, or [`Elapsed`] if that future was not ready
    /// before the deadline. It behaves like [`tokio::time::Timeout`].
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
    ///
    /// # Usage
    ///
    /// - The inner future is polled first, and wins if it is ready, even after the deadline. If it
    ///   uses up the task's budget, the poll still checks the deadline.
    /// - After a stall of the process, the inner future wins if it becomes ready by what was sent
    ///   meanwhile, within the 100 ms at most that the timer waits. See [`Sleep`].
    /// - To keep the inner future, pass `&mut future` to the timeout, or take it back with
    ///   [`into_inner`](Timeout::into_inner).
    /// - A timeout made where a deadline is [open](crate::WithDeadline) ends with it at the latest,
    ///   or within two ticks if it is made after it.
    /// - Another poll after [`Elapsed`] polls the inner future again, and returns its output or
    ///   `Elapsed`.
    ///
    /// # Cost
    ///
    /// If the inner future is ready at the first poll, it arms nothing and takes no lock. Otherwise
    /// it costs as much as a [`Sleep`] that is armed and dropped. It adds at most 64 bytes to the
    /// inner future.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner future and takes its timer out, in O(1). So it is as cancel safe
    /// as the inner future.
    ///
    /// # Panics
    ///
    /// If it is polled while pending and the runtime that drives its timer has shut down.
    /// [`try_poll`](Timeout::try_poll) returns an error instead.
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

impl<F: Future> Timeout<F> {
    /// Polls like the future, but returns an error where the future panics on a shutdown.
    ///
    /// It is for adapters that may be polled outside the timer's runtime, and report its end.
    ///
    /// # Errors
    ///
    /// [`ShutDown`] if the runtime that drives the timer has shut down before the deadline.
    ///
    /// ```
    /// use std::future::{pending, poll_fn};
    /// use std::pin::pin;
    /// use tickwheel::{Duration, Timer};
    ///
    /// let elsewhere = tokio::runtime::Runtime::new()?;
    /// let timer = elsewhere.block_on(async { Timer::current() });
    /// let mut call = pin!(timer.timeout(Duration::from_secs(60), pending::<()>()));
    /// drop(elsewhere);
    /// let end = futures::executor::block_on(poll_fn(|cx| call.as_mut().try_poll(cx)));
    /// assert!(end.is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    // Always inlined, because a timeout whose future is ready must not pay for a second function.
    #[inline(always)]
    pub fn try_poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<F::Output, Elapsed>, ShutDown>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(Ok(output)));
        }
        let ended = this.sleep.poll_after_inner(had_budget, cx);
        ended.map_ok(|()| Err(Elapsed::new()))
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.try_poll(cx));
        Poll::Ready(ended.unwrap_or_else(|end| panic_shut_down(end)))
    }
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
