//! What a shard does for the driver: it turns the wheel, and closes for ever.
//!
//! Invariant: a timer fires only if its true due has come. The true due may be later than the slot,
//! because the deadline was reset or the window of the stamp ended late. Then the timer is linked
//! again. A timer that fired is out of the wheel when the lock is let go. The caller has its waker,
//! and wakes it after the lock.

use std::task::Waker;

use super::Shard;
use super::deadlines::spared_by;
use super::locked::TrueDue;
use super::word::{Expiry, Outcome, Word};
use crate::time::due::{Due, StampedDue};
use crate::time::tick::Moment;
use crate::wheel::Verdict;

/// A turn fires or cascades at most this many timers for one hold of the lock. That is some
/// microseconds of work.
pub(crate) const BATCH: usize = 128;

/// What the driver learns of a shard's turn.
#[derive(Debug)]
pub(crate) enum ShardTurned {
    /// All that was due is dealt with. Nothing is due before this tick.
    Until(u64),
    /// The batch is full, and there may be more.
    BatchFull,
}

impl Shard {
    /// Fires at most a batch of what is due at tick `now`, and puts its wakers into `wakers`.
    pub(crate) fn turn(&self, now: u64, wakers: &mut Vec<Waker>) -> ShardTurned {
        let plan = self.plan.tick();
        if plan > now {
            return ShardTurned::Until(plan);
        }
        let tick = self.clock.tick();
        let mut locked = self.lock();
        let log = self.clock.log();
        let true_due = |due| match due {
            Due::At(moment) => tick.due(moment),
            // If the window is open, the timers of its stamp are placed later than this turn.
            Due::Stamped(due) => log.true_due(due).unwrap_or(due.placed.max(now + 1)),
        };
        let grace_end = |due, word: &Word| {
            let due = match due {
                Due::At(moment) => moment,
                Due::Stamped(_) => tick.start_of(true_due(due)),
            };
            let end = self.driver.grace_end(spared_by(word, due)?)?;
            Some(tick.due(end)).filter(|&end| end > now)
        };
        let mut spared = 0;
        let is_finished = locked.turn(now, BATCH, |linked, entry, held| {
            let due = match &entry.due {
                TrueDue::Linked => linked,
                TrueDue::Stamped(stamp) => {
                    let due = true_due(Due::Stamped(StampedDue {
                        stamp: *stamp,
                        placed: linked,
                    }));
                    entry.due = TrueDue::Linked;
                    due
                }
                TrueDue::Word(word) => {
                    let has_passed = |due| true_due(due) <= now && grace_end(due, word).is_none();
                    match word.locked(held).expire_if(has_passed) {
                        Expiry::Later(due) if true_due(due) <= now => {
                            spared += 1;
                            grace_end(due, word).unwrap_or(now + 1)
                        }
                        Expiry::Later(due) => true_due(due),
                        Expiry::Expired | Expiry::Settled(_) => now,
                    }
                }
            };
            if due > now {
                return Verdict::Later(due);
            }
            wakers.extend(entry.waker.take());
            Verdict::Fire
        });
        locked.count_spared(spared);
        if is_finished {
            ShardTurned::Until(self.plan.tick_about())
        } else {
            ShardTurned::BatchFull
        }
    }

    /// Closes the shard for ever, from the moment at which the runtime has shut down, and gives the
    /// wakers of all that is pending.
    pub(crate) fn close(&self, now: Moment) -> Vec<Waker> {
        let entries = self.lock().close(now, |entry, held| {
            let TrueDue::Word(word) = &entry.due else {
                return;
            };
            let word = word.locked(held);
            // A deadline that has passed has expired, though the driver did not come to it in time.
            if let Expiry::Later(_) = word.expire_if(|due| self.clock.has_passed(due, now)) {
                word.settle(Outcome::ShutDown);
            }
        });
        entries.filter_map(|entry| entry.waker).collect()
    }
}
