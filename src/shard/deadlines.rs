//! The calls of deadlines, on a [`DeadlineRef`]: a borrowed pair of shard and word.
//!
//! Invariants:
//!
//! - While a word is pending and the shard is open, the wheel holds exactly one timer for it,
//!   linked at the word's due or earlier, or at the end of its grace. Each function restores this
//!   under the lock.
//! - The caller holds no lock, not even a map's, except for `try_reset` and where a closure of the
//!   user's calls a handle. A function that wakes the waiting task does so after it has unlocked
//!   the shard.
//! - A call that makes a due earlier than another thread may have seen under the lock wakes the
//!   waiting task if the word asks for that: a warning was set by the later due. A `Deadline` alone
//!   does not ask, because its timer is moved and nothing else depends on the due.

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::Shard;
use super::decision::{Change, Changed, Decision};
use super::locked::{Entry, Locked};
use super::word::{LockedWord, MapTag, Outcome, Word};
use crate::clock::tick::{Moment, Tick};
use crate::error::Cancelled;
use crate::runtime::coop;
use crate::wheel::Key;

/// A deadline of a future, a handle or a map, borrowed for one call.
#[derive(Clone, Copy)]
pub(crate) struct DeadlineRef<'a> {
    /// The shard in which its timer lies.
    pub(crate) shard: &'a Arc<Shard>,
    /// Whether it is pending, when it is due, and its timer's key.
    pub(crate) word: &'a Arc<Word>,
}

impl Shard {
    /// Makes and arms a deadline that counts from `now`. On a closed shard it ends at once.
    pub(crate) fn arm_deadline(&self, now: Moment, timeout: Duration, tag: MapTag) -> Arc<Word> {
        let word = Arc::new(Word::new(self.due_after(now, timeout), timeout, tag));
        let mut locked = self.lock();
        locked.link_word(&word);
        self.unlock_armed(locked, &word);
        word
    }

    /// If tokio's time driver has already worked up to the word's tick, no turn comes for it: the
    /// deadline is due, and expires at once.
    #[inline]
    fn unlock_armed(&self, locked: Locked<'_>, word: &Word) {
        if locked.unlock() {
            self.expire_due(word);
        }
    }

    #[cold]
    fn expire_due(&self, word: &Word) {
        let present = self.clock.current_tick();
        let mut locked = self.lock();
        if let Some(Decision::Fire(_)) = locked.word(word).expire_if(|due| due <= present) {
            locked.unlink_word(word);
        }
        locked.unlock_and_wake();
    }

    /// The tick at which a deadline that counts `timeout` from `now` is due.
    #[inline]
    fn due_after(&self, now: Moment, timeout: Duration) -> Tick {
        self.clock.tick().due(now.after(timeout))
    }

    /// Decides on a deadline at `now`, and expires it if it is to fire.
    pub(super) fn decide(&self, word: LockedWord<'_>, now: Moment) -> Option<Decision> {
        let present = self.clock.tick().current(now);
        word.decide(|due| {
            Decision::on(due, present, || {
                self.clock.grace_end(due, word.timeout(), now)
            })
        })
    }
}

impl DeadlineRef<'_> {
    /// Pushes the deadline to its timeout after `since`, or after now for `None`.
    #[inline]
    pub(crate) fn reset(self, now: Moment, since: Option<Moment>) -> bool {
        let from = || Change::ResetFrom(since.unwrap_or(Moment::MAX));
        self.try_reset(now, since) || self.change(from())
    }

    /// Like `reset`, but returns `false` if that needs the lock.
    #[inline]
    pub(crate) fn try_reset(self, now: Moment, since: Option<Moment>) -> bool {
        let clock = &self.shard.clock;
        // A due that counts from before the end of a stall may lie after the present due, and yet
        // before the end of the grace that the stall gives to the present one.
        since.is_none_or(|since| since >= clock.stalls().last_end())
            && (self.word).reset(clock.tick(), now, since.map_or(now, |since| since.min(now)))
    }

    /// Moves the deadline to a moment, earlier or later. A past one expires it.
    #[inline]
    pub(crate) fn move_to(self, now: Moment, due: Moment) -> bool {
        let tick = self.shard.clock.tick();
        let is_later = due > now && self.word.postpone_to(tick, now, due);
        is_later || self.change(Change::MoveTo(due))
    }

    /// Makes the deadline pending again, due its timeout from now. For its owner alone.
    pub(crate) fn restart(self) {
        let shard = self.shard;
        self.rearm(|word| word.restart(shard.due_after(shard.clock.now(), word.timeout())));
    }

    /// Makes a timer that is never reset pending, due at `tick`, and registers `waker`. For its
    /// owner alone. Ready if it has ended meanwhile.
    pub(crate) fn wait_until(self, tick: Tick, waker: &Waker) -> Poll<Outcome> {
        let DeadlineRef { shard, word } = self;
        if word.due() != Some(tick) {
            self.rearm(|word| word.set(tick));
        }
        match shard.register(waker, |locked| locked.entry_of(word)) {
            Some(_) => Poll::Pending,
            None => word.outcome(),
        }
    }

    /// Makes the deadline pending again by `set`.
    fn rearm(self, set: impl FnOnce(LockedWord<'_>)) {
        let DeadlineRef { shard, word } = self;
        let mut locked = shard.lock();
        // After the end the deadline never becomes pending, not even for a moment, and no due from
        // before it counts.
        if shard.clock.has_ended() {
            locked.word(word).cancel(Cancelled::SHUTDOWN);
            locked.unlink_word(word);
            return locked.unlock_and_wake();
        }
        set(locked.word(word));
        let due = locked.word(word).due();
        // A pending word has a timer. One that has ended has none.
        if !due.is_some_and(|due| locked.relink_word(word, due)) {
            locked.link_word(word);
        }
        shard.unlock_armed(locked, word);
    }

    /// Polls within the task's budget, and registers its waker.
    pub(crate) fn poll(self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let coop = ready!(coop::poll_proceed(cx));
        if self.word.outcome().is_pending() {
            let now = self.now();
            // A deadline that is due expires unless a stall spares it, whether or not the driver
            // has come to it.
            let registered = self.shard.register(cx.waker(), |locked| {
                match locked.decide(self.word, now)? {
                    // By the invariant a pending word has a timer.
                    Decision::Reschedule(_) | Decision::Spare(_) => locked.entry_of(self.word),
                    Decision::Fire(_) => None,
                }
            });
            if registered.is_some() {
                return Poll::Pending;
            }
        }
        coop.made_progress();
        self.word.outcome()
    }

    /// Changes the due of a deadline, and moves its timer. Returns `false` if it has ended.
    pub(crate) fn change(self, change: Change) -> bool {
        let DeadlineRef { shard, word } = self;
        let mut locked = shard.lock();
        // Read under the lock, or a call that waited for it would count from long ago.
        let (clock, now, timeout) = (&shard.clock, self.now(), word.timeout());
        let changed = locked.word(word).change(change.timeout(), |due| {
            let grace_end = |due, timeout| clock.grace_end(due, timeout, now);
            change.decide(due, timeout, now, clock.tick(), grace_end)
        });
        if let Some(changed) = changed {
            locked.follow(word, changed);
        }
        locked.unlock_and_wake();
        changed.is_some_and(|changed| !matches!(changed.found, Decision::Fire(_)))
    }

    /// Ends a pending deadline, and returns its due. `None` if it had ended before.
    pub(crate) fn end(self, outcome: Outcome) -> Option<Tick> {
        let mut locked = self.shard.lock();
        locked.decide(self.word, self.now());
        let due = locked.word(self.word).end(outcome);
        locked.unlink_word(self.word);
        locked.unlock_and_wake();
        due
    }

    /// Cancels a deadline that no task awaits any more, and does not wake a task.
    pub(crate) fn cancel_unawaited(self) {
        if self.word.outcome().is_pending() {
            let mut locked = self.shard.lock();
            locked.word(self.word).cancel(Cancelled::BY_HANDLE);
            locked.unlink_word(self.word);
            locked.unlock();
        }
    }

    pub(crate) fn is_pending(self) -> bool {
        self.word.outcome().is_pending() && self.due().is_some()
    }

    /// When the deadline is due, or `None` if it has ended; likewise for `remaining`.
    pub(crate) fn deadline(self) -> Option<Instant> {
        Some(self.shard.clock.start_of(self.due()?))
    }

    pub(crate) fn remaining(self) -> Option<Duration> {
        Some(self.left(self.due()?))
    }

    pub(crate) fn due(self) -> Option<Tick> {
        let mut locked = self.shard.lock();
        locked.decide(self.word, self.now());
        let due = locked.word(self.word).due();
        locked.unlock_and_wake();
        due
    }

    /// The time from now to a due, in whole milliseconds, without the excess over the timeout that
    /// comes from rounding up to a tick. The clock is read after the due: a reset after an earlier
    /// reading would have moved the due too far for it.
    pub(crate) fn left(self, due: Tick) -> Duration {
        let (tick, timeout) = (self.shard.clock.tick(), self.word.timeout());
        let left = tick.start_of(due).since(self.now());
        let left = Duration::from_millis(left.as_millis() as u64);
        if left < timeout.saturating_add(tick.as_duration()) {
            left.min(timeout)
        } else {
            left
        }
    }

    #[inline]
    pub(crate) fn now(self) -> Moment {
        self.shard.clock.now()
    }
}

impl Locked<'_> {
    /// Like the shard's `decide`, and also unlinks the timer of a deadline that expires.
    fn decide(&mut self, word: &Word, now: Moment) -> Option<Decision> {
        let decision = self.shard.decide(self.word(word), now);
        if let Some(Decision::Fire(_)) = decision {
            self.unlink_word(word);
        }
        decision
    }

    /// Lets the timer of a deadline follow a change.
    fn follow(&mut self, word: &Word, changed: Changed) {
        let Changed { found, from, .. } = changed;
        if matches!(found, Decision::Spare(_)) && self.is_linked_by(word, from) {
            self.state.counts.spared += 1;
        }
        match changed.made {
            Decision::Fire(_) => self.unlink_word(word),
            Decision::Reschedule(tick) | Decision::Spare(tick) => {
                let _ = self.relink_word(word, tick);
                // Without the lock, the due has only become later since it was last seen.
                let is_earlier = matches!(found, Decision::Reschedule(_)) && tick < from;
                if is_earlier && self.word(word).wakes_if_earlier() {
                    self.take_waker(word);
                }
            }
        }
    }

    /// If the runtime has ended, the shard is closed or about to be, and nothing is armed.
    #[inline]
    fn link_word(&mut self, word: &Arc<Word>) {
        if self.shard.clock.has_ended() {
            self.word(word).cancel(Cancelled::SHUTDOWN);
        }
        if let Some(due) = self.word(word).due() {
            let key = self.link(due, word);
            self.word(word).set_key(key.to_parts());
        }
    }

    /// Links the timer of a pending word at another tick. `false` if it has none.
    fn relink_word(&mut self, word: &Word, tick: Tick) -> bool {
        self.key_of(word).is_some_and(|key| self.relink(key, tick))
    }

    /// Whether a word's timer is linked at its due or earlier: the driver has not come to it.
    fn is_linked_by(&self, word: &Word, due: Tick) -> bool {
        let linked = self.key_of(word).and_then(|key| self.state.wheel.due(key));
        linked.is_some_and(|linked| linked <= due.get())
    }

    #[inline]
    fn unlink_word(&mut self, word: &Word) {
        if let Some(key) = self.key_of(word) {
            self.unlink(key);
        }
    }

    /// Takes the waker of a pending word's timer, to be woken after the lock. The task registers
    /// again in its next poll.
    fn take_waker(&mut self, word: &Word) {
        self.waker = self.entry_of(word).and_then(|entry| entry.waker.take());
    }

    fn entry_of(&mut self, word: &Word) -> Option<&mut Entry> {
        let key = self.key_of(word)?;
        self.state.wheel.get_mut(key)
    }

    fn key_of(&self, word: &Word) -> Option<Key> {
        Key::from_parts(self.word(word).key())
    }
}
