//! A hash table that grows and shrinks by a bounded step, however many entries it has.
//!
//! It is Litwin's linear hashing (1980) over small tables, the *segments*. When the mean of the
//! segments is full, one of them is split in two, in a fixed order. When it is half empty, the last
//! one is merged into the one that it was split from. So an insert or a removal moves the entries
//! of one segment at most, where a table that doubles moves all of them.
//!
//! Invariants:
//!
//! - An entry lies in the segment that [`LinearTable::segment_of`] names for its hash.
//! - Memory follows the number of entries: more than one segment have at least [`MEAN`] / 2 entries
//!   in the mean, and a single one is shrunk.
//! - No code of a key runs but in a look-up, so a table that changes is whole whatever panics.

use hashbrown::HashTable;

pub(crate) struct LinearTable<T> {
    /// Nearly every table has one segment, which is reached without another look.
    first: HashTable<T>,
    rest: Vec<HashTable<T>>,
    len: usize,
}

/// The mean number of entries above which a segment is split. A segment has up to twice as many
/// before its turn comes, and then fills its 2,048 buckets. Few in unit tests, for many segments.
const MEAN: usize = if cfg!(test) { 8 } else { 800 };

/// A table with no more buckets than this is not worth shrinking.
const KEPT: usize = 4;

impl<T> LinearTable<T> {
    pub(crate) fn new() -> LinearTable<T> {
        LinearTable {
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

    /// Puts in an entry that is not in the table.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, entry: T, hash_of: impl Fn(&T) -> u32) {
        self.len += 1;
        if self.len > MEAN * self.segments() {
            self.split(&hash_of);
        }
        self.put(spread(hash), entry, hash_of);
    }

    #[inline]
    pub(crate) fn remove(
        &mut self,
        hash: u32,
        is_it: impl FnMut(&T) -> bool,
        hash_of: impl Fn(&T) -> u32,
    ) -> Option<T> {
        let hash = spread(hash);
        let number = self.segment_of(hash);
        let found = self.segment_mut(number).find_entry(hash, is_it);
        let (entry, _) = found.ok()?.remove();
        self.len -= 1;
        // Not by the capacity, which falls where many hashes collide.
        let buckets = self.first.num_buckets();
        if !self.rest.is_empty() {
            if self.len < MEAN / 2 * self.segments() {
                self.merge(hash_of);
            }
        } else if buckets > KEPT && self.len < buckets / 5 {
            self.shrink(hash_of);
        }
        Some(entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flatten())
    }

    #[inline]
    fn segments(&self) -> usize {
        1 + self.rest.len()
    }

    /// The number of the segment for a hash. Those below the next one to be split are told apart by
    /// one more bit than the others.
    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        if self.rest.is_empty() {
            return 0;
        }
        let segments = self.segments();
        let mask = segments.next_power_of_two() - 1;
        // A segment's own table uses the lowest bits and the highest ones.
        let number = (hash >> 20) as usize & mask;
        if number < segments {
            number
        } else {
            number & (mask >> 1)
        }
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
    fn put(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u32) {
        let number = self.segment_of(hash);
        self.segment_mut(number)
            .insert_unique(hash, entry, |entry| spread(hash_of(entry)));
    }

    /// Makes one more segment, out of the one that is next in the order.
    #[cold]
    fn split(&mut self, hash_of: impl Fn(&T) -> u32) {
        let source = split_from(self.segments());
        let full = std::mem::take(self.segment_mut(source));
        // With room for twice as many. To grow, a segment looks at the hash of each entry again.
        self.rest.push(HashTable::with_capacity(full.len()));
        *self.segment_mut(source) = HashTable::with_capacity(full.len());
        for entry in full {
            self.put(spread(hash_of(&entry)), entry, &hash_of);
        }
    }

    #[cold]
    fn shrink(&mut self, hash_of: impl Fn(&T) -> u32) {
        // With room for half as many again, so that it does not grow at the next insert.
        let room = self.len + self.len / 2;
        self.first.shrink_to(room, |entry| spread(hash_of(entry)));
    }

    /// Undoes the last split.
    #[cold]
    fn merge(&mut self, hash_of: impl Fn(&T) -> u32) {
        for entry in self.rest.pop().into_iter().flatten() {
            self.put(spread(hash_of(&entry)), entry, &hash_of);
        }
        if self.rest.len() < self.rest.capacity() / 4 {
            self.rest.shrink_to(2 * self.rest.len());
        }
    }
}

impl<T> IntoIterator for LinearTable<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<
        std::iter::Chain<std::iter::Once<HashTable<T>>, std::vec::IntoIter<HashTable<T>>>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.rest).flatten()
    }
}

/// The number of the segment that this one was split from.
fn split_from(number: usize) -> usize {
    number - (1 << number.ilog2())
}

/// A hash of 64 bits. Some bits of the 32 may be the same for all entries of a table.
#[inline]
fn spread(hash: u32) -> u64 {
    // The golden ratio's bits. The product's upper half depends on all bits of the hash.
    (u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn own_hash(entry: &u32) -> u32 {
        *entry
    }

    #[test]
    fn a_table_does_what_a_set_does_and_keeps_its_segments_filled() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut table = LinearTable::new();
        let mut model = HashSet::new();
        for round in 0..40 {
            for _ in 0..500 {
                let entry = random.u32(..4_000);
                // Grows for a while, then shrinks.
                if random.u32(..40) > round {
                    if table.find(entry, |&other| other == entry).is_none() {
                        table.insert(entry, entry, own_hash);
                    }
                    model.insert(entry);
                } else {
                    let removed = table.remove(entry, |&other| other == entry, own_hash);
                    assert_eq!(removed.is_some(), model.remove(&entry));
                }
                let segments = table.segments();
                assert!(table.len() <= MEAN * segments);
                assert!(segments == 1 || table.len() >= MEAN / 2 * segments);
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(table.iter().copied().collect::<HashSet<_>>(), model);
            assert!((0..4_000).all(|entry| {
                table.find(entry, |&other| other == entry).is_some() == model.contains(&entry)
            }));
        }
        assert_eq!(table.into_iter().collect::<HashSet<_>>(), model);
    }

    #[test]
    fn no_change_moves_more_entries_than_a_few_segments_hold() {
        use std::cell::Cell;

        // Each entry that is moved is hashed.
        let moved = Cell::new(0);
        let counting = |entry: &u32| {
            moved.set(moved.get() + 1);
            *entry
        };
        let mut table = LinearTable::new();
        let mut most = 0;
        for entry in 0..100_000 {
            moved.set(0);
            table.insert(entry, entry, counting);
            most = most.max(moved.get());
        }
        for entry in 0..100_000 {
            moved.set(0);
            assert!(
                table
                    .remove(entry, |&other| other == entry, counting)
                    .is_some()
            );
            most = most.max(moved.get());
        }
        assert!(most <= 10 * MEAN, "{most}");
        assert!(table.first.num_buckets() <= KEPT && table.rest.capacity() == 0);
    }
}
