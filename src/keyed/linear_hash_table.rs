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

pub(crate) struct LinearHashTable<T> {
    /// Nearly every table has one segment, which is reached directly.
    first: HashTable<T>,
    rest: Vec<HashTable<T>>,
    len: usize,
}

/// The average above which a segment is split. A segment may have twice as many before its turn,
/// and then fills its 2,048 buckets. Small in unit tests, for many segments.
const MEAN: usize = if cfg!(test) { 8 } else { 800 };

/// A table with at most this many buckets is not worth shrinking.
const KEPT: usize = 4;

impl<T: Hashed> LinearHashTable<T> {
    pub(crate) fn new() -> LinearHashTable<T> {
        LinearHashTable {
            first: HashTable::new(),
            rest: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let hash = spread(hash);
        self.segment(self.segment_of(hash)).find(hash, is_it)
    }

    pub(crate) fn find_mut(&mut self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let hash = spread(hash);
        let number = self.segment_of(hash);
        self.segment_mut(number).find_mut(hash, is_it)
    }

    #[inline]
    pub(crate) fn insert(&mut self, entry: T) {
        self.len += 1;
        if self.len > MEAN * self.segments() {
            self.split();
        }
        self.put(entry);
    }

    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let hash = spread(hash);
        let number = self.segment_of(hash);
        let found = self.segment_mut(number).find_entry(hash, is_it);
        let (entry, _) = found.ok()?.remove();
        self.len -= 1;
        // Not by the capacity, which falls where many hashes collide.
        let buckets = self.first.num_buckets();
        if !self.rest.is_empty() {
            if self.len < MEAN / 2 * self.segments() {
                self.merge();
            }
        } else if buckets > KEPT && self.len < buckets / 5 {
            self.shrink();
        }
        Some(entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flatten())
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = T> {
        self.first
            .into_iter()
            .chain(self.rest.into_iter().flatten())
    }

    #[inline]
    fn segments(&self) -> usize {
        1 + self.rest.len()
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        if self.rest.is_empty() {
            return 0;
        }
        segment_of(hash, self.segments())
    }

    #[inline]
    fn segment(&self, number: usize) -> &HashTable<T> {
        match number {
            0 => &self.first,
            _ => &self.rest[number - 1],
        }
    }

    #[inline]
    fn segment_mut(&mut self, number: usize) -> &mut HashTable<T> {
        match number {
            0 => &mut self.first,
            _ => &mut self.rest[number - 1],
        }
    }

    #[inline]
    fn put(&mut self, entry: T) {
        let hash = spread_of(&entry);
        let number = self.segment_of(hash);
        self.segment_mut(number)
            .insert_unique(hash, entry, spread_of);
    }

    #[cold]
    fn split(&mut self) {
        let last = self.segments();
        let source = self.segment_mut(split_from(last));
        // Room for as many as the source has, because growing hashes each entry again.
        let mut split = HashTable::with_capacity(source.len());
        for entry in source.extract_if(|entry| segment_of(spread_of(entry), last + 1) == last) {
            split.insert_unique(spread_of(&entry), entry, spread_of);
        }
        self.rest.push(split);
    }

    #[cold]
    fn shrink(&mut self) {
        // Room for half as many again, so that the next insert does not grow it.
        let room = self.len + self.len / 2;
        self.first.shrink_to(room, spread_of);
    }

    #[cold]
    fn merge(&mut self) {
        for entry in self.rest.pop().into_iter().flatten() {
            self.put(entry);
        }
        if self.rest.len() < self.rest.capacity() / 4 {
            self.rest.shrink_to(2 * self.rest.len());
        }
    }
}

/// The segment of a hash. Segments that were split use one more bit than the others.
#[inline]
fn segment_of(hash: u64, segments: usize) -> usize {
    let mask = segments.next_power_of_two() - 1;
    // A segment's own table uses the lowest and the highest bits.
    let number = (hash >> 20) as usize & mask;
    if number < segments {
        number
    } else {
        number & (mask >> 1)
    }
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
                let segments = table.segments();
                assert!(table.len() <= MEAN * segments);
                assert!(segments == 1 || table.len() >= MEAN / 2 * segments);
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(table.iter().copied().collect::<HashSet<_>>(), model);
        }
        assert_eq!(table.into_entries().collect::<HashSet<_>>(), model);
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
        assert!(table.first.num_buckets() <= KEPT && table.rest.capacity() == 0);
    }
}
