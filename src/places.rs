//! The limit of a map: so many places, each taken by one key.
//!
//! Invariant: never more places are taken than there are; a key has its place from before it is put
//! into the map until after it was taken out.

use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Places {
    taken: AtomicUsize,
    limit: usize,
}

impl Places {
    pub(crate) fn new(limit: usize) -> Places {
        Places {
            taken: AtomicUsize::new(0),
            limit,
        }
    }

    /// Takes a place; `false` if all are taken.
    pub(crate) fn take(&self) -> bool {
        let take = |taken| (taken < self.limit).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_ok()
    }

    pub(crate) fn give_back(&self, places: usize) {
        self.taken.fetch_sub(places, Ordering::AcqRel);
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }
}
