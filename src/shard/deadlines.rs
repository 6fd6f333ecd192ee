//! A shard's calls for deadlines: everything about a `Word` that needs the lock.
//!
//! Invariants:
//!
//! - While a word is pending and the shard is open, the wheel holds exactly one timer for it. That
//!   timer is linked at the word's true due or earlier. Each function here restores this before it
//!   lets the lock go.
//! - The caller holds no lock, not even a map's. Each function wakes whom it has to wake, after the
//!   shard's lock.
//! - A call that makes a deadline no earlier ends none that has passed and is in the grace of a
//!   stall. A deadline that a call makes earlier is judged by the clock alone.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::Shard;
use super::locked::{Entry, Locked};
use super::word::{EXPIRED, Expiry, LockedWord, State, Word};
use crate::clock::stalls::PassedDeadline;
use crate::clock::tick::{Moment, Span, Tick};
use crate::error::Cancelled;
use crate::wheel::Key;

/// The report on a pending deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) deadline: Moment,
    /// The time that is left, never more than its timeout.
    pub(crate) left: Duration,
}

/// How a call changes when a pending deadline is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// It counts its timeout from now.
    Reset,
    /// It is due then, once.
    MoveTo(Moment),
    /// It is due that much later, once. In a grace that counts from now.
    Extend(Span),
    /// It counts another timeout from its last reset.
    SetTimeout(Duration),
}

impl Shard {
    /// Arms the timer of a word that was just made. A closed shard settles the word.
    pub(crate) fn arm_word(&self, word: &Arc<Word>) {
        let mut locked = self.lock();
        locked.link_word(word);
        if locked.unlock().notify_driver() {
            self.expire_passed_word(word);
        }
    }

    /// Makes a word pending again, so that it counts from now, and arms or moves its timer. On a
    /// closed shard the word never becomes pending, not even for a moment.
    pub(crate) fn restart_word(&self, word: &Arc<Word>) {
        let mut locked = self.lock();
        if locked.is_closed() {
            locked.word(word).shut_down();
        } else {
            locked.word(word).restart(self.clock.now());
            // A word that was pending has a timer. A word that was settled has none.
            match locked.word(word).due() {
                Some(due) if locked.entry_of(word).is_some() => locked.relink_word(word, due),
                _ => locked.link_word(word),
            }
        }
        if locked.unlock().notify_driver() {
            self.expire_passed_word(word);
        }
    }

    /// Expires a word whose deadline has passed, and wakes the task that awaits it. No turn comes
    /// by a tick up to which tokio's time driver has worked already.
    #[cold]
    fn expire_passed_word(&self, word: &Word) {
        let now = self.clock.now();
        let mut locked = self.lock();
        locked.expire_if(word, |_, due| due <= now);
        locked.unlock().wake();
    }

    /// From now on the word's timer wakes `waker`. A deadline that has passed expires here and now.
    pub(crate) fn poll_word(&self, word: &Word, waker: &Waker) -> Poll<Result<(), Cancelled>> {
        let now = self.clock.now();
        let registered = self.register(waker, |locked| {
            match self.expire_if_over(locked, word, now) {
                Expiry::Settled(outcome) => Err(outcome),
                Expiry::Expired(_) => Err(EXPIRED),
                // By the invariant a pending word has a timer. Otherwise its shard was closed and
                // has settled it.
                Expiry::Later(_) => locked.entry_of(word).ok_or(Err(Cancelled::SHUTDOWN)),
            }
        });
        registered.map_or_else(Poll::Ready, |_| Poll::Pending)
    }

    /// Changes when a deadline is due, and moves its timer. `false` if the word has come to its
    /// end.
    pub(crate) fn change_word(&self, word: &Word, change: Change) -> bool {
        let mut locked = self.lock();
        // Read under the lock, or a call that was held up before it would count from long ago.
        let now = self.clock.now();
        if !matches!(
            self.expire_if_over(&mut locked, word, now),
            Expiry::Later(_)
        ) {
            if let Change::SetTimeout(timeout) = change {
                // It holds from the next restart on.
                locked.word(word).set_timeout(timeout);
            }
            locked.unlock().wake();
            return false;
        }
        let grace_end = self.grace_at(locked.word(word), now);
        if grace_end.is_some() && locked.is_overdue(word) {
            locked.counts_mut().spared += 1;
        }
        if self.apply(locked.word(word), change, now, grace_end) {
            // It may have been moved to a moment that has passed.
            locked.expire_if(word, |_, due| due <= now);
        }
        let word_held = locked.word(word);
        let expires = self.grace_at(word_held, now).or(word_held.due());
        if let Some(expires) = expires {
            locked.relink_word(word, expires);
        }
        locked.unlock().wake();
        true
    }

    /// Returns whether the change may have made the deadline earlier.
    fn apply(
        &self,
        word: LockedWord<'_>,
        change: Change,
        now: Moment,
        grace_end: Option<Moment>,
    ) -> bool {
        match change {
            Change::Reset => {
                word.restart_from(now);
                true
            }
            Change::MoveTo(due) => {
                word.set_once(|_| due);
                true
            }
            Change::Extend(by) => {
                let stalls = self.clock.stalls();
                word.set_once(|due| match grace_end {
                    Some(end) => now.after(by).max(end),
                    // It may be due before the grace of a stall ends, and would have had that.
                    None => {
                        let end = stalls.grace_end(passed(word, due));
                        due.after(by).max(end.unwrap_or(due))
                    }
                });
                false
            }
            Change::SetTimeout(timeout) => {
                let is_shorter = timeout < word.timeout();
                word.set_timeout(timeout);
                is_shorter
            }
        }
    }

    /// Brings a pending word to its end, takes its timer out, and returns the time that it had left
    /// at `now`. `None` if it had come to its end before.
    pub(crate) fn settle_word(
        &self,
        word: &Word,
        now: Moment,
        outcome: Result<(), Cancelled>,
    ) -> Option<Duration> {
        let mut locked = self.lock();
        self.expire_if_over(&mut locked, word, now);
        let before = locked.word(word).settle(outcome);
        let left = before.map(|before| {
            locked.unlink_word(word);
            self.left(locked.word(word), before, now)
        });
        locked.unlock().wake();
        left
    }

    /// When a pending word is due, and how much time is left at `now`.
    pub(crate) fn report_of_word(&self, word: &Word, now: Moment) -> Option<Report> {
        let mut locked = self.lock();
        self.expire_if_over(&mut locked, word, now);
        let reported = {
            let word = locked.word(word);
            let state = word.state();
            word.due_of(state).map(|deadline| Report {
                deadline,
                left: self.left(word, state, now),
            })
        };
        locked.unlock().wake();
        reported
    }

    /// The time that is left at `now`, by what the word said. A due that was set once may have been
    /// set after `now` was read, so for that the clock is read again.
    fn left(&self, word: LockedWord<'_>, said: State, now: Moment) -> Duration {
        match said {
            State::Once(_) => word.left(said, self.clock.now()),
            State::Counting(_) | State::Settled(_) => word.left(said, now),
        }
    }

    /// Cancels a word that nobody awaits any more.
    pub(crate) fn drop_word(&self, word: &Word) {
        let mut locked = self.lock();
        locked.word(word).settle(Err(Cancelled::BY_HANDLE));
        locked.unlink_word(word);
        // This wakes nobody, and drops the waker.
        locked.unlock().notify_driver();
    }

    /// Expires the word if its deadline has passed at `now`, and no stall spares it.
    fn expire_if_over(&self, locked: &mut Locked<'_>, word: &Word, now: Moment) -> Expiry {
        locked.expire_if(word, |word, due| {
            due <= now && self.clock.grace_at(passed(word, due), now).is_none()
        })
    }

    /// The grace of a deadline that has passed at `now`, if a stall gives it one: when it ends.
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

/// Tells whether a stall spares a deadline that passes at `due`.
fn passed(word: LockedWord<'_>, due: Moment) -> PassedDeadline {
    PassedDeadline {
        due,
        timeout: word.timeout(),
        is_set_once: word.is_set_once(),
    }
}

/// The timer of a word.
impl Locked<'_> {
    /// Expires the word if its deadline has passed, and takes its timer out. So the answer is the
    /// same whether the driver or a handle looks first.
    fn expire_if(
        &mut self,
        word: &Word,
        has_passed: impl Fn(LockedWord<'_>, Moment) -> bool,
    ) -> Expiry {
        let expiry = {
            let word = self.word(word);
            word.expire_if(|due| has_passed(word, due))
        };
        if let Expiry::Expired(_) = expiry {
            self.unlink_word(word);
        }
        expiry
    }

    fn link_word(&mut self, word: &Arc<Word>) {
        if self.is_closed() {
            self.word(word).settle(Err(Cancelled::SHUTDOWN));
        }
        let Some(due) = self.word(word).due() else {
            return;
        };
        let tick = self.tick().due(due);
        let key = self.link(tick, word);
        self.word(word).set_key(key.to_parts());
    }

    fn relink_word(&mut self, word: &Word, due: Moment) {
        if let Some(key) = self.key_of(word) {
            self.relink(key, self.tick().due(due));
        }
    }

    /// Whether the timer of a pending word is linked where it was due, and the driver has not come
    /// to it.
    fn is_overdue(&self, word: &Word) -> bool {
        let due = self.word(word).due().map(|due| self.tick().due(due));
        let linked = self.key_of(word).and_then(|key| self.linked_at(key));
        linked.is_some() && linked <= due
    }

    fn unlink_word(&mut self, word: &Word) {
        if let Some(key) = self.key_of(word) {
            self.unlink(key);
        }
    }

    fn entry_of(&mut self, word: &Word) -> Option<&mut Entry> {
        let key = self.key_of(word)?;
        self.entry(key)
    }

    fn key_of(&self, word: &Word) -> Option<Key> {
        Key::from_parts(self.word(word).key())
    }
}
