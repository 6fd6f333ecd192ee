//! What can be done to a deadline by whoever reaches its shard and its word, while a map's lock may
//! be held.
//!
//! Invariant: nothing here wakes anybody or runs user code. What is left to do is given back as
//! [`Afterwards`], to be done under no lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ResetHandle;
use crate::due::Start;
use crate::shard::{Afterwards, Hold, Shard, Told};
use crate::tick::{Moment, Span};
use crate::word::{Outcome, Reset, Word};

#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub(super) shard: &'a Arc<Shard>,
    pub(super) word: &'a Arc<Word>,
}

impl Access<'_> {
    pub(super) fn handle(self) -> ResetHandle {
        ResetHandle::new(Hold::counted(self.shard), self.word.clone())
    }

    /// Resets from a start that was taken with no lock held.
    pub(super) fn reset(self, start: Start) -> (bool, Afterwards) {
        let fresh_start = || self.shard.start_uncounted(self.word.timeout());
        let reset = self
            .word
            .reset(start, fresh_start, self.shard.clock().tick());
        match reset {
            Reset::Moved => (true, Afterwards::default()),
            Reset::TooLate => (false, Afterwards::default()),
            Reset::NeedsLock => self.change(self.now(), |word| word.reset_locked(fresh_start)),
        }
    }

    pub(super) fn reset_after(self, delay: Duration) -> (bool, Afterwards) {
        let now = self.now();
        self.change(now, |word| {
            word.reset_once(now, now.after(Span::from(delay)));
        })
    }

    pub(super) fn reset_at(self, deadline: Instant) -> (bool, Afterwards) {
        let (now, due) = (self.now(), self.shard.clock().moment(deadline));
        self.change(now, |word| word.reset_once(now, due))
    }

    pub(super) fn set_timeout(self, timeout: Duration) -> (bool, Afterwards) {
        let tick = self.shard.clock().tick();
        self.change(self.now(), |word| word.set_timeout(timeout, tick))
    }

    pub(super) fn settle(self, outcome: Outcome) -> (bool, Afterwards) {
        let (left, afterwards) = self.settle_at(self.now(), outcome);
        (left.is_some(), afterwards)
    }

    /// Brings the deadline to its end and gives the time that it had left at `now`; `None` if it
    /// had come to its end before.
    pub(super) fn settle_at(self, now: Moment, outcome: Outcome) -> (Option<Duration>, Afterwards) {
        self.shard.settle_word(self.word, now, outcome)
    }

    pub(super) fn is_pending(self) -> (bool, Afterwards) {
        self.shard.word_is_pending(self.word, self.now())
    }

    /// When the deadline is due and how much time is left; `None` if it has come to its end.
    pub(super) fn told(self) -> (Option<Told>, Afterwards) {
        self.shard.told_of_word(self.word, self.now())
    }

    /// Changes when the deadline is due, under the shard's lock; `false` if it has come to its end.
    fn change(self, now: Moment, change: impl FnOnce(&Word)) -> (bool, Afterwards) {
        self.shard.change_word(self.word, now, change)
    }

    fn now(self) -> Moment {
        self.shard.clock().now()
    }
}
