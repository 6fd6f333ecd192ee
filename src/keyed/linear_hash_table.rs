//! A hash table that grows and shrinks by a bounded step, at any size.
//!
//! It is Litwin's linear hashing (1980) over small tables, the *segments*. When they are full on
//! average, one is split, in a fixed order. When they are half empty, the last one is merged into
//! the one that it was split from. So an insert or a removal moves the entries of at most two
//! segments.
//!
//! Invariants: an entry lies in the segment that [`segment_of`] returns for its hash. A key's own
//! code runs only in a look-up, so a panic leaves the table whole.

use hashbrown::HashTable;

pub(crate) trait Hashed {
    fn hash(&self) -> u32;
}

/// Nearly every table has one segment, which is reached directly. The rest lies behind a pointer,
/// so that a table is half a cache line, beside the lock that its owner has written just before.
pub(crate) enum LinearHashTable<T> {
    One(HashTable<T>),
    Many(Box<Many<T>>),
}

pub(crate) struct Many<T> {
    /// Two or more.
    segments: Vec<HashTable<T>>,
    len: usize,
    /// The bits of a hash of which [`segment_of`] makes a number, for these segments.
    mask: usize,
}

/// The average above which a segment is split. A segment may have twice as many before its turn,
/// and then fills its 2,048 buckets. Small in unit tests, for many segments.
const MEAN: usize = if cfg!(test) { 8 } else { 800 };

/// A table with at most this many buckets is not worth shrinking.
const KEPT: usize = 4;

impl<T: Hashed> LinearHashTable<T> {
    pub(crate) fn new() -> LinearHashTable<T> {
        LinearHashTable::One(HashTable::new())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            LinearHashTable::One(segment) => segment.len(),
            LinearHashTable::Many(many) => many.len,
        }
    }

    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let hash = spread(hash);
        let segment = match self {
            LinearHashTable::One(segment) => segment,
            LinearHashTable::Many(many) => &many.segments[many.segment_of(hash)],
        };
        segment.find(hash, is_it)
    }

    pub(crate) fn find_mut(&mut self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let hash = spread(hash);
        self.segment_mut(hash).find_mut(hash, is_it)
    }

    #[inline]
    pub(crate) fn insert(&mut self, entry: T) {
        let full = match self {
            LinearHashTable::One(segment) => segment.len() == MEAN,
            LinearHashTable::Many(many) => {
                many.len += 1;
                many.len > MEAN * many.segments.len()
            }
        };
        if full {
            self.split();
        }
        let hash = spread_of(&entry);
        self.segment_mut(hash).insert_unique(hash, entry, spread_of);
    }

    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let hash = spread(hash);
        let found = self.segment_mut(hash).find_entry(hash, is_it);
        let (entry, _) = found.ok()?.remove();
        match self {
            LinearHashTable::One(segment) => {
                // Not by the capacity, which falls where many hashes collide.
                let buckets = segment.num_buckets();
                if buckets > KEPT && segment.len() < buckets / 5 {
                    shrink(segment);
                }
            }
            LinearHashTable::Many(many) => {
                many.len -= 1;
                if many.len < MEAN / 2 * many.segments.len() {
                    self.merge();
                }
            }
        }
        Some(entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let segments = match self {
            LinearHashTable::One(segment) => std::slice::from_ref(segment),
            LinearHashTable::Many(many) => &many.segments,
        };
        segments.iter().flatten()
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = T> {
        let (first, rest) = match self {
            LinearHashTable::One(segment) => (segment, Vec::new()),
            LinearHashTable::Many(many) => (HashTable::new(), many.segments),
        };
        first.into_iter().chain(rest.into_iter().flatten())
    }

    #[inline]
    fn segment_mut(&mut self, hash: u64) -> &mut HashTable<T> {
        match self {
            LinearHashTable::One(segment) => segment,
            LinearHashTable::Many(many) => {
                let number = many.segment_of(hash);
                &mut many.segments[number]
            }
        }
    }

    /// Splits a segment, before an insert that the length includes where there are many.
    #[cold]
    #[inline(never)]
    fn split(&mut self) {
        if let LinearHashTable::One(segment) = self {
            let segment = std::mem::take(segment);
            let many = Many {
                len: segment.len() + 1,
                segments: vec![segment],
                mask: mask_of(1),
            };
            *self = LinearHashTable::Many(Box::new(many));
        }
        if let LinearHashTable::Many(many) = self {
            many.split();
        }
    }

    #[cold]
    #[inline(never)]
    fn merge(&mut self) {
        let LinearHashTable::Many(many) = self else {
            return;
        };
        many.merge();
        if many.segments.len() == 1 {
            *self = LinearHashTable::One(many.segments.pop().unwrap_or_default());
        }
    }
}

impl<T: Hashed> Many<T> {
    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        segment_of(hash, self.segments.len(), self.mask)
    }

    fn put(&mut self, entry: T) {
        let hash = spread_of(&entry);
        let number = self.segment_of(hash);
        self.segments[number].insert_unique(hash, entry, spread_of);
    }

    fn split(&mut self) {
        let last = self.segments.len();
        self.mask = mask_of(last + 1);
        let number = |entry: &T| segment_of(spread_of(entry), last + 1, self.mask);
        let source = &mut self.segments[split_from(last)];
        // Room for as many as the source has, because growing hashes each entry again.
        let mut split = HashTable::with_capacity(source.len());
        for entry in source.extract_if(|entry| number(entry) == last) {
            split.insert_unique(spread_of(&entry), entry, spread_of);
        }
        self.segments.push(split);
    }

    fn merge(&mut self) {
        let last = self.segments.pop();
        self.mask = mask_of(self.segments.len());
        for entry in last.into_iter().flatten() {
            self.put(entry);
        }
        if self.segments.len() < self.segments.capacity() / 4 {
            self.segments.shrink_to(2 * self.segments.len());
        }
    }
}

#[cold]
#[inline(never)]
fn shrink<T: Hashed>(segment: &mut HashTable<T>) {
    // Room for half as many again, so that the next insert does not grow it.
    let room = segment.len() + segment.len() / 2;
    segment.shrink_to(room, spread_of);
}

/// The segment of a hash. Segments that were split use one more bit than the others.
#[inline]
fn segment_of(hash: u64, segments: usize, mask: usize) -> usize {
    // A segment's own table uses the lowest bits and the seven highest of a `usize`.
    let number = (hash >> 11) as usize & mask;
    if number < segments {
        number
    } else {
        number & (mask >> 1)
    }
}

fn mask_of(segments: usize) -> usize {
    segments.next_power_of_two() - 1
}

/// The number of the segment that this one was split from.
fn split_from(number: usize) -> usize {
    number - (1 << number.ilog2())
}

/// A hash of 64 bits. Some of the 32 may be equal for all entries of a table.
#[inline]
fn spread(hash: u32) -> u64 {
    // The bits of the golden ratio. The product's upper half depends on all bits of the hash.
    (u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(32)
}

#[inline]
fn spread_of(entry: &impl Hashed) -> u64 {
    spread(entry.hash())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LINE;
    use std::cell::Cell;
    use std::collections::HashSet;

    std::thread_local! {
        static READ: Cell<usize> = const { Cell::new(0) };
    }

    impl Hashed for u32 {
        fn hash(&self) -> u32 {
            READ.set(READ.get() + 1);
            *self
        }
    }

    /// On 32 bits too, where the bits that choose a segment might be those that tell its entries
    /// apart.
    #[test]
    fn a_key_of_a_large_table_is_compared_to_few_others() {
        const SEGMENTS: usize = 1 << 12;
        let mut random = fastrand::Rng::with_seed(1);
        let mut table = LinearHashTable::new();
        (0..SEGMENTS * MEAN).for_each(|_| table.insert(random.u32(..)));
        let mut compared = 0;
        for _ in 0..10_000 {
            let found = table.find(random.u32(..), |_| {
                compared += 1;
                false
            });
            assert!(found.is_none());
        }
        assert!(compared < 1_000, "{compared}");
    }

    #[test]
    fn a_table_does_what_a_set_does_and_keeps_its_segments_filled() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut table = LinearHashTable::new();
        let mut model = HashSet::new();
        for round in 0..40 {
            for _ in 0..500 {
                let entry = random.u32(..4_000);
                if random.u32(..40) > round {
                    if table.find(entry, |&other| other == entry).is_none() {
                        table.insert(entry);
                    }
                    model.insert(entry);
                } else {
                    let removed = table.remove(entry, |&other| other == entry);
                    assert_eq!(removed.is_some(), model.remove(&entry));
                }
                let segments = match &table {
                    LinearHashTable::One(_) => 1,
                    LinearHashTable::Many(many) => many.segments.len(),
                };
                assert!(table.len() <= MEAN * segments);
                assert!(segments == 1 || table.len() >= MEAN / 2 * segments);
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(table.iter().copied().collect::<HashSet<_>>(), model);
        }
        assert_eq!(table.into_entries().collect::<HashSet<_>>(), model);
    }

    /// Beside a lock and a count, which a call writes before.
    #[test]
    fn a_table_is_at_most_half_a_cache_line() {
        assert!(size_of::<LinearHashTable<u32>>() <= LINE / 2);
    }

    #[test]
    fn no_change_moves_more_entries_than_a_few_segments_hold() {
        let mut table = LinearHashTable::new();
        let mut most = 0;
        for entry in 0..100_000_u32 {
            READ.set(0);
            table.insert(entry);
            most = most.max(READ.get());
        }
        for entry in 0..100_000 {
            READ.set(0);
            assert!(table.remove(entry, |&other| other == entry).is_some());
            most = most.max(READ.get());
        }
        assert!(most <= 10 * MEAN, "{most}");
        assert!(matches!(table, LinearHashTable::One(first) if first.num_buckets() <= KEPT));
    }
}
