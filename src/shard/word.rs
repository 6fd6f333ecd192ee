//! The state word of a deadline. It makes `reset` lock-free and its answer exact.
//!
//! One `AtomicU64` says whether the deadline is pending, and from when its timeout counts. So one
//! compare-exchange decides between a reset and the expiry.
//!
//! | tag | the other 62 bits | the deadline is |
//! |---|---|---|
//! | `COUNTING` | the moment that it counts from | pending, due its timeout after that moment |
//! | `ONCE` | a moment | pending, due then: after `reset_after`, `reset_at`, `extend` |
//! | `SETTLED` | an outcome | at its end |
//!
//! A reset of a deadline that counts its timeout only makes it later, and needs no lock. All else
//! goes through a [`LockedWord`], which only a thread with a shard's lock can make.
//!
//! Invariant: while a thread holds the lock of the deadline's shard, no other thread does more than
//! make the due later. The timer in the wheel is linked at the due or earlier. When its slot comes,
//! the driver asks the word for the true due, and links the timer again if that is later.
//!
//! Orders that could go wrong, and why they do not. The code refers to the labels.
//!
//! - **W1. A reset against the expiry.** Both compare-exchange from the same pending value. The one
//!   that comes second fails. The driver then judges the new due, and a reset answers `false`.
//! - **W2. A reset against `set_timeout` or `reset_after`.** The word holds the time of the reset,
//!   and not the due. So a reset carries no stale timeout with it. A reset that read a pending
//!   state before a `reset_after` fails its exchange.
//! - **W3. A reset after the deadline, but before the driver.** The reset sees that the deadline
//!   may have passed, and settles it under the lock. So its answer does not depend on how busy the
//!   driver is.
//! - **W4. Two resets, the older one last.** A reset never replaces a later moment by an earlier
//!   one. The later one covers the older one, whose answer `true` holds.
//! - **W5. A handle reads the key while the driver fires the timer.** Both hold the lock, and a
//!   stale key finds no timer.

use std::ops::Deref;
use std::task::Poll;
use std::time::Duration;

use super::lock::LockHeld;
use crate::clock::tick::{Moment, from_nanos, to_nanos};
use crate::error::Cancelled;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The word, and the state beside it under the shard's lock.
#[derive(Debug)]
pub(crate) struct Word {
    state: AtomicU64,
    /// The timeout as it was set.
    timeout: AtomicU64,
    key_sequence: AtomicU64,
    key_index: AtomicU32,
    /// It is written once, and has a meaning only for the code that made the word.
    tag: MapTag,
}

/// The name that a map has for one of its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapTag {
    /// The hash of the key.
    pub(crate) hash: u32,
    /// The number of the shard that the word is on.
    pub(crate) shard: u32,
}

/// The driver's finding when the slot of a deadline's timer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It was due then, and has now expired.
    Expired(Moment),
    /// It is due later, and this is when.
    Later(Moment),
    /// It had been settled before.
    Settled(Result<(), Cancelled>),
}

/// The outcome of a deadline that has expired. Any other is why it did not.
pub(crate) const EXPIRED: Result<(), Cancelled> = Ok(());

impl Word {
    /// A word that is pending and counts from `start`.
    pub(crate) fn new(start: Moment, timeout: Duration, tag: MapTag) -> Word {
        Word {
            state: AtomicU64::new(State::Counting(start).to_bits()),
            timeout: AtomicU64::new(to_nanos(timeout)),
            key_sequence: AtomicU64::new(0),
            key_index: AtomicU32::new(0),
            tag,
        }
    }

    #[inline]
    pub(crate) fn tag(&self) -> MapTag {
        self.tag
    }

    /// The outcome of the deadline, once it has one.
    pub(crate) fn outcome(&self) -> Poll<Result<(), Cancelled>> {
        match self.state() {
            State::Settled(outcome) => Poll::Ready(outcome),
            State::Counting(_) | State::Once(_) => Poll::Pending,
        }
    }

    /// The timeout as it was set.
    pub(crate) fn timeout(&self) -> Duration {
        from_nanos(self.timeout_nanos())
    }

    /// Counts from `start` if the deadline is pending at `now`, which is no later. `false` if this
    /// needs the lock: the deadline is settled, must be (W3), or may become due earlier.
    #[inline]
    pub(crate) fn reset(&self, now: Moment, start: Moment) -> bool {
        // Of two words that count the timeout, the later one is the greater.
        let new = State::Counting(start).to_bits();
        let mut state = self.load();
        while is_counting(state) && self.due_of_start(state) > now {
            if state >= new {
                return true; // W4.
            }
            // W1 and W2: if the state has changed, it is judged again. AcqRel: earlier writes of
            // this thread go with the word. Acquire on failure: as in `load`.
            let exchanged =
                self.state
                    .compare_exchange(state, new, Ordering::AcqRel, Ordering::Acquire);
            match exchanged {
                Ok(_) => return true,
                Err(changed) => state = changed,
            }
        }
        false
    }

    /// The word as a thread may read and write it only with the lock of its shard held.
    #[inline]
    pub(crate) fn locked<'a>(&'a self, _: LockHeld<'a>) -> LockedWord<'a> {
        LockedWord(self)
    }

    /// When a deadline in that state is due; its outcome if it is settled.
    fn due_of(&self, state: State) -> Result<Moment, Result<(), Cancelled>> {
        match state {
            State::Counting(start) => Ok(start.after_nanos(self.timeout_nanos())),
            State::Once(due) => Ok(due),
            State::Settled(outcome) => Err(outcome),
        }
    }

    /// The due of a word that counts the timeout.
    #[inline]
    fn due_of_start(&self, counting: u64) -> Moment {
        Moment::from_bits(counting >> TAG_BITS).after_nanos(self.timeout_nanos())
    }

    #[inline]
    fn timeout_nanos(&self) -> u64 {
        // Relaxed: a call that misses a `set_timeout` of the same time counts as one that came
        // before it.
        self.timeout.load(Ordering::Relaxed)
    }

    fn state(&self) -> State {
        State::from_bits(self.load())
    }

    #[inline]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `store`, `update` and `reset`.
        self.state.load(Ordering::Acquire)
    }
}

/// A word, with the lock of its shard held.
#[derive(Clone, Copy)]
pub(crate) struct LockedWord<'a>(&'a Word);

impl Deref for LockedWord<'_> {
    type Target = Word;

    fn deref(&self) -> &Word {
        self.0
    }
}

impl LockedWord<'_> {
    /// When the deadline is due; `None` once it is settled.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.due_of(self.state()).ok()
    }

    /// Whether its due was set once, and it does not count its timeout.
    pub(crate) fn is_set_once(&self) -> bool {
        matches!(self.state(), State::Once(_))
    }

    /// Expires the deadline if `has_passed` says so of its due.
    pub(crate) fn expire_if(&self, has_passed: impl Fn(Moment) -> bool) -> Expiry {
        let expired = |_, due| has_passed(due).then_some(State::Settled(EXPIRED));
        let updated = self.update(expired);
        let (Ok(state) | Err(state)) = updated;
        match self.due_of(state) {
            Ok(due) if updated.is_ok() => Expiry::Expired(due),
            Ok(due) => Expiry::Later(due),
            Err(outcome) => Expiry::Settled(outcome),
        }
    }

    /// Brings the deadline to its end, and returns the time that it had left at `now`. `None` if it
    /// had come to an end already.
    pub(crate) fn settle(&self, now: Moment, outcome: Result<(), Cancelled>) -> Option<Duration> {
        let before = self.update(|_, _| Some(State::Settled(outcome)));
        Some(self.due_and_left_of(before.ok()?, now)?.1)
    }

    /// When the deadline is due, and the time that is left at `now`. `None` once it is settled.
    pub(crate) fn due_and_left(&self, now: Moment) -> Option<(Moment, Duration)> {
        self.due_and_left_of(self.state(), now)
    }

    fn due_and_left_of(&self, state: State, now: Moment) -> Option<(Moment, Duration)> {
        let due = self.due_of(state).ok()?;
        Some(match state {
            // A reset counts from a moment that may lie ahead.
            State::Counting(_) => (due, due.since(now).min(self.timeout())),
            _ => (due, due.since(now)),
        })
    }

    /// Counts from `start`, whatever it was set to. A settled word stays as it is, here and in the
    /// next two functions.
    pub(crate) fn restart_from(&self, start: Moment) {
        let _ = self.update(|state, _| match state {
            State::Counting(later) if later > start => None, // W4.
            _ => Some(State::Counting(start)),
        });
    }

    /// Sets the due, once, to what `next` makes of it.
    pub(crate) fn set_once(&self, next: impl Fn(Moment) -> Moment) {
        let _ = self.update(|_, due| Some(State::Once(next(due))));
    }

    /// Changes the timeout. A pending deadline counts it from its last reset, unless its due was
    /// set once: that stands.
    pub(crate) fn set_timeout(&self, timeout: Duration) {
        // Relaxed: W2, the word holds no timeout. A caller that needs the new one takes the lock.
        self.timeout.store(to_nanos(timeout), Ordering::Relaxed);
    }

    /// Makes the deadline pending again after any outcome, counting from `start`.
    pub(crate) fn restart(&self, start: Moment) {
        match self.outcome() {
            Poll::Pending => self.restart_from(start),
            Poll::Ready(_) => self.store(State::Counting(start)),
        }
    }

    /// Settles the word, whatever it was, as one that no task awaits or that nothing fires.
    pub(crate) fn end(&self, cancelled: Cancelled) {
        self.store(State::Settled(Err(cancelled)));
    }

    fn store(&self, state: State) {
        // Release: pairs with the Acquire in `load` and `update`.
        self.state.store(state.to_bits(), Ordering::Release);
    }

    /// Replaces a pending state by what `next` makes of it and of its due, and returns the old one.
    /// An error is the present state: `next` gave `None`, or it is settled.
    fn update(&self, next: impl Fn(State, Moment) -> Option<State>) -> Result<State, State> {
        let next = |bits| {
            let state = State::from_bits(bits);
            next(state, self.due_of(state).ok()?).map(State::to_bits)
        };
        // W1: if a reset came first, the exchange fails, and `next` judges the new due. Orderings
        // as in `reset`.
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .map(State::from_bits)
            .map_err(State::from_bits)
    }

    /// The index and the sequence of its timer's key. The sequence is zero before the first timer.
    pub(crate) fn key(&self) -> (u32, u64) {
        // Relaxed, here and below: only a thread that holds the lock reads and writes it (W5).
        (
            self.key_index.load(Ordering::Relaxed),
            self.key_sequence.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn set_key(&self, (index, sequence): (u32, u64)) {
        self.key_index.store(index, Ordering::Relaxed);
        self.key_sequence.store(sequence, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its timeout counts from here.
    Counting(Moment),
    /// It is due then, once.
    Once(Moment),
    Settled(Result<(), Cancelled>),
}

const TAG_BITS: u32 = 2;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const COUNTING: u64 = 0;
const ONCE: u64 = 1;
const SETTLED: u64 = 2;

#[inline]
fn is_counting(bits: u64) -> bool {
    bits & TAG_MASK == COUNTING
}

impl State {
    #[inline]
    fn to_bits(self) -> u64 {
        let (bits, tag) = match self {
            State::Counting(start) => (start.to_bits(), COUNTING),
            State::Once(due) => (due.to_bits(), ONCE),
            State::Settled(Ok(())) => (0, SETTLED),
            State::Settled(Err(cancelled)) => (1 + cancelled.to_bits(), SETTLED),
        };
        bits << TAG_BITS | tag
    }

    #[inline]
    fn from_bits(word: u64) -> State {
        let bits = word >> TAG_BITS;
        match word & TAG_MASK {
            COUNTING => State::Counting(Moment::from_bits(bits)),
            ONCE => State::Once(Moment::from_bits(bits)),
            _ => State::Settled(match bits {
                0 => EXPIRED,
                cancelled => Err(Cancelled::from_bits(cancelled - 1)),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_comes_out_of_its_word_again() {
        let moments = [0, 1, 1 << 40, u64::MAX].map(Moment::from_bits);
        let pending = moments.map(|at| [State::Counting(at), State::Once(at)]);
        let cancelled = [
            Cancelled::BY_HANDLE,
            Cancelled::REPLACED,
            Cancelled::DRAINED,
            Cancelled::SHUTDOWN,
        ];
        let outcomes = cancelled.map(Err).into_iter().chain([EXPIRED]);
        let states = pending.into_iter().flatten();
        for state in states.chain(outcomes.map(State::Settled)) {
            assert_eq!(State::from_bits(state.to_bits()), state);
        }
    }
}
