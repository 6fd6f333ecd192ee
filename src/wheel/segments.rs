//! The storage of a wheel: its nodes, in segments that are made and freed one by one.
//!
//! A *segment* is a slab of 8 to 512 places, some 16 to 32 KiB. A node's `u32` index is the number
//! of its segment in the upper bits, and its place there in the lower ones. New nodes go into the
//! *current* segment until it is full. Then a partial segment becomes current, or a new one if none
//! is partial. The states are those of Bonwick's slab allocator (1994).
//!
//! Each segment is in one of four states. The lists run through the segments themselves:
//!
//! | state | nodes | list |
//! |---|---|---|
//! | current, at most one | 0 to all | none |
//! | full | all | none |
//! | partial | 1 to all but one | `partial` |
//! | empty | none, and no memory either | `empty` |
//!
//! Invariants:
//!
//! - A node keeps its index until it is removed.
//! - A slab never grows, so no node is moved. Only the first slab starts small and doubles, to keep
//!   small wheels small: an insert moves at most half of a segment.
//! - Only the current segment may hold no node and yet have memory, and only if all others were
//!   full when its last node went. Any other segment is freed together with its last node. So at
//!   most one such segment is kept, none larger than 32 KiB, and one survivor keeps one segment.
//! - A segment is made only when all others are full.
//! - Every call is O(1) in the number of nodes. Two rare calls touch some 50 bytes for each
//!   segment: a doubling of the list of segments, and the removal of the last node.
//! - Every index is below `u32::MAX`, so no index is mistaken for [`NONE`].

#[cfg(test)]
use std::cell::Cell;
use std::ops::{Index, IndexMut};

use slab::Slab;

/// The index of no node, and the number of no segment.
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
    /// The number of the current segment. If there is none, the next insert makes one.
    current: u32,
    partial: u32,
    empty: u32,
    len: usize,
    #[cfg(test)]
    visits: Cell<usize>,
}

struct Segment<N> {
    nodes: Slab<N>,
    /// The neighbours in the list of the segment's state.
    previous: u32,
    next: u32,
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
            current: 0,
            partial: NONE,
            empty: NONE,
            len: 0,
            #[cfg(test)]
            visits: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&N> {
        self.visit(1);
        self.segments
            .get(Self::number(index))?
            .nodes
            .get(Self::place(index))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut N> {
        self.visit(1);
        self.segments
            .get_mut(Self::number(index))?
            .nodes
            .get_mut(Self::place(index))
    }

    /// The index that the next node gets.
    ///
    /// # Panics
    ///
    /// If there are about four billion nodes.
    #[inline]
    pub(super) fn vacant_index(&mut self) -> u32 {
        if self.is_current_full() {
            self.replace_current();
        }
        let nodes = &self.segments[self.current as usize].nodes;
        self.current << Self::PLACE_BITS | nodes.vacant_key() as u32
    }

    /// Stores a node at the index that `vacant_index` has just returned.
    #[inline]
    pub(super) fn put(&mut self, node: N) -> &mut N {
        self.visit(1);
        self.len += 1;
        let nodes = &mut self.segments[self.current as usize].nodes;
        #[cfg(test)]
        if nodes.len() == nodes.capacity() {
            self.visits.set(self.visits.get() + nodes.len());
        }
        nodes.vacant_entry().insert(node)
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<N> {
        self.visit(1);
        let segment = self.segments.get_mut(Self::number(index))?;
        let node = segment.nodes.try_remove(Self::place(index))?;
        let left = segment.nodes.len();
        self.removed(Self::number(index), left);
        Some(node)
    }

    /// Removes a node if `take` returns `Some` for it. The rest of the node is forgotten, so it
    /// must need no drop. Nothing is copied out of the segment.
    #[inline]
    pub(super) fn remove_with<R>(
        &mut self,
        index: u32,
        take: impl FnOnce(&mut N) -> Option<R>,
    ) -> Option<R> {
        self.visit(1);
        let segment = self.segments.get_mut(Self::number(index))?;
        let taken = take(segment.nodes.get_mut(Self::place(index))?)?;
        std::mem::forget(segment.nodes.remove(Self::place(index)));
        let left = segment.nodes.len();
        self.removed(Self::number(index), left);
        Some(taken)
    }

    /// The first index in use, from this one on.
    pub(super) fn next_index(&self, from: u32) -> Option<u32> {
        let from = self.skip_empty(from);
        (from..self.end()).find(|&index| self.get(index).is_some())
    }

    /// This index, or the first one after it outside of empty segments.
    pub(super) fn skip_empty(&self, from: u32) -> u32 {
        let is_empty = |segment: &&Segment<N>| segment.nodes.capacity() == 0;
        let behind = self.segments.get(Self::number(from)..).unwrap_or(&[]);
        match behind.iter().take_while(is_empty).count() {
            0 => from,
            skipped => ((Self::number(from) + skipped) << Self::PLACE_BITS) as u32,
        }
    }

    /// One more than the largest possible index.
    pub(super) fn end(&self) -> u32 {
        match &self.segments[..] {
            [only] => only.nodes.capacity().min(Self::PLACES) as u32,
            segments => (segments.len() << Self::PLACE_BITS) as u32,
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut N> {
        let segments = self.segments.iter_mut();
        segments.flat_map(|segment| segment.nodes.iter_mut().map(|(_, node)| node))
    }

    pub(super) fn into_nodes(self) -> impl Iterator<Item = N> {
        let segments = self.segments.into_iter();
        segments.flat_map(|segment| segment.nodes.into_iter().map(|(_, node)| node))
    }

    #[inline]
    fn is_current_full(&self) -> bool {
        let current = self.segments.get(self.current as usize);
        current.is_none_or(|current| current.nodes.len() == Self::PLACES)
    }

    /// Replaces the full current segment by one with room.
    #[cold]
    #[inline(never)]
    fn replace_current(&mut self) {
        self.current = if self.partial != NONE {
            let partial = self.partial;
            self.leave_partial(partial);
            partial
        } else if self.empty != NONE {
            let empty = self.empty;
            self.empty = self.segments[empty as usize].next;
            self.segments[empty as usize].nodes = Slab::with_capacity(Self::PLACES);
            empty
        } else {
            let number = self.segments.len();
            assert!(number < Self::MOST_SEGMENTS, "{TOO_MANY}");
            let nodes = if number == 0 {
                self.segments.reserve_exact(1);
                Slab::new()
            } else {
                Slab::with_capacity(Self::PLACES)
            };
            self.segments.push(Segment::of(nodes));
            number as u32
        };
    }

    /// Follows each removal, with the number of nodes left in the segment.
    #[inline]
    fn removed(&mut self, number: usize, left: usize) {
        self.len -= 1;
        let must_settle = if number == self.current as usize {
            left == 0 && (self.segments.len() > 1 || Self::IS_LARGE)
        } else {
            // Either it was full, or no node is left.
            left.wrapping_sub(1) >= Self::PLACES - 2
        };
        if must_settle {
            self.settle(number as u32, left);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle(&mut self, number: u32, left: usize) {
        if left > 0 {
            self.enter_partial(number);
            return;
        }
        if number != self.current {
            self.leave_partial(number);
            self.give_back(number);
        }
        if self.len == 0 {
            self.keep_only_current();
        } else if number == self.current && self.partial != NONE {
            // Other segments have room for the next nodes.
            self.give_back(number);
            self.replace_current();
        } else if number == self.current && Self::IS_LARGE {
            self.give_back(number);
            self.current = NONE;
        }
    }

    fn give_back(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        segment.nodes = Slab::new();
        segment.next = std::mem::replace(&mut self.empty, number);
    }

    /// Frees the list of segments, all empty but the current one.
    fn keep_only_current(&mut self) {
        self.segments = if Self::IS_LARGE {
            Vec::new()
        } else {
            let current = &mut self.segments[self.current as usize];
            vec![Segment::of(std::mem::take(&mut current.nodes))]
        };
        (self.current, self.partial, self.empty) = (0, NONE, NONE);
    }

    fn enter_partial(&mut self, number: u32) {
        let next = std::mem::replace(&mut self.partial, number);
        let segment = &mut self.segments[number as usize];
        (segment.previous, segment.next) = (NONE, next);
        if next != NONE {
            self.segments[next as usize].previous = number;
        }
    }

    fn leave_partial(&mut self, number: u32) {
        let Segment { previous, next, .. } = self.segments[number as usize];
        match previous {
            NONE => self.partial = next,
            previous => self.segments[previous as usize].next = next,
        }
        if next != NONE {
            self.segments[next as usize].previous = previous;
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

    #[inline]
    fn visit(&self, _nodes: usize) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + _nodes);
    }
}

const TOO_MANY: &str = "a wheel holds at most about four billion timers";

impl<N> Segment<N> {
    fn of(nodes: Slab<N>) -> Segment<N> {
        Segment {
            nodes,
            previous: NONE,
            next: NONE,
        }
    }
}

impl<N> Index<u32> for Segments<N> {
    type Output = N;

    #[inline]
    fn index(&self, index: u32) -> &N {
        self.visit(1);
        &self.segments[Self::number(index)].nodes[Self::place(index)]
    }
}

impl<N> IndexMut<u32> for Segments<N> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut N {
        self.visit(1);
        &mut self.segments[Self::number(index)].nodes[Self::place(index)]
    }
}

#[cfg(test)]
impl<N> Segments<N> {
    pub(super) fn visits(&self) -> usize {
        self.visits.get()
    }

    /// How many segments take memory.
    pub(super) fn made(&self) -> usize {
        let segments = self.segments.iter();
        segments.filter(|it| it.nodes.capacity() > 0).count()
    }

    pub(super) fn check(&self) {
        let mut lists = vec![None; self.segments.len()];
        let mut previous = NONE;
        let mut number = self.partial;
        while number != NONE {
            let segment = &self.segments[number as usize];
            assert_eq!(segment.previous, previous, "the list links back");
            assert_eq!(lists[number as usize].replace("partial"), None);
            (previous, number) = (number, segment.next);
        }
        let mut number = self.empty;
        while number != NONE {
            assert_eq!(lists[number as usize].replace("empty"), None);
            number = self.segments[number as usize].next;
        }
        for (number, segment) in self.segments.iter().enumerate() {
            let len = segment.nodes.len();
            let expected = if number == self.current as usize || len == Self::PLACES {
                None
            } else {
                Some(if len == 0 { "empty" } else { "partial" })
            };
            assert_eq!(lists[number], expected, "segment {number}");
            let capacity = segment.nodes.capacity();
            assert!(capacity <= Self::PLACES);
            assert_eq!(expected == Some("empty"), capacity == 0);
        }
        let nodes = self.segments.iter().map(|segment| segment.nodes.len());
        assert_eq!(self.len, nodes.sum::<usize>());
        assert!(self.len > 0 || self.segments.len() <= 1);
    }
}
