//! What the code that has a deadline's shard and word can do to the deadline.
//!
//! Invariant: the caller holds no lock, because a call here may take the shard's lock and wake a
//! task. Only `try_reset` and `handle` may be called with a map's lock held.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ResetHandle;
use crate::shard::LockedWord;
use crate::shard::deadline_state::Once;
use crate::shard::word::{Outcome, Reset, Word};
use crate::shard::{Shard, Told};
use crate::time::due::Start;
use crate::time::tick::{Moment, Span};

#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) shard: &'a Arc<Shard>,
    pub(crate) word: &'a Arc<Word>,
}

impl Access<'_> {
    pub(crate) fn handle(self) -> ResetHandle {
        ResetHandle::new(self.shard.clone(), self.word.clone())
    }

    /// Resets from `start`, which the caller took with no lock held.
    pub(crate) fn reset(self, start: Start) -> bool {
        match self.try_reset(start) {
            Reset::NeedsLock => self.change(start, |word| word.reset(|| self.fresh_start())),
            reset => reset == Reset::Moved,
        }
    }

    /// As `reset`, if that needs no lock.
    pub(crate) fn try_reset(self, start: Start) -> Reset {
        let tick = self.shard.clock().tick();
        self.word.reset(start, || self.fresh_start(), tick)
    }

    /// Sets the due for once. Here and in the next two calls, `start` is from when the call counts.
    pub(crate) fn reset_after(self, start: Start, delay: Duration) -> bool {
        // Only whole ticks may count from a stamp. Otherwise the time that is left would be told to
        // be more than was asked for.
        let tick = self.shard.clock().tick();
        let ticks = tick.stampable_ticks(delay);
        let ticks = ticks.filter(|_| tick.is_whole(delay));
        let stamped = |stamp| Once::stamped(stamp, ticks?);
        let (start, once) = match start {
            Start::At(now) => (start, Once::At(now.after(Span::from(delay)))),
            Start::Stamp(stamp) => match stamped(stamp) {
                Some(once) => (start, once),
                None => {
                    let now = self.now();
                    (Start::At(now), Once::At(now.after(Span::from(delay))))
                }
            },
        };
        self.reset_once(start, once)
    }

    pub(crate) fn reset_at(self, start: Start, deadline: Instant) -> bool {
        let due = self.shard.clock().moment(deadline);
        self.reset_once(start, Once::At(due))
    }

    pub(crate) fn set_timeout(self, timeout: Duration) -> bool {
        let clock = self.shard.clock();
        self.change(Start::At(clock.now()), |word| {
            // By a stamp nobody could say whether the new timeout has passed.
            word.count_from(|stamp| clock.told_start(stamp), clock.tick());
            word.set_timeout(timeout, clock.tick());
        })
    }

    fn reset_once(self, start: Start, once: Once) -> bool {
        let clock = self.shard.clock();
        let reset = self
            .word
            .reset_once(start, once, || clock.stamp(), clock.tick());
        match reset {
            Reset::Moved => true,
            // W4 and W5 in `shard::word`.
            Reset::MovedUnlinked => {
                self.shard.link_word_anew(self.word);
                true
            }
            Reset::TooLate => false,
            Reset::NeedsLock => self.change(start, |word| word.reset_once(once)),
        }
    }

    fn fresh_start(self) -> Start {
        self.shard
            .start_under_lock(self.word.timeout().is_stampable())
    }

    pub(crate) fn settle(self, outcome: Outcome) -> bool {
        self.settle_at(self.now(), outcome).is_some()
    }

    /// Brings the deadline to its end, and gives the time that it had left at `now`. `None` if it
    /// had come to its end before.
    pub(crate) fn settle_at(self, now: Moment, outcome: Outcome) -> Option<Duration> {
        self.shard.settle_word(self.word, now, outcome)
    }

    pub(crate) fn is_pending(self) -> bool {
        self.shard.word_is_pending(self.word, self.now())
    }

    /// When the deadline is due, and how much time is left. `None` if it has come to its end.
    pub(crate) fn told(self) -> Option<Told> {
        self.shard.told_of_word(self.word, self.now())
    }

    /// Changes when the deadline is due, under the shard's lock. `false` if it has come to its end.
    fn change(self, start: Start, change: impl FnOnce(LockedWord<'_>)) -> bool {
        self.shard.change_word(self.word, start, change)
    }

    fn now(self) -> Moment {
        self.shard.clock().now()
    }
}
