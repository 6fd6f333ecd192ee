//! The [`Sleep`] future.
//!
//! ```text
//!   detached --(it has to arm, or needs the clock: its timer is found)--> unarmed
//!
//!   unarmed --(poll: due already)---------------------------> elapsed
//!     |  ^ (reset)                                               |
//!     |  +-------------------------------------------------------+
//!     | (poll: pending)                                          ^
//!     v                                                          |
//!    armed --(poll: the timer has fired)-------------------------+
//!     |  ^                                                       |
//!     |  | (reset to earlier: its timer is moved)                |
//!     v (reset to later: its timer gets a word)                  |
//!   deferred --(poll: its word has expired)----------------------+
//! ```
//!
//! A sleep of the free functions is *detached* at first: it has no timer yet. Looking up the timer
//! of the current runtime costs a write to a count that all its threads share, so a sleep that
//! never arms does without.
//!
//! **A sleep that is reset to later becomes a deadline.** The first such reset of an armed sleep
//! takes the lock and gives its timer a [word](crate::shard::word), which says when it is due. From
//! then on a reset to later is one compare-exchange. The timer stays where it is linked, and the
//! turn that comes to it asks the word, and links it again. So the task is woken at the new
//! deadline, whether or not the sleep is polled after the reset, and at no other.
//!
//! Invariant: a sleep holds a key only while it is armed or deferred, and forgets the key of no
//! timer that stays in the wheel beyond the turn that is being made. The timer fires at a tick that
//! begins at the deadline or later. So if it has fired, the deadline has passed.
//!
//! As with tokio's, an armed sleep is ready when the driver has fired it, and its poll reads no
//! clock. So if a message came before the deadline, a task that is polled after the deadline finds
//! the message first. The poll takes no lock either. `shard::turned_to` has the argument for an
//! armed sleep. For a deferred one the word takes the place of the tick: a turn and the closing
//! settle it under the lock, and wake its waker after that. So if a poll finds the word pending,
//! that wake-up is yet to come.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_core::FusedFuture;
use tokio::time::Instant;

use crate::clock::tick::{Moment, Tick};
use crate::error::Cancelled;
use crate::runtime::{coop, worker_index};
use crate::shard::turned_to::WakerId;
use crate::shard::word::{EXPIRED, Word};
use crate::shard::{Moved, NotArmed, Shard};
use crate::wheel::{Key, PackedKey};

/// A future that is ready once its deadline has passed: [`sleep`](crate::sleep),
/// [`sleep_until`](crate::sleep_until).
///
/// It behaves as [`tokio::time::Sleep`] does, and is also `Unpin`. So a task can await `&mut sleep`
/// without pinning it, for example in a `select!`.
///
/// - It is never early. It is late by at most one tick of its timer. Tokio's rounding to a
///   millisecond and its scheduling come on top.
/// - A sleep whose deadline lies in the past is ready at the first poll. One of zero, or until now,
///   is ready at the next line of tokio's grid, a millisecond later at most, or at the next tick
///   where that is longer. So a loop of such sleeps paces, and does not spin.
/// - The first pending poll arms it. Making a sleep and dropping it before that takes no lock.
/// - Dropping it cancels it, and frees its timer and waker at once, in O(1).
/// - Once ready, it stays ready until [`reset`](Sleep::reset).
/// - The task that polled last is woken.
/// - It fires by the clock of its timer's runtime, wherever it is polled. A sleep that a task makes
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
    /// `None` exactly while it is detached.
    shard: Option<Arc<Shard>>,
    state: State,
}

/// How far two lines of tokio's grid lie apart.
const LINE: Duration = Duration::from_millis(1);

/// Finds the shard on which the calling thread arms.
pub(crate) type FindShard = fn() -> Arc<Shard>;

enum State {
    Detached {
        find: FindShard,
        start: Start,
    },
    Unarmed(Start),
    Armed {
        key: PackedKey,
        /// The tick for which its timer is armed.
        tick: Tick,
        waker: WakerId,
        /// As in [`Start`].
        is_over: bool,
    },
    /// It was reset to later while it was armed.
    Deferred {
        /// Says when it is due, and has its key. `set_state` drops it, so that what is never
        /// deferred pays for no drop.
        word: ManuallyDrop<Arc<Word>>,
        waker: WakerId,
    },
    Elapsed,
    /// It has elapsed, and keeps the waker of the poll that was ready. As with tokio's, a reset
    /// arms it at once for that task, which need not poll it before it returns `Pending`.
    Kept {
        /// `set_state` drops it.
        waker: ManuallyDrop<Waker>,
    },
}

/// Where a sleep that is not armed begins.
#[derive(Clone, Copy)]
struct Start {
    /// Whether it was neither polled nor reset. Only `is_elapsed` makes a difference, as tokio's.
    is_new: bool,
    /// Whether the timeout around it has returned an output. It is here because there is room.
    is_over: bool,
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
    pub(crate) fn detached(find: FindShard, deadline: Instant, first_poll: FirstPoll) -> Sleep {
        Sleep {
            deadline,
            shard: None,
            state: State::Detached {
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
    /// polled since it was last ready, it means that its deadline has passed.
    pub fn is_elapsed(&self) -> bool {
        match (&self.state, &self.shard) {
            (State::Elapsed | State::Kept { .. }, _) => true,
            (State::Detached { start, .. }, _) => {
                // By then its line of the grid has passed too.
                !start.is_new && Instant::now().duration_since(self.deadline) >= LINE
            }
            (State::Unarmed(start), Some(shard)) => {
                let (due, _) = due_on(shard, self.deadline);
                !start.is_new && shard.clock().is_due_now(due)
            }
            (&State::Armed { tick, .. }, Some(shard)) => has_fired(shard.turned_to(), tick),
            (State::Deferred { word, .. }, _) => word.outcome() == Poll::Ready(EXPIRED),
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
    /// The task that polled last is woken at the new deadline, and at no other, as with tokio. It
    /// need not poll the sleep after the reset. If the driver has already turned past the new
    /// deadline, the task is woken before the call returns.
    ///
    /// The first reset to later of an armed sleep takes one lock of the timer's shard and allocates
    /// 56 bytes. Each further one is a compare-exchange, or nothing if the deadline stays in its
    /// tick. A reset to earlier takes the lock.
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
                None => deadline_after(self.attach(), duration),
            },
        };
        self.reset_to(deadline, FirstPoll::after(duration));
    }

    #[inline]
    fn reset_to(&mut self, deadline: Instant, first_poll: FirstPoll) {
        let before = std::mem::replace(&mut self.deadline, deadline);
        if let (State::Deferred { word, .. }, Some(shard)) = (&self.state, &self.shard) {
            // In the same tick nothing changes. This costs less than to find the tick.
            let is_by = |due| deadline >= before && shard.clock().is_by(deadline, due);
            if word.due().is_some_and(is_by) || word.defer_to(due_on(shard, deadline).1) {
                return;
            }
        }
        self.reset_with_lock(first_poll);
    }

    /// All but a reset to later of a deferred sleep. Not inlined, so that this one is short.
    #[inline(never)]
    fn reset_with_lock(&mut self, first_poll: FirstPoll) {
        match (&self.state, &self.shard) {
            (State::Deferred { .. }, Some(shard)) => {
                let (_, due) = due_on(shard, self.deadline);
                self.move_armed(due, first_poll);
            }
            (&State::Armed { tick, .. }, Some(shard)) => {
                let (_, due) = due_on(shard, self.deadline);
                if due < tick {
                    self.move_armed(due, first_poll);
                } else if due > tick {
                    self.defer_armed(due, first_poll);
                }
            }
            (State::Kept { .. }, _) => self.reset_kept(first_poll),
            _ => self.reset_unarmed(first_poll),
        }
    }

    /// Arms a sleep that was ready, for the task that polled it then. If the driver has passed its
    /// deadline, or the runtime has ended, the task is woken, and learns of that by its next poll.
    fn reset_kept(&mut self, first_poll: FirstPoll) {
        let Some(waker) = self.take_waker() else {
            return;
        };
        self.reset_unarmed(first_poll);
        let deadline = self.deadline;
        // A deadline that has passed, but not for the driver, may yet be reset to later. So the
        // clock is not asked.
        let (_, tick) = due_on(self.attach(), deadline);
        let armed = self.arm(tick, &waker);
        if let Poll::Ready(Ok(())) = armed {
            self.state = State::Elapsed;
        }
        if let (Poll::Ready(_), Some(shard)) = (armed, &self.shard) {
            shard.wake(waker);
        }
    }

    /// Moves the deadline of a sleep that was ready, and leaves it to the next poll to arm it.
    pub(super) fn move_on(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.reset_unarmed(FirstPoll::ReadsClock);
    }

    fn reset_unarmed(&mut self, first_poll: FirstPoll) {
        let start = Start {
            is_new: false,
            is_over: false,
            first_poll,
        };
        self.set_state(match self.state {
            State::Detached { find, .. } => State::Detached { find, start },
            _ => State::Unarmed(start),
        });
        // So that `is_elapsed` goes by the grid of its timer.
        if matches!(self.state, State::Detached { .. }) && worker_index().is_some() {
            self.attach();
        }
    }

    /// Moves the timer to an earlier tick.
    fn move_armed(&mut self, due: Tick, first_poll: FirstPoll) {
        let (Some(key), Some(shard)) = (self.key(), &self.shard) else {
            return;
        };
        match shard.move_to(key, due) {
            Moved::Pending => {
                if let State::Armed { tick, .. } = &mut self.state {
                    *tick = due;
                }
            }
            Moved::FiresNow => self.set_state(State::Elapsed),
            Moved::HadFired => self.reset_unarmed(first_poll),
        }
    }

    /// Gives the timer a word that is due later than the timer is linked.
    fn defer_armed(&mut self, due: Tick, first_poll: FirstPoll) {
        let (State::Armed { waker, .. }, Some(key), Some(shard)) =
            (&self.state, self.key(), &self.shard)
        else {
            return;
        };
        match shard.defer(key, due) {
            Some(word) => {
                self.state = State::Deferred {
                    word: ManuallyDrop::new(word),
                    waker: *waker,
                };
            }
            // It had fired before.
            None => self.reset_unarmed(first_poll),
        }
    }

    /// How long it is until the deadline, by the clock that [`Timer::now`](crate::Timer::now)
    /// reads. Zero once that has passed.
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
        let polled = self.poll_to_move_on(cx);
        if let Poll::Ready(Ok(())) = polled {
            self.keep(cx.waker());
        }
        polled
    }

    /// As `try_poll`, for an owner that resets it by `move_on`. It keeps no waker.
    #[inline]
    pub(super) fn poll_to_move_on(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        if !coop::has_budget_remaining() && coop::poll_proceed(cx).is_pending() {
            return Poll::Pending;
        }
        if self.is_waiting(cx) {
            return Poll::Pending;
        }
        self.poll_within_budget(cx)
    }

    /// Whether its timer has not fired, and wakes the task that polls.
    #[inline(always)]
    fn is_waiting(&self, cx: &Context<'_>) -> bool {
        match (&self.state, &self.shard) {
            (State::Armed { tick, waker, .. }, Some(shard)) => {
                shard.turned_to() < *tick && *waker == WakerId::of(cx.waker())
            }
            (State::Deferred { word, waker }, _) => {
                word.outcome().is_pending() && *waker == WakerId::of(cx.waker())
            }
            _ => false,
        }
    }

    /// Keeps the waker of a poll that was ready.
    #[cold]
    fn keep(&mut self, waker: &Waker) {
        match &self.state {
            State::Kept { waker: kept } if kept.will_wake(waker) => {}
            _ => self.set_state(State::Kept {
                waker: ManuallyDrop::new(waker.clone()),
            }),
        }
    }

    /// The timeout around it has returned an output.
    #[inline(always)] // As `poll_capped`.
    pub(super) fn note_output(&mut self) {
        match &mut self.state {
            State::Detached { start, .. } | State::Unarmed(start) => start.is_over = true,
            State::Armed { is_over, .. } => *is_over = true,
            // A timeout resets its sleep never, and returns once that has elapsed.
            State::Deferred { .. } | State::Elapsed | State::Kept { .. } => {}
        }
    }

    /// Whether the timeout around it has returned.
    pub(super) fn is_over(&self) -> bool {
        match &self.state {
            State::Detached { start, .. } | State::Unarmed(start) => start.is_over,
            State::Armed { is_over, .. } => *is_over,
            State::Deferred { .. } => false,
            State::Elapsed | State::Kept { .. } => true,
        }
    }

    /// Ends it, wherever its timer is.
    pub(crate) fn elapse(&mut self) {
        self.attach();
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

    /// Whether it was neither polled nor reset.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        match &self.state {
            State::Detached { start, .. } | State::Unarmed(start) => start.is_new,
            _ => false,
        }
    }

    /// The shard on which it is armed if it has to be. A detached sleep finds its timer now.
    #[inline]
    pub(crate) fn attach(&mut self) -> &Arc<Shard> {
        if let State::Detached { find, start } = self.state {
            self.shard = Some(find());
            self.state = State::Unarmed(start);
        }
        self.shard.as_ref().expect("only a detached sleep has none")
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        match &self.state {
            &State::Armed { key, .. } => Some(key.into()),
            State::Deferred { word, .. } => Key::from_parts(word.key()),
            _ => None,
        }
    }

    /// Takes its timer out if it has one, and drops what its state holds. Never inlined, so that
    /// the drop of a sleep is short enough to be.
    #[inline(never)]
    fn disarm(&mut self) {
        match (&self.state, self.key(), &self.shard) {
            (State::Armed { .. }, Some(key), Some(shard)) => shard.disarm(key),
            _ => self.disarm_deferred(),
        }
    }

    #[cold]
    fn disarm_deferred(&mut self) {
        if let (Some(key), Some(shard)) = (self.key(), &self.shard) {
            shard.disarm(key);
        }
        self.drop_state();
    }

    /// Replaces any state.
    #[inline]
    fn set_state(&mut self, state: State) {
        if let State::Deferred { .. } | State::Kept { .. } = self.state {
            self.drop_state();
        }
        self.state = state;
    }

    /// Drops what a state holds. Only this and `take_waker` leave such a state.
    #[cold]
    fn drop_state(&mut self) {
        match std::mem::replace(&mut self.state, State::Elapsed) {
            State::Deferred { word, .. } => drop(ManuallyDrop::into_inner(word)),
            State::Kept { waker } => drop(ManuallyDrop::into_inner(waker)),
            other => self.state = other,
        }
    }

    /// The waker that it keeps.
    fn take_waker(&mut self) -> Option<Waker> {
        match std::mem::replace(&mut self.state, State::Elapsed) {
            State::Kept { waker } => Some(ManuallyDrop::into_inner(waker)),
            other => {
                self.state = other;
                None
            }
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
    #[inline(never)] // It is long, and its callers are not.
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
            (State::Elapsed | State::Kept { .. }, _) => return Poll::Ready(Ok(())),
            (&State::Armed { tick, .. }, Some(shard)) if has_fired(shard.turned_to(), tick) => {
                Ok(())
            }
            (State::Deferred { word, .. }, _) if word.outcome() == Poll::Ready(EXPIRED) => Ok(()),
            (State::Armed { .. } | State::Deferred { .. }, _) => {
                if self.is_waiting(cx) {
                    return Poll::Pending;
                }
                ready!(self.register(cx))
            }
            _ => ready!(self.poll_unarmed(cx)),
        };
        // A sleep that was shut down keeps its state, so that it ends so again.
        if ended.is_ok() {
            self.set_state(State::Elapsed);
        }
        Poll::Ready(ended)
    }

    #[inline(always)] // Nearly every sleep is polled so once.
    fn poll_unarmed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let deadline = self.deadline;
        let first_poll = match &self.state {
            State::Detached { start, .. } | State::Unarmed(start) => start.first_poll,
            _ => unreachable!("an armed sleep has a shard"),
        };
        let shard = self.attach();
        let (due, tick) = due_on(shard, deadline);
        if first_poll == FirstPoll::ReadsClock && shard.clock().is_due_now(due) {
            return Poll::Ready(Ok(()));
        }
        self.arm(tick, cx.waker())
    }

    #[inline(always)]
    fn arm(&mut self, tick: Tick, waker: &Waker) -> Poll<Result<(), Cancelled>> {
        let shard = self.attach();
        let clone = waker.clone();
        let waker = WakerId::of(&clone);
        let key = match shard.arm(tick, clone) {
            Ok(key) => PackedKey::from(key),
            Err(NotArmed::Fired) => return Poll::Ready(Ok(())),
            // No task has polled it since its deadline, maybe before the runtime shut down.
            Err(NotArmed::Closed) if self.was_due() => return Poll::Ready(Ok(())),
            Err(NotArmed::Closed) => return Poll::Ready(Err(Cancelled::SHUTDOWN)),
        };
        self.state = State::Armed {
            key,
            tick,
            waker,
            is_over: false,
        };
        Poll::Pending
    }

    /// Whether its deadline had passed before the runtime shut down, or has passed since and may
    /// have done so when the sleep was made.
    #[cold]
    fn was_due(&self) -> bool {
        let may_be_past = match &self.state {
            State::Unarmed(start) => matches!(start.first_poll, FirstPoll::ReadsClock),
            _ => false,
        };
        let end = self.shard.as_ref().and_then(|shard| {
            let end = shard.clock().ended()?;
            Some(shard.clock().instant(end))
        });
        end.is_some_and(|end| self.deadline <= end) || may_be_past && self.deadline <= self.now()
    }

    /// Registers the waker of a sleep whose timer is armed, or was. Another task polls than before,
    /// or the shard was closed.
    #[cold]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let key = self.key();
        let (Some(key), Some(shard)) = (key, &self.shard) else {
            unreachable!("only a sleep that holds a key comes here");
        };
        let (due, _) = due_on(shard, self.deadline);
        let (State::Armed { waker, .. } | State::Deferred { waker, .. }) = &mut self.state else {
            unreachable!("it holds a key");
        };
        // The drop of the former waker may panic.
        *waker = WakerId::NONE;
        match shard.register_waker(key, due, cx.waker()) {
            Ok(registered) => {
                *waker = registered;
                Poll::Pending
            }
            Err(NotArmed::Closed) => Poll::Ready(Err(Cancelled::SHUTDOWN)),
            Err(NotArmed::Fired) => Poll::Ready(Ok(())),
        }
    }
}

/// Whether the timer of this tick has fired in a shard that was turned so far, or fires in the turn
/// that is being made.
#[inline]
fn has_fired(turned_to: Tick, tick: Tick) -> bool {
    turned_to >= tick && turned_to != Tick::NEVER
}

impl Start {
    #[inline]
    fn new(first_poll: FirstPoll) -> Start {
        Start {
            is_new: true,
            is_over: false,
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

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.try_poll(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(_) => panic_shut_down(),
        }
    }
}

/// It is terminated once it has been polled and was ready, until [`reset`](Sleep::reset).
impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Kept { .. })
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let State::Armed { .. } | State::Deferred { .. } | State::Kept { .. } = self.state {
            self.disarm();
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
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstPoll {
    /// The sleep may have been due when it was made, so the poll reads the clock.
    ReadsClock,
    /// The sleep was not due when it was made. If it is due by now, the driver fires it, or has
    /// passed its tick, which `arm` reports.
    Arms,
}

impl FirstPoll {
    #[inline]
    pub(crate) fn after(duration: Duration) -> FirstPoll {
        if duration.is_zero() {
            FirstPoll::ReadsClock
        } else {
            FirstPoll::Arms
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
