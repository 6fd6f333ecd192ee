//! The entries of one part of a [`DeadlineMap`](crate::DeadlineMap): a hash table that grows and
//! shrinks by one step at a time.
//!
//! A table that doubles moves all that it holds at once, and a thread that waits for its lock waits
//! for that. So this one is made of *segments* of some hundred entries each, by linear hashing
//! (Litwin 1980). When there are too many entries for the segments, the next segment in their order
//! is split in two. When there are too few, the last segment is merged into the one from which it
//! was split.
//!
//! ```text
//!   n segments, 2^k <= n < 2^(k+1).   The hash's last k+1 bits name the segment,
//!                                     or its last k bits if there is no such segment yet.
//!   a split makes segment n of what segment n - 2^k holds
//! ```
//!
//! Invariants:
//!
//! - One insert or remove moves the entries of a few segments at most. All of them together move an
//!   amortised constant.
//! - Memory follows the number of entries, in whatever order they go. But what was reserved stays.
//! - The only code of a key that runs here is in `is`, during a look-up that changes nothing.

#[cfg(test)]
mod tests;

use hashbrown::HashTable;

/// What keeps its own hash.
pub(super) trait Hashed {
    fn hash(&self) -> u32;
}

/// How many entries a segment has on average when the next one is split.
const FULL: usize = 256;

/// How few entries a segment has on average when the last one is merged. It is far from `FULL`, so
/// that the last split was long ago.
const SPARSE: usize = FULL / 4;

/// A segment with no more places than this is not worth shrinking.
const KEPT: usize = 14;

pub(super) struct Segments<E> {
    segments: Vec<Segment<E>>,
    len: usize,
    /// How many segments were reserved. They stay, as large as they are.
    reserved: usize,
    /// How many walks go through the segments now. No segment is merged meanwhile.
    walkers: usize,
}

struct Segment<E>(HashTable<E>);

/// A walk through all entries, some at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// The segment, of those at its beginning, that it shows next.
    next: usize,
    /// How many segments there were when it began.
    of: usize,
}

impl<E> Default for Segments<E> {
    fn default() -> Self {
        Segments {
            segments: Vec::new(),
            len: 0,
            reserved: 0,
            walkers: 0,
        }
    }
}

impl<E: Hashed> Segments<E> {
    #[inline]
    pub(super) fn find(&self, hash: u32, is: impl FnMut(&E) -> bool) -> Option<&E> {
        let number = segment_of(hash, self.segments.len())?;
        self.segments[number].0.find(spread(hash), is)
    }

    pub(super) fn find_mut(&mut self, hash: u32, is: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let number = segment_of(hash, self.segments.len())?;
        self.segments[number].0.find_mut(spread(hash), is)
    }

    /// Puts in an entry that is not in the table.
    pub(super) fn insert(&mut self, entry: E) {
        self.grow_if_due();
        if let Some(number) = segment_of(entry.hash(), self.segments.len()) {
            self.segments[number].insert(entry);
            self.len += 1;
        }
    }

    /// Takes out the entry that is meant.
    pub(super) fn remove(&mut self, hash: u32, is: impl FnMut(&E) -> bool) -> Option<E> {
        let number = segment_of(hash, self.segments.len())?;
        let may_shrink = self.reserved == 0;
        let entry = self.segments[number].remove(hash, is, may_shrink)?;
        self.len -= 1;
        self.shrink_if_due();
        Some(entry)
    }

    /// Takes everything out. Nothing that was reserved stays.
    pub(super) fn take(&mut self) -> Taken<E> {
        let walkers = self.walkers;
        let taken = std::mem::take(self);
        self.walkers = walkers;
        Taken {
            len: taken.len,
            segments: taken.segments,
        }
    }

    /// Makes room for this many entries in an empty table.
    pub(super) fn reserve(&mut self, entries: usize) {
        // A power of two, so that each segment holds as much as the others.
        self.reserved = entries.div_ceil(FULL).next_power_of_two();
        self.segments.reserve_exact(self.reserved);
        let average = entries.div_ceil(self.reserved);
        // An eighth more, because hashes spread by chance.
        let each = average + average / 8;
        self.segments
            .resize_with(self.reserved, || Segment::with_capacity(each));
    }

    #[inline]
    fn grow_if_due(&mut self) {
        if self.len >= self.segments.len() * FULL {
            self.split();
        }
    }

    #[cold]
    fn split(&mut self) {
        let new = self.segments.len();
        if new < 4 {
            self.segments.reserve_exact(1);
        }
        if new == 0 {
            self.segments.push(Segment::with_capacity(0));
            return;
        }
        let old = split_from(new);
        let Segment(full) = std::mem::replace(&mut self.segments[old], Segment::with_capacity(0));
        let is_moved = |entry: &E| segment_of(entry.hash(), new + 1) == Some(new);
        let moved = full.iter().filter(|entry| is_moved(entry)).count();
        let mut stays = Segment::with_capacity(full.len() - moved);
        let mut goes = Segment::with_capacity(moved);
        for entry in full {
            let to = if is_moved(&entry) {
                &mut goes
            } else {
                &mut stays
            };
            to.insert(entry);
        }
        self.segments[old] = stays;
        self.segments.push(goes);
    }

    #[inline]
    fn shrink_if_due(&mut self) {
        if self.len < self.segments.len() * SPARSE && self.walkers == 0 {
            self.merge();
        }
    }

    #[cold]
    fn merge(&mut self) {
        // Two merges, to catch up on those that had to wait for a walk.
        for _ in 0..2 {
            let left = self.segments.len().saturating_sub(1);
            let is_due = self.len < self.segments.len() * SPARSE;
            if !is_due || left < self.reserved.max(1) {
                break;
            }
            if let Some(Segment(last)) = self.segments.pop() {
                let to = &mut self.segments[split_from(left)];
                to.0.reserve(last.len(), hash_of);
                last.into_iter().for_each(|entry| to.insert(entry));
            }
        }
        if self.segments.len() < self.segments.capacity() / 4 {
            self.segments.shrink_to(2 * self.segments.len());
        }
    }
}

/// Walking: a walk sees an entry once that is there all the time, whatever comes and goes
/// meanwhile.
impl<E: Hashed> Segments<E> {
    /// Begins a walk. The caller ends it.
    pub(super) fn begin_walk(&mut self) -> Walk {
        self.walkers += 1;
        Walk {
            next: 0,
            of: self.segments.len(),
        }
    }

    /// Shows the next entries. `false` when the walk has come to its end.
    ///
    /// The walk goes by the segments that there were at its beginning. A segment that was split
    /// from one of them since belongs to that one.
    pub(super) fn walk_on(&self, walk: &mut Walk, see: impl FnMut(&E)) -> bool {
        if walk.next >= walk.of {
            return false;
        }
        let is_of_next = |&number: &usize| segment_of(number as u32, walk.of) == Some(walk.next);
        (walk.next..self.segments.len())
            .step_by(1 << walk.of.ilog2())
            .filter(is_of_next)
            .flat_map(|number| &self.segments[number].0)
            .for_each(see);
        walk.next += 1;
        true
    }

    pub(super) fn end_walk(&mut self) {
        self.walkers -= 1;
        self.shrink_if_due();
    }
}

/// What was taken out of a part.
pub(super) struct Taken<E> {
    len: usize,
    segments: Vec<Segment<E>>,
}

impl<E> Taken<E> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = E> {
        self.segments
            .into_iter()
            .flat_map(|Segment(entries)| entries)
    }
}

impl<E: Hashed> Segment<E> {
    fn with_capacity(entries: usize) -> Segment<E> {
        Segment(HashTable::with_capacity(entries))
    }

    fn insert(&mut self, entry: E) {
        self.0.insert_unique(hash_of(&entry), entry, hash_of);
    }

    fn remove(&mut self, hash: u32, is: impl FnMut(&E) -> bool, may_shrink: bool) -> Option<E> {
        let Segment(entries) = self;
        let found = entries.find_entry(spread(hash), is);
        let (entry, _) = found.ok()?.remove();
        let capacity = entries.capacity();
        if may_shrink && capacity > KEPT && entries.len() < capacity / 4 {
            // With room for half as many again, so that it does not grow at the next insert.
            entries.shrink_to(entries.len() + entries.len() / 2, hash_of);
        }
        Some(entry)
    }
}

/// The hash by which an entry lies in its segment.
fn hash_of<E: Hashed>(entry: &E) -> u64 {
    spread(entry.hash())
}

/// The segment of a hash, among this many. `None` if there is no segment.
#[inline]
fn segment_of(hash: u32, segments: usize) -> Option<usize> {
    let last = segments.checked_sub(1)?;
    let hash = hash as usize;
    // All ones, as many as `last` has bits.
    let mask = usize::MAX
        .checked_shr(last.leading_zeros())
        .unwrap_or_default();
    let number = hash & mask;
    Some(if number <= last {
        number
    } else {
        number & mask >> 1
    })
}

/// The segment from which a new one takes what it holds.
fn split_from(new: usize) -> usize {
    new - (1 << new.ilog2())
}

/// The hash that a segment's own table uses. In `hash` the last bits choose the segment and the
/// first ones the part, so they are the same for all entries here.
#[inline]
fn spread(hash: u32) -> u64 {
    // The golden ratio's bits. The product's upper half depends on all bits of the hash.
    (u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(32)
}
