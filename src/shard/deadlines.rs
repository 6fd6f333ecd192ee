//! What a shard does for deadlines: everything about a `Word` that needs the lock.
//!
//! Invariants:
//!
//! - While a word is pending and the shard is open, the wheel holds exactly one timer for it. That
//!   timer is linked at the word's true due or earlier. Each function here restores this before it
//!   lets the lock go.
//! - The caller holds no lock, not even a map's. Each function wakes whom it has to wake, after the
//!   shard's lock.

use std::cell::Cell;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::Shard;
use super::locked::{DueSource, Entry, Locked};
use super::locked_word::LockedWord;
use super::word::State;
use super::word::{Expiry, Outcome, Status, Word};
use crate::driver::Spared;
use crate::time::stamp::{Due, Start};
use crate::time::tick::Moment;
use crate::wheel::Key;

/// What is reported of a pending deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    pub(crate) deadline: Moment,
    /// The time that is left, never more than its timeout.
    pub(crate) left: Duration,
}

/// How a call has found the word that it acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The caller has it.
    Handle,
    /// By a key, in a map that may have let it go since. It may even have been restarted since, as
    /// a deadline to which no key leads.
    Key,
}

impl By {
    /// Whether the key leads elsewhere by now. Call this under the shard's lock.
    fn misses(self, word: &Word) -> bool {
        self == By::Key && word.has_left_map()
    }
}

impl Shard {
    /// Arms the timer of a word that was just made. A closed shard settles the word.
    pub(crate) fn arm_word(&self, word: &Arc<Word>) {
        let mut locked = self.lock();
        locked.link_word(word);
        if locked.unlock().tell() {
            self.expire_passed_word(word);
        }
    }

    /// Makes a word pending again, so that it counts from now, and arms or moves its timer. If that
    /// has passed, as a timeout of zero has, the word expires here and now. On a closed shard the
    /// word never becomes pending, not even for a moment.
    pub(crate) fn restart_word(&self, word: &Arc<Word>) {
        let mut locked = self.lock();
        if locked.closed().is_some() {
            locked.word(word).shut_down();
        } else {
            locked
                .word(word)
                .restart(|| self.start_under_lock(word.timeout().is_stampable()));
            // A word that was pending has a timer. A word that was settled has none.
            if locked.entry_of(word).is_some() {
                locked.relink_word(word);
            } else {
                locked.link_word(word);
            }
            // Its owner looks by itself.
            word.mark_moved();
        }
        if locked.unlock().tell() || word.timeout_set().is_zero() {
            self.expire_passed_word(word);
        }
    }

    /// Expires a word whose deadline has passed, and wakes the task that awaits it. No turn comes
    /// by a tick up to which tokio's time driver has worked already.
    #[cold]
    fn expire_passed_word(&self, word: &Word) {
        let now = self.clock.now();
        let mut locked = self.lock();
        locked.expire_if(word, |due| self.clock.has_passed(due, now));
        locked.unlock().wake();
    }

    /// From now on the word's timer wakes `waker`. A deadline that has passed expires here and now.
    pub(crate) fn poll_word(&self, word: &Word, waker: &Waker) -> Status {
        let now = self.clock.now();
        let registered = self.register(waker, |locked| {
            match locked.expire_if(word, |due| self.has_passed(word, due, now)) {
                Expiry::Settled(outcome) => Err(outcome),
                Expiry::Expired => Err(Outcome::Expired),
                // By the invariant a pending word has a timer. Otherwise its shard was closed and
                // has settled it.
                Expiry::Later(_) => locked.entry_of(word).ok_or(Outcome::ShutDown),
            }
        });
        registered.map_or_else(Status::Settled, |()| Status::Pending)
    }

    /// Lets `change` change the word in a call that began at `start`, and moves its timer. `false`
    /// if the word has come to its end. By a stamp the deadline counts as passed only if the driver
    /// has come to that time.
    pub(crate) fn change_word(
        &self,
        word: &Word,
        by: By,
        start: Start,
        change: impl FnOnce(LockedWord<'_>),
    ) -> bool {
        let mut locked = self.lock();
        if by.misses(word) {
            return false;
        }
        let is_spared = Cell::new(false);
        let looked = locked.expire_if(word, |due| {
            let has_passed = self.clock.has_passed_by(due, start);
            is_spared.set(has_passed && self.is_spared(word, due, self.clock.now()));
            has_passed && !is_spared.get()
        });
        let is_pending = matches!(looked, Expiry::Later(_));
        if is_spared.get() && locked.is_overdue(word) {
            locked.count_spared(1);
        }
        change(locked.word(word));
        if is_pending {
            // It may have been moved to a moment that has passed. Only the clock shows that.
            locked.expire_if(word, |due| self.clock.has_passed(due, self.clock.now()));
            locked.relink_word(word);
            locked.wake_watcher(word);
        }
        locked.unlock().wake();
        is_pending
    }

    /// Links the timer of a word anew, after the word was moved with no lock held. So the timer may
    /// have been linked later than it is due.
    pub(crate) fn link_word_anew(&self, word: &Word) {
        let mut locked = self.lock();
        locked.relink_word(word);
        locked.unlock().wake();
    }

    /// Brings a pending word to its end, takes its timer out, and returns the time that it had left
    /// at `now`. `None` if it had come to its end before.
    pub(crate) fn settle_word(
        &self,
        word: &Word,
        by: By,
        now: Moment,
        outcome: Outcome,
    ) -> Option<Duration> {
        let mut locked = self.lock();
        if by.misses(word) {
            return None;
        }
        locked.expire_if(word, |due| self.has_passed(word, due, now));
        let now = now.max(self.stand_by_what_is_reported(&locked, word, now));
        let before = locked.word(word).settle(outcome);
        let left = before.map(|before| {
            locked.unlink_word(word);
            self.left(&locked, word, before, now)
        });
        locked.unlock().wake();
        left
    }

    /// When a pending word is due, and how much time is left at `now`.
    pub(crate) fn report_of_word(&self, word: &Word, by: By, mut now: Moment) -> Option<Reported> {
        let mut locked = self.lock();
        if by.misses(word) {
            return None;
        }
        locked.expire_if(word, |due| self.has_passed(word, due, now));
        // A reset may come meanwhile while the driver ticks. Then the word counts from a stamp
        // again.
        let deadline = loop {
            now = self.stand_by_what_is_reported(&locked, word, now);
            match locked.word(word).due() {
                Some(Due::Stamped(_)) => {}
                Some(Due::At(deadline)) => break Some(deadline),
                None => break None,
            }
        };
        let present = locked.word(word).present();
        let left = present.map(|present| self.left(&locked, word, present, now));
        let told = deadline.map(|deadline| Reported {
            deadline,
            left: left.unwrap_or_default(),
        });
        // One that has passed is linked where the driver comes to it.
        if let Some(deadline) = deadline.filter(|&deadline| deadline > now) {
            locked.relink_word_at(word, Due::At(deadline));
        }
        locked.unlock().wake();
        told
    }

    /// The time that is left at `now` by what the word said. A reset for once takes no lock, and
    /// may have come after `now` was read. So then the clock is read again.
    fn left(&self, locked: &Locked<'_>, word: &Word, said: State, now: Moment) -> Duration {
        let now = if said.is_once() {
            self.clock.now()
        } else {
            now
        };
        let tick = self.clock.tick();
        locked.word(word).left_before(said, now, tick)
    }

    /// Whether a word is pending.
    pub(crate) fn word_is_pending(&self, word: &Word, now: Moment) -> bool {
        let mut locked = self.lock();
        let looked = locked.expire_if(word, |due| self.has_passed(word, due, now));
        let is_pending = matches!(looked, Expiry::Later(_));
        locked.unlock().wake();
        is_pending
    }

    /// Cancels a word that nobody awaits any more.
    pub(crate) fn drop_word(&self, word: &Word) {
        let mut locked = self.lock();
        locked.word(word).settle(Outcome::Cancelled);
        locked.unlink_word(word);
        // This wakes nobody, and drops the waker.
        locked.unlock().tell();
    }

    /// Whether a deadline has passed at `now`, and no stall spares it.
    fn has_passed(&self, word: &Word, due: Due, now: Moment) -> bool {
        self.clock.has_passed(due, now) && !self.is_spared(word, due, now)
    }

    /// Whether a deadline that has passed stays pending at `now`, because of a stall.
    #[cold]
    fn is_spared(&self, word: &Word, due: Due, now: Moment) -> bool {
        let deadline = spared_by(word, self.clock.passes_at(due));
        deadline.is_some_and(|deadline| self.driver.spares(deadline, now))
    }

    /// Makes the word count from a moment if it counts from a stamp, so that what is reported stays
    /// true.
    ///
    /// The deadline of a word that counts from a stamp is not known before the window of the stamp
    /// has ended. So what is reported counts from a moment that is not before the call that took
    /// the stamp, nor after the window's end. Returns a moment that is not before that one, nor
    /// before `now`.
    fn stand_by_what_is_reported(&self, locked: &Locked<'_>, word: &Word, now: Moment) -> Moment {
        let word = locked.word(word);
        if !matches!(word.due(), Some(Due::Stamped(_))) {
            return now;
        }
        word.count_from(|stamp| self.clock.reported_start(stamp), self.clock.tick());
        self.clock.now()
    }
}

/// What says whether a stall spares a deadline that passes at `due`. `None` if none does.
pub(super) fn spared_by(word: &Word, due: Moment) -> Option<Spared> {
    (!word.counts_stalls()).then(|| Spared {
        due,
        timeout: word.timeout_set(),
        is_set_once: word.is_set_once(),
    })
}

/// The timer of a word.
impl Locked<'_> {
    /// Expires the word if its deadline has passed, and takes its timer out. So the answer is the
    /// same whether the driver or a handle looks first.
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
        let tick = due.scheduled_tick(self.tick());
        let key = self.link(tick, DueSource::Word(word.clone()), None);
        self.word(word).set_key(key.to_parts());
    }

    /// Links the timer at the present due of the word, if the word is pending.
    fn relink_word(&mut self, word: &Word) {
        if let Some(due) = self.word(word).due() {
            self.relink_word_at(word, due);
        }
    }

    fn relink_word_at(&mut self, word: &Word, due: Due) {
        let tick = due.scheduled_tick(self.tick());
        if let Some(key) = self.key_of(word) {
            self.relink(key, tick);
        }
    }

    /// Whether the timer of a pending word is linked where it was due, and the driver has not come
    /// to it.
    fn is_overdue(&self, word: &Word) -> bool {
        let due = self
            .word(word)
            .due()
            .map(|due| due.scheduled_tick(self.tick()));
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

    /// Wakes the task that awaits a word which was moved, if it wants to know.
    fn wake_watcher(&mut self, word: &Word) {
        if word.mark_moved() {
            let waker = self.entry_of(word).and_then(|entry| entry.waker.take());
            self.wake_later(waker);
        }
    }

    fn key_of(&self, word: &Word) -> Option<Key> {
        Key::from_parts(self.word(word).key())
    }
}
