//! The storage of a wheel: its nodes, in segments that are made and given back one by one.
//!
//! A *segment* is a slab of [`PLACES`] places. The index of a node is a `u32`: the number of its
//! segment in the upper bits, and its place there in the lower ones. New nodes go into the *open*
//! segment until it is full. Then another one that has room is opened, and if there is none, a new
//! one is made.
//!
//! Each segment is in one of four states, and the lists run through the segments themselves:
//!
//! | state | nodes | list |
//! |---|---|---|
//! | open, at most one | 0 to all | none |
//! | full | all | none |
//! | roomy | 1 to all but one | `roomy` |
//! | vacant | none, and no memory either | `vacant` |
//!
//! Invariants:
//!
//! - A node keeps its index until it is removed.
//! - A slab never grows, so no node is moved. Only the first one starts small and doubles, so that
//!   a small wheel takes little memory: an insert moves at most half of a segment.
//! - Only the open segment may be empty, and only if all others were full when its last node went.
//!   Any other one is given back together with its last node. So at most one empty segment is kept,
//!   and one survivor keeps one segment.
//! - A segment is made only when all others are full.
//! - What a call does depends in no way on the number of nodes. It may depend on the number of
//!   segments in two rare cases, and then touches some 50 bytes for each 512 nodes: their list
//!   doubles, and it is cut down when the last node goes.
//! - Every index is below `u32::MAX`. So no index is mistaken for [`NONE`].

#[cfg(test)]
use std::cell::Cell;
use std::ops::{Index, IndexMut};

use slab::Slab;

/// The index of no node, and the number of no segment.
pub(super) const NONE: u32 = u32::MAX;

/// So many low bits of an index are the place. Few in unit tests, so that they fill many segments.
const PLACE_BITS: u32 = if cfg!(test) { 4 } else { 9 };

/// How many nodes a segment holds.
pub(super) const PLACES: usize = 1 << PLACE_BITS;

/// The last number is not used, so that no index is `NONE`.
const MOST_SEGMENTS: usize = (u32::MAX >> PLACE_BITS) as usize;

pub(super) struct Segments<N> {
    segments: Vec<Segment<N>>,
    /// The number of the open segment. There may be none before the first insert.
    open: u32,
    /// The first of those that have room and are not open.
    roomy: u32,
    /// The first of those that were given back.
    vacant: u32,
    len: usize,
    /// How many nodes were looked up or moved so far.
    #[cfg(test)]
    visits: Cell<usize>,
}

struct Segment<N> {
    nodes: Slab<N>,
    /// The neighbours in the list that the segment's state names.
    previous: u32,
    next: u32,
}

impl<N> Segments<N> {
    pub(super) fn new() -> Segments<N> {
        Segments {
            segments: Vec::new(),
            open: 0,
            roomy: NONE,
            vacant: NONE,
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
        self.segments.get(number(index))?.nodes.get(place(index))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut N> {
        self.visit(1);
        self.segments
            .get_mut(number(index))?
            .nodes
            .get_mut(place(index))
    }

    /// The index of the next node that is put in.
    ///
    /// # Panics
    ///
    /// If there are about four billion nodes.
    #[inline]
    pub(super) fn vacant_index(&mut self) -> u32 {
        if self.is_open_full() {
            self.open_another();
        }
        let nodes = &self.segments[self.open as usize].nodes;
        self.open << PLACE_BITS | nodes.vacant_key() as u32
    }

    /// Puts a node in, right after `vacant_index` has said where.
    #[inline]
    pub(super) fn put(&mut self, node: N) -> &mut N {
        self.visit(1);
        self.len += 1;
        let nodes = &mut self.segments[self.open as usize].nodes;
        #[cfg(test)]
        if nodes.len() == nodes.capacity() {
            // All are moved.
            self.visits.set(self.visits.get() + nodes.len());
        }
        nodes.vacant_entry().insert(node)
    }

    /// Takes a node out, if there is one.
    pub(super) fn remove(&mut self, index: u32) -> Option<N> {
        self.visit(1);
        let segment = self.segments.get_mut(number(index))?;
        let node = segment.nodes.try_remove(place(index))?;
        let left = segment.nodes.len();
        self.removed(number(index), left);
        Some(node)
    }

    /// Takes a node out if there is one, and `take` finds in it what it wants. What `take` leaves
    /// is forgotten, so it must need no drop. Then nothing is copied out of the segment.
    #[inline]
    pub(super) fn remove_with<R>(
        &mut self,
        index: u32,
        take: impl FnOnce(&mut N) -> Option<R>,
    ) -> Option<R> {
        self.visit(1);
        let segment = self.segments.get_mut(number(index))?;
        let taken = take(segment.nodes.get_mut(place(index))?)?;
        std::mem::forget(segment.nodes.remove(place(index)));
        let left = segment.nodes.len();
        self.removed(number(index), left);
        Some(taken)
    }

    /// The first index from this one on that a node has.
    pub(super) fn next_index(&self, from: u32) -> Option<u32> {
        let from = self.skip_vacant(from);
        (from..self.end()).find(|&index| self.get(index).is_some())
    }

    /// This index, or the first one behind it that lies in no vacant segment.
    pub(super) fn skip_vacant(&self, from: u32) -> u32 {
        let is_vacant = |segment: &&Segment<N>| segment.nodes.capacity() == 0;
        let behind = self.segments.get(number(from)..).unwrap_or(&[]);
        match behind.iter().take_while(is_vacant).count() {
            0 => from,
            skipped => ((number(from) + skipped) << PLACE_BITS) as u32,
        }
    }

    /// One more than the largest index that a node can have now.
    pub(super) fn end(&self) -> u32 {
        match &self.segments[..] {
            [only] => only.nodes.capacity().min(PLACES) as u32,
            segments => (segments.len() << PLACE_BITS) as u32,
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
    fn is_open_full(&self) -> bool {
        let open = self.segments.get(self.open as usize);
        open.is_none_or(|open| open.nodes.len() == PLACES)
    }

    /// Opens a segment that has room, in place of one that is full.
    #[cold]
    #[inline(never)]
    fn open_another(&mut self) {
        self.open = if self.roomy != NONE {
            let roomy = self.roomy;
            self.leave_roomy(roomy);
            roomy
        } else if self.vacant != NONE {
            let vacant = self.vacant;
            self.vacant = self.segments[vacant as usize].next;
            self.segments[vacant as usize].nodes = Slab::with_capacity(PLACES);
            vacant
        } else {
            let number = self.segments.len();
            assert!(number < MOST_SEGMENTS, "{TOO_MANY}");
            let nodes = if number == 0 {
                self.segments.reserve_exact(1);
                Slab::new()
            } else {
                Slab::with_capacity(PLACES)
            };
            self.segments.push(Segment::of(nodes));
            number as u32
        };
    }

    /// Follows each removal: this many nodes are left in the segment.
    #[inline]
    fn removed(&mut self, number: usize, left: usize) {
        self.len -= 1;
        let must_settle = if number == self.open as usize {
            left == 0 && self.segments.len() > 1
        } else {
            // Either it was full, or none is left.
            left.wrapping_sub(1) >= PLACES - 2
        };
        if must_settle {
            self.settle(number as u32, left);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle(&mut self, number: u32, left: usize) {
        if left > 0 {
            self.enter_roomy(number);
            return;
        }
        if number != self.open {
            self.leave_roomy(number);
            self.give_back(number);
        }
        if self.len == 0 {
            self.keep_only_open();
        } else if number == self.open && self.roomy != NONE {
            // The next nodes have room elsewhere.
            self.give_back(number);
            self.open_another();
        }
    }

    fn give_back(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        segment.nodes = Slab::new();
        segment.next = std::mem::replace(&mut self.vacant, number);
    }

    /// Gives back the list of segments, which are all vacant but the open one.
    fn keep_only_open(&mut self) {
        let open = std::mem::take(&mut self.segments[self.open as usize].nodes);
        self.segments = vec![Segment::of(open)];
        (self.open, self.roomy, self.vacant) = (0, NONE, NONE);
    }

    fn enter_roomy(&mut self, number: u32) {
        let next = std::mem::replace(&mut self.roomy, number);
        let segment = &mut self.segments[number as usize];
        (segment.previous, segment.next) = (NONE, next);
        if next != NONE {
            self.segments[next as usize].previous = number;
        }
    }

    fn leave_roomy(&mut self, number: u32) {
        let Segment { previous, next, .. } = self.segments[number as usize];
        match previous {
            NONE => self.roomy = next,
            previous => self.segments[previous as usize].next = next,
        }
        if next != NONE {
            self.segments[next as usize].previous = previous;
        }
    }

    #[inline]
    fn visit(&self, _nodes: usize) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + _nodes);
    }
}

const TOO_MANY: &str = "a wheel holds at most about four billion timers";

#[inline]
fn number(index: u32) -> usize {
    (index >> PLACE_BITS) as usize
}

#[inline]
fn place(index: u32) -> usize {
    index as usize & (PLACES - 1)
}

impl<N> Segment<N> {
    fn of(nodes: Slab<N>) -> Segment<N> {
        Segment {
            nodes,
            previous: NONE,
            next: NONE,
        }
    }
}

/// The node of an index that is in use.
impl<N> Index<u32> for Segments<N> {
    type Output = N;

    #[inline]
    fn index(&self, index: u32) -> &N {
        self.visit(1);
        &self.segments[number(index)].nodes[place(index)]
    }
}

impl<N> IndexMut<u32> for Segments<N> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut N {
        self.visit(1);
        &mut self.segments[number(index)].nodes[place(index)]
    }
}

#[cfg(test)]
impl<N> Segments<N> {
    /// How many nodes were looked up or moved so far.
    pub(super) fn visits(&self) -> usize {
        self.visits.get()
    }

    /// How many segments take memory.
    pub(super) fn made(&self) -> usize {
        let segments = self.segments.iter();
        segments.filter(|it| it.nodes.capacity() > 0).count()
    }

    /// Asserts every invariant of the storage.
    pub(super) fn check(&self) {
        let mut lists = vec![None; self.segments.len()];
        let mut previous = NONE;
        let mut number = self.roomy;
        while number != NONE {
            let segment = &self.segments[number as usize];
            assert_eq!(segment.previous, previous, "the list links back");
            assert_eq!(lists[number as usize].replace("roomy"), None);
            (previous, number) = (number, segment.next);
        }
        let mut number = self.vacant;
        while number != NONE {
            assert_eq!(lists[number as usize].replace("vacant"), None);
            number = self.segments[number as usize].next;
        }
        for (number, segment) in self.segments.iter().enumerate() {
            let expected = match segment.nodes.len() {
                _ if number == self.open as usize => None,
                PLACES => None,
                0 => Some("vacant"),
                _ => Some("roomy"),
            };
            assert_eq!(lists[number], expected, "segment {number}");
            let capacity = segment.nodes.capacity();
            assert!(capacity <= PLACES);
            assert_eq!(expected == Some("vacant"), capacity == 0);
        }
        let nodes = self.segments.iter().map(|segment| segment.nodes.len());
        assert_eq!(self.len, nodes.sum::<usize>());
        assert!(self.len > 0 || self.segments.len() <= 1);
    }
}
