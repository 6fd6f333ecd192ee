//! The state word of a deadline. It makes `reset` lock-free and its answer exact.
//!
//! One `AtomicU64` says whether the deadline is pending, and from when its timeout counts. So one
//! compare-exchange decides between a reset and the expiry, and exactly one of them wins.
//!
//! | tag | the other 62 bits | the deadline is |
//! |---|---|---|
//! | `COUNTING` | the moment that it counts from | pending, due its timeout after that moment |
//! | `ONCE` | a moment | pending, due then: after `reset_after`, `reset_at`, `extend` |
//! | `SETTLED` | an outcome | at its end |
//!
//! On the system's clock a reset counts from the next whole millisecond, or from the next tick
//! where that comes sooner. So all resets of one millisecond make the same word, and all but the
//! first write nothing.
//!
//! Invariant: while a thread holds the lock of the deadline's shard, no other thread can do more
//! than make the due later. A settled word stays settled, and the timeout stays the same. The timer
//! in the wheel is linked at the due or earlier. When its slot comes, the driver asks the word for
//! the true due. If that is later, the driver links the timer again.
//!
//! Which thread may touch what, and when:
//!
//! - A reset of a deadline that counts its timeout needs no lock, because it only moves later.
//! - All else is done with the lock of the deadline's shard held. Such a call may move the due
//!   earlier, writes the timeout, settles a state or makes it pending again, or reads and writes
//!   the key. It goes through a [`LockedWord`], which is borrowed from a [`LockHeld`]. So a call
//!   without a shard's lock does not compile.
//!
//! Orders that could go wrong, and why they do not. The code refers to the labels.
//!
//! - **W1. A reset against the expiry.** Both compare-exchange from the same pending value. If the
//!   reset came first, the driver's exchange fails, and the driver looks again. If the driver came
//!   first, the reset's exchange fails, and the reset answers `false`.
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
use crate::clock::tick::{Moment, Span};
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
            state: AtomicU64::new(Packed::from(State::Counting(start)).0),
            timeout: AtomicU64::new(Span::from(timeout).to_bits()),
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
        match self.load().into() {
            State::Settled(outcome) => Poll::Ready(outcome),
            State::Counting(_) | State::Once(_) => Poll::Pending,
        }
    }

    /// The timeout as it was set.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout_span().into()
    }

    /// Counts anew from `start` if the deadline is pending at `now`, which is no later. Takes no
    /// lock. `false` if this needs the lock: the deadline has come to its end, it has passed and
    /// must be settled (W3), or the reset may move it earlier.
    #[inline]
    pub(crate) fn reset(&self, now: Moment, start: Moment) -> bool {
        let new = Packed::from(State::Counting(start));
        let mut state = self.load();
        while state.is_counting() && self.due_of_start(state) > now {
            if state >= new {
                return true; // W4.
            }
            // W1 and W2: if the state has changed, it is looked at again.
            match self.exchange(state, new) {
                Ok(()) => return true,
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

    pub(super) fn due_of(&self, state: State) -> Option<Moment> {
        match state {
            State::Counting(_) => Some(self.due_of_start(state.into())),
            State::Once(due) => Some(due),
            State::Settled(_) => None,
        }
    }

    /// The due of a state that counts the timeout.
    #[inline]
    fn due_of_start(&self, state: Packed) -> Moment {
        Moment::from_bits(state.bits()).after(self.timeout_span())
    }

    #[inline]
    fn timeout_span(&self) -> Span {
        // Relaxed: a call that misses a `set_timeout` of the same time counts as one that came
        // before it.
        Span::from_bits(self.timeout.load(Ordering::Relaxed))
    }

    /// Replaces a pending state by what `next` makes of it, and returns the replaced state. `None`
    /// if the word is settled.
    fn update(&self, next: impl Fn(Packed) -> State) -> Option<State> {
        let mut packed = self.load();
        loop {
            let state = State::from(packed);
            if let State::Settled(_) = state {
                return None;
            }
            match self.exchange(packed, next(packed).into()) {
                Ok(()) => return Some(state),
                Err(changed) => packed = changed,
            }
        }
    }

    #[inline]
    fn load(&self) -> Packed {
        // Acquire: pairs with the Release in `store` and `exchange`.
        Packed(self.state.load(Ordering::Acquire))
    }

    fn store(&self, state: State) {
        // Release: pairs with the Acquire in `load` and `exchange`.
        self.state.store(Packed::from(state).0, Ordering::Release);
    }

    #[inline]
    fn exchange(&self, current: Packed, new: Packed) -> Result<(), Packed> {
        // AcqRel: earlier writes of this thread go with the word. Acquire on failure: as
        // in `load`.
        self.state
            .compare_exchange(current.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(Packed)
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
        self.due_of(self.state())
    }

    pub(crate) fn state(&self) -> State {
        self.load().into()
    }

    /// Whether its due was set once, and it does not count its timeout.
    pub(crate) fn is_set_once(&self) -> bool {
        matches!(self.state(), State::Once(_))
    }

    /// Expires the deadline if `has_passed` says so of its due.
    pub(crate) fn expire_if(&self, has_passed: impl Fn(Moment) -> bool) -> Expiry {
        let mut state = self.load();
        loop {
            let due = match state.into() {
                State::Counting(_) => self.due_of_start(state),
                State::Once(due) => due,
                State::Settled(outcome) => return Expiry::Settled(outcome),
            };
            if !has_passed(due) {
                return Expiry::Later(due);
            }
            // W1: a reset that came first makes this fail, and the loop looks again.
            match self.exchange(state, State::Settled(EXPIRED).into()) {
                Ok(()) => return Expiry::Expired(due),
                Err(changed) => state = changed,
            }
        }
    }

    /// Brings the deadline to its end, and returns its state from before. `None` if it had come to
    /// an end already.
    pub(crate) fn settle(&self, outcome: Result<(), Cancelled>) -> Option<State> {
        self.update(|_| State::Settled(outcome))
    }

    /// Counts anew from `start`, whatever it was set to. A settled word stays as it is, here and in
    /// the next two functions.
    pub(crate) fn restart_from(&self, start: Moment) {
        self.update(|state| match state.into() {
            State::Counting(later) if later > start => State::Counting(later), // W4.
            _ => State::Counting(start),
        });
    }

    /// Sets the due, once, to what `next` makes of it.
    pub(crate) fn set_once(&self, next: impl Fn(Moment) -> Moment) {
        self.update(|state| match self.due_of(state.into()) {
            Some(due) => State::Once(next(due)),
            None => state.into(),
        });
    }

    /// Changes the timeout. A pending deadline counts it from its last reset, unless its due was
    /// set once: that stands.
    pub(crate) fn set_timeout(&self, timeout: Duration) {
        // Relaxed: W2, the word holds no timeout. A caller that needs the new one takes the lock.
        self.timeout
            .store(Span::from(timeout).to_bits(), Ordering::Relaxed);
    }

    /// How much time was left at `now` of a deadline in that state, never more than what was set.
    pub(crate) fn left(&self, state: State, now: Moment) -> Duration {
        let left = self
            .due_of(state)
            .map_or(Duration::ZERO, |due| due.since(now));
        match state {
            // A reset may have come since `now` was read, and counts from a moment that may lie
            // ahead.
            State::Counting(_) => left.min(self.timeout()),
            State::Once(_) | State::Settled(_) => left,
        }
    }

    /// Makes the deadline pending again after any outcome, counting from `start`.
    pub(crate) fn restart(&self, start: Moment) {
        match self.outcome() {
            Poll::Pending => self.restart_from(start),
            Poll::Ready(_) => self.store(State::Counting(start)),
        }
    }

    /// Settles the word for ever, whatever it was, because the runtime has shut down.
    pub(crate) fn shut_down(&self) {
        let outcome = Err(Cancelled::SHUTDOWN);
        if self.settle(outcome).is_none() {
            self.store(State::Settled(outcome));
        }
    }

    /// Where the timer lies in the wheel: index and sequence, which have a meaning only for the
    /// shard. The sequence is zero before the first timer.
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
pub(crate) enum State {
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

/// A state in one word. Of two that count the timeout, the later one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packed(u64);

impl Packed {
    #[inline]
    fn is_counting(self) -> bool {
        self.0 & TAG_MASK == COUNTING
    }

    /// All but the tag.
    #[inline]
    fn bits(self) -> u64 {
        self.0 >> TAG_BITS
    }
}

impl From<State> for Packed {
    #[inline]
    fn from(state: State) -> Packed {
        let (bits, tag) = match state {
            State::Counting(start) => (start.to_bits(), COUNTING),
            State::Once(due) => (due.to_bits(), ONCE),
            State::Settled(Ok(())) => (0, SETTLED),
            State::Settled(Err(cancelled)) => (1 + cancelled.to_bits(), SETTLED),
        };
        Packed(bits << TAG_BITS | tag)
    }
}

impl From<Packed> for State {
    #[inline]
    fn from(packed: Packed) -> State {
        let bits = packed.bits();
        match packed.0 & TAG_MASK {
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
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = State> {
        let moment = || (0..=Moment::MAX.to_bits()).prop_map(Moment::from_bits);
        prop_oneof![
            moment().prop_map(State::Counting),
            moment().prop_map(State::Once),
            prop_oneof![
                Just(EXPIRED),
                Just(Err(Cancelled::BY_HANDLE)),
                Just(Err(Cancelled::REPLACED)),
                Just(Err(Cancelled::DRAINED)),
                Just(Err(Cancelled::SHUTDOWN)),
            ]
            .prop_map(State::Settled),
        ]
    }

    proptest! {
        #[test]
        fn every_state_comes_out_of_its_word_again(state in state()) {
            prop_assert_eq!(State::from(Packed::from(state)), state);
        }
    }
}
