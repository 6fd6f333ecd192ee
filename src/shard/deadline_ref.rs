//! [`DeadlineRef`]: the shard and the word of a deadline, borrowed from whatever holds them, and the
//! calls on the two.

use std::sync::Arc;
use std::time::Duration;

use super::Shard;
use super::deadlines::{Change, Report};
use super::word::Word;
use crate::clock::tick::Moment;
use crate::error::Cancelled;

/// The caller holds no lock, because a call here may take the shard's lock and wake a task. Only
/// `try_reset` may be called with a map's lock held.
#[derive(Clone, Copy)]
pub(crate) struct DeadlineRef<'a> {
    pub(crate) shard: &'a Arc<Shard>,
    pub(crate) word: &'a Arc<Word>,
}

impl DeadlineRef<'_> {
    /// Resets from `now`.
    #[inline]
    pub(crate) fn reset(self, now: Moment) -> bool {
        self.try_reset(now) || self.change(Change::Reset)
    }

    /// As `reset`, and `false` if that needs the lock.
    #[inline]
    pub(crate) fn try_reset(self, now: Moment) -> bool {
        self.word.reset(now, self.shard.clock().reset_start(now))
    }

    /// Changes when the deadline is due. `false` if it has come to its end.
    pub(crate) fn change(self, change: Change) -> bool {
        self.shard.change_word(self.word, change)
    }

    /// Makes it pending again. This is for the owner of the deadline alone.
    pub(crate) fn restart(self) {
        self.shard.restart_word(self.word);
    }

    pub(crate) fn settle(self, outcome: Result<(), Cancelled>) -> bool {
        self.settle_at(self.now(), outcome).is_some()
    }

    /// Brings the deadline to its end, and returns the time that it had left at `now`. `None` if it
    /// had come to its end before.
    pub(crate) fn settle_at(self, now: Moment, outcome: Result<(), Cancelled>) -> Option<Duration> {
        self.shard.settle_word(self.word, now, outcome)
    }

    /// Cancels a deadline that nobody awaits any more.
    pub(crate) fn cancel_unawaited(self) {
        if self.word.outcome().is_pending() {
            self.shard.drop_word(self.word);
        }
    }

    pub(crate) fn is_pending(self) -> bool {
        self.word.outcome().is_pending() && self.reported().is_some()
    }

    /// When the deadline is due, and how much time is left. `None` if it has come to its end.
    pub(crate) fn reported(self) -> Option<Report> {
        self.shard.report_of_word(self.word, self.now())
    }

    #[inline]
    pub(crate) fn now(self) -> Moment {
        self.shard.clock().now()
    }
}
