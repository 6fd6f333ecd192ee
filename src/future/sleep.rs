//! The [`Sleep`] future.
//!
//! ```text
//!   unbound --(it has to arm, or needs the clock: its timer is found)--> unarmed
//!
//!   unarmed --(poll: due already)-----------------------------> elapsed
//!     |  ^ (reset)                                                 |
//!     |  +---------------------------------------------------------+
//!     | (poll: pending)                                            ^
//!     v                                                            |
//!    armed --(poll: the timer has fired, and is not postponed)-----+
//!     |  ^
//!     |  | (poll: the timer has fired, but the deadline is later: armed anew)
//!     +--+ (reset to earlier: its timer is moved; to later: postponed)
//! ```
//!
//! A sleep of the free functions is *unbound* at first: it has no timer yet. Looking up the timer
//! of the current runtime costs a write to a count that all its threads share, so a sleep that
//! never arms does without.
//!
//! **A reset to later touches the sleep alone.** An armed sleep is *postponed* then: its timer
//! stays where it is, fires at its old tick, and wakes the task. The poll finds a later deadline,
//! and arms for that. So a sleep that each message resets costs one wake-up too many for each time
//! that its whole duration passes, and no lock. On a clock that can be paused the timer is moved at
//! once, so that a test sees the wake-ups that it would see with tokio.
//!
//! Invariant: a sleep holds a key only while it is armed, and forgets the key of no timer that
//! stays in the wheel beyond the turn that is being made. The timer fires at a tick that begins at
//! the deadline or later, unless it is postponed. So if it has fired and is not postponed, the
//! deadline has passed.
//!
//! As with tokio's, an armed sleep is ready when the driver has fired it, and its poll reads no
//! clock. So if a message came before the deadline, a task that is polled after the deadline finds
//! the message first. `shard::turned_to` has the argument why that poll needs no lock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::pausable::HAS_TEST_UTIL;
use crate::clock::tick::{Moment, Tick};
use crate::error::Cancelled;
use crate::runtime::{coop, worker_index};
use crate::shard::turned_to::WakerId;
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
/// - A sleep that was due when it was made or reset is ready at the first poll.
/// - The first pending poll arms it. Making a sleep and dropping it before that takes no lock.
/// - Dropping it cancels it, and frees its timer and waker at once, in O(1).
/// - Once ready, it stays ready until [`reset`](Sleep::reset).
/// - The task that polled last is woken.
/// - It goes by the clock of its timer's runtime, wherever it is polled. A sleep that a task makes
///   by a free function takes the timer of the runtime that first polls it.
///
/// # Panics
///
/// If it is polled while pending and the runtime that drives its timer has shut down, as tokio's
/// does.
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
    deadline: Instant,
    /// `None` exactly while it is unbound.
    shard: Option<Arc<Shard>>,
    state: State,
}

/// Finds the shard on which the calling thread arms.
pub(crate) type FindShard = fn() -> Arc<Shard>;

#[derive(Clone, Copy)]
enum State {
    Unbound {
        find: FindShard,
        start: Start,
    },
    Unarmed(Start),
    Armed {
        /// Its key, taken apart to save space.
        sequence: NonZeroU64,
        index: u32,
        is_postponed: bool,
        /// The tick for which its timer is armed.
        tick: Tick,
        waker: WakerId,
    },
    Elapsed,
}

/// Where a sleep that is not armed begins.
#[derive(Clone, Copy)]
struct Start {
    /// Whether it was neither polled nor reset. Only `is_elapsed` makes a difference, as tokio's.
    is_new: bool,
    first_poll: FirstPoll,
}

impl Sleep {
    /// It counts from a reading of the clock, because nearly all sleeps fire.
    #[inline(always)]
    pub(crate) fn after(shard: Arc<Shard>, duration: Duration) -> Sleep {
        let deadline = deadline_after(&shard, duration);
        Sleep::new(shard, deadline, FirstPoll::after(duration))
    }

    #[inline(always)]
    pub(crate) fn until(shard: Arc<Shard>, deadline: Instant) -> Sleep {
        Sleep::new(shard, deadline, FirstPoll::ReadsClock)
    }

    #[inline(always)]
    pub(crate) fn new(shard: Arc<Shard>, deadline: Instant, first_poll: FirstPoll) -> Sleep {
        Sleep {
            deadline,
            shard: Some(shard),
            state: State::Unarmed(Start::new(first_poll)),
        }
    }

    /// A sleep that finds its timer when it has to arm, on the thread that polls it then.
    #[inline(always)]
    pub(crate) fn unbound(find: FindShard, deadline: Instant, first_poll: FirstPoll) -> Sleep {
        Sleep {
            deadline,
            shard: None,
            state: State::Unbound {
                find,
                start: Start::new(first_poll),
            },
        }
    }

    /// The instant from which the sleep is ready.
    ///
    /// It is never before the call that made or reset the sleep plus its duration. A duration that
    /// is too long to be counted is taken to end 146 years after the timer was made.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the sleep has elapsed. This means that its timer has fired. If it was reset and not
    /// polled since then, it means that its deadline has passed.
    pub fn is_elapsed(&self) -> bool {
        match (&self.state, &self.shard) {
            (State::Elapsed, _) => true,
            (State::Unbound { start, .. }, _) => !start.is_new && self.deadline <= Instant::now(),
            (State::Unarmed(start), Some(shard)) => {
                let (due, tick) = due_on(shard, self.deadline);
                // On a clock that can be paused the driver may have yet to fire it.
                !start.is_new
                    && (start.first_poll.finds_due(shard, due, tick)
                        || !shard.clock().is_pausable() && self.has_passed())
            }
            (
                &State::Armed {
                    is_postponed, tick, ..
                },
                Some(shard),
            ) => {
                let turned_to = shard.turned_to();
                turned_to != Tick::NEVER
                    && turned_to >= tick
                    && (!is_postponed || self.has_passed())
            }
            (_, None) => false,
        }
    }

    /// As [`reset_at`](Sleep::reset_at). Like [`tokio::time::Sleep::reset`] it takes a pinned
    /// reference, so that it can be called through a projection.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    /// Moves the deadline, earlier or later. A sleep that has elapsed is pending again.
    ///
    /// If the deadline becomes later or stays, the call writes it into the sleep and does nothing
    /// else, unless the clock can be paused (`test-util`, in a current-thread runtime). The task
    /// that waits is woken once at the old deadline, spuriously, and its poll arms the sleep for
    /// the new one. So poll the sleep after a reset before you return `Pending`, as `select!` and
    /// `.await` do. A future that resets the sleep and does not poll it again may never be woken.
    ///
    /// If the deadline becomes earlier, the task is woken at the new one. If the driver has already
    /// turned past the new deadline, the task is woken before the call returns. Such a call takes
    /// one lock of the timer's shard if the sleep is armed.
    #[inline]
    pub fn reset_at(&mut self, deadline: Instant) {
        self.reset_to(deadline, FirstPoll::ReadsClock);
    }

    /// As [`reset_at`](Sleep::reset_at), to `duration` from now.
    #[inline]
    pub fn reset_after(&mut self, duration: Duration) {
        let deadline = match &self.shard {
            Some(shard) => deadline_after(shard, duration),
            None => match Instant::now().checked_add(duration) {
                Some(deadline) => deadline,
                None => deadline_after(self.bind(), duration),
            },
        };
        self.reset_to(deadline, FirstPoll::after(duration));
    }

    #[inline]
    fn reset_to(&mut self, deadline: Instant, first_poll: FirstPoll) {
        let before = std::mem::replace(&mut self.deadline, deadline);
        match (&mut self.state, &self.shard) {
            (State::Armed { is_postponed, .. }, Some(shard))
                if deadline >= before && !shard.clock().is_pausable() =>
            {
                *is_postponed = true;
            }
            (State::Armed { .. }, _) => self.move_armed(first_poll),
            _ => self.reset_unarmed(first_poll),
        }
    }

    fn reset_unarmed(&mut self, first_poll: FirstPoll) {
        let start = Start {
            is_new: false,
            first_poll,
        };
        self.state = match self.state {
            State::Unbound { find, .. } => State::Unbound { find, start },
            _ => State::Unarmed(start),
        };
        // What `is_elapsed` says of it hangs on the grid of its clock, if that may be paused.
        if HAS_TEST_UTIL && worker_index().is_some() {
            self.bind();
        }
    }

    /// Moves the timer to an earlier deadline, or on a clock that can be paused to any.
    fn move_armed(&mut self, first_poll: FirstPoll) {
        let (
            State::Armed {
                is_postponed, tick, ..
            },
            Some(shard),
        ) = (&mut self.state, &self.shard)
        else {
            return;
        };
        let (_, due_tick) = due_on(shard, self.deadline);
        if due_tick >= *tick && !shard.clock().is_pausable() {
            // It was postponed, and may still be.
            *is_postponed = due_tick > *tick;
            return;
        }
        (*is_postponed, *tick) = (false, due_tick);
        let Some(key) = self.key() else { return };
        match shard.move_to(key, due_tick) {
            Some(Poll::Pending) => {}
            Some(Poll::Ready(())) => self.state = State::Elapsed,
            // It had fired before.
            None => self.reset_unarmed(first_poll),
        }
    }

    /// How long it is until the deadline, by the clock of the timer's runtime. Zero once that has
    /// passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(self.now())
    }

    /// Polls as the future does, but reports the end of the runtime that drives the timer where the
    /// future panics.
    ///
    /// Use it where the sleep may be polled outside the timer's runtime, and must survive the
    /// shutdown of that runtime. After an error, each further poll gives the error again.
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
        self.bind();
        self.disarm();
        self.state = State::Elapsed;
    }

    /// The present instant of the clock that it goes by.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.shard {
            Some(shard) => shard.clock().now_instant(),
            None => Instant::now(),
        }
    }

    /// Whether the deadline has passed, by the clock of the timer's runtime.
    pub(crate) fn has_passed(&self) -> bool {
        self.deadline <= self.now()
    }

    /// Whether it was neither polled nor reset.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        match &self.state {
            State::Unbound { start, .. } | State::Unarmed(start) => start.is_new,
            State::Armed { .. } | State::Elapsed => false,
        }
    }

    /// The shard on which it is armed if it has to be. An unbound sleep finds its timer now.
    #[inline]
    pub(crate) fn bind(&mut self) -> &Arc<Shard> {
        if let State::Unbound { find, start } = self.state {
            self.shard = Some(find());
            self.state = State::Unarmed(start);
        }
        self.shard.as_ref().expect("only an unbound sleep has none")
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        match self.state {
            State::Armed {
                sequence, index, ..
            } => Some(Key::new(index, sequence)),
            _ => None,
        }
    }

    #[inline]
    fn disarm(&mut self) {
        if let (Some(key), Some(shard)) = (self.key(), &self.shard) {
            shard.disarm(key);
        }
    }

    /// Polls the sleep after a future that may have used the task's budget up.
    #[inline]
    pub(crate) fn poll_after_inner(
        &mut self,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cancelled>> {
        if coop::has_budget_remaining() {
            self.poll_within_budget(cx)
        } else {
            self.poll_after_budget(had_budget, cx)
        }
    }

    #[cold]
    fn poll_after_budget(
        &mut self,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cancelled>> {
        if had_budget {
            // The inner future has used the budget up. If it always does, a deadline that obeyed
            // the budget would never be looked at.
            let unconstrained = coop::unconstrained(poll_fn(|cx| self.poll_within_budget(cx)));
            pin!(unconstrained).poll(cx)
        } else {
            self.try_poll(cx)
        }
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
        let ended = match (&self.state, &self.shard) {
            (State::Elapsed, _) => return Poll::Ready(Ok(())),
            (&State::Armed { tick, waker, .. }, Some(shard)) => {
                let turned_to = shard.turned_to();
                if turned_to < tick && waker == WakerId::of(cx.waker()) {
                    return Poll::Pending;
                }
                ready!(self.poll_armed(turned_to, cx))
            }
            _ => ready!(self.poll_unarmed(cx)),
        };
        // A sleep that was shut down keeps its state, so that it ends so again.
        if ended.is_ok() {
            self.state = State::Elapsed;
        }
        Poll::Ready(ended)
    }

    #[inline(always)] // Nearly every sleep is polled so once.
    fn poll_unarmed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let deadline = self.deadline;
        let first_poll = match &self.state {
            State::Unbound { start, .. } | State::Unarmed(start) => start.first_poll,
            State::Armed { .. } | State::Elapsed => FirstPoll::ReadsClock,
        };
        let shard = self.bind();
        let (due, tick) = due_on(shard, deadline);
        if first_poll.finds_due(shard, due, tick) {
            return Poll::Ready(Ok(()));
        }
        let clone = cx.waker().clone();
        let waker = WakerId::of(&clone);
        let (index, sequence) = match shard.arm(tick, clone) {
            Ok(key) => key.into_halves(),
            Err(NotArmed::Fired) => return Poll::Ready(Ok(())),
            // Its deadline passed while nobody polled it, maybe before the runtime shut down.
            Err(NotArmed::Closed) if self.has_passed() => return Poll::Ready(Ok(())),
            Err(NotArmed::Closed) => return Poll::Ready(Err(Cancelled::SHUTDOWN)),
        };
        self.state = State::Armed {
            sequence,
            index,
            is_postponed: false,
            tick,
            waker,
        };
        Poll::Pending
    }

    /// Polls an armed sleep whose shard was turned to this tick. Either its timer has fired, or the
    /// shard was closed, or another task polls than before.
    #[cold]
    fn poll_armed(&mut self, turned_to: Tick, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let (Some(key), Some(shard)) = (self.key(), &self.shard) else {
            return Poll::Ready(Ok(()));
        };
        let State::Armed {
            tick,
            is_postponed,
            waker,
            ..
        } = &mut self.state
        else {
            return Poll::Ready(Ok(()));
        };
        let has_fired = turned_to >= *tick && turned_to != Tick::NEVER;
        if has_fired && !*is_postponed {
            return Poll::Ready(Ok(()));
        }
        if !has_fired {
            let (due, _) = due_on(shard, self.deadline);
            // The drop of the former waker may panic.
            *waker = WakerId::NONE;
            match shard.poll_armed(key, due, cx.waker()) {
                Ok(registered) => {
                    *waker = registered;
                    return Poll::Pending;
                }
                Err(NotArmed::Closed) => return Poll::Ready(Err(Cancelled::SHUTDOWN)),
                Err(NotArmed::Fired) if !*is_postponed => return Poll::Ready(Ok(())),
                Err(NotArmed::Fired) => {}
            }
        }
        // The turn that fires it may not have come to it.
        shard.disarm(key);
        self.state = State::Unarmed(Start {
            is_new: false,
            first_poll: FirstPoll::ReadsClockIfMissed,
        });
        self.poll_unarmed(cx)
    }
}

impl Start {
    #[inline]
    fn new(first_poll: FirstPoll) -> Start {
        Start {
            is_new: true,
            first_poll,
        }
    }
}

/// When a sleep is due that is made or reset now.
#[inline]
fn deadline_after(shard: &Shard, duration: Duration) -> Instant {
    let now = shard.clock().now_instant();
    match now.checked_add(duration) {
        Some(deadline) => deadline,
        None => shard.clock().instant(Moment::MAX),
    }
}

/// When a sleep is due by the clock of its timer, and at which tick.
#[inline]
fn due_on(shard: &Shard, deadline: Instant) -> (Moment, Tick) {
    let clock = shard.clock();
    let due = clock.moment(deadline);
    (due, clock.tick().due(due))
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
        self.disarm();
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
    /// The sleep may have been due when it was made, so the poll reads the clock.
    ReadsClock,
    /// The sleep was not due when it was made. The poll reads the clock only if that may be paused
    /// and the driver may have passed the due since then.
    ReadsClockIfMissed,
}

impl FirstPoll {
    #[inline]
    pub(crate) fn after(duration: Duration) -> FirstPoll {
        if duration.is_zero() {
            FirstPoll::IsReady
        } else {
            FirstPoll::ReadsClockIfMissed
        }
    }

    /// Whether a sleep was due when it was made, or may have been due then and is due now. `tick`
    /// is the tick at which it is due.
    #[inline]
    pub(crate) fn finds_due(self, shard: &Shard, due: Moment, tick: Tick) -> bool {
        match self {
            FirstPoll::IsReady => true,
            FirstPoll::ReadsClock => shard.clock().is_due_now(due),
            // A sleep that is due at the next expiry or later fires with the turn that comes, as an
            // armed one does. On the system's clock, whoever arms a tick that has passed is told
            // so.
            FirstPoll::ReadsClockIfMissed => {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A program holds very many of them, each in a task.
    #[test]
    fn a_sleep_takes_a_cache_line() {
        assert!(size_of::<Sleep>() <= 64, "{}", size_of::<Sleep>());
    }
}
