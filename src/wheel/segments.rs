//! The storage of a wheel: its nodes, in segments that are made and freed one by one.
//!
//! A [segment](Segment) has 8 to 512 places: some 16 to 32 KiB, or more if its nodes are large. A
//! node's `u32` index is the number of its segment in the upper bits, and its place there in the
//! lower ones. The states of a segment are those of Bonwick's slab allocator (1994):
//!
//! | state | nodes | its number is in |
//! |---|---|---|
//! | full | all | no list |
//! | with room | 0 to all but one | `room`, which takes the next node, or `with_room` |
//! | freed | none, and no memory either | `freed` |
//!
//! How far `room` is filled lies in the wheel itself, where each insert finds and changes it, and
//! each removal in a small wheel. In all others it lies beside their places.
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

use super::segment::{Filling, Segment};

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

/// What an insert changes comes first: see `Wheel`.
#[repr(C)]
pub(super) struct Segments<N> {
    /// How far the segment `room` is filled.
    pub(super) filling: Filling,
    /// The number of the segment that takes the next node, or `NONE`.
    room: u32,
    /// The nodes in all segments but `room`. There are fewer than indices.
    others_len: u32,
    /// All segments, by number.
    segments: Vec<Segment<N>>,
    /// The numbers of the others that have room.
    with_room: Vec<u32>,
    /// The numbers of those without memory, to be used again.
    freed: Vec<u32>,
}

impl<N> Segments<N> {
    /// How many bits of an index select the place.
    const PLACE_BITS: u32 = place_bits(size_of::<N>());

    /// How many places a segment has.
    pub(super) const PLACES: usize = 1 << Self::PLACE_BITS;

    /// Whether a segment is too large to be kept empty.
    const IS_LARGE: bool = size_of::<N>() * Self::PLACES > SEGMENT_BYTES;

    /// The last number is unused, so that no index is `NONE`.
    const MOST_SEGMENTS: usize = (u32::MAX >> Self::PLACE_BITS) as usize;

    pub(super) fn new() -> Segments<N> {
        Segments {
            filling: Filling::EMPTY,
            room: NONE,
            others_len: 0,
            segments: Vec::new(),
            with_room: Vec::new(),
            freed: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.filling.len() + self.others_len as usize
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.filling.len() == 0 && self.others_len == 0
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
        let number = match self.room {
            NONE => self.make_room(),
            number => number,
        };
        number << Self::PLACE_BITS | self.filling.vacant_place()
    }

    /// Builds a node at the index that `vacant_index` has just returned.
    #[inline(always)]
    pub(super) fn put(&mut self, index: u32, make: impl FnOnce() -> N) -> &mut N {
        let kept = if self.filling.len() == Self::PLACES - 1 {
            self.fill_up();
            None
        } else {
            Some(&mut self.filling)
        };
        let nodes = &mut self.segments[Self::number(index)];
        if cfg!(test) {
            let len = kept
                .as_ref()
                .map_or(Self::PLACES - 1, |filling| filling.len());
            visit(if len == nodes.capacity() { len } else { 1 });
        }
        nodes.insert_with(kept, make)
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
        let number = Self::number(index);
        let nodes = self.segments.get_mut(number)?;
        let is_room = number == self.room as usize;
        let kept = is_room.then_some(&mut self.filling);
        let (removed, left) = nodes.remove_with(kept, Self::place(index), take, rest)?;
        if is_room {
            if left == 0 && (self.segments.len() > 1 || Self::IS_LARGE) {
                self.relist(number as u32, left);
            }
        } else {
            self.others_len -= 1;
            let was_full = left == Self::PLACES - 1;
            if was_full || left == 0 {
                self.relist(number as u32, left);
            }
        }
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
        self.set_room(number);
        number
    }

    /// Lets another segment take the next node, or none.
    fn set_room(&mut self, number: u32) {
        if let Some(before) = self.segments.get_mut(self.room as usize) {
            before.filling = self.filling;
            self.others_len += self.filling.len() as u32;
        }
        let next = self.segments.get(number as usize);
        self.filling = next.map_or(Filling::EMPTY, |next| next.filling);
        self.others_len -= self.filling.len() as u32;
        self.room = number;
    }

    /// The segment with room gets its last node next.
    #[cold]
    #[inline(never)]
    fn fill_up(&mut self) {
        let next = self.with_room.pop().unwrap_or(NONE);
        self.set_room(next);
        self.others_len += 1;
    }

    /// Puts a segment into the list of its new state: after a removal from a full one, and after
    /// that of a last node, where there are others.
    #[cold]
    #[inline(never)]
    fn relist(&mut self, number: u32, left: usize) {
        if left > 0 {
            let others = (self.room != NONE).then_some(self.room);
            self.with_room.extend(others);
            return self.set_room(number);
        }
        if !self.with_room.is_empty() || Self::IS_LARGE {
            if self.room == number {
                let next = self.with_room.pop().unwrap_or(NONE);
                self.set_room(next);
            } else {
                let position = self.with_room.iter().rposition(|&other| other == number);
                self.with_room.swap_remove(position.expect("it had room"));
            }
            self.segments[number as usize] = Segment::new();
            self.freed.push(number);
        }
        if self.is_empty() {
            // At most one segment has memory.
            let mut freed = std::mem::replace(self, Segments::new());
            if let Some(kept) = freed.segments.get_mut(freed.room as usize) {
                kept.filling = freed.filling;
                self.segments.push(std::mem::take(kept));
                self.set_room(0);
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
            let (mut listed, mut nodes, mut kept) = (self.with_room.clone(), 0, 0);
            listed.extend((self.room != NONE).then_some(self.room));
            let mut with_room = Vec::new();
            for (number, segment) in (0..).zip(&self.segments) {
                let filling = if number == self.room {
                    self.filling
                } else {
                    segment.filling
                };
                segment.check(filling);
                let (len, capacity) = (filling.len(), segment.capacity());
                assert!(len <= Self::PLACES && capacity <= Self::PLACES);
                if capacity > 0 && len < Self::PLACES {
                    with_room.push(number);
                }
                assert_eq!(self.freed.contains(&number), capacity == 0);
                nodes += len;
                kept += usize::from(capacity > 0 && len == 0);
            }
            listed.sort_unstable();
            assert_eq!((listed, self.len()), (with_room, nodes));
            assert!(!self.is_empty() || self.segments.len() <= 1);
            assert!(kept <= 1, "{kept} segments without a node have memory");
        }
    }
}
