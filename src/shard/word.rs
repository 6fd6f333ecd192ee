//! The state word of a deadline: what makes `reset` lock-free and its answer exact.
//!
//! One `AtomicU64` says whether the deadline is pending and from when its timeout counts, so one
//! compare-exchange decides between a reset and the expiry, and exactly one of them wins.
//! `deadline_state` has the states.
//!
//! Who may touch what, and when:
//!
//! - What moves the due later needs no lock: `reset`, and what sets the due for once. (From a stamp
//!   to a moment it may come out up to two ticks earlier, as a stamp counts from the end of its
//!   window; the timer then fires where it is placed, no later than a stamp would have had it.)
//! - Everything else is done with the lock of the deadline's shard held: the due is moved earlier,
//!   the timeout is written, a state is settled or made pending again, the key is read and written.
//! - Hence, for who holds the lock: a settled word stays settled, the timeout stands still, and the
//!   due can only grow. The timer in the wheel is linked at the due or earlier; when its slot
//!   comes, the driver asks the word for the true due and links the timer again if that is later.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *Reset against expiry.* Both compare-exchange from the same pending value. The driver's fails
//!   if a reset came first, and it looks again; the reset's fails if the driver came first, and it
//!   answers `false`.
//! - *Reset against `set_timeout` or `reset_after`.* The word holds when the reset was and not the
//!   due, so a reset carries no stale timeout with it. One that read a pending state before a
//!   `reset_after` fails its exchange.
//! - *`set_timeout` against `reset_after`.* The word then holds the due, so when that reset was
//!   stands beside it (`last_reset`), written before the word. It is the latest of all resets: that
//!   of the word which is replaced counts too, and where two cannot be compared, the lock is taken.
//! - *`set_timeout` while `reset_after` judges that it moves later.* It may leave the word as it
//!   was, and then the exchange does not notice. So the timeout is read again after the exchange,
//!   which comes after `set_timeout`'s own update of the word, or before it and then that sees it.
//! - *The driver links a stamped timer at its true due while `reset_after` judges by where it is
//!   placed.* It does so after it has published another stamp. So the stamp is read again after the
//!   exchange. A sequentially consistent fence lies between the two steps of each, so one of them
//!   sees the other.
//! - *Reset after the deadline, before the driver.* The reset sees that the deadline may have
//!   passed, and settles it under the lock; its answer does not depend on how busy the driver is.
//!   (By a stamp it sees only what the driver published.)
//! - *Two resets, the older one last.* A reset never replaces a later moment by an earlier one, nor
//!   a later stamp; the later one covers it, and its answer `true` holds. A moment and a stamp
//!   cannot be compared. If the word holds the one and the reset the other, because the driver went
//!   to rest or to tick meanwhile, the reset takes a fresh start after it has read the word, which
//!   is later than whatever the word holds.
//! - *A key read by a handle while the driver fires the timer.* Both hold the lock; a stale key
//!   finds no timer.

use std::time::Duration;

pub(crate) use super::deadline_state::Outcome;
use super::deadline_state::{Once, Packed, State};
use super::last_reset::LastReset;
use super::locked_word::{LockHeld, LockedWord};
pub(crate) use super::timeout::Timeout;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::time::due::{Due, Stamp, StampedDue, Start};
use crate::time::tick::{Span, TickLength};

/// What became of a reset that took no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// The deadline was pending and is now due no earlier than the moment of the reset plus the
    /// timeout.
    Moved,
    /// The deadline had come to its end.
    TooLate,
    /// It was moved later, and its timer may be linked later still: that needs the lock.
    MovedUnlinked,
    /// The reset moves it earlier, or it has passed and must be settled: that needs the lock.
    NeedsLock,
}

/// What the word says of itself at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Settled(Outcome),
}

/// What the driver finds when the slot of a deadline's timer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It was due, and is now expired.
    Expired,
    /// It is due then, which is later.
    Later(Due),
    /// It had been settled before.
    Settled(Outcome),
}

/// What a word said of a pending deadline before it was settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before(pub(super) State);

/// The word and what is kept beside it under the shard's lock.
#[derive(Debug)]
pub(crate) struct Word {
    state: AtomicU64,
    /// The timeout in ticks, rounded up, with a mark if a stamp must not be used for it. Beside the
    /// state, as a reset by a stamp reads these two.
    pub(super) timeout_ticks: AtomicU64,
    /// The timeout as it was set.
    pub(super) timeout: AtomicU64,
    /// When the last reset was of a deadline that was set for once.
    pub(super) last_reset: LastReset,
    pub(super) key_sequence: AtomicU64,
    pub(super) key_index: AtomicU32,
    /// Written once, and meaningful to who made the word alone.
    mark: Mark,
}

/// What a map knows one of its words by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Of the key.
    pub(crate) hash: u32,
    /// The number of the shard that the word is on.
    pub(crate) shard: u32,
}

impl Word {
    /// A word that is pending and counts from `start`.
    pub(crate) fn new(start: Start, timeout: Duration, tick: TickLength) -> Word {
        Word {
            state: AtomicU64::new(Packed::counting_from(start).0),
            timeout: AtomicU64::new(Span::from(timeout).to_bits()),
            timeout_ticks: AtomicU64::new(Timeout::new(timeout, tick).to_bits()),
            last_reset: LastReset::unnoted(),
            key_sequence: AtomicU64::new(0),
            key_index: AtomicU32::new(0),
            mark: Mark::default(),
        }
    }

    pub(crate) fn with_mark(mut self, mark: Mark) -> Word {
        self.mark = mark;
        self
    }

    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    pub(crate) fn status(&self) -> Status {
        match self.load().into() {
            State::Settled(outcome) => Status::Settled(outcome),
            _ => Status::Pending,
        }
    }

    /// The timeout as it was set.
    pub(crate) fn timeout_set(&self) -> Duration {
        Span::from_bits(self.timeout.load(Ordering::Relaxed)).into()
    }

    #[inline]
    pub(crate) fn timeout(&self) -> Timeout {
        Timeout::from_bits(self.timeout_ticks.load(Ordering::Relaxed))
    }

    /// Counts anew from `stamp` if the deadline is pending, counts from that or an earlier one, and
    /// by that stamp has not passed: nearly every reset while the driver ticks. If this is `false`,
    /// nothing was done, and `reset` is to be called.
    #[inline]
    pub(crate) fn reset_to_later_stamp(&self, stamp: Stamp) -> bool {
        let state = self.load();
        let new = Packed::counting_from(Start::Stamp(stamp));
        if state == new {
            return true;
        }
        let Some(before) = state.counts_from_stamp() else {
            return false;
        };
        let timeout = self.timeout();
        let placed = StampedDue::new(before, timeout.ticks()).placed;
        let may_move = state < new && stamp.tick() < placed;
        may_move && timeout.is_stampable() && self.exchange(state, new).is_ok()
    }

    /// Counts anew from `start` if the deadline is pending, or from a fresh one; see the file's
    /// head. Takes no lock.
    pub(crate) fn reset(
        &self,
        mut start: Start,
        fresh_start: impl Fn() -> Start,
        published: impl Fn() -> Option<Stamp>,
        tick: TickLength,
    ) -> Reset {
        let mut state = self.load();
        loop {
            match state.into() {
                State::Settled(_) => return Reset::TooLate,
                State::Once(_) => {
                    return self.move_later(start, State::Counting(start), published, tick);
                }
                State::Counting(_) if !state.can_be_compared(Packed::counting_from(start)) => {
                    start = fresh_start();
                }
                State::Counting(_) => {}
            }
            if covers(state, start) {
                return Reset::Moved;
            }
            if self.may_have_passed(state, start, tick) {
                return Reset::NeedsLock;
            }
            match self.exchange(state, Packed::counting_from(start)) {
                Ok(()) => return Reset::Moved,
                Err(changed) => state = changed,
            }
        }
    }

    /// Sets the due for once, in a call that began at `start`, if it moves later by that. Takes no
    /// lock. `published` tells the present stamp.
    pub(crate) fn reset_once(
        &self,
        start: Start,
        once: Once,
        published: impl Fn() -> Option<Stamp>,
        tick: TickLength,
    ) -> Reset {
        self.move_later(start, State::Once(once), published, tick)
    }

    /// Moves to a state that is due no earlier.
    ///
    /// Whether it is was judged by two things that may change beside the word: the timeout, and
    /// where the timer is linked that counts from a stamp whose window ended late. So both are
    /// looked at again after the exchange. Should one have changed, the timer has to be linked
    /// anew.
    fn move_later(
        &self,
        start: Start,
        target: State,
        published: impl Fn() -> Option<Stamp>,
        tick: TickLength,
    ) -> Reset {
        let new = Packed::from(target);
        let mut state = self.load();
        loop {
            let timeout = self.whole_timeout();
            let old = State::from(state);
            if let State::Settled(_) = old {
                return Reset::TooLate;
            }
            let is_last = match target {
                State::Once(_) => self.last_reset.note(start, old),
                // The word will say it.
                _ => self.last_reset.is_surely_before(start),
            };
            if !is_last
                || self.may_have_passed(state, start, tick)
                || !self.is_later(target, state, tick)
            {
                return Reset::NeedsLock;
            }
            if state == new {
                return Reset::Moved;
            }
            let was_stamped = matches!(self.due_of(old), Some(Due::Stamped(_)));
            match self.exchange(state, new) {
                Ok(()) => {
                    let is_still_published = || {
                        // Pairs with the one after the driver has published.
                        fence(Ordering::SeqCst);
                        published().map(Start::Stamp) == Some(start)
                    };
                    let is_linked_in_time =
                        self.whole_timeout() == timeout && (!was_stamped || is_still_published());
                    return if is_linked_in_time {
                        Reset::Moved
                    } else {
                        Reset::MovedUnlinked
                    };
                }
                Err(changed) => state = changed,
            }
        }
    }

    /// Both of what says how long the timeout is.
    fn whole_timeout(&self) -> (u64, u64) {
        (
            self.timeout.load(Ordering::Relaxed),
            self.timeout_ticks.load(Ordering::Relaxed),
        )
    }

    /// Whether one state is due no earlier than another, as far as the wheel goes.
    fn is_later(&self, one: State, than: Packed, tick: TickLength) -> bool {
        match (self.due_of(one), self.due_of(than.into())) {
            (Some(Due::At(one)), Some(Due::At(than))) => one >= than,
            (Some(one), Some(than)) => one.placed(tick) >= than.placed(tick),
            _ => false,
        }
    }

    /// Whether a deadline in this state may have passed when `start` was taken.
    fn may_have_passed(&self, state: Packed, start: Start, tick: TickLength) -> bool {
        let due = self.due_of(state.into());
        due.is_none_or(|due| due.may_have_passed(start, tick))
    }

    /// What of it may be read and written only with the lock of its shard held.
    #[inline]
    pub(crate) fn locked<'a>(&'a self, _: &'a LockHeld) -> LockedWord<'a> {
        LockedWord(self)
    }

    pub(super) fn due_of(&self, state: State) -> Option<Due> {
        match state {
            State::Counting(Start::At(moment)) => {
                let timeout = Span::from_bits(self.timeout.load(Ordering::Relaxed));
                Some(Due::At(moment.after(timeout)))
            }
            State::Counting(Start::Stamp(stamp)) => {
                let ticks = self.timeout().ticks();
                Some(Due::Stamped(StampedDue::new(stamp, ticks)))
            }
            State::Once(Once::At(due)) => Some(Due::At(due)),
            State::Once(Once::Stamped { stamp, ticks }) => {
                Some(Due::Stamped(StampedDue::new(stamp, ticks)))
            }
            State::Settled(_) => None,
        }
    }

    /// Replaces a pending state by what `next` makes of it, and gives it; `None` if the word is
    /// settled.
    pub(super) fn update(&self, next: impl Fn(Packed) -> Packed) -> Option<State> {
        let mut packed = self.load();
        loop {
            let state = State::from(packed);
            if let State::Settled(_) = state {
                return None;
            }
            match self.exchange(packed, next(packed)) {
                Ok(()) => return Some(state),
                Err(changed) => packed = changed,
            }
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Packed {
        Packed(self.state.load(Ordering::Acquire))
    }

    pub(super) fn store(&self, state: State) {
        self.state.store(Packed::from(state).0, Ordering::Release);
    }

    #[inline]
    pub(super) fn exchange(&self, current: Packed, new: Packed) -> Result<(), Packed> {
        self.state
            .compare_exchange(current.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(Packed)
    }
}

/// Whether a state counts from `start` or later already, as far as the two can be compared.
pub(super) fn covers(state: Packed, start: Start) -> bool {
    let new = Packed::counting_from(start);
    state.can_be_compared(new) && state >= new
}
