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
//! A sleep of the free functions is *detached* at first: it has no timer yet. A look-up writes a
//! count that all threads share, and a sleep that never arms avoids it.
//!
//! **A sleep that is reset to later becomes a deadline.** The first such reset of an armed sleep
//! takes the lock and gives its timer a [word](crate::shard::word), which holds the due. From then
//! on a reset to later is one compare-exchange. The timer stays where it is linked, and the turn
//! that comes to it reads the word, and links it again. So the task is woken at the new deadline
//! and at no other, whether or not it polls the sleep after the reset.
//!
//! Invariant: a sleep holds a key only while it is armed or deferred, and forgets no key of a timer
//! that stays in the wheel beyond the present turn. The timer fires at a tick that begins at the
//! deadline or later. So if it has fired, the deadline has passed.
//!
//! As with tokio's, an armed sleep is ready when the driver has fired it, and its poll reads no
//! clock. So if a message came before the deadline, a task that is polled after the deadline finds
//! the message first. The poll takes no lock either; see `shard::turned_to` for an armed sleep. For
//! a deferred one the word replaces the tick: a turn and the closing settle it under the lock, and
//! wake its waker afterwards. So if a poll finds the word pending, that wake-up is yet to come.

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
/// It behaves like [`tokio::time::Sleep`], and is also `Unpin`. So a task can await `&mut sleep`
/// without pinning it, for example in a `select!`.
///
/// - It is never early, and at most one tick of its timer late. Tokio's rounding to a millisecond
///   and its scheduling come on top.
/// - A sleep whose deadline lies in the past is ready at the first poll. A sleep of zero, or until
///   now, is ready at the next line of tokio's grid, at most a millisecond later, or at the next
///   tick if that is longer. So a loop of such sleeps does not spin.
/// - The first pending poll arms it. Making a sleep and dropping it before that takes no lock.
/// - Dropping it cancels it, and frees its timer and waker at once, in O(1).
/// - Once ready, it stays ready until [`reset`](Sleep::reset).
/// - The task that polled last is woken.
/// - It fires by the clock of its timer's runtime, wherever it is polled. A sleep that a task makes
///   by a free function takes the timer of the runtime that first polls it.
///
/// # Panics
///
/// If it is polled while pending and the runtime that drives its timer has shut down, as tokio's.
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

const LINE: Duration = Duration::from_millis(1);

pub(crate) type FindShard = fn() -> Arc<Shard>;

enum State {
    Detached {
        find: FindShard,
        start: Start,
    },
    Unarmed(Start),
    Armed {
        key: PackedKey,
        tick: Tick,
        waker: WakerId,
        /// As in [`Start`].
        is_over: bool,
    },
    Deferred {
        /// Holds its due and its key. Dropped by `set_state`, so that other sleeps need no drop.
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

#[derive(Clone, Copy)]
struct Start {
    is_new: bool,
    /// Whether the timeout around it has returned an output. Stored here because there is room.
    is_over: bool,
    first_poll: FirstPoll,
}

impl Sleep {
    /// It reads the clock now, because nearly all sleeps fire.
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

    /// A sleep that finds its timer when it arms, on the thread that then polls it.
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
    /// It is never before the call that made or reset the sleep plus its duration. An excessive
    /// duration ends 146 years after the timer was made.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the sleep has elapsed: its timer has fired, or, if it was reset and not polled since
    /// it was last ready, its deadline has passed.
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

    /// Like [`reset_at`](Sleep::reset_at). It takes a pinned reference, as
    /// [`tokio::time::Sleep::reset`] does, for calls through a projection.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    /// Moves the deadline, earlier or later. A sleep that has elapsed is pending again.
    ///
    /// As with tokio, the task that polled last is woken at the new deadline, and at no other, and
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

    /// Like [`reset_at`](Sleep::reset_at), to `duration` from now.
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
            // Within one tick nothing changes. This check costs less than finding the tick.
            let is_by = |due| deadline >= before && deadline <= shard.clock().start_of(due);
            if word.due().is_some_and(is_by) || word.defer_to(due_on(shard, deadline).1) {
                return;
            }
        }
        self.reset_with_lock(first_poll);
    }

    /// All but a reset to later of a deferred sleep. Not inlined, to keep that one short.
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
    /// deadline, or the runtime has ended, the task is woken, and its next poll reports that.
    fn reset_kept(&mut self, first_poll: FirstPoll) {
        let Some(waker) = self.take_waker() else {
            return;
        };
        self.reset_unarmed(first_poll);
        let deadline = self.deadline;
        // No reading of the clock: until the driver passes it, the sleep may be reset to later.
        let (_, tick) = due_on(self.attach(), deadline);
        let armed = self.arm(tick, &waker);
        if let Poll::Ready(Ok(())) = armed {
            self.state = State::Elapsed;
        }
        if let (Poll::Ready(_), Some(shard)) = (armed, &self.shard) {
            shard.wake(waker);
        }
    }

    /// Moves the deadline of a sleep that was ready. The next poll arms it.
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
            None => self.reset_unarmed(first_poll),
        }
    }

    /// The time until the deadline, by [`Timer::now`](crate::Timer::now). Zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(self.now())
    }

    /// Polls like the future, but returns an error where the future panics on a shutdown.
    ///
    /// For a sleep that may be polled outside the timer's runtime, and must survive that runtime's
    /// shutdown. After an error, each further poll returns the error again.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the runtime that drives the timer has shut down while the sleep was
    /// pending; [`is_shutdown`](Cancelled::is_shutdown) is then `true`.
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

    /// Like `try_poll`, for an owner that resets the sleep by `move_on`. It keeps no waker.
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

    /// Whether its timer has not fired, and will wake the polling task.
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

    #[cold]
    fn keep(&mut self, waker: &Waker) {
        match &self.state {
            State::Kept { waker: kept } if kept.will_wake(waker) => {}
            _ => self.set_state(State::Kept {
                waker: ManuallyDrop::new(waker.clone()),
            }),
        }
    }

    #[inline(always)] // As `poll_capped`.
    pub(super) fn note_output(&mut self) {
        match &mut self.state {
            State::Detached { start, .. } | State::Unarmed(start) => start.is_over = true,
            State::Armed { is_over, .. } => *is_over = true,
            // A timeout never resets its sleep, and returns once the sleep has elapsed.
            State::Deferred { .. } | State::Elapsed | State::Kept { .. } => {}
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match &self.state {
            State::Detached { start, .. } | State::Unarmed(start) => start.is_over,
            State::Armed { is_over, .. } => *is_over,
            State::Deferred { .. } => false,
            State::Elapsed | State::Kept { .. } => true,
        }
    }

    pub(crate) fn elapse(&mut self) {
        self.attach();
        self.disarm();
        self.state = State::Elapsed;
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.shard {
            Some(shard) => shard.clock().now_instant(),
            None => Instant::now(),
        }
    }

    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        match &self.state {
            State::Detached { start, .. } | State::Unarmed(start) => start.is_new,
            _ => false,
        }
    }

    /// The shard on which it arms. A detached sleep finds its timer now.
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

    /// Takes its timer out, if any, and drops the contents of its state. Never inlined, to keep the
    /// drop of a sleep short enough to be inlined.
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

    #[inline]
    fn set_state(&mut self, state: State) {
        if let State::Deferred { .. } | State::Kept { .. } = self.state {
            self.drop_state();
        }
        self.state = state;
    }

    /// Drops the contents of a state. Only this and `take_waker` leave such a state.
    #[cold]
    fn drop_state(&mut self) {
        match std::mem::replace(&mut self.state, State::Elapsed) {
            State::Deferred { word, .. } => drop(ManuallyDrop::into_inner(word)),
            State::Kept { waker } => drop(ManuallyDrop::into_inner(waker)),
            other => self.state = other,
        }
    }

    fn take_waker(&mut self) -> Option<Waker> {
        match std::mem::replace(&mut self.state, State::Elapsed) {
            State::Kept { waker } => Some(ManuallyDrop::into_inner(waker)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Polls the sleep after a future that may have used up the task's budget.
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
            // The inner future has used up the budget, maybe in every poll. Check the deadline
            // anyway.
            let unconstrained = coop::unconstrained(poll_fn(|cx| self.poll_within_budget(cx)));
            pin!(unconstrained).poll(cx)
        } else {
            self.try_poll(cx)
        }
    }

    /// Polls while the task's budget is not used up. Only progress takes a unit of the budget,
    /// because nearly all polls stay pending and would have to return it.
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
        // A sleep that was shut down keeps its state, and so ends again the same way.
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

    /// Registers another waker for a timer that is or was armed, unless the shard was closed.
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
        // Dropping the former waker may panic.
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

/// Whether a timer of this tick has fired, or fires in the present turn.
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

#[inline]
fn deadline_after(shard: &Shard, duration: Duration) -> Instant {
    let now = shard.clock().now_instant();
    match now.checked_add(duration) {
        Some(deadline) => deadline,
        None => shard.clock().instant(Moment::MAX),
    }
}

/// The due of a sleep by the clock of its timer, and its tick.
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

/// Terminated once a poll was ready, until [`reset`](Sleep::reset).
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

/// The first step of a poll, before it arms. It avoids reading the clock where it can.
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

    #[test]
    fn a_sleep_takes_a_cache_line() {
        assert!(size_of::<Sleep>() <= 64, "{}", size_of::<Sleep>());
    }
}
