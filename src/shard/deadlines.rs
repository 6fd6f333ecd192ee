//! The part of a shard that serves deadlines: everything of a `Word` that needs the lock.
//!
//! Invariants:
//!
//! - While a word is pending and the shard is open, the wheel holds exactly one timer for it, linked at its true due or
//!   earlier. Each function here restores that before it lets the lock go.
//! - What may be called with a map's lock held wakes nobody. It gives back what is left to do as [`Afterwards`].

use std::sync::{Arc, MutexGuard};
use std::task::Waker;

use super::{Entry, Shard, State, TrueDue};
use crate::due::Due;
use crate::tick::Moment;
use crate::waking::wake;
use crate::wheel::Key;
use crate::word::{Expiry, Outcome, Status, Word};

impl Shard {
    /// Arms the timer of a word that was just made. On a closed shard the word is settled.
    pub(crate) fn arm_word(&self, word: &Arc<Word>) {
        let mut state = self.lock();
        let earlier = self.link_word(&mut state, word);
        drop(state);
        if earlier {
            self.wake_resting_driver();
        }
    }

    /// Makes a word pending again, counting from now, and arms or moves its timer. On a closed shard the word never
    /// becomes pending, not for a moment.
    pub(crate) fn restart_word(&self, word: &Arc<Word>) {
        let mut state = self.lock();
        if state.closed.is_some() {
            word.shut_down();
            return;
        }
        word.restart(|| self.start_uncounted(word.timeout()));
        let changed = match word.due() {
            // It was pending; a settled word has no timer.
            Some(due) if state.entry_of(word).is_some() => self.relink_word(&mut state, word, due),
            _ => self.link_word(&mut state, word),
        };
        drop(state);
        if changed {
            self.wake_resting_driver();
        }
    }

    /// Has the word's timer wake `waker` from now on. A deadline that has passed expires here and now.
    pub(crate) fn poll_word(self: &Arc<Self>, word: &Word, waker: &Waker) -> Status {
        let now = self.clock.now();
        let registered = self.register(waker, |state| {
            match word.expire_if(|due| self.clock.has_passed(due, now)) {
                Expiry::Settled(outcome) => Err((outcome, None)),
                Expiry::Expired => Err((Outcome::Expired, self.unlink_word(state, word))),
                // The invariant: what is pending has a timer, or its shard was closed and has settled it.
                Expiry::Later(_) => state.entry_of(word).ok_or((Outcome::ShutDown, None)),
            }
        });
        match registered {
            Ok(()) => Status::Pending,
            Err((outcome, unlinked)) => {
                // Its own waker is not woken: it is the one that polls.
                drop(self.afterwards(unlinked).run());
                Status::Settled(outcome)
            }
        }
    }

    /// Has `change` change the word, and moves its timer; `false` if the word has come to its end.
    pub(crate) fn change_word(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
        change: impl FnOnce(&Word),
    ) -> (bool, Afterwards) {
        let (mut state, passed) = self.lock_and_look(word, now);
        change(word);
        let due = word.due();
        let changed = due.is_some_and(|due| self.relink_word(&mut state, word, due));
        drop(state);
        let mut afterwards = self.afterwards(passed);
        afterwards.plan_again(changed, self);
        (due.is_some(), afterwards)
    }

    /// Brings a pending word to its end, takes its timer out and gives when it was due; `None` if it had come to its
    /// end before. Either way the waker of who awaits it may be left to wake.
    pub(crate) fn settle_word(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
        outcome: Outcome,
    ) -> (Option<Moment>, Afterwards) {
        let (mut state, passed) = self.lock_and_look(word, now);
        let due = word.settle(outcome);
        let unlinked = if due.is_some() {
            self.unlink_word(&mut state, word)
        } else {
            passed
        };
        drop(state);
        (
            due.map(|due| self.clock.moment_of(due)),
            self.afterwards(unlinked),
        )
    }

    /// When a pending word is due.
    pub(crate) fn due_of_word(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
    ) -> (Option<Moment>, Afterwards) {
        let (state, passed) = self.lock_and_look(word, now);
        let due = word.due();
        drop(state);
        (
            due.map(|due| self.clock.moment_of(due)),
            self.afterwards(passed),
        )
    }

    /// Cancels a word that nobody will await any more.
    pub(crate) fn drop_word(self: &Arc<Self>, word: &Word) {
        let mut state = self.lock();
        word.settle(Outcome::Cancelled);
        let unlinked = self.unlink_word(&mut state, word);
        drop(state);
        drop(self.afterwards(unlinked).run());
    }

    /// Takes the lock, and expires the word if its deadline has passed at `now`. So the answer is the same whoever
    /// looks first, the driver or somebody with a handle. Gives the timer that this took out.
    fn lock_and_look(&self, word: &Word, now: Moment) -> (MutexGuard<'_, State>, Option<Unlinked>) {
        let mut state = self.lock();
        let passed = match word.expire_if(|due| self.clock.has_passed(due, now)) {
            Expiry::Expired => self.unlink_word(&mut state, word),
            Expiry::Later(_) | Expiry::Settled(_) => None,
        };
        (state, passed)
    }

    fn link_word(&self, state: &mut State, word: &Arc<Word>) -> bool {
        if state.closed.is_some() {
            word.settle(Outcome::ShutDown);
        }
        let Some(due) = word.due() else { return false };
        let due = due.placed(self.clock.tick());
        let key = state.link(due, TrueDue::Word(word.clone()), None);
        word.set_key(key.to_parts());
        self.plan_for(due)
    }

    fn relink_word(&self, state: &mut State, word: &Word, due: Due) -> bool {
        key(word).is_some_and(|key| self.relink(state, key, due.placed(self.clock.tick())))
    }

    fn unlink_word(&self, state: &mut State, word: &Word) -> Option<Unlinked> {
        let (entry, left) = state.wheel.take(key(word)?)?;
        Some(Unlinked {
            entry,
            plan_changed: self.plan_without(state, left),
        })
    }

    fn afterwards(self: &Arc<Self>, unlinked: Option<Unlinked>) -> Afterwards {
        let mut afterwards = Afterwards::default();
        if let Some(Unlinked {
            entry,
            plan_changed,
        }) = unlinked
        {
            afterwards.waker = entry.waker;
            afterwards.plan_again(plan_changed, self);
        }
        afterwards
    }
}

/// What is left to do once the caller holds no lock.
#[derive(Default)]
#[must_use = "somebody may be waiting to be woken"]
pub(crate) struct Afterwards {
    waker: Option<Waker>,
    plan_again: Option<Arc<Shard>>,
}

impl Afterwards {
    /// Does all of it but waking whoever awaited the word, whose waker is given: to be woken, or dropped.
    pub(crate) fn run(self) -> Option<Waker> {
        if let Some(shard) = self.plan_again {
            shard.wake_resting_driver();
        }
        self.waker
    }

    /// Does all of it.
    pub(crate) fn wake(self) {
        if let Some(waker) = self.run() {
            wake(waker);
        }
    }

    fn plan_again(&mut self, changed: bool, shard: &Arc<Shard>) {
        if changed {
            self.plan_again = Some(shard.clone());
        }
    }
}

/// A timer that was taken out under the lock, with what is left to do after it.
struct Unlinked {
    entry: Entry,
    plan_changed: bool,
}

impl State {
    fn entry_of(&mut self, word: &Word) -> Option<&mut Entry> {
        self.wheel.get_mut(key(word)?)
    }
}

fn key(word: &Word) -> Option<Key> {
    Key::from_parts(word.key())
}
