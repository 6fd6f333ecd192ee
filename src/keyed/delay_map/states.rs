//! What is due in each part, for a reader that does not lock it.
//!
//! Invariants:
//!
//! - Whenever a part's lock is free, its `first_due` says when the first of what is due in it was
//!   due. Nothing that waits in it is due before its `earliest`, which may be too early. Both are
//!   written under the lock.
//! - When the first of what is due in a part becomes an earlier one, `first_due` is written first,
//!   and then `changes` grows. So a reader reads `changes`, and then the states of all parts. What
//!   it has read is not too late while `changes` stays as it is.
//!
//! `G` and a number is a ground rule at the head of `inner/handshake.rs`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::part::Part;
use crate::time::tick::{Moment, NEVER};

pub(super) struct States {
    states: Box<[State]>,
    /// How often the first of what is due in a part has become an earlier one, or may have.
    changes: AtomicU64,
}

struct State {
    /// Nothing that waits in the part is due before this tick.
    earliest: AtomicU64,
    /// When the first of what is due in it was due, or `NEVER` if nothing is due.
    first_due: AtomicU64,
}

impl States {
    pub(super) fn new(parts: usize) -> States {
        let empty = || State {
            earliest: AtomicU64::new(NEVER),
            first_due: AtomicU64::new(NEVER),
        };
        States {
            states: (0..parts).map(|_| empty()).collect(),
            changes: AtomicU64::new(0),
        }
    }

    /// How often the first of what is due in a part has become an earlier one, or may have. To be
    /// read before the states.
    pub(super) fn changes(&self) -> u64 {
        // Acquire: pairs with the growth in `tell` and `tell_due`. A reader that sees the growth
        // then reads the states that were told before it.
        self.changes.load(Ordering::Acquire)
    }

    /// How many parts there are.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// The tick before which nothing that waits in a part is due.
    pub(super) fn earliest(&self, part: usize) -> u64 {
        // Acquire: pairs with the store in `write`, so that the reader's next reading of the clock
        // is no earlier than the teller's. That the stream sees the tick in time is due to the
        // fences of `time::next_look`.
        self.states[part].earliest.load(Ordering::Acquire)
    }

    /// The bits of when the first of what is due in a part was due.
    pub(super) fn first_due(&self, part: usize) -> u64 {
        // Acquire: as in `earliest`.
        self.states[part].first_due.load(Ordering::Acquire)
    }

    /// The `first_due` of each part.
    pub(super) fn first_dues(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|part| self.first_due(part))
    }

    /// The tick before which nothing that waits in any part is due.
    pub(super) fn earliest_of_all(&self) -> u64 {
        let all = (0..self.len()).map(|part| self.earliest(part));
        all.min().unwrap_or(NEVER)
    }

    /// Tells all of a part, which is locked, and in which something may have become due.
    pub(super) fn tell<K, V>(&self, number: usize, part: &Part<K, V>) {
        let earliest = part.earliest().unwrap_or(NEVER);
        write(&self.states[number].earliest, earliest);
        self.tell_due(number, part);
        // Release: pairs with the load in `changes`, and carries the state.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Tells what is due in a part, which is locked. Gives whether that is earlier than before.
    #[inline]
    pub(super) fn tell_due<K, V>(&self, number: usize, part: &Part<K, V>) -> bool {
        let first = part.first_due().map_or(NEVER, Moment::to_bits);
        let is_earlier = write(&self.states[number].first_due, first);
        if is_earlier {
            // Release: pairs with the load in `changes`, and carries the state.
            self.changes.fetch_add(1, Ordering::Release);
        }
        is_earlier
    }

    /// Tells that something in a part, which is locked, waits for this tick. Gives whether that is
    /// earlier than what was told before.
    ///
    /// What was told before may have been too early, and stays so. This costs one look, and finding
    /// the earliest again would cost more each time.
    #[inline]
    pub(super) fn tell_waiting(&self, number: usize, tick: u64) -> bool {
        let earliest = &self.states[number].earliest;
        // Relaxed: only threads that had the part's lock have written it (G1).
        tick < earliest.load(Ordering::Relaxed) && write(earliest, tick)
    }
}

/// Writes a state of a part that is locked. Gives whether the value is earlier than the one before.
#[inline]
fn write(what: &AtomicU64, value: u64) -> bool {
    // Relaxed: only threads that had the part's lock have written it (G1).
    let before = what.load(Ordering::Relaxed);
    if value != before {
        // Release: pairs with the loads in `earliest` and `first_due`.
        what.store(value, Ordering::Release);
    }
    value < before
}
