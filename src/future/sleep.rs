//! The [`Sleep`] future.
//!
//! ```text
//!   unarmed --(poll: due already)--------------------> elapsed
//!      | (poll: pending)                                  ^
//!      v                                                  |
//!    armed --(poll: the timer has fired)------------------+      reset: unarmed, or armed elsewhere
//! ```
//!
//! Invariant: a sleep holds a key only while it is armed, and takes its timer out before it forgets
//! the key. The timer fires at a tick that begins at the deadline or later. So if it has fired, the
//! deadline has passed.
//!
//! As with tokio's, an armed sleep is ready when the driver has fired it, and its poll reads no
//! clock. So if a message came before the deadline, a task that is polled after the deadline finds
//! the message first.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::tick::{Moment, Tick};
use crate::error::Cancelled;
use crate::runtime::coop;
use crate::shard::{NotArmed, Shard};
use crate::wheel::Key;

/// A future that is ready once its deadline has passed: [`sleep`](crate::sleep),
/// [`sleep_until`](crate::sleep_until).
///
/// It behaves as [`tokio::time::Sleep`] does, and is also `Unpin`. So a task can await `&mut sleep`
/// without pinning it, for example in a `select!`.
///
/// - It is never early. It is late by at most one tick of its timer. Tokio's rounding to a
///   millisecond and its scheduling come on top.
/// - A sleep whose deadline is now or in the past is ready at the first poll.
/// - Nothing is armed before the first poll that is pending. To make a sleep and drop it before
///   that takes no lock.
/// - To drop it is to cancel it. The timer's memory and the waker are given back at once, in O(1).
/// - If it is polled again after it was ready, it is ready again, until [`reset`](Sleep::reset).
/// - The task that polled last is the one that is woken.
/// - It goes by the clock of its timer's runtime, wherever it is polled.
///
/// # Panics
///
/// When it is polled while it is pending and the runtime that drives its timer has shut down.
/// Tokio's does so too.
///
/// ```
/// # use tickwheel::{Duration, sleep};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let mut nap = sleep(Duration::from_secs(10));
/// tokio::select! {
///     () = &mut nap => unreachable!("ten seconds have not passed"),
///     () = sleep(Duration::from_secs(1)) => nap.reset_after(Duration::from_millis(5)),
/// }
/// nap.await;
/// # });
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    shard: Arc<Shard>,
    due: Moment,
    /// Its key while it is armed, taken apart to save space.
    key_sequence: Option<NonZeroU64>,
    key_index: u32,
    phase: Phase,
    first_poll: FirstPoll,
}

/// Where a sleep is, beside whether it is armed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    /// It was polled or reset. Only `is_elapsed` makes a difference between this and `New`, as
    /// tokio's does.
    Touched,
    Elapsed,
}

impl Sleep {
    /// It counts from a reading of the clock, because nearly all sleeps fire.
    #[inline]
    pub(crate) fn after(shard: Arc<Shard>, duration: Duration) -> Sleep {
        let due = due_after(&shard, duration);
        Sleep::new(shard, due, FirstPoll::after(duration))
    }

    pub(crate) fn until(shard: Arc<Shard>, deadline: Instant) -> Sleep {
        let due = shard.clock().moment(deadline);
        Sleep::new(shard, due, FirstPoll::Looks)
    }

    #[inline(always)]
    pub(crate) fn new(shard: Arc<Shard>, due: Moment, first_poll: FirstPoll) -> Sleep {
        Sleep {
            shard,
            due,
            key_sequence: None,
            key_index: 0,
            phase: Phase::New,
            first_poll,
        }
    }

    /// The instant from which the sleep is ready.
    ///
    /// It is never before the call that made or reset the sleep plus its duration. A deadline that
    /// is too far away to be counted is taken to be 146 years after the timer was made.
    pub fn deadline(&self) -> Instant {
        self.shard.clock().instant(self.due)
    }

    /// Whether the sleep has elapsed. This means that its timer has fired. If it was reset and not
    /// polled since then, it means that its deadline has passed.
    pub fn is_elapsed(&self) -> bool {
        match (self.phase, self.key()) {
            (Phase::New, _) => false,
            (Phase::Elapsed, _) => true,
            (Phase::Touched, Some(key)) => self.shard.has_fired(key),
            (Phase::Touched, None) => {
                let tick = self.due_tick();
                self.first_poll.finds_due(&self.shard, self.due, tick)
            }
        }
    }

    /// As [`reset_at`](Sleep::reset_at). Like [`tokio::time::Sleep::reset`] it takes a pinned
    /// reference, so that it can be called through a projection.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    /// Moves the deadline, earlier or later. A sleep that has elapsed is pending again.
    ///
    /// A task that waits for this sleep stays registered, and is woken at the new deadline. If that
    /// has passed and the driver has come by since then, the task is woken before this returns. The
    /// call takes one lock of the timer's shard if the sleep is armed, and else none.
    pub fn reset_at(&mut self, deadline: Instant) {
        let due = self.shard.clock().moment(deadline);
        self.reset_to(due, FirstPoll::Looks);
    }

    /// As [`reset_at`](Sleep::reset_at), to `duration` from now.
    pub fn reset_after(&mut self, duration: Duration) {
        let due = due_after(&self.shard, duration);
        self.reset_to(due, FirstPoll::after(duration));
    }

    fn reset_to(&mut self, due: Moment, first_poll: FirstPoll) {
        self.due = due;
        self.phase = Phase::Touched;
        self.first_poll = first_poll;
        let Some(key) = self.key() else { return };
        match self.shard.move_to(key, self.due_tick()) {
            Some(Poll::Pending) => {}
            Some(Poll::Ready(())) => {
                self.forget_key();
                self.phase = Phase::Elapsed;
            }
            None => self.forget_key(),
        }
    }

    /// How long it is until the deadline, by the clock of the timer's runtime. Zero once that has
    /// passed.
    pub fn remaining(&self) -> Duration {
        let now = self.shard.clock().now_instant();
        self.deadline().saturating_duration_since(now)
    }

    /// Polls as the future does, but reports the end of the runtime that drives the timer where the
    /// future panics.
    ///
    /// It is for code that is polled in another runtime than that one, or in none, and can do
    /// without the timer. After an error, each further poll gives the error again.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the runtime that drives the timer has shut down while the sleep was
    /// pending. Its [`is_shutdown`](Cancelled::is_shutdown) says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use tickwheel::{Duration, Timer};
    ///
    /// let elsewhere = tokio::runtime::Runtime::new()?;
    /// let mut nap = elsewhere.block_on(async { Timer::current().sleep(Duration::from_secs(60)) });
    /// drop(elsewhere);
    /// let end = futures::executor::block_on(poll_fn(|cx| nap.try_poll(cx)));
    /// assert!(end.unwrap_err().is_shutdown());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn try_poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        if !coop::has_budget_remaining() && coop::poll_proceed(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll_within_budget(cx)
    }

    /// Ends it, wherever its timer is.
    pub(crate) fn elapse(&mut self) {
        if let Some(key) = self.key() {
            self.shard.disarm(key);
            self.forget_key();
        }
        self.phase = Phase::Elapsed;
    }

    /// Whether the deadline has passed, by the clock of the timer's runtime.
    pub(crate) fn has_passed(&self) -> bool {
        self.due <= self.shard.clock().now()
    }

    /// The tick at which it is due.
    #[inline]
    fn due_tick(&self) -> Tick {
        self.shard.clock().tick().due(self.due)
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        let sequence = self.key_sequence?;
        Some(Key::new(self.key_index, sequence))
    }

    #[inline]
    fn forget_key(&mut self) {
        self.key_sequence = None;
    }

    /// Whether it was neither polled nor reset.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.phase == Phase::New
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Polls while the task's budget is not used up. It takes a unit of the budget only for
    /// progress, because nearly all polls stay pending and would have to give it back.
    #[inline]
    pub(crate) fn poll_within_budget(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cancelled>> {
        let ended = ready!(self.poll_timer(cx));
        if let Poll::Ready(budget) = coop::poll_proceed(cx) {
            budget.made_progress();
        }
        Poll::Ready(ended)
    }

    /// Polls outside of the task's budget.
    #[inline]
    pub(crate) fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let ended = match (self.phase, self.key()) {
            (Phase::Elapsed, _) => return Poll::Ready(Ok(())),
            (_, None) => ready!(self.poll_unarmed(cx)),
            (_, Some(key)) => ready!(self.poll_armed(key, cx)),
        };
        // A sleep that was shut down keeps its key and its phase, so that it ends so again.
        if ended.is_ok() {
            self.forget_key();
            self.phase = Phase::Elapsed;
        }
        Poll::Ready(ended)
    }

    #[inline]
    fn poll_unarmed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let tick = self.due_tick();
        if self.first_poll.finds_due(&self.shard, self.due, tick) {
            return Poll::Ready(Ok(()));
        }
        match self.shard.arm(tick, cx.waker().clone()) {
            Ok(key) => (self.key_index, self.key_sequence) = key.into_halves(),
            Err(NotArmed::Fired) => return Poll::Ready(Ok(())),
            // Its deadline passed while nobody polled it, maybe before the runtime shut down.
            Err(NotArmed::Closed) if self.has_passed() => return Poll::Ready(Ok(())),
            Err(NotArmed::Closed) => return Poll::Ready(Err(Cancelled::SHUTDOWN)),
        }
        self.phase = Phase::Touched;
        Poll::Pending
    }

    fn poll_armed(&mut self, key: Key, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        if self.shard.has_surely_fired(self.due_tick()) {
            return Poll::Ready(Ok(()));
        }
        match self.shard.poll_armed(key, self.due, cx.waker()) {
            Ok(()) => Poll::Pending,
            Err(NotArmed::Fired) => Poll::Ready(Ok(())),
            Err(NotArmed::Closed) => Poll::Ready(Err(Cancelled::SHUTDOWN)),
        }
    }
}

/// When a sleep is due that is made or reset now.
#[inline]
fn due_after(shard: &Arc<Shard>, duration: Duration) -> Moment {
    shard.clock().now().after(duration.into())
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.try_poll(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(_) => panic_shut_down(),
        }
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key() {
            self.shard.disarm(key);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

/// The first step of a poll, before it arms. It reads no clock if the answer is known without a
/// reading.
#[derive(Clone, Copy)]
pub(crate) enum FirstPoll {
    /// The sleep was due when it was made, so it is ready.
    IsReady,
    /// The sleep may have been due when it was made, so the poll looks at the clock.
    Looks,
    /// The sleep was not due when it was made. The poll looks at the clock only if that may be
    /// paused and the driver may have passed the due since then.
    LooksIfMissed,
}

impl FirstPoll {
    #[inline]
    pub(crate) fn after(duration: Duration) -> FirstPoll {
        if duration.is_zero() {
            FirstPoll::IsReady
        } else {
            FirstPoll::LooksIfMissed
        }
    }

    /// Whether a sleep was due when it was made, or may have been due then and is due now. `tick`
    /// is the tick at which it is due.
    #[inline]
    pub(crate) fn finds_due(self, shard: &Shard, due: Moment, tick: Tick) -> bool {
        match self {
            FirstPoll::IsReady => true,
            FirstPoll::Looks => shard.clock().is_due_now(due),
            // A sleep that is due at the next expiry or later fires with the turn that comes, as an
            // armed one does. On the system's clock, whoever arms a tick that has passed is told
            // so.
            FirstPoll::LooksIfMissed => {
                shard.clock().is_pausable()
                    && shard.is_missed(tick)
                    && shard.clock().is_due_now(due)
            }
        }
    }
}

#[cold]
pub(super) fn panic_shut_down() -> ! {
    panic!(
        "the tokio runtime that drives this timer has shut down while the timer was pending; \
         keep that runtime running for as long as its timers are awaited. \
         (A Tokio 1.x context was found, but it is being shutdown.)"
    )
}
