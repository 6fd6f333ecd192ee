//! Deadlines that are passed on: an inner call never outlives its caller's deadline.
//!
//! Invariant: a scope is open on a thread exactly while its future is polled there, and for the
//! polling task. So it never bounds other tasks of tokio's on the same thread.
//!
//! While the future is polled, the scope's deadline is the [limit](super::limit) of its thread. The
//! scope reads the clock at each poll that stays pending, because its timer's ticks may be coarser.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::access::access_within;
use crate::error::{Cancelled, Elapsed};
use crate::future::limit::{current, next_tick, within};
use crate::future::sleep::{Sleep, panic_shut_down};
use crate::runtime::coop;

/// The time left in the innermost [`scope`](crate::scope()); `None` where no scope is open.
///
/// This is the budget for the next call, for example for its header. It is never more than the time
/// left, and zero once the deadline has passed. It reads the clock only if a scope is open.
///
/// ```
/// # use tickwheel::{Duration, Instant, remaining, scope};
/// # tokio_test::block_on(async { tokio::time::pause();
/// assert_eq!(remaining(), None);
/// let call = scope(Instant::now() + Duration::from_secs(2), async { remaining() });
/// assert_eq!(call.await, Ok(Some(Duration::from_secs(2))));
/// # });
/// ```
pub fn remaining() -> Option<Duration> {
    let deadline = scope_deadline()?;
    Some(deadline.saturating_duration_since(Instant::now()))
}

/// When the innermost [`scope`](crate::scope()) ends; `None` where no scope is open. Reads no
/// clock.
///
/// A spawned task is not within the scope of the task that spawns it. To carry the deadline along:
///
/// ```
/// # use tickwheel::{Duration, Instant, remaining, scope, scope_deadline};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let outer = scope(Instant::now() + Duration::from_secs(2), async {
///     let deadline = scope_deadline().expect("a scope is open");
///     tokio::spawn(scope(deadline, async { remaining() })).await
/// });
/// assert_eq!(outer.await??, Ok(Some(Duration::from_secs(2))));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub fn scope_deadline() -> Option<Instant> {
    current()
}

pin_project! {
    /// A future with a deadline that it passes on: [`scope`](crate::scope()).
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, scope, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let second = Instant::now() + Duration::from_secs(1);
    /// let call = scope(second, sleep(Duration::from_secs(5)));
    /// assert!(call.await.is_err(), "its deadline came first");
    /// # });
    /// ```
    ///
    /// 1. The future is polled first, and wins if it is ready, even after the deadline. Otherwise
    ///    the scope returns [`Elapsed`] once its deadline has passed.
    /// 2. No [`Timeout`](crate::Timeout) and no scope made while the future is polled ends after
    ///    the scope, on any timer, even after it was moved out of the scope. But a timeout that is
    ///    made after the deadline ends within two ticks, so that a loop of retries does not spin. A
    ///    [`Sleep`](crate::Sleep), an [`Interval`](crate::Interval) and a
    ///    [`Deadline`](crate::Deadline) keep their own time. If the scope and an inner timeout end
    ///    together, either may report `Elapsed`.
    /// 3. Spawned tasks are outside the scope, as are tasks that a `LocalSet` or an inner runtime
    ///    polls, and `spawn_blocking`. Carry the deadline over with [`scope_deadline`]. A
    ///    `block_on` within is inside the scope, and so are the tasks of another executor within.
    ///
    /// A scope reads the clock at each poll that stays pending, and arms one timer. If that timer
    /// and the polling runtime go by different clocks, because one of the two was paused, the scope
    /// and the timeouts within it count the time left when they began. The scope also ends once the
    /// runtime's clock has passed its deadline. Without an open scope, a timeout pays for reading a
    /// word of its thread.
    ///
    /// Dropping the scope drops the future and takes its timer out. It panics if it is polled while
    /// pending and the runtime that drives its timer has shut down. A panic of the future passes
    /// through.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Scope<F> {
        #[pin]
        future: F,
        sleep: Sleep,
        // By the clock of the polling runtime, even if the timer goes by another.
        deadline: Instant,
    }
}

impl<F> Scope<F> {
    /// Call this with the deadline of `limit::capped`.
    // Always inlined and without a call, so that the scope is built in place.
    #[inline(always)]
    pub(crate) fn new(sleep: Sleep, deadline: Instant, future: F) -> Scope<F> {
        Scope {
            future,
            sleep,
            deadline,
        }
    }

    access_within!(future: F);
}

impl<F: Future> Scope<F> {
    pub(crate) fn try_poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<F::Output, Elapsed>, Cancelled>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = within(*this.deadline, || this.future.poll(cx)) {
            return Poll::Ready(Ok(Ok(output)));
        }
        set_end(this.sleep, *this.deadline);
        let ended = this.sleep.poll_after_inner(had_budget, cx);
        ended.map_ok(|()| Err(Elapsed::new()))
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.try_poll(cx));
        Poll::Ready(ended.unwrap_or_else(|_| panic_shut_down()))
    }
}

/// The first pending poll sets the sleep, by the clock of the polling runtime. Each one looks
/// whether the scope has ended by that clock.
fn set_end(sleep: &mut Sleep, deadline: Instant) {
    let (is_new, now) = (sleep.is_new(), Instant::now());
    if is_new && current().is_some_and(|outer| outer <= now) {
        let end = next_tick(sleep.attach().clock());
        sleep.reset_at(end);
    } else if now >= deadline {
        sleep.elapse();
    } else if is_new {
        let end = sleep.attach().clock().translate(deadline);
        sleep.reset_at(end);
    }
}
