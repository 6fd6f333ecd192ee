//! The part of a shard that serves the driver: turning the wheel, and closing it for ever.
//!
//! Invariant: a timer fires only if its true due has come. One whose slot has come but whose true
//! due is later, because its deadline was reset or the window of its stamp ended late, is linked
//! again. What fired is gone from the wheel when the lock is let go, and its waker is the caller's,
//! to be woken outside.

use std::task::Waker;

use super::Shard;
use super::locked::TrueDue;
use super::word::{Expiry, Outcome};
use crate::time::due::{Due, StampedDue};
use crate::time::tick::Moment;
use crate::wheel::Verdict;

/// How many timers a turn fires or cascades at most for one hold of the lock: some microseconds of
/// work.
pub(crate) const BATCH: usize = 128;

/// What the driver learns of a shard's turn.
#[derive(Debug)]
pub(crate) enum ShardTurned {
    /// All that was due is dealt with; nothing is due before this tick.
    Until(u64),
    /// The batch is full; there may be more.
    BatchFull,
}

impl Shard {
    /// Fires at most a batch of what is due at tick `now`, putting the wakers of it into `wakers`.
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
            // An open window is that of a stamp whose timers are placed later than this turn.
            Due::Stamped(due) => log.true_due(due).unwrap_or(due.placed.max(now + 1)),
        };
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
                    match word.locked(held).expire_if(|due| true_due(due) <= now) {
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
        if is_finished {
            ShardTurned::Until(self.plan.tick_about())
        } else {
            ShardTurned::BatchFull
        }
    }

    /// Closes the shard for ever, as of the moment at which the runtime ended, and gives the wakers
    /// of all that is pending.
    pub(crate) fn close(&self, now: Moment) -> Vec<Waker> {
        let entries = self.lock().close(now, |entry, held| {
            let TrueDue::Word(word) = &entry.due else {
                return;
            };
            let word = word.locked(held);
            // What has passed has expired, though the driver did not come round to it.
            if let Expiry::Later(_) = word.expire_if(|due| self.clock.has_passed(due, now)) {
                word.settle(Outcome::ShutDown);
            }
        });
        entries.filter_map(|entry| entry.waker).collect()
    }
}
