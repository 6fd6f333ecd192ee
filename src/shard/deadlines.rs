//! The part of a shard that serves deadlines: everything of a `Word` that needs the lock.
//!
//! Invariant: while a word is pending and the shard is open, the wheel holds exactly one timer for it, linked at
//! its true due or earlier. Each function here restores that before it lets the lock go.

use std::sync::Arc;
use std::task::Waker;

use super::{Entry, Shard, State};
use crate::tick::Moment;
use crate::wheel::Key;
use crate::word::{Expiry, Outcome, Status, Word};

impl Shard {
    /// Arms the timer of a word that was just made. On a closed shard the word is settled.
    pub(crate) fn arm_word(&self, word: &Arc<Word>) {
        let mut state = self.lock();
        let earlier = self.link_word(&mut state, word);
        drop(state);
        if earlier {
            self.signal.wake_driver();
        }
    }

    /// Makes a word pending again, counting from `now`, and arms or moves its timer.
    pub(crate) fn restart_word(&self, word: &Arc<Word>, now: Moment) {
        let mut state = self.lock();
        word.restart(now);
        let changed = match word.due() {
            // It was pending; a settled word has no timer.
            Some(due) if state.entry_of(word).is_some() => self.relink_word(&mut state, word, due),
            _ => self.link_word(&mut state, word),
        };
        drop(state);
        if changed {
            self.signal.wake_driver();
        }
    }

    /// Has the word's timer wake `waker` from now on. A deadline that has passed expires here and now.
    pub(crate) fn poll_word(&self, word: &Word, waker: &Waker) -> Status {
        let now = self.clock.now();
        let registered = self.register(waker, |state| match word.expire_if(|due| due <= now) {
            Expiry::Settled(outcome) => Err((outcome, None)),
            Expiry::Expired => Err((Outcome::Expired, self.unlink_word(state, word))),
            // The invariant: what is pending has a timer, or its shard was closed and has settled it.
            Expiry::Later(_) => state.entry_of(word).ok_or((Outcome::ShutDown, None)),
        });
        match registered {
            Ok(()) => Status::Pending,
            Err((outcome, unlinked)) => {
                self.finish(unlinked);
                Status::Settled(outcome)
            }
        }
    }

    /// Changes when a pending word is due, by `change`, which says whether it was pending, and moves its timer.
    pub(crate) fn change_word(&self, word: &Word, change: impl FnOnce(&Word) -> bool) -> bool {
        let mut state = self.lock();
        if !change(word) {
            return false;
        }
        let changed = word
            .due()
            .is_some_and(|due| self.relink_word(&mut state, word, due));
        drop(state);
        if changed {
            self.signal.wake_driver();
        }
        true
    }

    /// Brings a pending word to its end and takes its timer out; `None` if it had come to one before.
    /// Gives the waker of who awaits it, to be woken or dropped.
    pub(crate) fn settle_word(&self, word: &Word, outcome: Outcome) -> Option<Option<Waker>> {
        let mut state = self.lock();
        if !word.settle(outcome) {
            return None;
        }
        let unlinked = self.unlink_word(&mut state, word);
        drop(state);
        Some(self.finish(unlinked))
    }

    /// When a pending word is due.
    pub(crate) fn due_of_word(&self, word: &Word) -> Option<Moment> {
        let _state = self.lock();
        word.due()
    }

    fn link_word(&self, state: &mut State, word: &Arc<Word>) -> bool {
        if state.closed.is_some() {
            word.settle(Outcome::ShutDown);
        }
        let Some(due) = word.due() else { return false };
        let due = self.clock.due(due);
        let key = state.wheel.insert(
            due,
            Entry {
                waker: None,
                word: Some(word.clone()),
            },
        );
        word.set_key(key.to_parts());
        self.plan_for(state, due)
    }

    fn relink_word(&self, state: &mut State, word: &Word, due: Moment) -> bool {
        key(word).is_some_and(|key| self.relink(state, key, self.clock.due(due)))
    }

    fn unlink_word(&self, state: &mut State, word: &Word) -> Option<Unlinked> {
        let (due, entry) = state.wheel.take(key(word)?)?;
        Some(Unlinked {
            entry,
            plan_changed: self.plan_without(state, due),
        })
    }

    /// After the lock: does what taking a timer out has left to do.
    fn finish(&self, unlinked: Option<Unlinked>) -> Option<Waker> {
        let Unlinked {
            entry,
            plan_changed,
        } = unlinked?;
        if plan_changed {
            self.signal.wake_driver();
        }
        entry.waker
    }
}

/// A timer that was taken out under the lock, with what is left to do after it.
struct Unlinked {
    entry: Entry,
    plan_changed: bool,
}

impl State {
    fn entry_of(&mut self, word: &Word) -> Option<&mut Entry> {
        self.wheel.get_mut(key(word)?).map(|(_, entry)| entry)
    }
}

fn key(word: &Word) -> Option<Key> {
    Key::from_parts(word.key())
}
