//! What is in each part, for whoever does not lock it.
//!
//! Invariants:
//!
//! - Whenever a part's lock is free, its `first_due` says what is due in it, and nothing that waits
//!   in it is due before its `earliest`, which may be too early. Both are written under the lock.
//! - Whenever what comes out of a part first becomes another that comes earlier, `changes` grows
//!   after it. So what was read of all parts after a look at `changes` is not too late while that
//!   stays as it is.

use std::sync::atomic::{AtomicU64, Ordering};

use super::part::Part;
use crate::time::tick::{Moment, NEVER};

pub(super) struct States {
    states: Box<[State]>,
    changes: AtomicU64,
}

struct State {
    /// Nothing that waits in the part is due before this tick.
    earliest: AtomicU64,
    /// When the first of what is due in it was due; `NEVER` if nothing is.
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

    /// So often the first of what is due in a part has become an earlier one.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// How many parts there are.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// The tick before which nothing that waits in a part is due.
    pub(super) fn earliest(&self, part: usize) -> u64 {
        self.states[part].earliest.load(Ordering::Acquire)
    }

    /// The bits of when the first of what is due in a part was due.
    pub(super) fn first_due(&self, part: usize) -> u64 {
        self.states[part].first_due.load(Ordering::Acquire)
    }

    /// The same of all parts.
    pub(super) fn first_dues(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|part| self.first_due(part))
    }

    /// The earliest of all parts.
    pub(super) fn earliest_of_all(&self) -> u64 {
        let all = (0..self.len()).map(|part| self.earliest(part));
        all.min().unwrap_or(NEVER)
    }

    /// Tells all of a part, which is locked, and in which something may have become due.
    pub(super) fn tell<K, V>(&self, number: usize, part: &Part<K, V>) {
        let earliest = part.earliest().unwrap_or(NEVER);
        write(&self.states[number].earliest, earliest);
        self.tell_due(number, part);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Tells what is due in a part, which is locked. Gives whether that is earlier than before.
    #[inline]
    pub(super) fn tell_due<K, V>(&self, number: usize, part: &Part<K, V>) -> bool {
        let first = part.first_due().map_or(NEVER, Moment::to_bits);
        let is_earlier = write(&self.states[number].first_due, first);
        if is_earlier {
            self.changes.fetch_add(1, Ordering::Release);
        }
        is_earlier
    }

    /// Tells that something in a part, which is locked, waits for this tick. Gives whether that is
    /// earlier than what was told before. That may have been too early, and stays so: it costs one
    /// look, and to find the earliest again would cost more each time.
    #[inline]
    pub(super) fn tell_waiting(&self, number: usize, tick: u64) -> bool {
        let earliest = &self.states[number].earliest;
        tick < earliest.load(Ordering::Relaxed) && write(earliest, tick)
    }
}

/// Gives whether the value is earlier than the one before.
#[inline]
fn write(what: &AtomicU64, value: u64) -> bool {
    let before = what.load(Ordering::Relaxed);
    if value != before {
        what.store(value, Ordering::Release);
    }
    value < before
}
