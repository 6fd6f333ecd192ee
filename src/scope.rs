//! Deadlines that are passed on: a call that is made within a call has no longer to live than its
//! caller.
//!
//! Invariant: a scope is open on a thread exactly while the scope's future is polled there, and for
//! the task that polls it. So what other tasks of tokio's do on the same thread is never bounded by
//! it. Which of the timeouts hears first that its deadline has passed is told in `future::limit`.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::runtime::coop;
use pin_project_lite::pin_project;
use tokio::time::{Duration, Instant};

use crate::error::Elapsed;
use crate::future::ended::Ended;
use crate::future::limit::{self, Limit};
use crate::future::sleep::Sleep;
use crate::future::timeout::poll_deadline;
use crate::shard::Hold;
use crate::timer::current;

/// Bounds a future and every timeout of this crate that is made within it, on the current
/// runtime's own timer.
///
/// It gives the output of the future, or [`Elapsed`] if the future is not ready before `deadline`.
/// See [`Scope`] for what it bounds, and [`remaining`] for what is left of it.
///
/// # Panics
///
/// Outside a tokio runtime, and in a runtime without a time driver.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, remaining, scope, sleep, timeout};
/// # async fn answer() { std::future::pending().await }
///
/// let start = Instant::now();
/// let call = scope(start + Duration::from_secs(2), async {
///     sleep(Duration::from_millis(500)).await;
///     assert_eq!(remaining(), Some(Duration::from_millis(1500)));
///     timeout(Duration::from_secs(30), answer()).await // it has 1.5 s in fact
/// });
/// assert!(call.await.expect("what it awaits elapses first").is_err());
/// assert_eq!(start.elapsed(), Duration::from_secs(2));
/// # }
/// ```
#[track_caller]
pub fn scope<F: IntoFuture>(deadline: Instant, future: F) -> Scope<F::IntoFuture> {
    Scope::new(current::hold(), deadline, future.into_future())
}

/// What is left of the innermost [`scope`]; `None` where no scope is open.
///
/// It is what the next call may take, for the header of that call. It is never more than what is
/// left, and zero once the deadline has passed. It reads the clock, and only where a scope is open.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, remaining, scope};
///
/// assert_eq!(remaining(), None);
/// let deadline = Instant::now() + Duration::from_secs(2);
/// let header = scope(deadline, async { remaining().map(|left| left.as_millis()) });
/// assert_eq!(header.await, Ok(Some(2000)));
/// # }
/// ```
pub fn remaining() -> Option<Duration> {
    let deadline = scope_deadline()?;
    Some(deadline.saturating_duration_since(Instant::now()))
}

/// When the innermost [`scope`] ends; `None` where no scope is open. Reads no clock.
///
/// A task that is spawned is not within the scope of the task that spawns it. This takes the
/// deadline along:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, remaining, scope, scope_deadline};
///
/// let outer = scope(Instant::now() + Duration::from_secs(2), async {
///     let deadline = scope_deadline().expect("a scope is open");
///     tokio::spawn(scope(deadline, async { remaining() })).await
/// });
/// assert_eq!(outer.await.unwrap().unwrap(), Ok(Some(Duration::from_secs(2))));
/// # }
/// ```
pub fn scope_deadline() -> Option<Instant> {
    limit::current().map(Limit::deadline)
}

pin_project! {
    /// A future with a deadline that it passes on: [`scope`].
    ///
    /// The scope is open while the future is polled. It bounds:
    ///
    /// - **The future.** It is polled first; if it is ready it wins, also over a deadline that has
    ///   passed. Once the deadline has passed and it is pending, the scope gives [`Elapsed`].
    /// - **Timeouts made within**: by [`timeout`](crate::timeout),
    ///   [`timeout_at`](crate::timeout_at), the methods of any [`Timer`](crate::Timer) and the
    ///   functions of [`global`](crate::global). None of them ends after the scope. They stay
    ///   bounded if they are taken out of it.
    /// - **Scopes within.** Of nested scopes, the earliest deadline holds.
    ///
    /// It does not reach other tasks of tokio's: neither those that are spawned within, which
    /// [`scope_deadline`] helps, nor those that a `LocalSet` or an inner runtime polls within, nor
    /// `spawn_blocking`. A `block_on` within is bounded. An executor that is not tokio's gives its
    /// tasks no id. So if one runs within, such as a `LocalPool` of `futures`, its tasks are
    /// bounded too while the scope is polled. A [`Sleep`](crate::Sleep), an
    /// [`Interval`](crate::Interval) or a [`Deadline`](crate::Deadline) within keeps its own time,
    /// and is dropped with the future.
    ///
    /// # Which of the two elapses first
    ///
    /// A timeout within that the scope has shortened is due when the scope is. A scope whose
    /// deadline has passed polls its future once more, and each such timeout that is polled then
    /// elapses. So code that awaits a timeout hears of it first, also by way of `join!` or
    /// `select!`. It can answer, clean up or log. If the future is not ready then, the scope gives
    /// [`Elapsed`].
    ///
    /// A set that polls only what was woken, such as `FuturesUnordered`, may not poll its timeouts
    /// in that last poll. It does so if they were woken by then, which the timer decides. Otherwise
    /// the scope gives [`Elapsed`] while the code within has heard nothing.
    ///
    /// A timeout that is made during the last poll stays pending. So a loop that tries again after
    /// each timeout ends too.
    ///
    /// # Cost
    ///
    /// Where no scope is open a timeout pays for reading a word of its thread. Where one is open,
    /// it pays for a look at the task's id, a look-up of the runtime, and one or two readings of
    /// the clock. On a timer that another runtime drives it may be five. A scope arms one timer, as
    /// a [`Timeout`](crate::Timeout) does.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the future and takes its timer out.
    ///
    /// # Panics
    ///
    /// When it is polled while pending and the runtime that drives its timer has shut down. A panic
    /// of the future passes through, and the scope is closed by then.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Scope<F> {
        #[pin]
        future: F,
        sleep: Sleep,
        // In the time of the runtime that polls, also if the sleep goes by another clock.
        deadline: Instant,
    }
}

impl<F> Scope<F> {
    pub(crate) fn new(shard: Hold, deadline: Instant, future: F) -> Scope<F> {
        Scope {
            future,
            sleep: limit::sleep_until(shard, deadline),
            deadline: Limit::until(deadline).deadline(),
        }
    }

    /// When the scope ends: at its deadline, or with the scope that it was made in, if that ends
    /// earlier.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The future within.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future within, to be changed.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Gives the future back and drops the deadline.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Scope<F> {
    /// Polls, and tells how the scope ended if it did so before the future. It panics only if the
    /// future does.
    pub(crate) fn poll_bounded(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, Ended>> {
        let mut this = self.project();
        let limit = Limit::until(*this.deadline);
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = limit::within(limit, || this.future.as_mut().poll(cx)) {
            return Poll::Ready(Ok(output));
        }
        let ended = ready!(poll_deadline(this.sleep, had_budget, cx));
        if limit.is_over() || ended == Ended::ShutDown {
            return Poll::Ready(Err(ended)); // That was the last poll.
        }
        match limit::within(limit.over(), || this.future.poll(cx)) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Poll::Ready(Err(ended)),
        }
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let bounded = ready!(self.poll_bounded(cx));
        Poll::Ready(bounded.map_err(Ended::elapsed))
    }
}
