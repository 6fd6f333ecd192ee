//! When the last reset was of a deadline whose word cannot say it, because the word holds the due.
//!
//! Invariant: what is noted never goes back to an earlier reset, unless the lock of the shard is
//! held and a fresh start is set.

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

    /// The state that counts from what was noted.
    pub(super) fn get(&self) -> Packed {
        Packed(self.0.load(Ordering::Relaxed))
    }

    /// Notes a fresh start, whatever was noted before.
    pub(super) fn set(&self, fresh_start: Start) {
        let fresh = Packed::counting_from(fresh_start);
        self.0.store(fresh.0, Ordering::Relaxed);
    }

    /// Whether all resets that were noted are known to come before `start`, or at it.
    pub(super) fn is_surely_before(&self, start: Start) -> bool {
        let (noted, new) = (self.get(), Packed::counting_from(start));
        noted == UNNOTED || noted.can_be_compared(new) && noted <= new
    }

    /// Notes the later one of two resets: one that began at `start` and that the word will not say,
    /// and the one that the replaced state says. `false` if it is not known which is later.
    pub(super) fn note(&self, start: Start, replaced: State) -> bool {
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
