//! How many keys a map has, and how many it may have.
//!
//! When many threads write one count, each write costs more. So a map without a limit has no count
//! for all its keys: each part counts its own. Only a limit needs one count for all parts.
//!
//! Invariant: no more places are taken than the limit allows. A key has its place from before it is
//! put into the map until after it was taken out.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many keys a map may have.
#[derive(Debug)]
pub(crate) struct Limit {
    /// How many places are taken in all parts, if there is a limit.
    taken: AtomicUsize,
    /// `usize::MAX` is no limit.
    limit: usize,
}

/// How many places of one part are taken, if there is no limit. It is changed under the lock of
/// that part.
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

    /// Takes a place in a part, which is locked. `false` if all places are taken.
    #[inline]
    pub(crate) fn take(&self, part: &Places) -> bool {
        if self.is_none() {
            part.set(part.taken() + 1);
            return true;
        }
        let take = |taken| (taken < self.limit).then_some(taken + 1);
        // AcqRel: pairs with `give_back`, so that it comes after the removals whose places it
        // takes. When it fails, nothing hangs on what it has read.
        self.taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_ok()
    }

    /// Gives back the places of some keys of a part, which is locked.
    #[inline]
    pub(crate) fn give_back(&self, part: &Places, places: usize) {
        if self.is_none() {
            part.set(part.taken() - places);
        } else {
            // Release: pairs with the loads in `take` and `taken`, and carries the removals. The
            // Acquire half carries nothing that is needed here.
            self.taken.fetch_sub(places, Ordering::AcqRel);
        }
    }

    /// How many places are taken in all parts. This is exact while all parts are locked, or while
    /// nobody changes them.
    pub(crate) fn taken<'a>(&self, parts: impl Iterator<Item = &'a Places>) -> usize {
        if self.is_none() {
            parts.map(Places::taken).sum()
        } else {
            // Acquire: pairs with `give_back`, so that the reader sees the removals behind the
            // count.
            self.taken.load(Ordering::Acquire)
        }
    }
}

impl Places {
    #[inline]
    fn taken(&self) -> usize {
        // Acquire: pairs with the store in `set`, so that a reader without the lock sees the
        // removals behind the count. Under the lock of the part, Relaxed would do.
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, taken: usize) {
        // A store is enough, because every writer has the lock of the part. Release: pairs with the
        // load in `taken`.
        self.0.store(taken, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(parts: usize) -> Vec<Places> {
        (0..parts).map(|_| Places::default()).collect()
    }

    #[test]
    fn a_limit_counts_the_places_of_all_parts_together() {
        let (limit, parts) = (Limit::new(3), places(2));
        assert!(limit.take(&parts[0]));
        assert!(limit.take(&parts[1]));
        assert!(limit.take(&parts[1]));
        assert_eq!(limit.taken(parts.iter()), 3);
        assert!(!limit.take(&parts[0]));
        assert!(!limit.take(&parts[1]));
        assert_eq!(limit.taken(parts.iter()), 3, "a refusal takes nothing");
    }

    #[test]
    fn a_place_that_was_given_back_can_be_taken_in_any_part() {
        let (limit, parts) = (Limit::new(2), places(2));
        assert!(limit.take(&parts[0]));
        assert!(limit.take(&parts[0]));
        limit.give_back(&parts[0], 1);
        assert_eq!(limit.taken(parts.iter()), 1);
        assert!(limit.take(&parts[1]));
        assert!(!limit.take(&parts[1]));
        limit.give_back(&parts[0], 2);
        assert_eq!(limit.taken(parts.iter()), 0);
    }

    #[test]
    fn a_limit_of_zero_has_no_place() {
        let (limit, parts) = (Limit::new(0), places(1));
        assert!(!limit.is_none());
        assert!(!limit.take(&parts[0]));
        limit.give_back(&parts[0], 0);
        assert_eq!(limit.taken(parts.iter()), 0);
    }

    #[test]
    fn without_a_limit_each_part_counts_its_own_places() {
        let (limit, parts) = (Limit::new(usize::MAX), places(3));
        assert!(limit.is_none());
        for (part, keys) in parts.iter().zip([5, 0, 2]) {
            assert!((0..keys).all(|_| limit.take(part)));
        }
        assert_eq!(limit.taken(parts.iter()), 7);
        assert_eq!(limit.taken(parts[..1].iter()), 5);
        limit.give_back(&parts[0], 4);
        limit.give_back(&parts[2], 2);
        assert_eq!(limit.taken(parts.iter()), 1);
        assert_eq!(limit.taken.load(Ordering::Relaxed), 0, "the shared count");
    }

    #[test]
    fn threads_that_race_take_as_many_places_as_there_are() {
        let (limit, parts) = (Limit::new(1_000), places(4));
        let taken: usize = std::thread::scope(|scope| {
            let takers: Vec<_> = parts
                .iter()
                .map(|part| scope.spawn(|| (0..500).filter(|_| limit.take(part)).count()))
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(taken, 1_000);
        assert_eq!(limit.taken(parts.iter()), 1_000);
    }
}
