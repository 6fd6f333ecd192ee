//! The storage of a wheel: its nodes, in segments that are made and freed one by one.
//!
//! A [segment](Segment) has 8 to 512 places: some 16 to 32 KiB, or more if its nodes are large. A
//! node's `u32` index is the number of its segment in the upper bits, and its place there in the
//! lower ones. The states of a segment are those of Bonwick's slab allocator (1994):
//!
//! | state | nodes | its number is in |
//! |---|---|---|
//! | full | all | no list |
//! | with room | 0 to all but one | `with_room`, whose last one takes the next node |
//! | freed | none, and no memory either | `freed` |
//!
//! Invariants:
//!
//! - A node keeps its index until it is removed.
//! - Only the first segment grows: it starts small and doubles, to keep small wheels small. So an
//!   insert moves at most half of a segment's nodes, and no other call moves a node that stays.
//! - A segment is freed together with its last node, unless no other one has room and it has at
//!   most 32 KiB. So at most one segment without a node has memory, and one survivor keeps one
//!   segment.
//! - A segment is made only when all others are full.
//! - Adding, finding and removing a node is O(1) in the number of nodes. Two rare calls touch some
//!   50 bytes for each segment: a doubling of a list of segments, and the removal of the last node.
//!   Freeing a segment looks at four bytes for each.
//! - Every index is below `u32::MAX`, so no index is mistaken for [`NONE`].

use std::ops::{Index, IndexMut};

use super::segment::Segment;

/// The index of no node.
pub(super) const NONE: u32 = u32::MAX;

/// The most memory that a segment takes, unless its nodes are large.
const SEGMENT_BYTES: usize = 32 * 1024;

/// The index bits that select the place, for nodes of this size. Few in tests, for many segments.
const fn place_bits(node_bytes: usize) -> u32 {
    let fit = SEGMENT_BYTES.checked_div(node_bytes);
    match fit {
        _ if cfg!(test) => 4,
        Some(fit) if fit < 8 => 3,
        Some(fit) if fit < 512 => fit.ilog2(),
        _ => 9,
    }
}

pub(super) struct Segments<N> {
    segments: Vec<Segment<N>>,
    with_room: Vec<u32>,
    freed: Vec<u32>,
    len: usize,
}

impl<N> Segments<N> {
    const PLACE_BITS: u32 = place_bits(size_of::<N>());

    pub(super) const PLACES: usize = 1 << Self::PLACE_BITS;

    /// Whether a segment is too large to be kept empty.
    const IS_LARGE: bool = size_of::<N>() * Self::PLACES > SEGMENT_BYTES;

    /// The last number is unused, so that no index is `NONE`.
    const MOST_SEGMENTS: usize = (u32::MAX >> Self::PLACE_BITS) as usize;

    pub(super) fn new() -> Segments<N> {
        Segments {
            segments: Vec::new(),
            with_room: Vec::new(),
            freed: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&N> {
        visit(1);
        let nodes = self.segments.get(Self::number(index))?;
        nodes.get(Self::place(index))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut N> {
        visit(1);
        let nodes = self.segments.get_mut(Self::number(index))?;
        nodes.get_mut(Self::place(index))
    }

    /// The index that the next node gets.
    ///
    /// # Panics
    ///
    /// If there are about four billion nodes.
    #[inline]
    pub(super) fn vacant_index(&mut self) -> u32 {
        let number = match self.with_room.last() {
            Some(&number) => number,
            None => self.make_room(),
        };
        let nodes = &self.segments[number as usize];
        number << Self::PLACE_BITS | nodes.vacant_place()
    }

    /// Builds a node at the index that `vacant_index` has just returned.
    #[inline(always)]
    pub(super) fn put(&mut self, index: u32, make: impl FnOnce() -> N) -> &mut N {
        let nodes = &mut self.segments[Self::number(index)];
        let is_doubled = nodes.len() == nodes.capacity();
        visit(if is_doubled { nodes.len() } else { 1 });
        self.len += 1;
        if nodes.len() == Self::PLACES - 1 {
            leave(&mut self.with_room);
        }
        nodes.insert_with(make)
    }

    /// Removes a node if `take` returns `Some` for it, and passes the node to `rest`.
    /// If `rest` forgets the node, nothing is copied out of the segment.
    #[inline(always)]
    pub(super) fn remove_with<R, V>(
        &mut self,
        index: u32,
        take: impl FnOnce(&mut N) -> Option<R>,
        rest: impl FnOnce(N) -> V,
    ) -> Option<(R, V)> {
        visit(1);
        let nodes = self.segments.get_mut(Self::number(index))?;
        let removed = nodes.remove_with(Self::place(index), take, rest)?;
        let left = nodes.len();
        self.removed(Self::number(index), left);
        Some(removed)
    }

    /// The first index in use, from this one on.
    pub(super) fn next_index(&self, from: u32) -> Option<u32> {
        let first = Self::number(from);
        let mut segments = self.segments.iter().enumerate().skip(first);
        segments.find_map(|(number, nodes)| {
            let from = if number == first {
                Self::place(from)
            } else {
                0
            };
            let place = nodes.next_occupied(from)?;
            Some((number << Self::PLACE_BITS | place) as u32)
        })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut N> {
        self.segments.iter_mut().flat_map(Segment::iter_mut)
    }

    pub(super) fn into_nodes(self) -> impl Iterator<Item = N> {
        self.segments.into_iter().flat_map(Segment::into_nodes)
    }

    /// Makes a segment with room, where there is none. Returns its number.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> u32 {
        let nodes = if self.segments.is_empty() {
            Segment::new()
        } else {
            Segment::with_capacity(Self::PLACES)
        };
        let number = self.freed.pop().unwrap_or(self.segments.len() as u32);
        if let Some(freed) = self.segments.get_mut(number as usize) {
            *freed = nodes;
        } else {
            let is_over = self.segments.len() >= Self::MOST_SEGMENTS;
            assert!(!is_over, "a wheel holds at most about four billion timers");
            self.segments.push(nodes);
        }
        self.with_room.push(number);
        number
    }

    /// Follows each removal, with the number of nodes left in the segment.
    #[inline]
    fn removed(&mut self, number: usize, left: usize) {
        self.len -= 1;
        let was_full = left == Self::PLACES - 1;
        if was_full || left == 0 && (self.segments.len() > 1 || Self::IS_LARGE) {
            self.settle(number as u32, left);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle(&mut self, number: u32, left: usize) {
        if left > 0 {
            return self.with_room.push(number);
        }
        if self.with_room.len() > 1 || Self::IS_LARGE {
            self.segments[number as usize] = Segment::new();
            let position = self.with_room.iter().rposition(|&other| other == number);
            self.with_room.swap_remove(position.expect("it had room"));
            self.freed.push(number);
        }
        if self.len == 0 {
            // At most one segment has memory.
            let mut freed = std::mem::replace(self, Segments::new());
            if let Some(number) = freed.with_room.pop() {
                self.segments
                    .push(std::mem::take(&mut freed.segments[number as usize]));
                self.with_room.push(0);
            }
        }
    }

    #[inline]
    fn number(index: u32) -> usize {
        (index >> Self::PLACE_BITS) as usize
    }

    #[inline]
    fn place(index: u32) -> usize {
        index as usize & (Self::PLACES - 1)
    }
}

impl<N> Index<u32> for Segments<N> {
    type Output = N;

    #[inline]
    fn index(&self, index: u32) -> &N {
        self.get(index).expect(LINKED)
    }
}

impl<N> IndexMut<u32> for Segments<N> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut N {
        self.get_mut(index).expect(LINKED)
    }
}

const LINKED: &str = "a linked node is there";

/// Not inlined, to keep an insert short.
#[cold]
#[inline(never)]
fn leave(with_room: &mut Vec<u32>) {
    with_room.pop();
}

/// Counts the nodes that an operation touches, for the tests of the wheel.
#[inline]
fn visit(_nodes: usize) {
    #[cfg(test)]
    super::tests::VISITS.set(super::tests::VISITS.get() + _nodes);
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<N> Segments<N> {
        /// How many segments take memory.
        pub(in crate::wheel) fn made(&self) -> usize {
            let segments = self.segments.iter();
            segments.filter(|nodes| nodes.capacity() > 0).count()
        }

        pub(in crate::wheel) fn check(&self) {
            let (mut with_room, mut nodes, mut kept) = (0, 0, 0);
            for (number, segment) in (0..).zip(&self.segments) {
                segment.check();
                let (len, capacity) = (segment.len(), segment.capacity());
                assert!(len <= Self::PLACES && capacity <= Self::PLACES);
                if capacity > 0 && len < Self::PLACES {
                    with_room += 1;
                    assert!(self.with_room.contains(&number));
                }
                assert_eq!(self.freed.contains(&number), capacity == 0);
                nodes += len;
                kept += usize::from(capacity > 0 && len == 0);
            }
            assert_eq!((self.with_room.len(), self.len), (with_room, nodes));
            assert!(self.len > 0 || self.segments.len() <= 1);
            assert!(kept <= 1, "{kept} segments without a node have memory");
        }
    }
}
