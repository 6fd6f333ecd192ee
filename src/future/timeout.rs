//! The [`Timeout`] future.
//!
//! Invariant: the inner future is polled first. So a future that is ready wins over a deadline that
//! has passed. A timeout whose future is ready at the first poll arms nothing.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::error::{Cancelled, Elapsed};
use crate::future::scope;
use crate::future::sleep::{FirstPoll, Sleep, panic_shut_down};
use crate::runtime::coop;
use crate::shard::Shard;

pin_project! {
    /// A future that is bounded in time: [`timeout`](crate::timeout),
    /// [`timeout_at`](crate::timeout_at).
    ///
    /// It returns the output of the inner future, or [`Elapsed`] if that future was not ready
    /// before the deadline. It behaves as [`tokio::time::Timeout`] does:
    ///
    /// - The inner future is polled first. If it is ready it wins, also over a deadline that has
    ///   passed.
    /// - To drop the timeout drops the inner future. To go on with that after the deadline, give
    ///   `&mut future` to the timeout, or take it back with [`into_inner`](Timeout::into_inner).
    /// - If the inner future uses up the task's cooperative budget, the poll still looks at the
    ///   deadline.
    /// - One that is made within a [`scope`](crate::scope) elapses with that scope at the latest.
    ///
    /// # Panics
    ///
    /// When it is polled while it is pending and the runtime that drives its timer has shut down.
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
        pub(crate) bound: Bound,
    }
}

impl<F> Timeout<F> {
    // Always inlined, so that the compiler makes the timeout where it stays.
    #[inline(always)]
    pub(crate) fn new(bound: Bound, future: F) -> Timeout<F> {
        Timeout { future, bound }
    }

    access_within!(future: F);
}

impl<F: Future> Timeout<F> {
    /// Polls as the future does, but reports the end of the runtime that drives the timer where the
    /// future panics.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if that runtime has shut down while the inner future was pending, as for
    /// [`Sleep::try_poll`]. The inner future may be polled further with
    /// [`get_mut`](Timeout::get_mut) or [`into_inner`](Timeout::into_inner).
    ///
    /// ```
    /// # use tickwheel::{Duration, timeout};
    /// # tokio_test::block_on(async {
    /// let mut bounded = std::pin::pin!(timeout(Duration::from_secs(1), async { 7 }));
    /// let end = std::future::poll_fn(|cx| bounded.as_mut().try_poll(cx)).await;
    /// assert_eq!(end, Ok(Ok(7)));
    /// # });
    /// ```
    pub fn try_poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<F::Output, Elapsed>, Cancelled>> {
        let this = self.project();
        poll_bounded(this.future, this.bound, cx)
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let bounded = ready!(poll_bounded(this.future, this.bound, cx));
        Poll::Ready(bounded.unwrap_or_else(|_| panic_shut_down()))
    }
}

/// The bound of a timeout. The timer comes into it as late as it can: a timeout whose future is
/// ready at the first poll needs none.
pub(crate) enum Bound {
    /// Its timer is found by the poll that has to arm it, on the thread of that poll.
    Free {
        deadline: Instant,
        first_poll: FirstPoll,
        find: fn() -> Arc<Shard>,
    },
    /// It is armed on this shard, if it has to be.
    Held {
        deadline: Instant,
        first_poll: FirstPoll,
        /// Taken for the sleep.
        shard: Option<Arc<Shard>>,
    },
    Sleep(Sleep),
}

impl Bound {
    /// For `duration` from now, or until the limit of the open scopes if that comes first.
    #[inline]
    pub(crate) fn after(shard: Arc<Shard>, duration: Duration) -> Bound {
        let now = shard.clock().now_instant();
        match now.checked_add(duration) {
            Some(deadline) if !scope::may_be_open() => Bound::Held {
                deadline,
                first_poll: FirstPoll::after(duration),
                shard: Some(shard),
            },
            _ => Bound::Sleep(scope::sleep_after(shard, duration)),
        }
    }

    /// Until `deadline`, or until the limit of the open scopes if that comes first.
    #[inline]
    pub(crate) fn at(shard: Arc<Shard>, deadline: Instant) -> Bound {
        if scope::may_be_open() {
            return Bound::Sleep(scope::sleep_until(shard, deadline));
        }
        Bound::held(shard, deadline)
    }

    /// Until `deadline`, whatever scopes are open.
    #[inline]
    pub(crate) fn held(shard: Arc<Shard>, deadline: Instant) -> Bound {
        Bound::Held {
            deadline,
            first_poll: FirstPoll::Looks,
            shard: Some(shard),
        }
    }

    /// Until `deadline`, by the timer that `find` finds on the thread that arms, whatever scopes
    /// are open.
    #[inline]
    pub(crate) fn free(find: fn() -> Arc<Shard>, deadline: Instant) -> Bound {
        Bound::Free {
            deadline,
            first_poll: FirstPoll::Looks,
            find,
        }
    }

    /// The sleep, which finds its timer now if it has none.
    #[inline]
    pub(crate) fn sleep(&mut self) -> &mut Sleep {
        let unbound = match self {
            Bound::Sleep(_) => None,
            Bound::Held {
                deadline,
                first_poll,
                shard,
            } => shard.take().map(|shard| (shard, *deadline, *first_poll)),
            Bound::Free {
                deadline,
                first_poll,
                find,
            } => Some((find(), *deadline, *first_poll)),
        };
        if let Some((shard, deadline, first_poll)) = unbound {
            let due = shard.clock().moment(deadline);
            *self = Bound::Sleep(Sleep::new(shard, due, first_poll));
        }
        match self {
            Bound::Sleep(sleep) => sleep,
            Bound::Free { .. } | Bound::Held { .. } => unreachable!("it was bound just now"),
        }
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deadline = match self {
            Bound::Free { deadline, .. } | Bound::Held { deadline, .. } => *deadline,
            Bound::Sleep(sleep) => sleep.deadline(),
        };
        f.debug_struct("Bound")
            .field("deadline", &deadline)
            .finish()
    }
}

/// Polls a future, and then the sleep that bounds it.
// Always inlined, because a timeout whose future is ready must not pay for a second function.
#[inline(always)]
fn poll_bounded<F: Future>(
    future: Pin<&mut F>,
    bound: &mut Bound,
    cx: &mut Context<'_>,
) -> Poll<Result<Result<F::Output, Elapsed>, Cancelled>> {
    let had_budget = coop::has_budget_remaining();
    if let Poll::Ready(output) = future.poll(cx) {
        return Poll::Ready(Ok(Ok(output)));
    }
    poll_deadline(bound, had_budget, cx).map_ok(|()| Err(Elapsed::new()))
}

/// The part that does not depend on the inner future. It is a function of its own so that it is
/// compiled once.
fn poll_deadline(
    bound: &mut Bound,
    had_budget: bool,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cancelled>> {
    poll_after_inner(bound.sleep(), had_budget, cx)
}

/// Polls the sleep after a future that may have used the task's budget up.
#[inline]
pub(crate) fn poll_after_inner(
    sleep: &mut Sleep,
    had_budget: bool,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cancelled>> {
    if coop::has_budget_remaining() {
        sleep.poll_within_budget(cx)
    } else {
        poll_after_budget(sleep, had_budget, cx)
    }
}

#[cold]
fn poll_after_budget(
    sleep: &mut Sleep,
    had_budget: bool,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cancelled>> {
    if had_budget {
        // The inner future has used the budget up. If it always does, a deadline that obeyed the
        // budget would never be looked at.
        let unconstrained = coop::unconstrained(poll_fn(|cx| sleep.poll_within_budget(cx)));
        pin!(unconstrained).poll(cx)
    } else {
        sleep.try_poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program holds very many of them, each in a task or in a future around it.
    #[test]
    fn a_timeout_adds_forty_bytes_to_its_future() {
        assert!(
            size_of::<Timeout<()>>() <= 40,
            "{}",
            size_of::<Timeout<()>>()
        );
    }
}
