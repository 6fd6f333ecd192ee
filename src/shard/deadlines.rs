//! The part of a shard that serves deadlines: everything of a `Word` that needs the lock.
//!
//! Invariants:
//!
//! - While a word is pending and the shard is open, the wheel holds exactly one timer for it,
//!   linked at its true due or earlier. Each function here restores that before it lets the lock
//!   go.
//! - What may be called with a map's lock held wakes nobody. It gives back what is left to do as
//!   [`Afterwards`].

use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use super::plan::Change;
use super::{Entry, Shard, State, TrueDue};
use crate::shard::word::{Expiry, Outcome, Status, Word};
use crate::time::due::{Due, Start};
use crate::time::tick::Moment;
use crate::waking::wake;
use crate::wheel::Key;

impl Shard {
    /// Arms the timer of a word that was just made. On a closed shard the word is settled.
    pub(crate) fn arm_word(&self, word: &Arc<Word>) {
        let mut state = self.lock();
        let change = self.link_word(&mut state, word);
        drop(state);
        self.tell(change);
    }

    /// Makes a word pending again, counting from now, and arms or moves its timer. On a closed
    /// shard the word never becomes pending, not for a moment.
    pub(crate) fn restart_word(&self, word: &Arc<Word>) {
        let mut state = self.lock();
        if state.closed.is_some() {
            word.shut_down();
            return;
        }
        word.restart(|| self.start_uncounted(word.timeout()));
        let change = match word.due() {
            // It was pending; a settled word has no timer.
            Some(due) if state.entry_of(word).is_some() => self.relink_word(&mut state, word, due),
            _ => self.link_word(&mut state, word),
        };
        drop(state);
        self.tell(change);
    }

    /// Has the word's timer wake `waker` from now on. A deadline that has passed expires here and
    /// now.
    pub(crate) fn poll_word(self: &Arc<Self>, word: &Word, waker: &Waker) -> Status {
        let now = self.clock.now();
        let registered = self.register(waker, |state| {
            match word.expire_if(|due| self.clock.has_passed(due, now)) {
                Expiry::Settled(outcome) => Err((outcome, None)),
                Expiry::Expired => Err((Outcome::Expired, self.unlink_word(state, word))),
                // The invariant: what is pending has a timer, or its shard was closed and has
                // settled it.
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

    /// Has `change` change the word in a call that began at `start`, and moves its timer; `false` if
    /// the word has come to its end. By a stamp it is seen to have passed only if the driver has
    /// come to that.
    pub(crate) fn change_word(
        self: &Arc<Self>,
        word: &Word,
        start: Start,
        change: impl FnOnce(&Word),
    ) -> (bool, Afterwards) {
        let has_passed = |due: Due| match start {
            Start::At(now) => self.clock.has_passed(due, now),
            Start::Stamp(stamp) => {
                due.placed(self.clock.tick()) <= stamp
                    && self.clock.has_passed(due, self.clock.now())
            }
        };
        let (mut state, mut unlinked) = self.lock_and_look(word, has_passed);
        let before = word.due();
        change(word);
        let after = word.due();
        let tick = self.clock.tick();
        let placed = |due: Option<Due>| due.map(|due| due.placed(tick));
        let is_earlier = placed(after) < placed(before);
        let mut planned = Change::None;
        let found = match word.expire_if(|due| match start {
            Start::Stamp(_) if is_earlier => self.clock.has_passed(due, self.clock.now()),
            _ => has_passed(due),
        }) {
            Expiry::Settled(_) => false,
            Expiry::Later(due) => {
                planned = self.relink_word(&mut state, word, due);
                true
            }
            Expiry::Expired => {
                unlinked = self.unlink_word(&mut state, word);
                true
            }
        };
        drop(state);
        let mut afterwards = self.afterwards(unlinked);
        afterwards.tell(planned, self);
        (found, afterwards)
    }

    /// Links the timer of a word anew that was moved with no lock held, and so may be linked later
    /// than it is due.
    pub(crate) fn link_word_anew(self: &Arc<Self>, word: &Word) -> Afterwards {
        let mut state = self.lock();
        let due = word.due();
        let change = due.map(|due| self.relink_word(&mut state, word, due));
        drop(state);
        let mut afterwards = Afterwards::default();
        afterwards.tell(change.unwrap_or(Change::None), self);
        afterwards
    }

    /// Brings a pending word to its end, takes its timer out and gives the time that it had left at
    /// `now`; `None` if it had come to its end before. Either way the waker of who awaits it may be
    /// left to wake.
    pub(crate) fn settle_word(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
        outcome: Outcome,
    ) -> (Option<Duration>, Afterwards) {
        let (mut state, passed) = self.lock_and_look(word, self.at(now));
        let now = now.max(self.stand_by_what_is_told(word, now));
        let before = word.settle(outcome);
        let left = before.map(|before| word.left_before(before, now, self.clock.tick()));
        let unlinked = if before.is_some() {
            self.unlink_word(&mut state, word)
        } else {
            passed
        };
        drop(state);
        (left, self.afterwards(unlinked))
    }

    /// When a pending word is due, and how much time is left at `now`.
    pub(crate) fn told_of_word(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
    ) -> (Option<Told>, Afterwards) {
        let (mut state, passed) = self.lock_and_look(word, self.at(now));
        let mut now = now;
        // A reset that comes by while the driver ticks has it count from a stamp again.
        let deadline = loop {
            now = self.stand_by_what_is_told(word, now);
            match word.due() {
                Some(Due::Stamped(_)) => {}
                Some(Due::At(deadline)) => break Some(deadline),
                None => break None,
            }
        };
        let told = deadline.map(|deadline| Told {
            deadline,
            left: word.left(now, self.clock.tick()).unwrap_or_default(),
        });
        let change = deadline.map_or(Change::None, |deadline| {
            self.relink_word(&mut state, word, Due::At(deadline))
        });
        drop(state);
        let mut afterwards = self.afterwards(passed);
        afterwards.tell(change, self);
        (told, afterwards)
    }

    /// Whether a word is pending.
    pub(crate) fn word_is_pending(
        self: &Arc<Self>,
        word: &Word,
        now: Moment,
    ) -> (bool, Afterwards) {
        let (state, passed) = self.lock_and_look(word, self.at(now));
        let is_pending = word.due().is_some();
        drop(state);
        (is_pending, self.afterwards(passed))
    }

    /// What counts from a stamp is not known before the window of the stamp has ended. What is told
    /// of it counts from a moment that is not before the call, nor after the window's end. Gives a
    /// moment, `now` or later, that is not before that from which it counts.
    fn stand_by_what_is_told(&self, word: &Word, now: Moment) -> Moment {
        if !matches!(word.due(), Some(Due::Stamped(_))) {
            return now;
        }
        word.count_from(|stamp| self.clock.told_start(stamp), self.clock.tick());
        self.clock.now()
    }

    /// Cancels a word that nobody will await any more.
    pub(crate) fn drop_word(self: &Arc<Self>, word: &Word) {
        let mut state = self.lock();
        word.settle(Outcome::Cancelled);
        let unlinked = self.unlink_word(&mut state, word);
        drop(state);
        drop(self.afterwards(unlinked).run());
    }

    /// What says whether a due has passed at a moment.
    fn at(&self, now: Moment) -> impl Fn(Due) -> bool + '_ {
        move |due| self.clock.has_passed(due, now)
    }

    /// Takes the lock, and expires the word if its deadline has passed. So the answer is the same
    /// whoever looks first, the driver or somebody with a handle. Gives the timer that this took
    /// out.
    fn lock_and_look(
        &self,
        word: &Word,
        has_passed: impl Fn(Due) -> bool,
    ) -> (MutexGuard<'_, State>, Option<Unlinked>) {
        let mut state = self.lock();
        let passed = match word.expire_if(has_passed) {
            Expiry::Expired => self.unlink_word(&mut state, word),
            Expiry::Later(_) | Expiry::Settled(_) => None,
        };
        (state, passed)
    }

    fn link_word(&self, state: &mut State, word: &Arc<Word>) -> Change {
        if state.closed.is_some() {
            word.settle(Outcome::ShutDown);
        }
        let Some(due) = word.due() else {
            return Change::None;
        };
        let due = due.placed(self.clock.tick());
        let key = state.link(due, TrueDue::Word(word.clone()), None);
        word.set_key(key.to_parts());
        self.plan_for(due)
    }

    fn relink_word(&self, state: &mut State, word: &Word, due: Due) -> Change {
        let tick = due.placed(self.clock.tick());
        key(word).map_or(Change::None, |key| self.relink(state, key, tick))
    }

    fn unlink_word(&self, state: &mut State, word: &Word) -> Option<Unlinked> {
        let (entry, left) = state.wheel.take(key(word)?)?;
        Some(Unlinked {
            entry,
            planned: self.plan_without(state, left),
        })
    }

    fn afterwards(self: &Arc<Self>, unlinked: Option<Unlinked>) -> Afterwards {
        let mut afterwards = Afterwards::default();
        if let Some(Unlinked { entry, planned }) = unlinked {
            afterwards.waker = entry.waker;
            afterwards.tell(planned, self);
        }
        afterwards
    }
}

/// What is told of a pending deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) deadline: Moment,
    /// Never more than its timeout.
    pub(crate) left: Duration,
}

/// What is left to do once the caller holds no lock.
#[derive(Default)]
#[must_use = "somebody may be waiting to be woken"]
pub(crate) struct Afterwards {
    waker: Option<Waker>,
    planned: Option<(Arc<Shard>, Change)>,
}

impl Afterwards {
    /// Does all of it but waking whoever awaited the word, whose waker is given: to be woken, or
    /// dropped.
    pub(crate) fn run(self) -> Option<Waker> {
        if let Some((shard, change)) = self.planned {
            shard.tell(change);
        }
        self.waker
    }

    /// Does all of it.
    pub(crate) fn wake(self) {
        if let Some(waker) = self.run() {
            wake(waker);
        }
    }

    fn tell(&mut self, change: Change, shard: &Arc<Shard>) {
        if change != Change::None {
            self.planned = Some((shard.clone(), change));
        }
    }
}

/// A timer that was taken out under the lock, with what is left to do after it.
struct Unlinked {
    entry: Entry,
    planned: Change,
}

impl State {
    fn entry_of(&mut self, word: &Word) -> Option<&mut Entry> {
        self.wheel.get_mut(key(word)?)
    }
}

fn key(word: &Word) -> Option<Key> {
    Key::from_parts(word.key())
}
