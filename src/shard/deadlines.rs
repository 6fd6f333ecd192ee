//! The calls of deadlines: [`DeadlineRef`], the shard and the word of a deadline, borrowed from
//! whatever holds them.
//!
//! Invariants:
//!
//! - While a word is pending and the shard is open, the wheel holds exactly one timer for it. That
//!   timer is linked at the word's true due or earlier. Each function here restores this before it
//!   lets the lock go.
//! - The caller holds no lock, not even a map's, but for `try_reset`. Each function wakes the
//!   waiting task after it has unlocked the shard.
//! - A call that makes a deadline no earlier never ends one that is overdue but in its grace. A
//!   deadline that a call makes earlier is judged by the clock alone.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::Shard;
use super::locked::{Entry, Locked};
use super::word::{Expiry, LockedWord, MapTag, Word};
use crate::clock::stalls::PassedDeadline;
use crate::clock::tick::{Moment, Tick};
use crate::error::Cancelled;
use crate::runtime::coop;
use crate::wheel::Key;

#[derive(Clone, Copy)]
pub(crate) struct DeadlineRef<'a> {
    pub(crate) shard: &'a Arc<Shard>,
    pub(crate) word: &'a Arc<Word>,
}

/// How a call changes when a pending deadline is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// It counts its timeout from now.
    Reset,
    /// It is due then, once.
    MoveTo(Moment),
    /// It is due that much later, once. In a grace that counts from now.
    Extend(Duration),
    /// It counts another timeout from its last reset.
    SetTimeout(Duration),
}

impl Shard {
    /// Makes a deadline that counts from `now`, and arms it. A closed shard settles it.
    pub(crate) fn arm_deadline(&self, now: Moment, timeout: Duration, tag: MapTag) -> Arc<Word> {
        let word = Arc::new(Word::new(now, timeout, tag));
        let mut locked = self.lock();
        locked.link_word(&word);
        self.unlock_armed(locked, &word);
        word
    }

    /// If tokio's time driver has worked up to the word's tick already, no turn comes for it. The
    /// deadline has passed, and expires here and now.
    #[inline]
    fn unlock_armed(&self, locked: Locked<'_>, word: &Word) {
        if locked.unlock() {
            self.expire_passed(word);
        }
    }

    #[cold]
    fn expire_passed(&self, word: &Word) {
        let now = self.clock.now();
        let mut locked = self.lock();
        locked.expire_if(word, |_, due| due <= now);
        locked.unlock_and_wake();
    }

    /// The grace of a pending deadline that has passed at `now`, if a stall gives it one: when it
    /// ends.
    fn grace_at(&self, word: LockedWord<'_>, now: Moment) -> Option<Moment> {
        let due = word.due().filter(|&due| due <= now)?;
        self.clock.grace_at(passed(word, due), now)
    }

    /// The tick at which the grace ends that a stall gives to a deadline, once the driver has come.
    pub(super) fn grace_end(&self, word: LockedWord<'_>, due: Moment) -> Option<Tick> {
        let end = self.clock.stalls().grace_end(passed(word, due))?;
        Some(self.clock.tick().due(end))
    }
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
        self.word.reset(now, self.shard.clock.reset_start(now))
    }

    /// Makes it pending again, so that it counts from now. This is for the owner of the deadline
    /// alone.
    pub(crate) fn restart(self) {
        let DeadlineRef { shard, word } = self;
        let mut locked = shard.lock();
        if shard.clock.has_ended() {
            // It never becomes pending, not even for a moment.
            locked.word(word).end(Cancelled::SHUTDOWN);
            return;
        }
        locked.word(word).restart(shard.clock.now());
        // A word that was pending has a timer. A word that was settled has none.
        if !locked.relink_word(word, locked.word(word).due()) {
            locked.link_word(word);
        }
        shard.unlock_armed(locked, word);
    }

    /// Polls within the budget of the task, which is woken when the deadline ends.
    pub(crate) fn poll(self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let coop = ready!(coop::poll_proceed(cx));
        if self.word.outcome().is_pending() {
            let now = self.now();
            // A deadline that has passed expires, whether or not the driver has come to it.
            let registered = self.shard.register(cx.waker(), |locked| {
                match locked.expire_if_over(self.word, now) {
                    // By the invariant a pending word has a timer.
                    Expiry::Later(_) => locked.entry_of(self.word).ok_or(()),
                    Expiry::Expired(_) | Expiry::Settled(_) => Err(()),
                }
            });
            if registered.is_ok() {
                return Poll::Pending;
            }
        }
        coop.made_progress();
        self.word.outcome()
    }

    /// Changes when the deadline is due, and moves its timer. `false` if it has come to its end.
    pub(crate) fn change(self, change: Change) -> bool {
        let DeadlineRef { shard, word } = self;
        let mut locked = shard.lock();
        // Read under the lock, or a call that was held up before it would count from long ago.
        let now = self.now();
        let Expiry::Later(_) = locked.expire_if_over(word, now) else {
            if let Change::SetTimeout(timeout) = change {
                // It holds from the next restart on.
                locked.word(word).set_timeout(timeout);
            }
            locked.unlock_and_wake();
            return false;
        };
        let grace_end = shard.grace_at(locked.word(word), now);
        if grace_end.is_some() && locked.is_overdue(word) {
            locked.state.counts.spared += 1;
        }
        let word_held = locked.word(word);
        let mut may_be_earlier = true;
        match change {
            Change::Reset => word_held.restart_from(now),
            Change::MoveTo(due) => word_held.set_once(|_| due),
            Change::Extend(by) => {
                may_be_earlier = false;
                word_held.set_once(|due| {
                    // It may be due before the grace of a stall ends, and would have had that.
                    let spared = || shard.clock.stalls().grace_end(passed(word_held, due));
                    let from = grace_end.map_or(due, |_| now);
                    from.after(by).max(grace_end.or_else(spared).unwrap_or(due))
                });
            }
            Change::SetTimeout(timeout) => {
                may_be_earlier = timeout < word_held.timeout();
                word_held.set_timeout(timeout);
            }
        }
        if may_be_earlier {
            // It may have been moved to a moment that has passed.
            locked.expire_if(word, |_, due| due <= now);
        }
        let word_held = locked.word(word);
        let expires = shard.grace_at(word_held, now).or(word_held.due());
        locked.relink_word(word, expires);
        locked.unlock_and_wake();
        true
    }

    /// Brings a pending deadline to its end, and returns the time that it had left. `None` if it
    /// had come to its end before.
    pub(crate) fn settle(self, outcome: Result<(), Cancelled>) -> Option<Duration> {
        let mut locked = self.shard.lock();
        let now = self.now();
        locked.expire_if_over(self.word, now);
        let left = locked.word(self.word).settle(now, outcome);
        locked.unlink_word(self.word);
        locked.unlock_and_wake();
        left
    }

    /// Cancels a deadline that no task awaits any more. This wakes none.
    pub(crate) fn cancel_unawaited(self) {
        if self.word.outcome().is_pending() {
            let mut locked = self.shard.lock();
            locked.word(self.word).end(Cancelled::BY_HANDLE);
            locked.unlink_word(self.word);
            locked.unlock();
        }
    }

    pub(crate) fn is_pending(self) -> bool {
        self.word.outcome().is_pending() && self.due_and_left().is_some()
    }

    /// When the deadline is due. `None` if it has come to its end, here and in `remaining`.
    pub(crate) fn deadline(self) -> Option<Instant> {
        Some(self.shard.clock.instant(self.due_and_left()?.0))
    }

    /// The time that is left, never more than the timeout.
    pub(crate) fn remaining(self) -> Option<Duration> {
        Some(self.due_and_left()?.1)
    }

    fn due_and_left(self) -> Option<(Moment, Duration)> {
        let mut locked = self.shard.lock();
        let now = self.now();
        locked.expire_if_over(self.word, now);
        let due_and_left = locked.word(self.word).due_and_left(now);
        locked.unlock_and_wake();
        due_and_left
    }

    #[inline]
    pub(crate) fn now(self) -> Moment {
        self.shard.clock.now()
    }
}

/// What a stall has to know of a deadline that passes at `due`.
fn passed(word: LockedWord<'_>, due: Moment) -> PassedDeadline {
    PassedDeadline {
        due,
        timeout: word.timeout(),
        is_set_once: word.is_set_once(),
    }
}

/// The timer of a word.
impl Locked<'_> {
    /// Expires the word if its deadline has passed at `now`, and no stall spares it. So the answer
    /// is the same whether the driver or a handle comes first.
    fn expire_if_over(&mut self, word: &Word, now: Moment) -> Expiry {
        let clock = &self.shard.clock;
        self.expire_if(word, |word, due| {
            due <= now && clock.grace_at(passed(word, due), now).is_none()
        })
    }

    /// Expires the word if its deadline has passed, and takes its timer out.
    fn expire_if(
        &mut self,
        word: &Word,
        has_passed: impl Fn(LockedWord<'_>, Moment) -> bool,
    ) -> Expiry {
        let word_held = self.word(word);
        let expiry = word_held.expire_if(|due| has_passed(word_held, due));
        if let Expiry::Expired(_) = expiry {
            self.unlink_word(word);
        }
        expiry
    }

    /// If the runtime has ended, the shard is closed, or is in a moment, and nothing is armed.
    #[inline]
    fn link_word(&mut self, word: &Arc<Word>) {
        if self.shard.clock.has_ended() {
            self.word(word).end(Cancelled::SHUTDOWN);
        }
        if let Some(due) = self.word(word).due() {
            let key = self.link(self.shard.clock.tick().due(due), word);
            self.word(word).set_key(key.to_parts());
        }
    }

    /// Links the timer of a pending word at another due; `false` if it has none.
    fn relink_word(&mut self, word: &Word, due: Option<Moment>) -> bool {
        let key = self.key_of(word).zip(due);
        key.is_some_and(|(key, due)| self.relink(key, self.shard.clock.tick().due(due)))
    }

    /// Whether the timer of a pending word is linked where it was due, and the driver has not come
    /// to it.
    fn is_overdue(&self, word: &Word) -> bool {
        let due = self.word(word).due();
        let due = due.map(|due| self.shard.clock.tick().due(due).get());
        let linked = self.key_of(word).and_then(|key| self.state.wheel.due(key));
        linked.is_some() && linked <= due
    }

    #[inline]
    fn unlink_word(&mut self, word: &Word) {
        if let Some(key) = self.key_of(word) {
            self.unlink(key);
        }
    }

    fn entry_of(&mut self, word: &Word) -> Option<&mut Entry> {
        let key = self.key_of(word)?;
        self.state.wheel.get_mut(key)
    }

    fn key_of(&self, word: &Word) -> Option<Key> {
        Key::from_parts(self.word(word).key())
    }
}
