//! What a shard does for sleeps: timers that a future arms, moves, polls and disarms.
//!
//! Invariant: a key is good as long as its timer has neither fired nor been disarmed. A stale key
//! finds no timer, never another one.

use std::task::Waker;

use super::Shard;
use super::locked::{Entry, Locked, TrueDue};
use crate::time::due::Due;
use crate::wheel::Key;

/// Why a timer was not armed.
#[derive(Debug)]
pub(crate) enum NotArmed {
    /// The runtime that drives the shard has shut down.
    Closed,
    /// The wheel was turned past its tick already.
    Fired,
}

/// What came of moving an armed timer.
#[derive(Debug)]
pub(crate) enum Moved {
    /// It is still armed.
    Pending,
    /// It had fired before.
    HadFired,
    /// It has fired now.
    Fires,
}

/// What a poll finds of an armed timer.
#[derive(Debug)]
pub(crate) enum Polled {
    Fired,
    Pending,
    Closed,
}

impl Shard {
    /// Arms a timer that wakes `waker` when it is due.
    ///
    /// `tick` is where its due is placed. The wheel may have been turned to that tick already, or
    /// tokio's time driver may have worked up to it. Then the timer has fired, and nothing is
    /// armed. A timer that counts from a stamp may be due later than it is placed. So a turn judges
    /// it.
    pub(crate) fn arm(&self, due: Due, tick: u64, waker: Waker) -> Result<Key, NotArmed> {
        let is_exact = matches!(due, Due::At(_));
        let mut locked = self.lock();
        let is_closed = locked.closed().is_some();
        if is_closed || is_exact && tick <= locked.turned_to() {
            let _ = locked.unlock().tell();
            // The waker was made before the lock, and is dropped here, after it.
            drop(waker);
            return Err(if is_closed {
                NotArmed::Closed
            } else {
                NotArmed::Fired
            });
        }
        let key = locked.link(tick, TrueDue::from(due), Some(waker));
        if locked.unlock().tell() && is_exact {
            self.disarm(key);
            return Err(NotArmed::Fired);
        }
        Ok(key)
    }

    /// Takes a timer out if it has not fired.
    pub(crate) fn disarm(&self, key: Key) {
        let mut locked = self.lock();
        locked.unlink(key);
        // The waker is dropped here, after the lock.
        locked.unlock().tell();
    }

    /// Moves an armed timer, whose waker stays. The wheel may have been turned to the new tick
    /// already, or tokio's time driver may have worked up to it. Then the timer fires here and now,
    /// as tokio's do.
    pub(crate) fn move_to(&self, key: Key, due: Due) -> Moved {
        let tick = due.placed(self.clock.tick());
        let is_exact = matches!(due, Due::At(_));
        let mut locked = self.lock();
        if is_exact && tick <= locked.turned_to() {
            return fire(locked, key);
        }
        if !locked.move_as(key, tick, TrueDue::from(due)) {
            return Moved::HadFired;
        }
        if locked.unlock().tell() && is_exact {
            return fire(self.lock(), key);
        }
        Moved::Pending
    }

    /// Whether an armed timer has fired.
    pub(crate) fn has_fired(&self, key: Key) -> bool {
        let mut locked = self.lock();
        locked.closed().is_none() && locked.entry(key).is_none()
    }

    /// The tick at which a timer with this due is placed.
    #[inline]
    pub(crate) fn placed(&self, due: Due) -> u64 {
        due.placed(self.clock.tick())
    }

    /// Whether a tick lies before the plan. Then no turn is planned that would fire what is placed
    /// there.
    #[inline]
    pub(crate) fn is_unplanned(&self, tick: u64) -> bool {
        tick < self.plan.tick_about()
    }

    /// Whether a timer that was armed for `due` has fired, as far as that can be told without the
    /// lock. No timer in the wheel is due before the plan. But a timer that counts from a stamp may
    /// be linked later than it was placed.
    pub(crate) fn has_surely_fired(&self, due: Due) -> bool {
        let is_exact = matches!(due, Due::At(_));
        is_exact && due.placed(self.clock.tick()) < self.plan.tick()
    }

    /// From now on a timer that was armed for `due` wakes `waker`, if it is still armed.
    pub(crate) fn poll_armed(&self, key: Key, due: Due, waker: &Waker) -> Polled {
        let registered = self.register(waker, |locked| match locked.closed() {
            Some(at) if !self.clock.has_passed(due, at) => Err(Polled::Closed),
            _ => locked.entry(key).ok_or(Polled::Fired),
        });
        registered.err().unwrap_or(Polled::Pending)
    }

    /// From now on the entry that `find` finds under the lock wakes `waker`. If `find` finds none,
    /// this lets the lock go and gives what `find` says instead.
    pub(super) fn register<R>(
        &self,
        waker: &Waker,
        find: impl for<'a> Fn(&'a mut Locked<'_>) -> Result<&'a mut Entry, R>,
    ) -> Result<(), R> {
        let mut clone = None;
        loop {
            let mut locked = self.lock();
            let entry = match find(&mut locked) {
                Ok(entry) => entry,
                Err(instead) => {
                    // The waker of a timer that was taken out is not woken, because its task is the
                    // one that polls.
                    locked.unlock().tell();
                    return Err(instead);
                }
            };
            let current = entry.waker.as_ref();
            if current.is_some_and(|current| current.will_wake(waker)) {
                return Ok(());
            }
            if let Some(clone) = clone.take() {
                let old = entry.waker.replace(clone);
                drop(locked.unlock());
                drop(old);
                return Ok(());
            }
            // A task polls that has not polled last. That is rare, so the loop goes round once more
            // to clone outside the lock.
            drop(locked.unlock());
            clone = Some(waker.clone());
        }
    }
}

/// Takes a timer out as one that has fired, and wakes its waker.
fn fire(mut locked: Locked<'_>, key: Key) -> Moved {
    if !locked.unlink(key) {
        return Moved::HadFired;
    }
    locked.count_fired();
    locked.unlock().wake();
    Moved::Fires
}

impl Locked<'_> {
    /// Moves a timer, and sets anew what says when it is truly due.
    fn move_as(&mut self, key: Key, tick: u64, due: TrueDue) -> bool {
        match self.entry(key) {
            Some(entry) => entry.due = due,
            None => return false,
        }
        self.relink(key, tick)
    }
}
