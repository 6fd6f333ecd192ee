//! The state word of a deadline. It makes `reset` lock-free and its answer exact.
//!
//! One `AtomicU64` holds whether the deadline is pending, and at which tick it is due. So one
//! compare-exchange decides between a reset and the expiry.
//!
//! | tag | the highest bits | the deadline is |
//! |---|---|---|
//! | `PENDING` | a tick | pending, due at that tick |
//! | `ENDED` | an outcome | at its end |
//!
//! The bits between are the *version of the timeout*, which changes with each `set_timeout`.
//!
//! A reset, or a move to a later moment, only makes a due later or leaves it, and needs no lock.
//! All other changes go through a [`LockedWord`], which only a thread with a shard's lock can make.
//!
//! An armed sleep that was reset to later has a word too, and so has the timer of a map's stream.
//! These have no timeout, no grace and no handles.
//!
//! Invariant: while a thread holds the lock of the deadline's shard, other threads only make the
//! due later. The timer in the wheel is linked at the due or earlier, or at the end of its grace.
//! When its slot comes, the driver reads the due from the word, and links the timer again if that
//! is later.
//!
//! Orders that could go wrong, and why they do not. The code refers to the labels.
//!
//! - **W1. A reset against the expiry.** Both compare-exchange from the same pending value, and the
//!   second one fails. The driver then decides on the new due, and a reset returns `false`.
//! - **W2. A reset against `set_timeout`.** A reset that has read the old timeout would leave a due
//!   that no later reset makes earlier. So a reset reads the word first and the timeout after it,
//!   and `set_timeout` writes the timeout first and then another version. If the reset has read the
//!   old timeout, the version has changed since, its exchange fails, and it reads both again. A
//!   version recurs only after 2^20 changes, all between two steps of one reset.
//! - **W3. A reset after the deadline, but before the driver.** The reset sees that the deadline
//!   may be due, and decides under the lock as a turn would: it expires, unless a stall
//!   spares it. So a busy driver changes no answer.
//! - **W4. Two resets, the older one last.** A reset never replaces a later due by an earlier one.
//!   The later one covers the older one, whose answer `true` holds.
//! - **W5. A handle reads the key while the driver fires the timer.** Both hold the lock. A stale
//!   key finds no timer.
//! - **W6. A timeout that is set after the end.** A reset loads a pending word, the deadline
//!   expires, and then a shorter timeout is set, which the reset reads. By that timeout the due
//!   need not move. So a reset that moves nothing loads the word again, and finds the end. And a
//!   timeout that is set too late, because the deadline is due, is written only once it has fired.

use std::ops::Deref;
use std::task::Poll;
use std::time::Duration;

use super::decision::{Changed, Decision};
use super::lock::LockHeld;
use crate::clock::tick::{Moment, TICK_BITS, Tick, TickLength, from_nanos, to_nanos};
use crate::error::Cancelled;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The word, and the state beside it. Resets write `state`. All else is written under the shard's
/// lock, except `wakes_if_earlier`.
#[derive(Debug)]
pub(crate) struct Word {
    /// The word: a [`State`], and the version of the timeout.
    state: AtomicU64,
    /// In nanoseconds. Resets read it after the word (W2).
    timeout: AtomicU64,
    /// The sequence of its timer's key. Zero before the first timer.
    key_sequence: AtomicU64,
    /// The index of its timer's key.
    key_index: AtomicU32,
    /// A boolean, as wide as the index, so that a new word writes both at once.
    wakes_if_earlier: AtomicU32,
    /// Written once; it has a meaning only for the creator of the word.
    tag: MapTag,
}

/// The name by which a map knows one of its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapTag {
    /// Of its key, as far as 32 bits hold it.
    pub(crate) hash: u32,
    /// The index of the shard in which its timer lies.
    pub(crate) shard: u32,
}

/// How a timer ended: it has expired, or why it did not.
pub(crate) type Outcome = Result<(), Cancelled>;

pub(crate) const EXPIRED: Outcome = Ok(());

impl Word {
    pub(crate) fn new(due: Tick, timeout: Duration, tag: MapTag) -> Word {
        Word {
            state: AtomicU64::new(State::Pending(due).to_bits(0)),
            timeout: AtomicU64::new(to_nanos(timeout)),
            key_sequence: AtomicU64::new(0),
            key_index: AtomicU32::new(0),
            wakes_if_earlier: AtomicU32::new(0),
            tag,
        }
    }

    #[inline]
    pub(crate) fn tag(&self) -> MapTag {
        self.tag
    }

    #[inline]
    pub(crate) fn outcome(&self) -> Poll<Outcome> {
        match State::from_bits(self.load()) {
            State::Ended(outcome) => Poll::Ready(outcome),
            State::Pending(_) => Poll::Pending,
        }
    }

    /// When the deadline is due; `None` once it has ended.
    #[inline]
    pub(crate) fn due(&self) -> Option<Tick> {
        State::from_bits(self.load()).due()
    }

    pub(crate) fn timeout(&self) -> Duration {
        from_nanos(self.timeout_nanos())
    }

    /// Makes a pending deadline due its timeout after `since`, or leaves it if it is due later.
    /// `false` if this needs the lock: it has ended, or is due at `now` (W3).
    #[inline]
    pub(crate) fn reset(&self, tick: TickLength, now: Moment, since: Moment) -> bool {
        self.defer(|before| {
            let start = tick.start_of(before);
            if start <= now {
                return None;
            }
            // After the word (W2).
            let due = since.after_nanos(self.timeout_nanos());
            Some(if start < due { tick.due(due) } else { before })
        })
    }

    /// Makes a pending deadline due at `due`, a moment after `now`. `false` if this needs the lock:
    /// it has ended, is due at a later tick, or is due at `now` (W3).
    #[inline]
    pub(crate) fn postpone_to(&self, tick: TickLength, now: Moment, due: Moment) -> bool {
        self.defer(|before| {
            let start = tick.start_of(before);
            if start <= now {
                None
            } else if start < due {
                Some(tick.due(due))
            } else {
                // Within its tick the due stays, and this costs less than finding the tick.
                (start.since(due) < tick.as_duration()).then_some(before)
            }
        })
    }

    /// Makes a deadline due at this tick. `false` if it has ended, or is due later.
    #[inline]
    pub(crate) fn defer_to(&self, due: Tick) -> bool {
        self.defer(|before| (before <= due).then_some(due))
    }

    /// Moves a pending deadline to the result of `later` for its due, which is no earlier (W4).
    /// `false` if it has ended, or if `later` returns `None`.
    #[inline]
    fn defer(&self, later: impl Fn(Tick) -> Option<Tick>) -> bool {
        let mut bits = self.load();
        loop {
            let State::Pending(before) = State::from_bits(bits) else {
                return false;
            };
            let Some(due) = later(before) else {
                return false;
            };
            let new = State::Pending(due).to_bits(bits);
            let replaced = if new == bits {
                self.confirm(bits)
            } else {
                self.exchange(bits, new)
            };
            match replaced {
                Ok(_) => return true,
                Err(seen) => bits = seen, // W1 and W2: once more, on that.
            }
        }
    }

    /// Loads the word again, in place of an exchange that would change nothing (W6). An error is
    /// what it has become.
    #[inline]
    fn confirm(&self, bits: u64) -> Result<u64, u64> {
        let seen = self.load();
        if seen == bits { Ok(bits) } else { Err(seen) }
    }

    /// Replaces the word, if it still is `bits`. An error is what it has become.
    #[inline]
    fn exchange(&self, bits: u64, new: u64) -> Result<u64, u64> {
        // AcqRel: earlier writes of this thread go with the word. Acquire on failure: as in `load`.
        self.state
            .compare_exchange(bits, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// From now on a move to an earlier due wakes the task. Called before the task registers.
    pub(crate) fn wake_if_earlier(&self) {
        // Relaxed: the lock under which the task registers its waker publishes it to the thread
        // that takes that waker.
        self.wakes_if_earlier.store(1, Ordering::Relaxed);
    }

    /// The word as only a thread with the lock of its shard may read and write it.
    #[inline]
    pub(crate) fn locked<'a>(&'a self, _: LockHeld<'a>) -> LockedWord<'a> {
        LockedWord(self)
    }

    #[inline]
    fn timeout_nanos(&self) -> u64 {
        // Acquire: a reader of a timeout sees the changes of the word before that was set (W6). A
        // reader of a version in the word sees its timeout (W2).
        self.timeout.load(Ordering::Acquire)
    }

    #[inline]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `store`, `fetch_update` and `exchange`.
        self.state.load(Ordering::Acquire)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct LockedWord<'a>(&'a Word);

impl Deref for LockedWord<'_> {
    type Target = Word;

    fn deref(&self) -> &Word {
        self.0
    }
}

impl LockedWord<'_> {
    /// Decides on a pending deadline by its due, and expires it if it is to fire. `None` if it had
    /// ended before.
    #[inline]
    pub(crate) fn decide(&self, decide: impl Fn(Tick) -> Decision) -> Option<Decision> {
        let mut bits = self.load();
        loop {
            let decision = decide(State::from_bits(bits).due()?);
            let Decision::Fire(_) = decision else {
                return Some(decision);
            };
            match self.exchange(bits, State::Ended(EXPIRED).to_bits(bits)) {
                Ok(_) => return Some(decision),
                Err(seen) => bits = seen, // W1: a reset was first. The new due is decided on.
            }
        }
    }

    /// Expires the deadline if `is_due` holds for its due.
    pub(crate) fn expire_if(&self, is_due: impl Fn(Tick) -> bool) -> Option<Decision> {
        self.decide(|due| {
            if is_due(due) {
                Decision::Fire(due)
            } else {
                Decision::Reschedule(due)
            }
        })
    }

    /// Changes a pending deadline by one exchange, as `decide` says for its due. `None` if it had
    /// ended before. Sets the timeout in any case, if there is a new one. But what is to fire fires
    /// first: a reset that counts a timeout which came too late would be in time (W6).
    pub(crate) fn change(
        &self,
        timeout: Option<Duration>,
        decide: impl Fn(Tick) -> Changed,
    ) -> Option<Changed> {
        let mut fired = None;
        if let Some(timeout) = timeout {
            let decision = self.decide(|due| decide(due).found);
            fired = decision.and_then(Changed::too_late);
            // Release: pairs with `timeout_nanos` (W6). The next version publishes it too (W2).
            self.timeout.store(to_nanos(timeout), Ordering::Release);
        }
        let mut bits = self.load();
        loop {
            let state = State::from_bits(bits);
            let changed = state.due().map(&decide);
            let next = match changed {
                None => state,
                Some(changed) => match changed.made {
                    Decision::Fire(_) => State::Ended(EXPIRED),
                    Decision::Reschedule(_) | Decision::Spare(_) => State::Pending(changed.to),
                },
            };
            let version_of = match timeout {
                Some(_) => next_version(bits),
                None => bits,
            };
            let new = next.to_bits(version_of);
            if new == bits {
                // It can only have become later since, because the lock is held.
                return changed;
            }
            match self.exchange(bits, new) {
                Ok(_) => return fired.or(changed),
                Err(seen) => bits = seen, // W1: a reset was first. The new due is decided on.
            }
        }
    }

    /// Ends the deadline, and returns its due. `None` if it had ended already.
    pub(crate) fn end(&self, outcome: Outcome) -> Option<Tick> {
        self.update(|_| State::Ended(outcome))
    }

    /// Makes a pending deadline due at the result of `next`, earlier or later.
    pub(crate) fn set_due(&self, next: impl Fn(Tick) -> Tick) {
        self.update(|due| State::Pending(next(due)));
    }

    /// Makes the deadline pending after any outcome, due at `due`, or later if it already was.
    pub(crate) fn restart(&self, due: Tick) {
        if self.outcome().is_pending() {
            self.set_due(|before| before.max(due)); // W4.
        } else {
            self.store(State::Pending(due));
        }
    }

    /// Makes the deadline pending after any outcome, due at `due`. For a word that is never reset.
    pub(crate) fn set(&self, due: Tick) {
        self.store(State::Pending(due));
    }

    /// Ends the deadline whatever its state, for a deadline with no waiter or no driver.
    pub(crate) fn cancel(&self, cancelled: Cancelled) {
        self.store(State::Ended(Err(cancelled)));
    }

    /// Only where no other thread changes the word, or where its change may be lost.
    fn store(&self, state: State) {
        let bits = state.to_bits(self.load());
        // Release: pairs with the Acquire in `load`, `fetch_update` and `exchange`.
        self.state.store(bits, Ordering::Release);
    }

    /// Replaces a pending state by the result of `next` for its due, and returns that due. `None`
    /// if it has ended.
    fn update(&self, next: impl Fn(Tick) -> State) -> Option<Tick> {
        let next = |bits| {
            let due = State::from_bits(bits).due()?;
            Some(next(due).to_bits(bits))
        };
        self.fetch_update(next).ok().map(due_of)
    }

    fn fetch_update(&self, next: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        // W1: after a reset the exchange fails, and `next` sees the new due. Orderings as in
        // `exchange`.
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
    }

    #[inline]
    pub(crate) fn wakes_if_earlier(&self) -> bool {
        self.wakes_if_earlier.load(Ordering::Relaxed) != 0
    }

    /// The index and the sequence of its timer's key. The sequence is zero before the first timer.
    #[inline]
    pub(crate) fn key(&self) -> (u32, u64) {
        // Relaxed, also in `set_key`: every writer and reader holds the lock (W5).
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
    /// It is due at this tick.
    Pending(Tick),
    /// It has this outcome, until its owner restarts it.
    Ended(Outcome),
}

/// The tag of a pending deadline. The lowest bit tells the two states apart.
const PENDING: u64 = 0;

/// The tag of a deadline that has ended.
const ENDED: u64 = 1;

/// How many bits the tag takes.
const TAG_BITS: u32 = 1;

/// The version of the timeout lies between the tag and the tick.
const VERSION_BITS: u32 = u64::BITS - TICK_BITS - TAG_BITS;

/// The bits of the version, where they lie in the word.
const VERSION_MASK: u64 = ((1 << VERSION_BITS) - 1) << TAG_BITS;

/// How far to shift a word for its tick or outcome, which takes the highest bits.
const TICK_SHIFT: u32 = TAG_BITS + VERSION_BITS;

#[inline]
fn due_of(bits: u64) -> Tick {
    Tick::new(bits >> TICK_SHIFT)
}

fn next_version(bits: u64) -> u64 {
    let version = bits.wrapping_add(1 << TAG_BITS) & VERSION_MASK;
    bits & !VERSION_MASK | version
}

impl State {
    /// The word of this state, with the version of another word: of that which it replaces.
    #[inline]
    fn to_bits(self, version_of: u64) -> u64 {
        let (highest, tag) = match self {
            State::Pending(due) => (due.get(), PENDING),
            State::Ended(EXPIRED) => (0, ENDED),
            State::Ended(Err(cancelled)) => (1 + cancelled.to_bits(), ENDED),
        };
        highest << TICK_SHIFT | version_of & VERSION_MASK | tag
    }

    #[inline]
    fn from_bits(bits: u64) -> State {
        match (bits & ENDED, bits >> TICK_SHIFT) {
            (PENDING, _) => State::Pending(due_of(bits)),
            (_, 0) => State::Ended(EXPIRED),
            (_, cancelled) => State::Ended(Err(Cancelled::from_bits(cancelled - 1))),
        }
    }

    #[inline]
    fn due(self) -> Option<Tick> {
        match self {
            State::Pending(due) => Some(due),
            State::Ended(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_comes_out_of_its_word_again() {
        let ticks = [0, 1, 1 << 40, (1 << TICK_BITS) - 1].map(Tick::new);
        let cancelled = [
            Cancelled::BY_HANDLE,
            Cancelled::REPLACED,
            Cancelled::DRAINED,
            Cancelled::SHUTDOWN,
        ];
        let outcomes = cancelled.map(Err).into_iter().chain([EXPIRED]);
        let pending = ticks.into_iter().map(State::Pending);
        for state in pending.chain(outcomes.map(State::Ended)) {
            for version in [0, 1, (1 << VERSION_BITS) - 1] {
                let bits = state.to_bits(version << TAG_BITS);
                assert_eq!(State::from_bits(bits), state);
                let next = next_version(bits);
                assert_eq!(State::from_bits(next), state);
                assert_ne!(next, bits);
            }
        }
    }
}
