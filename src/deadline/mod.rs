//! The [`Deadline`] future. It is armed when it is made. One task awaits it, and any task pushes it
//! back.
//!
//! The state lives in a [`Word`](crate::shard::word::Word) that the deadline, its handles and its
//! timer in the wheel share. The word's file says which thread may touch what.
//!
//! Invariant: only the deadline restarts its word, through `&mut`. So once it sees its word
//! settled, the word stays settled until it is restarted. Another poll returns the same answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::tick::Moment;
use crate::error::Cancelled;
use crate::runtime::coop;
use crate::shard::word::{EXPIRED, Mark, Word};
use crate::shard::{Change, Report, Shard};

/// A deadline that one task awaits and any task pushes back:
/// [`Timer::deadline`](crate::Timer::deadline).
///
/// It resolves to `Ok(())` when its timeout has passed since its last reset. It resolves to
/// [`Cancelled`] when it is cancelled or its runtime shuts down. Everything else goes through a
/// [`ResetHandle`].
///
/// - It is armed when it is made, and runs whether or not it is polled.
/// - It is never early. It is late by at most one tick of its timer. Tokio's rounding to a
///   millisecond and its scheduling come on top.
/// - A stall does not count: a deadline that passes while the driver cannot run, because the
///   process was stopped or blocked for more than 50 ms and 16 ticks, stays pending for a grace.
///   The grace is as long as the stall, at least 100 ms and at most the timeout. There is one
///   between two resets. See [`Builder::count_stalls`](crate::Builder::count_stalls).
/// - It has exactly one outcome. Every reset that returned `true` was in time, and the deadline had
///   not expired.
/// - To drop it takes its timer out in O(1). Its handles then answer `false`.
/// - If it is polled again after it was ready, it returns the same answer, until
///   [`restart`](Deadline::restart).
/// - The task that polled last is the one that is woken.
///
/// ```
/// use tickwheel::{Duration, Timer, sleep};
///
/// # tokio_test::block_on(async { tokio::time::pause();
/// let idle = Timer::current().deadline(Duration::from_secs(30));
/// let handle = idle.handle();
/// tokio::spawn(async move {
///     sleep(Duration::from_secs(20)).await;
///     assert!(handle.reset(), "a heartbeat, in time");
/// });
/// assert_eq!(idle.await, Ok(())); // after 50 seconds
/// # });
/// ```
#[must_use = "a deadline is cancelled when it is dropped; `.await` it"]
pub struct Deadline {
    shard: Arc<Shard>,
    word: Arc<Word>,
}

impl Deadline {
    pub(crate) fn new(shard: Arc<Shard>, timeout: Duration) -> Deadline {
        let now = shard.clock().now();
        let word = arm(&shard, now, timeout, Mark::default());
        Deadline { shard, word }
    }

    /// A handle that resets, cancels or expires this deadline from anywhere.
    pub fn handle(&self) -> ResetHandle {
        ResetHandle::new(self.shard.clone(), self.word.clone())
    }

    /// When it expires if nothing resets it, as [`ResetHandle::deadline`]. `None` once it is no
    /// longer pending.
    pub fn deadline(&self) -> Option<Instant> {
        self.handle().deadline()
    }

    /// The time that is left, as [`ResetHandle::remaining`]. `None` once it is no longer pending.
    pub fn remaining(&self) -> Option<Duration> {
        self.handle().remaining()
    }

    /// Makes the deadline pending again, after any outcome. It then expires when its timeout has
    /// passed from now on.
    ///
    /// On a pending deadline this is a reset. Handles from before are good after it. If the runtime
    /// that drives the timer has shut down, the deadline stays [`Cancelled`].
    pub fn restart(&mut self) {
        self.shard.restart_word(&self.word);
    }
}

impl Future for Deadline {
    type Output = Result<(), Cancelled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&self.shard, &self.word, cx)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        cancel_unawaited(&self.shard, &self.word);
    }
}

/// Arms a deadline that is made at `now`.
pub(crate) fn arm(shard: &Shard, now: Moment, timeout: Duration, mark: Mark) -> Arc<Word> {
    let word = Arc::new(Word::new(now, timeout, mark));
    shard.arm_word(&word);
    word
}

pub(crate) fn poll(
    shard: &Arc<Shard>,
    word: &Word,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cancelled>> {
    let coop = ready!(coop::poll_proceed(cx));
    let outcome = match word.outcome() {
        // A deadline that has passed is ready, whether or not the driver has come to it.
        Poll::Pending => ready!(shard.poll_word(word, cx.waker())),
        Poll::Ready(outcome) => outcome,
    };
    coop.made_progress();
    Poll::Ready(outcome)
}

/// Cancels a deadline that nobody awaits any more.
pub(crate) fn cancel_unawaited(shard: &Arc<Shard>, word: &Word) {
    if word.outcome().is_pending() {
        shard.drop_word(word);
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline")
            .field("timeout", &self.word.timeout())
            .field("outcome", &self.word.outcome())
            .finish_non_exhaustive()
    }
}

/// Resets, cancels or expires a [`Deadline`](crate::Deadline) from any task or thread.
///
/// Clones are equal, and good for as long as the deadline lives, also after a
/// [`restart`](crate::Deadline::restart). Each method takes `&self` and returns at once. All are
/// safe to call on a deadline that has ended or was dropped, or whose runtime has shut down. They
/// then answer `false` or `None`.
///
/// | call | cost |
/// |---|---|
/// | [`reset`](ResetHandle::reset) in time | a reading of the clock, and a compare-exchange if it is the first in its millisecond |
/// | the others | one short lock of the deadline's shard |
///
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let deadline = Timer::current().deadline(Duration::from_secs(30));
/// let handle = deadline.handle();
/// assert!(handle.reset() && handle.set_timeout(Duration::from_secs(5)));
/// assert!(handle.extend(Duration::from_secs(600)), "an operator is looking at it");
/// assert_eq!(handle.remaining(), Some(Duration::from_secs(605)));
/// assert!(handle.cancel());
/// assert!(!handle.reset(), "too late");
/// # });
/// ```
#[derive(Clone)]
pub struct ResetHandle {
    shard: Arc<Shard>,
    word: Arc<Word>,
}

impl ResetHandle {
    pub(crate) fn new(shard: Arc<Shard>, word: Arc<Word>) -> ResetHandle {
        ResetHandle { shard, word }
    }

    /// Pushes the deadline to now plus its timeout. `false` if it has expired or was cancelled.
    ///
    /// It takes no lock, and makes at most one successful compare-exchange in a millisecond: on the
    /// system's clock it counts from the next whole millisecond, or the next tick where that comes
    /// sooner. After a stall a reset is in time for as long as the deadline has its grace.
    ///
    /// Two kinds of reset take the lock of the deadline's shard: one that comes too late, and the
    /// first one after a call that moved the deadline once, because it may move it earlier.
    #[inline]
    pub fn reset(&self) -> bool {
        self.access().reset(self.access().now())
    }

    /// Moves the deadline, once, to now plus `delay`, earlier or later. The next
    /// [`reset`](ResetHandle::reset) counts the timeout again. The due stands as it is set: it has
    /// the grace of a stall only if it falls into that. `false` if the deadline has expired or was
    /// cancelled.
    pub fn reset_after(&self, delay: Duration) -> bool {
        let access = self.access();
        access.change(Change::MoveTo(access.now().after(delay.into())))
    }

    /// As [`reset_after`](ResetHandle::reset_after), to an instant. One that has passed expires the
    /// deadline here and now.
    pub fn reset_at(&self, deadline: Instant) -> bool {
        let due = self.shard.clock().moment(deadline);
        self.access().change(Change::MoveTo(due))
    }

    /// Moves the deadline `by` later than it is due now, once. The next
    /// [`reset`](ResetHandle::reset) counts the timeout again. `false` if the deadline has expired
    /// or was cancelled.
    ///
    /// It is atomic beside resets from other tasks: the call extends the deadline as it is at
    /// that moment. A deadline that has passed, and is in its grace after a stall, is extended from
    /// now, and ends no earlier than its grace.
    pub fn extend(&self, by: Duration) -> bool {
        self.access().change(Change::Extend(by.into()))
    }

    /// Changes the timeout. A pending deadline counts it from its last
    /// [`reset`](ResetHandle::reset), and expires at once if that makes it due already. A due that
    /// was set by [`reset_after`](ResetHandle::reset_after) or [`reset_at`](ResetHandle::reset_at)
    /// stands, and the new timeout counts from the next `reset` on. A timeout that is no shorter
    /// ends no deadline that is in its grace after a stall. `false` if the deadline has expired or
    /// was cancelled. Then the new timeout holds from the next
    /// [`restart`](crate::Deadline::restart) on.
    pub fn set_timeout(&self, timeout: Duration) -> bool {
        self.access().change(Change::SetTimeout(timeout))
    }

    /// The timeout that a reset counts.
    pub fn timeout(&self) -> Duration {
        self.word.timeout()
    }

    /// Cancels the deadline, which resolves to `Err(Cancelled)`. `false` if it has expired or was
    /// cancelled before.
    pub fn cancel(&self) -> bool {
        self.access().settle(Err(Cancelled::BY_HANDLE))
    }

    /// Expires the deadline now, which resolves to `Ok(())`. `false` if it has expired or was
    /// cancelled before.
    pub fn expire(&self) -> bool {
        self.access().settle(EXPIRED)
    }

    /// Whether the deadline has neither expired nor been cancelled.
    pub fn is_pending(&self) -> bool {
        self.word.outcome().is_pending() && self.access().is_pending()
    }

    /// When the deadline expires if nothing resets it. This is never before the last reset plus the
    /// timeout. `None` once the deadline is no longer pending.
    pub fn deadline(&self) -> Option<Instant> {
        let told = self.reported()?;
        Some(self.shard.clock().instant(told.deadline))
    }

    /// The time that is left. It is zero if the deadline is just about to expire. After a
    /// [`reset`](ResetHandle::reset) it is never more than the timeout. `None` once the deadline is
    /// no longer pending.
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.reported()?.left)
    }

    pub(crate) fn reported(&self) -> Option<Report> {
        self.access().reported()
    }

    /// For the one who owns the deadline.
    pub(crate) fn restart(&self) {
        self.shard.restart_word(&self.word);
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    fn access(&self) -> Access<'_> {
        Access {
            shard: &self.shard,
            word: &self.word,
        }
    }
}

impl fmt::Debug for ResetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetHandle")
            .field("timeout", &self.timeout())
            .field("is_pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}

/// The calls on a deadline, for code that has its shard and its word.
///
/// The caller holds no lock, because a call here may take the shard's lock and wake a task. Only
/// `try_reset` and `handle` may be called with a map's lock held.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) shard: &'a Arc<Shard>,
    pub(crate) word: &'a Arc<Word>,
}

impl Access<'_> {
    pub(crate) fn handle(self) -> ResetHandle {
        ResetHandle::new(self.shard.clone(), self.word.clone())
    }

    /// Resets from `now`.
    #[inline]
    pub(crate) fn reset(self, now: Moment) -> bool {
        self.try_reset(now) || self.change(Change::Reset)
    }

    /// As `reset`, and `false` if that needs the lock.
    #[inline]
    pub(crate) fn try_reset(self, now: Moment) -> bool {
        self.word.reset(now, self.shard.clock().reset_start(now))
    }

    /// Changes when the deadline is due. `false` if it has come to its end.
    pub(crate) fn change(self, change: Change) -> bool {
        self.shard.change_word(self.word, change)
    }

    pub(crate) fn settle(self, outcome: Result<(), Cancelled>) -> bool {
        self.settle_at(self.now(), outcome).is_some()
    }

    /// Brings the deadline to its end, and returns the time that it had left at `now`. `None` if it
    /// had come to its end before.
    pub(crate) fn settle_at(self, now: Moment, outcome: Result<(), Cancelled>) -> Option<Duration> {
        self.shard.settle_word(self.word, now, outcome)
    }

    pub(crate) fn is_pending(self) -> bool {
        self.shard.word_is_pending(self.word, self.now())
    }

    /// When the deadline is due, and how much time is left. `None` if it has come to its end.
    pub(crate) fn reported(self) -> Option<Report> {
        self.shard.report_of_word(self.word, self.now())
    }

    #[inline]
    pub(crate) fn now(self) -> Moment {
        self.shard.clock().now()
    }
}
