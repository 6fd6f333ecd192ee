//! Deadlines that are passed on: a call that is made within another call never outlives its
//! caller's deadline.
//!
//! Invariant: a scope is open on a thread exactly while the scope's future is polled there, and for
//! the task that polls it. So what other tasks of tokio's do on the same thread is never bounded by
//! it.
//!
//! The limit of the scopes that are open on a thread bounds each timeout that is made there. It is
//! set only while `within` runs, which puts the former one back, also if what it runs panics. A
//! limit never ends after the one that it is set within.
//!
//! A limit is an instant of the clock that `Instant::now()` reads where the scope is polled. A
//! timer that is driven elsewhere may have another clock, if either was ever paused. For such a
//! timer the limit is translated once: into its clock's present time plus what is left. For a
//! timeout that is when it is made, for a scope when it is first polled.
//!
//! A loop within that tries again on each `Elapsed` must not go on for ever once the limit has
//! passed. So a timeout that is made then is due a tick later. Meanwhile the scope ends, because it
//! looks at the clock at each poll that stays pending: its timer may have coarser ticks than those
//! within.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::clock::tick::Moment;
use crate::error::{Cancelled, Elapsed};
use crate::future::sleep::{FirstPoll, Sleep, panic_shut_down};
use crate::future::timeout::{Bound, poll_after_inner};
use crate::runtime::{TaskId, coop, try_id};
use crate::shard::Shard;

/// The time left in the innermost [`scope`](crate::scope()); `None` where no scope is open.
///
/// It is what the next call may take, for the header of that call. It is never more than what is
/// left. It is zero once the deadline has passed. It reads the clock, and only where a scope is
/// open.
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
    current().map(ScopeDeadline::remaining)
}

/// When the innermost [`scope`](crate::scope()) ends; `None` where no scope is open. Reads no
/// clock.
///
/// A task that is spawned is not within the scope of the task that spawns it. This takes the
/// deadline along:
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
    current().map(ScopeDeadline::deadline)
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
    /// 1. The future is polled first. If it is ready it wins, also over a deadline that has passed.
    ///    Else the scope returns [`Elapsed`] once its deadline has passed.
    /// 2. No [`Timeout`](crate::Timeout) and no scope that is made while the future is polled ends
    ///    after the scope, whatever timer it is made on and also if it is taken out of the scope. A
    ///    [`Sleep`](crate::Sleep), an [`Interval`](crate::Interval) and a
    ///    [`Deadline`](crate::Deadline) keep their own time. Which of two `Elapsed` of one instant
    ///    comes first is not promised.
    /// 3. It does not reach other tasks of tokio's: not those that are spawned within, which
    ///    [`scope_deadline`] helps, nor those that a `LocalSet` or an inner runtime polls, nor
    ///    `spawn_blocking`. It reaches a `block_on` within, and the tasks of another executor that
    ///    runs within.
    ///
    /// A scope reads the clock at each poll that stays pending, and arms one timer. If that timer
    /// goes by another clock than the runtime that polls, because one of the two was paused, the
    /// scope and the timeouts within it count what was left when they began. Where no scope is
    /// open, a timeout pays for reading a word of its thread.
    ///
    /// It is cancel-safe: dropping it drops the future and takes its timer out. It panics when it
    /// is polled while pending and the runtime that drives its timer has shut down. A panic of the
    /// future passes through.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Scope<F> {
        #[pin]
        pub(crate) future: F,
        pub(crate) end: End,
    }
}

impl<F> Scope<F> {
    // Always inlined, so that the compiler makes the scope where it stays.
    #[inline(always)]
    pub(crate) fn new(end: End, future: F) -> Scope<F> {
        Scope { future, end }
    }

    /// When the scope ends: at its deadline, or with the scope that it was made in, if that ends
    /// earlier.
    pub fn deadline(&self) -> Instant {
        self.end.deadline
    }

    access_within!(future: F);
}

impl<F: Future> Scope<F> {
    /// Polls as the future does, but reports the end of the runtime that drives the timer where the
    /// future panics.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if that runtime has shut down while the future within was pending, as for
    /// [`Timeout::try_poll`](crate::Timeout::try_poll), with an example.
    pub fn try_poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<F::Output, Elapsed>, Cancelled>> {
        let this = self.project();
        poll_bounded(this.future, this.end, cx)
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let bounded = ready!(poll_bounded(this.future, this.end, cx));
        Poll::Ready(bounded.unwrap_or_else(|_| panic_shut_down()))
    }
}

/// Polls a future within a scope. It panics only if the future does.
fn poll_bounded<F: Future>(
    future: Pin<&mut F>,
    end: &mut End,
    cx: &mut Context<'_>,
) -> Poll<Result<Result<F::Output, Elapsed>, Cancelled>> {
    let limit = ScopeDeadline::until(end.deadline);
    let had_budget = coop::has_budget_remaining();
    if let Poll::Ready(output) = within(limit, || future.poll(cx)) {
        return Poll::Ready(Ok(Ok(output)));
    }
    end.poll(had_budget, cx).map_ok(|()| Err(Elapsed::new()))
}

/// The bound of a scope.
#[derive(Debug)]
pub(crate) struct End {
    bound: Bound,
    /// In the time of the runtime that polls, also if the timer goes by another clock.
    deadline: Instant,
}

impl End {
    /// Of a scope that is made now. The first poll that is pending sets `bound` anew, by the clock
    /// of the runtime that polls.
    #[inline]
    pub(crate) fn new(bound: Bound, deadline: Instant) -> End {
        End {
            bound,
            deadline: bounded(deadline),
        }
    }

    fn poll(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let (sleep, deadline) = (self.bound.sleep(), self.deadline);
        let now = Instant::now();
        if sleep.is_new() {
            let clock = sleep.shard().clock();
            if let Some(outer) = current().filter(|outer| outer.deadline <= now) {
                // As a timeout that is made then.
                let end = clock.instant(outer.end(clock, clock.now()));
                sleep.reset_at(end);
                return poll_after_inner(sleep, had_budget, cx);
            }
            let end = by(clock, deadline);
            sleep.reset_at(end);
        }
        if had_budget && now >= deadline {
            sleep.elapse();
            return Poll::Ready(Ok(()));
        }
        poll_after_inner(sleep, had_budget, cx)
    }
}

/// The bound of the timeouts that are made on this thread now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeDeadline {
    deadline: Instant,
    /// The task that polls the scope. A `LocalSet` or an inner runtime polls other tasks meanwhile.
    task: Option<TaskId>,
}

thread_local! {
    /// Without a destructor and without lazy initialisation, so that to look is to read a word.
    static LIMIT: Cell<Option<ScopeDeadline>> = const { Cell::new(None) };
}

/// The limit of the innermost scope; `None` where this task has no scope open.
#[inline]
pub(crate) fn current() -> Option<ScopeDeadline> {
    match LIMIT.get() {
        None => None,
        Some(limit) => limit.if_of_this_task(),
    }
}

/// Runs `run` under `limit`.
pub(crate) fn within<R>(limit: ScopeDeadline, run: impl FnOnce() -> R) -> R {
    struct PutBack(Option<ScopeDeadline>);

    impl Drop for PutBack {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }

    let _put_back = PutBack(LIMIT.replace(Some(limit)));
    run()
}

impl ScopeDeadline {
    /// The limit that ends at `deadline`, or with the current one if that ends earlier.
    pub(crate) fn until(deadline: Instant) -> ScopeDeadline {
        let outer = current();
        ScopeDeadline {
            deadline: outer.map_or(deadline, |outer| outer.deadline.min(deadline)),
            task: try_id(),
        }
    }

    #[cold]
    fn if_of_this_task(self) -> Option<ScopeDeadline> {
        (self.task == try_id()).then_some(self)
    }

    pub(crate) fn deadline(self) -> Instant {
        self.deadline
    }

    /// When a timeout ends, in the time of `clock`, that the limit bounds. Once the limit has
    /// passed that is a tick from now. So a loop that tries again and again lets the scope end.
    fn end(self, clock: &Clock, now: Moment) -> Moment {
        if self.has_passed(clock, now) {
            now.after(clock.tick().span(1))
        } else {
            clock.moment(by(clock, self.deadline))
        }
    }

    fn has_passed(self, clock: &Clock, now: Moment) -> bool {
        clock.moment(by(clock, self.deadline)) <= now
    }

    /// The time that is left. It reads the clock.
    pub(crate) fn remaining(self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// The deadline of a scope that is made now: its own, or the limit's if that comes first.
#[inline]
pub(crate) fn bounded(deadline: Instant) -> Instant {
    current().map_or(deadline, |limit| limit.deadline.min(deadline))
}

/// Whether a scope may be open on this thread, though maybe for another task.
#[inline]
pub(crate) fn may_be_open() -> bool {
    LIMIT.get().is_some()
}

/// The sleep of a timeout: for `duration`, or until the limit if that comes first.
#[cold]
pub(crate) fn sleep_after(shard: Arc<Shard>, duration: Duration) -> Sleep {
    let own = shard.clock().now().after(duration.into());
    bounded_sleep(shard, own, FirstPoll::after(duration))
}

/// The sleep of a timeout: until `deadline`, or until the limit if that comes first.
#[cold]
pub(crate) fn sleep_until(shard: Arc<Shard>, deadline: Instant) -> Sleep {
    let own = shard.clock().moment(deadline);
    bounded_sleep(shard, own, FirstPoll::Looks)
}

fn bounded_sleep(shard: Arc<Shard>, own: Moment, first_poll: FirstPoll) -> Sleep {
    let Some(limit) = current() else {
        return Sleep::new(shard, own, first_poll);
    };
    let (clock, now) = (shard.clock(), shard.clock().now());
    let end = limit.end(clock, now);
    if limit.has_passed(clock, now) {
        // Also in place of an own due that has passed: a loop may well take what `remaining` says.
        Sleep::new(shard, end, FirstPoll::Looks)
    } else {
        Sleep::new(shard, own.min(end), first_poll)
    }
}

/// A deadline of a limit, in the time of `clock`.
pub(crate) fn by(clock: &Clock, deadline: Instant) -> Instant {
    if clock.is_callers() {
        return deadline;
    }
    let before = clock.now_instant();
    let here = Instant::now();
    let after = clock.now_instant();
    if before <= here && here <= after {
        return deadline;
    }
    // The rest is counted from the later reading, so that it is not too little.
    let left = deadline.saturating_duration_since(here);
    clock.instant(clock.moment(after).after(left.into()))
}
