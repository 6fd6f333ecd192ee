//! How many keys a map has, and how many it may have.
//!
//! A count that all threads share costs each of them more the more of them there are. So a map
//! without a limit has none: each part counts its own keys. Only a limit needs one count for all.
//!
//! Invariant: never more places are taken than there are; a key has its place from before it is put
//! into the map until after it was taken out.

use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Limit {
    taken: AtomicUsize,
    limit: usize,
}

/// The places of one part, while there is no limit. Changed under that part's lock.
#[derive(Debug, Default)]
pub(crate) struct Places(AtomicUsize);

impl Limit {
    pub(crate) fn new(limit: usize) -> Limit {
        Limit {
            taken: AtomicUsize::new(0),
            limit,
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.limit == usize::MAX
    }

    /// Takes a place in a part; `false` if all are taken.
    #[inline]
    pub(crate) fn take(&self, part: &Places) -> bool {
        if self.is_none() {
            part.set(part.taken() + 1);
            return true;
        }
        let take = |taken| (taken < self.limit).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_ok()
    }

    #[inline]
    pub(crate) fn give_back(&self, part: &Places, places: usize) {
        if self.is_none() {
            part.set(part.taken() - places);
        } else {
            self.taken.fetch_sub(places, Ordering::AcqRel);
        }
    }

    /// How many places are taken in all parts; exact while these are locked, or nobody changes
    /// them.
    pub(crate) fn taken<'a>(&self, parts: impl Iterator<Item = &'a Places>) -> usize {
        if self.is_none() {
            parts.map(Places::taken).sum()
        } else {
            self.taken.load(Ordering::Acquire)
        }
    }
}

impl Places {
    #[inline]
    fn taken(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, taken: usize) {
        self.0.store(taken, Ordering::Release);
    }
}
