//! The part of a shard that serves deadlines: everything of a `Word` that needs the lock.
//!
//! Invariants:
//!
//! - While a word is pending and the shard is open, the wheel holds exactly one timer for it,
//!   linked at its true due or earlier. Each function here restores that before it lets the lock
//!   go.
//! - What may be called with a map's lock held wakes nobody. It gives back what is left to do as
//!   [`Afterwards`].

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::Shard;
use super::locked::{Afterwards, Entry, Locked, TrueDue};
use super::locked_word::LockedWord;
use super::word::{Expiry, Outcome, Status, Word};
use crate::time::due::{Due, Start};
use crate::time::tick::Moment;
use crate::wheel::Key;

/// What is told of a pending deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) deadline: Moment,
    /// Never more than its timeout.
    pub(crate) left: Duration,
}

impl Shard {
    /// Arms the timer of a word that was just made. On a closed shard the word is settled.
    pub(crate) fn arm_word(&self, word: &Arc<Word>) {
        let mut locked = self.lock();
        locked.link_word(word);
        locked.unlock().tell();
    }

    /// Makes a word pending again, counting from now, and arms or moves its timer. On a closed
    /// shard the word never becomes pending, not for a moment.
    pub(crate) fn restart_word(&self, word: &Arc<Word>) {
        let mut locked = self.lock();
        if locked.closed().is_some() {
            locked.word(word).shut_down();
        } else {
            locked
                .word(word)
                .restart(|| self.start_under_lock(word.timeout().is_stampable()));
            // One that was pending has a timer. One that was settled has none.
            if locked.entry_of(word).is_some() {
                locked.relink_word(word);
            } else {
                locked.link_word(word);
            }
        }
        locked.unlock().tell();
    }

    /// From now on the word's timer wakes `waker`. A deadline that has passed expires here and now.
    pub(crate) fn poll_word(&self, word: &Word, waker: &Waker) -> Status {
        let now = self.clock.now();
        let registered = self.register(waker, |locked| {
            match locked.expire_if(word, |due| self.clock.has_passed(due, now)) {
                Expiry::Settled(outcome) => Err(outcome),
                Expiry::Expired => Err(Outcome::Expired),
                // The invariant: what is pending has a timer, or its shard was closed and has
                // settled it.
                Expiry::Later(_) => locked.entry_of(word).ok_or(Outcome::ShutDown),
            }
        });
        registered.map_or_else(Status::Settled, |()| Status::Pending)
    }

    /// Lets `change` change the word in a call that began at `start`, and moves its timer; `false`
    /// if the word has come to its end. By a stamp it is seen to have passed only if the driver has
    /// come to that.
    pub(crate) fn change_word(
        self: &Arc<Self>,
        word: &Word,
        start: Start,
        change: impl FnOnce(LockedWord<'_>),
    ) -> (bool, Afterwards) {
        let tick = self.clock.tick();
        let placed = |due: Option<Due>| due.map(|due| due.placed(tick));
        let mut locked = self.lock();
        let looked = locked.expire_if(word, |due| self.clock.has_passed_by(due, start));
        let found = if let Expiry::Later(before) = looked {
            change(locked.word(word));
            let is_earlier = placed(locked.word(word).due()) < placed(Some(before));
            let expiry = locked.expire_if(word, |due| match start {
                // Where it was moved to a moment before the stamp, only the clock tells.
                Start::Stamp(_) if is_earlier => self.clock.has_passed(due, self.clock.now()),
                _ => self.clock.has_passed_by(due, start),
            });
            locked.relink_word(word);
            !matches!(expiry, Expiry::Settled(_))
        } else {
            change(locked.word(word));
            false
        };
        (found, locked.unlock().later(self))
    }

    /// Links the timer of a word anew that was moved with no lock held, and so may be linked later
    /// than it is due.
    pub(crate) fn link_word_anew(self: &Arc<Self>, word: &Word) -> Afterwards {
        let mut locked = self.lock();
        locked.relink_word(word);
        locked.unlock().later(self)
    }

    /// Brings a pending word to its end, takes its timer out and gives the time that it had left at
    /// `now`; `None` if it had come to its end before. Either way the task that awaits it may be
    /// left to wake.
    pub(crate) fn settle_word(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
        outcome: Outcome,
    ) -> (Option<Duration>, Afterwards) {
        let mut locked = self.lock();
        locked.expire_if(word, |due| self.clock.has_passed(due, now));
        let now = now.max(self.stand_by_what_is_told(&locked, word, now));
        let before = locked.word(word).settle(outcome);
        let left = before.map(|before| {
            locked.unlink_word(word);
            locked
                .word(word)
                .left_before(before, now, self.clock.tick())
        });
        (left, locked.unlock().later(self))
    }

    /// When a pending word is due, and how much time is left at `now`.
    pub(crate) fn told_of_word(
        self: &Arc<Self>,
        word: &Word,
        mut now: Moment,
    ) -> (Option<Told>, Afterwards) {
        let mut locked = self.lock();
        locked.expire_if(word, |due| self.clock.has_passed(due, now));
        // A reset that comes by while the driver ticks lets it count from a stamp again.
        let deadline = loop {
            now = self.stand_by_what_is_told(&locked, word, now);
            match locked.word(word).due() {
                Some(Due::Stamped(_)) => {}
                Some(Due::At(deadline)) => break Some(deadline),
                None => break None,
            }
        };
        let left = locked.word(word).left(now, self.clock.tick());
        let told = deadline.map(|deadline| Told {
            deadline,
            left: left.unwrap_or_default(),
        });
        if let Some(deadline) = deadline {
            locked.relink_word_at(word, Due::At(deadline));
        }
        (told, locked.unlock().later(self))
    }

    /// Whether a word is pending.
    pub(crate) fn word_is_pending(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
    ) -> (bool, Afterwards) {
        let mut locked = self.lock();
        let looked = locked.expire_if(word, |due| self.clock.has_passed(due, now));
        let is_pending = matches!(looked, Expiry::Later(_));
        (is_pending, locked.unlock().later(self))
    }

    /// Cancels a word that nobody will await any more.
    pub(crate) fn drop_word(&self, word: &Word) {
        let mut locked = self.lock();
        locked.word(word).settle(Outcome::Cancelled);
        locked.unlink_word(word);
        // Nobody is woken: its waker is dropped.
        locked.unlock().tell();
    }

    /// What counts from a stamp is not known before the window of the stamp has ended. What is told
    /// of it counts from a moment that is not before the call, nor after the window's end. Gives a
    /// moment, `now` or later, that is not before that from which it counts.
    fn stand_by_what_is_told(&self, locked: &Locked<'_>, word: &Word, now: Moment) -> Moment {
        let word = locked.word(word);
        if !matches!(word.due(), Some(Due::Stamped(_))) {
            return now;
        }
        word.count_from(|stamp| self.clock.told_start(stamp), self.clock.tick());
        self.clock.now()
    }
}

/// The timer of a word.
impl Locked<'_> {
    /// Expires the word if its deadline has passed, and takes its timer out. So the answer is the
    /// same whoever looks first, the driver or somebody with a handle.
    fn expire_if(&mut self, word: &Word, has_passed: impl Fn(Due) -> bool) -> Expiry {
        let expiry = self.word(word).expire_if(has_passed);
        if expiry == Expiry::Expired {
            self.unlink_word(word);
        }
        expiry
    }

    fn link_word(&mut self, word: &Arc<Word>) {
        if self.closed().is_some() {
            self.word(word).settle(Outcome::ShutDown);
        }
        let Some(due) = self.word(word).due() else {
            return;
        };
        let tick = due.placed(self.tick());
        let key = self.link(tick, TrueDue::Word(word.clone()), None);
        self.word(word).set_key(key.to_parts());
    }

    /// Links the timer where the word is due now, if it is pending.
    fn relink_word(&mut self, word: &Word) {
        if let Some(due) = self.word(word).due() {
            self.relink_word_at(word, due);
        }
    }

    fn relink_word_at(&mut self, word: &Word, due: Due) {
        let tick = due.placed(self.tick());
        if let Some(key) = self.key_of(word) {
            self.relink(key, tick);
        }
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
