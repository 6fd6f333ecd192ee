//! What of a deadline's word may be read and written only with the lock of its shard held.
//!
//! Invariant: a [`LockedWord`] is borrowed from a [`LockHeld`], which lives no longer than the lock
//! is held. So a call of anything here without the lock does not compile. `word` has the argument
//! why nothing that goes on without the lock can spoil it.

use std::ops::Deref;
use std::time::Duration;

use super::deadline_state::{Once, Outcome, Packed, State};
use super::word::{Before, Expiry, Status, Timeout, Word, covers};
use crate::sync::Ordering;
use crate::time::due::{Due, Stamp, Start};
use crate::time::tick::{Moment, Span, TickLength};

/// Proof that the lock of a deadline's shard is held. It comes with the lock, and goes with it.
#[derive(Debug)]
pub(crate) struct LockHeld(());

/// A word, with the lock of its shard held.
#[derive(Clone, Copy)]
pub(crate) struct LockedWord<'a>(pub(super) &'a Word);

impl LockHeld {
    /// For who has locked a shard, to be kept beside the guard.
    pub(in crate::shard) fn by_lock_of_shard() -> LockHeld {
        LockHeld(())
    }
}

impl Deref for LockedWord<'_> {
    type Target = Word;

    fn deref(&self) -> &Word {
        self.0
    }
}

impl LockedWord<'_> {
    /// When the deadline is due; `None` once it is settled.
    pub(crate) fn due(&self) -> Option<Due> {
        self.due_of(self.load().into())
    }

    /// Expires the deadline if `has_passed` says so of its due.
    pub(crate) fn expire_if(&self, has_passed: impl Fn(Due) -> bool) -> Expiry {
        let mut state = self.load();
        loop {
            match (self.due_of(state.into()), state.into()) {
                (_, State::Settled(outcome)) => return Expiry::Settled(outcome),
                (Some(due), _) if !has_passed(due) => return Expiry::Later(due),
                _ => {}
            }
            match self.exchange(state, State::Settled(Outcome::Expired).into()) {
                Ok(()) => return Expiry::Expired,
                Err(changed) => state = changed,
            }
        }
    }

    /// Brings the deadline to its end and gives what it was before; `None` if it had come to one
    /// before.
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<Before> {
        self.update(|_| State::Settled(outcome).into()).map(Before)
    }

    /// Counts anew, whatever it was set to, from a start that is taken after the word was read.
    /// Does nothing if it is settled, as the next two.
    pub(crate) fn reset(&self, fresh_start: impl Fn() -> Start) {
        self.update(|state| {
            let start = fresh_start();
            if covers(state, start) {
                state
            } else {
                Packed::counting_from(start)
            }
        });
    }

    /// Sets the due for once, earlier or later, in a call that began at `start`, or at a fresh one
    /// where it is not known whether a reset came after that.
    pub(crate) fn reset_once(&self, start: Start, once: Once, fresh_start: impl Fn() -> Start) {
        self.update(|state| {
            if !self.last_reset.note(start, state.into()) {
                self.last_reset.set(fresh_start());
            }
            State::Once(once).into()
        });
    }

    /// Has a deadline that counts from a stamp count from the moment that `start` gives for that;
    /// so what is told of it stays.
    ///
    /// `start` is called after the word was read, so it knows the time of whatever reset the word
    /// holds to have passed.
    pub(crate) fn count_from(&self, start: impl Fn(Stamp) -> Moment, tick: TickLength) {
        self.update(|state| match state.into() {
            State::Counting(Start::Stamp(stamp)) => Packed::counting_from(Start::At(start(stamp))),
            State::Once(Once::Stamped { stamp, ticks }) => {
                State::Once(Once::At(start(stamp).after(tick.span(ticks)))).into()
            }
            _ => state,
        });
    }

    /// How much time is left at `now`; `None` once it is settled. Never more than what was set.
    pub(crate) fn left(&self, now: Moment, tick: TickLength) -> Option<Duration> {
        let state = self.load().into();
        let is_pending = !matches!(state, State::Settled(_));
        is_pending.then(|| self.left_before(Before(state), now, tick))
    }

    /// How much time was left at `now` before it was settled.
    pub(crate) fn left_before(
        &self,
        Before(state): Before,
        now: Moment,
        tick: TickLength,
    ) -> Duration {
        // It may have been reset since the clock was read.
        match (state, self.due_of(state)) {
            (State::Once(Once::Stamped { ticks, .. }), _) => tick.span(ticks).into(),
            (State::Once(_), Some(Due::At(due))) => due.since(now),
            (_, Some(Due::At(due))) => due.since(now).min(self.timeout_set()),
            (_, Some(Due::Stamped(_))) => self.timeout_set(),
            (_, None) => Duration::ZERO,
        }
    }

    /// Changes the timeout, and what is pending counts it from its last reset.
    pub(crate) fn set_timeout(&self, timeout: Duration, tick: TickLength) {
        self.timeout
            .store(Span::from(timeout).to_bits(), Ordering::Relaxed);
        self.timeout_ticks
            .store(Timeout::new(timeout, tick).to_bits(), Ordering::Relaxed);
        self.update(|state| match state.into() {
            State::Once(_) => self.last_reset.get(),
            _ => state,
        });
    }

    /// Makes the deadline pending again after any outcome, counting from a fresh start.
    pub(crate) fn restart(&self, fresh_start: impl Fn() -> Start) {
        match self.status() {
            Status::Pending => self.reset(fresh_start),
            Status::Settled(_) => self.store(State::Counting(fresh_start())),
        }
    }

    /// Settles the word for ever, whatever it was: the runtime has gone.
    pub(crate) fn shut_down(&self) {
        if self.settle(Outcome::ShutDown).is_none() {
            self.store(State::Settled(Outcome::ShutDown));
        }
    }

    /// Where the timer lies in the wheel: index and sequence, meaningful to the shard alone. The
    /// sequence is zero before the first timer.
    pub(crate) fn key(&self) -> (u32, u64) {
        (
            self.key_index.load(Ordering::Relaxed),
            self.key_sequence.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn set_key(&self, (index, sequence): (u32, u64)) {
        self.key_index.store(index, Ordering::Relaxed);
        self.key_sequence.store(sequence, Ordering::Relaxed);
    }
}
