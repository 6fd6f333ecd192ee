//! The reads and writes of a deadline's word that need the lock of its shard.
//!
//! Invariant: a [`LockedWord`] is borrowed from a [`LockHeld`], which lives only while the lock is
//! held. So a call of anything here without the lock does not compile. The head of `word` explains
//! why nothing that goes on without the lock can spoil it. The labels W1 to W8 are from there.

use std::ops::Deref;
use std::time::Duration;

use super::word::{Expiry, Status, TimeoutTicks, Word, covers};
use super::word::{Outcome, Packed, State};
use crate::sync::Ordering;
use crate::time::stamp::{Due, Stamp, Start};
use crate::time::tick::{Moment, Span, TickLength};

/// A proof that the lock of a deadline's shard is held. It comes with the lock, and goes with it.
#[derive(Debug)]
pub(crate) struct LockHeld(());

/// A word, with the lock of its shard held.
#[derive(Clone, Copy)]
pub(crate) struct LockedWord<'a>(pub(super) &'a Word);

impl LockHeld {
    /// For the code that has locked a shard. It keeps this beside the guard.
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
            // W1: a reset that came first makes this fail, and the loop looks again.
            match self.exchange(state, State::Settled(Outcome::Expired).into()) {
                Ok(()) => return Expiry::Expired,
                Err(changed) => state = changed,
            }
        }
    }

    /// Brings the deadline to its end, and returns its state from before. `None` if it had come to
    /// an end already.
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<State> {
        self.update(|_| State::Settled(outcome).into())
    }

    /// Counts anew, whatever it was set to, from a start that is taken after the word was read.
    /// A settled word stays as it is. This holds for the next two functions too.
    pub(crate) fn reset(&self, fresh_start: impl Fn() -> Start) {
        self.update(|state| {
            // W7.
            let start = fresh_start();
            if covers(state, start) {
                state
            } else {
                Packed::counting_from(start)
            }
        });
    }

    /// Sets the due for once, earlier or later.
    pub(crate) fn reset_once(&self, due: Due) {
        self.update(|_| State::Once(due).into());
    }

    /// Sets the due for once, this much later than it is. A due that counts from a stamp is taken
    /// to count from the moment that `start` gives for the stamp.
    pub(crate) fn extend(&self, by: Duration, start: impl Fn(Stamp) -> Moment, tick: TickLength) {
        self.update(|state| {
            let due = match self.due_of(state.into()) {
                Some(Due::At(due)) => due,
                Some(Due::Stamped(due)) => start(due.stamp).after(tick.span(due.ticks())),
                None => return state,
            };
            State::Once(Due::At(due.after(Span::from(by)))).into()
        });
    }

    /// Makes a deadline that counts from a stamp count from the moment that `start` gives for the
    /// stamp. So what was reported of the deadline stays true.
    ///
    /// This calls `start` after it has read the word. So whatever reset the word holds, its time
    /// has passed by then.
    pub(crate) fn count_from(&self, start: impl Fn(Stamp) -> Moment, tick: TickLength) {
        self.update(|state| match state.into() {
            State::Counting(Start::Stamp(stamp)) => Packed::counting_from(Start::At(start(stamp))),
            State::Once(Due::Stamped(due)) => {
                let due = start(due.stamp).after(tick.span(due.ticks()));
                State::Once(Due::At(due)).into()
            }
            _ => state,
        });
    }

    /// What the word says of a pending deadline. `None` once it is settled.
    pub(crate) fn present(&self) -> Option<State> {
        let state = self.load().into();
        let is_pending = !matches!(state, State::Settled(_));
        is_pending.then_some(state)
    }

    /// How much time was left at `now`, never more than what was set. If the due was set for once,
    /// `now` must have been read after the word.
    pub(crate) fn left_before(&self, state: State, now: Moment, tick: TickLength) -> Duration {
        // A reset may have come since the caller read the clock.
        match (state, self.due_of(state)) {
            (State::Once(Due::Stamped(due)), _) => tick.span(due.ticks()).into(),
            (State::Once(Due::At(due)), _) => due.since(now),
            (_, Some(Due::At(due))) => due.since(now).min(self.timeout_set()),
            (_, Some(Due::Stamped(_))) => self.timeout_set(),
            (_, None) => Duration::ZERO,
        }
    }

    /// Changes the timeout. A pending deadline counts it from its last reset, unless its due was
    /// set for once: that stands (W3).
    pub(crate) fn set_timeout(&self, timeout: Duration, tick: TickLength) {
        // Relaxed: the update of the word below publishes both numbers (W4).
        self.timeout
            .store(Span::from(timeout).to_bits(), Ordering::Relaxed);
        self.timeout_ticks.store(
            TimeoutTicks::new(timeout, tick).to_bits(),
            Ordering::Relaxed,
        );
        // W2: the word holds no timeout. W4: it is exchanged even so.
        self.update(|state| state);
    }

    /// Makes the deadline pending again after any outcome, counting from a fresh start.
    pub(crate) fn restart(&self, fresh_start: impl Fn() -> Start) {
        match self.status() {
            Status::Pending => self.reset(fresh_start),
            Status::Settled(_) => self.store(State::Counting(fresh_start())),
        }
    }

    /// Settles the word for ever, whatever it was, because the runtime has shut down.
    pub(crate) fn shut_down(&self) {
        if self.settle(Outcome::ShutDown).is_none() {
            self.store(State::Settled(Outcome::ShutDown));
        }
    }

    /// Where the timer lies in the wheel: index and sequence, which have a meaning only for the
    /// shard. The sequence is zero before the first timer.
    pub(crate) fn key(&self) -> (u32, u64) {
        // Relaxed, here and below: only a thread that holds the lock reads and writes it (W8).
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
