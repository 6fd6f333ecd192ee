//! When the last reset of a deadline was, while the word holds the due and so cannot say it.
//!
//! It is step W3 of the orders at the head of `word`. The note is written before the word that
//! replaces a state. A thread reads it after it has read that word.
//!
//! Invariant: without the lock of the shard, a note is replaced only by the note of a later reset.
//!
//! All operations are Relaxed. The exchange of the word that comes after a note publishes it, and
//! the load of that word acquires it.

use super::deadline_state::{Packed, State};
use crate::sync::{AtomicU64, Ordering};
use crate::time::due::Start;

/// A state that counts from the last reset.
#[derive(Debug)]
pub(super) struct LastReset(AtomicU64);

/// Nothing was noted yet; that is before any reset.
const UNNOTED: Packed = Packed(0);

impl LastReset {
    pub(super) fn unnoted() -> LastReset {
        LastReset(AtomicU64::new(UNNOTED.0))
    }

    /// The state that counts from the noted reset.
    pub(super) fn get(&self) -> Packed {
        Packed(self.0.load(Ordering::Relaxed))
    }

    /// Notes a fresh start, whatever was noted before. The lock of the shard is held.
    pub(super) fn set(&self, fresh_start: Start) {
        let fresh = Packed::counting_from(fresh_start);
        self.0.store(fresh.0, Ordering::Relaxed);
    }

    /// Whether all resets that were noted are known to come before `start`, or at it.
    pub(super) fn is_surely_before(&self, start: Start) -> bool {
        let (noted, new) = (self.get(), Packed::counting_from(start));
        noted == UNNOTED || noted.can_be_compared(new) && noted <= new
    }

    /// Notes the later one of two resets. One began at `start`, and the word will not say it. The
    /// other is the one that the replaced state says. `false` if it is not known which is later.
    pub(super) fn note_reset(&self, start: Start, replaced: State) -> bool {
        let mut new = Packed::counting_from(start);
        if let State::Counting(before) = replaced {
            let before = Packed::counting_from(before);
            if !before.can_be_compared(new) {
                return false;
            }
            new = new.max(before);
        }
        let mut noted = self.get();
        while noted < new || !noted.can_be_compared(new) {
            if noted != UNNOTED && !noted.can_be_compared(new) {
                return false;
            }
            match self
                .0
                .compare_exchange(noted.0, new.0, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(changed) => noted = Packed(changed),
            }
        }
        true
    }
}
