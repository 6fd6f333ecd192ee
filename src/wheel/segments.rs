//! The storage of a wheel: its nodes, in segments that are made and given back one by one.
//!
//! A *segment* has [`PLACES`] places, each of which holds a node or is free. The free ones are a
//! list through the places. The index of a node is a `u32`: the number of its segment in the upper
//! bits, and its place there in the lower ones. New nodes go into the *open* segment until it is
//! full. Then another one that has room is opened, and if there is none, a new one is made.
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
//! - A segment never grows, so no node is moved. Only the first one starts small and doubles, so
//!   that a small wheel takes little memory: an insert moves at most half of a segment.
//! - Only the open segment may be empty: any other one is given back together with its last node.
//!   So at most one empty segment is kept, and one survivor keeps one segment beside that.
//! - A segment is made only when all others are full.
//! - What a call does depends in no way on the number of nodes. It may depend on the number of
//!   segments in two rare cases, and then touches some 40 bytes for each 1,024 nodes: their list
//!   doubles, and it is cut down when the last node goes.
//! - Every index is below `u32::MAX`. So no index is mistaken for [`NONE`].
//!
//! A slab for each segment would do the same. But an insert would write each node twice, and a
//! removal would look for it twice: that was a tenth of arming and disarming.

#[cfg(test)]
use std::cell::Cell;
use std::iter::FusedIterator;
use std::ops::{Index, IndexMut};

/// The index of no node, and the number of no segment.
pub(super) const NONE: u32 = u32::MAX;

/// So many low bits of an index are the place. Few in unit tests, so that they fill many segments.
const PLACE_BITS: u32 = if cfg!(test) { 4 } else { 10 };

/// How many nodes a segment holds.
pub(super) const PLACES: usize = 1 << PLACE_BITS;

/// How many the first segment holds at first.
const FIRST_PLACES: usize = 4;

/// The last number is not used, so that no index is `NONE`.
const MOST_SEGMENTS: usize = (u32::MAX >> PLACE_BITS) as usize;

pub(super) struct Segments<N> {
    segments: Vec<Segment<N>>,
    /// The number of the open segment. There is none before the first insert.
    open: u32,
    /// The first free place of the open segment. That segment's own field says nothing.
    free: u32,
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
    places: Vec<Place<N>>,
    /// How many places hold a node.
    used: u32,
    /// The first free place.
    free: u32,
    /// The neighbours in the list that the segment's state names.
    previous: u32,
    next: u32,
}

pub(super) enum Place<N> {
    Node(N),
    /// The next free place.
    Free(u32),
}

impl<N> Segments<N> {
    pub(super) fn new() -> Segments<N> {
        Segments {
            segments: Vec::new(),
            open: 0,
            free: NONE,
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
        match self.segments.get(number(index))?.places.get(place(index))? {
            Place::Node(node) => Some(node),
            Place::Free(_) => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut N> {
        self.visit(1);
        let segment = self.segments.get_mut(number(index))?;
        match segment.places.get_mut(place(index))? {
            Place::Node(node) => Some(node),
            Place::Free(_) => None,
        }
    }

    /// The index of the next node that is inserted.
    ///
    /// # Panics
    ///
    /// If there are about four billion nodes.
    #[inline]
    pub(super) fn vacant_index(&mut self) -> u32 {
        if self.free == NONE {
            self.open_another();
        }
        self.open << PLACE_BITS | self.free
    }

    /// The place at `vacant_index`, into which the caller puts a node at once.
    #[inline]
    pub(super) fn take_place(&mut self) -> &mut Place<N> {
        self.visit(1);
        let segment = &mut self.segments[self.open as usize];
        let place = &mut segment.places[self.free as usize];
        let Place::Free(next) = *place else {
            unreachable!("a place in the list of the free ones is free");
        };
        self.free = next;
        self.len += 1;
        segment.used += 1;
        place
    }

    /// Takes a node out.
    pub(super) fn remove(&mut self, index: u32) -> Option<N> {
        let taken = self.vacate(index, |_| Some(()), std::convert::identity)?;
        match taken {
            ((), Place::Node(node)) => Some(node),
            ((), Place::Free(_)) => None,
        }
    }

    /// Takes out what `take` finds worth taking of a node. What it leaves is forgotten, so it must
    /// need no drop. Then nothing is copied.
    #[inline]
    pub(super) fn remove_with<R>(
        &mut self,
        index: u32,
        take: impl FnOnce(&mut N) -> Option<R>,
    ) -> Option<R> {
        let (taken, ()) = self.vacate(index, take, std::mem::forget)?;
        Some(taken)
    }

    /// Makes the place of a node free, unless `take` gives `None` for it.
    #[inline(always)]
    fn vacate<R, O>(
        &mut self,
        index: u32,
        take: impl FnOnce(&mut N) -> Option<R>,
        let_go: impl FnOnce(Place<N>) -> O,
    ) -> Option<(R, O)> {
        self.visit(1);
        let segment = self.segments.get_mut(number(index))?;
        let place = segment.places.get_mut(place(index))?;
        let Place::Node(node) = place else {
            return None;
        };
        let taken = take(node)?;
        segment.used -= 1;
        self.len -= 1;
        let left = segment.used;
        let is_open = number(index) == self.open as usize;
        let free = if is_open {
            &mut self.free
        } else {
            &mut segment.free
        };
        let next = std::mem::replace(free, self::place(index) as u32);
        let let_go = let_go(std::mem::replace(place, Place::Free(next)));
        let must_settle = if is_open {
            self.len == 0 && self.segments.len() > 1
        } else {
            // Either it was full, or none is left.
            left.wrapping_sub(1) >= PLACES as u32 - 2
        };
        if must_settle {
            self.settle(number(index) as u32, left);
        }
        Some((taken, let_go))
    }

    /// The first index from this one on that a node has.
    pub(super) fn next_index(&self, from: u32) -> Option<u32> {
        let from = self.skip_vacant(from);
        (from..self.end()).find(|&index| self.get(index).is_some())
    }

    /// This index, or the first one behind it that lies in no vacant segment.
    pub(super) fn skip_vacant(&self, from: u32) -> u32 {
        let is_vacant = |segment: &&Segment<N>| segment.places.is_empty();
        let behind = self.segments.get(number(from)..).unwrap_or(&[]);
        match behind.iter().take_while(is_vacant).count() {
            0 => from,
            skipped => ((number(from) + skipped) << PLACE_BITS) as u32,
        }
    }

    /// One more than the largest index that a node can have now.
    pub(super) fn end(&self) -> u32 {
        match &self.segments[..] {
            [only] => only.places.len() as u32,
            segments => (segments.len() << PLACE_BITS) as u32,
        }
    }

    /// All nodes, in no order.
    pub(super) fn iter(&self) -> Iter<'_, N> {
        Iter {
            segments: self.segments.iter(),
            places: [].iter(),
            next_index: 0,
            left: self.len,
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut N> {
        let segments = self.segments.iter_mut();
        let places = segments.flat_map(|segment| &mut segment.places);
        places.filter_map(|place| match place {
            Place::Node(node) => Some(node),
            Place::Free(_) => None,
        })
    }

    pub(super) fn into_nodes(self) -> impl Iterator<Item = N> {
        let segments = self.segments.into_iter();
        let places = segments.flat_map(|segment| segment.places);
        places.filter_map(|place| match place {
            Place::Node(node) => Some(node),
            Place::Free(_) => None,
        })
    }

    /// Opens a segment that has room, in place of one that is full.
    #[cold]
    #[inline(never)]
    fn open_another(&mut self) {
        if let Some(full) = self.segments.get_mut(self.open as usize) {
            full.free = NONE;
        }
        if let [first] = &mut self.segments[..] {
            let places = first.places.len();
            if places < PLACES {
                first.grow((2 * places).min(PLACES));
                self.free = first.free;
                self.visit(places);
                return;
            }
        }
        self.open = if self.roomy != NONE {
            let roomy = self.roomy;
            self.leave_roomy(roomy);
            roomy
        } else if self.vacant != NONE {
            let vacant = self.vacant;
            self.vacant = self.segments[vacant as usize].next;
            self.segments[vacant as usize].grow(PLACES);
            vacant
        } else {
            let number = self.segments.len();
            assert!(number < MOST_SEGMENTS, "{TOO_MANY}");
            let mut segment = Segment::VACANT;
            if number == 0 {
                self.segments.reserve_exact(1);
                segment.grow(FIRST_PLACES);
            } else {
                segment.grow(PLACES);
            }
            self.segments.push(segment);
            number as u32
        };
        self.free = self.segments[self.open as usize].free;
    }

    #[cold]
    #[inline(never)]
    fn settle(&mut self, number: u32, left: u32) {
        if left > 0 {
            self.enter_roomy(number);
            return;
        }
        if number != self.open {
            self.leave_roomy(number);
            let segment = &mut self.segments[number as usize];
            *segment = Segment::VACANT;
            segment.next = std::mem::replace(&mut self.vacant, number);
        }
        if self.len == 0 {
            self.keep_only_open();
        }
    }

    /// Gives back the list of segments, which are all vacant but the open one.
    fn keep_only_open(&mut self) {
        let open = self.segments.swap_remove(self.open as usize);
        self.segments = vec![open];
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

const NOT_THERE: &str = "each index that the wheel stores is that of a node";

#[inline]
fn number(index: u32) -> usize {
    (index >> PLACE_BITS) as usize
}

#[inline]
fn place(index: u32) -> usize {
    index as usize & (PLACES - 1)
}

impl<N> Place<N> {
    /// Puts a node into a free place.
    #[inline]
    pub(super) fn put(&mut self, node: N) -> &mut N {
        // A free place needs no drop.
        std::mem::forget(std::mem::replace(self, Place::Node(node)));
        match self {
            Place::Node(node) => node,
            Place::Free(_) => unreachable!("a node was put there"),
        }
    }
}

impl<N> Segment<N> {
    const VACANT: Segment<N> = Segment {
        places: Vec::new(),
        used: 0,
        free: NONE,
        previous: NONE,
        next: NONE,
    };

    /// Makes room for this many nodes in all, where all places are taken.
    fn grow(&mut self, places: usize) {
        let before = self.places.len();
        self.places.reserve_exact(places - before);
        self.places
            .extend((before + 1..=places).map(|next| Place::Free(next as u32)));
        self.places[places - 1] = Place::Free(NONE);
        self.free = before as u32;
    }
}

/// The node of an index that is in use.
impl<N> Index<u32> for Segments<N> {
    type Output = N;

    #[inline]
    fn index(&self, index: u32) -> &N {
        self.get(index).expect(NOT_THERE)
    }
}

impl<N> IndexMut<u32> for Segments<N> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut N {
        self.get_mut(index).expect(NOT_THERE)
    }
}

/// All nodes, each with its index.
pub(super) struct Iter<'a, N> {
    segments: std::slice::Iter<'a, Segment<N>>,
    places: std::slice::Iter<'a, Place<N>>,
    /// The index of the place that comes next.
    next_index: u32,
    left: usize,
}

impl<'a, N> Iterator for Iter<'a, N> {
    type Item = (u32, &'a N);

    fn next(&mut self) -> Option<(u32, &'a N)> {
        while self.left > 0 {
            let Some(place) = self.places.next() else {
                self.next_index = self.next_index.next_multiple_of(PLACES as u32);
                self.places = self.segments.next()?.places.iter();
                if self.places.len() == 0 {
                    self.next_index += PLACES as u32;
                }
                continue;
            };
            let index = self.next_index;
            self.next_index += 1;
            if let Place::Node(node) = place {
                self.left -= 1;
                return Some((index, node));
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<N> ExactSizeIterator for Iter<'_, N> {}

impl<N> FusedIterator for Iter<'_, N> {}

impl<N> Clone for Iter<'_, N> {
    fn clone(&self) -> Self {
        Iter {
            segments: self.segments.clone(),
            places: self.places.clone(),
            ..*self
        }
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
        segments.filter(|it| !it.places.is_empty()).count()
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
            let is_node = |place: &&Place<N>| matches!(place, Place::Node(_));
            let used = segment.places.iter().filter(is_node).count();
            assert_eq!(segment.used as usize, used);
            let expected = match used {
                _ if number == self.open as usize => None,
                PLACES => None,
                0 => Some("vacant"),
                _ => Some("roomy"),
            };
            assert_eq!(lists[number], expected, "segment {number}");
            let places = segment.places.len();
            assert!(
                places == PLACES
                    || places < PLACES && self.segments.len() == 1
                    || expected == Some("vacant")
            );
            assert_eq!(expected == Some("vacant"), places == 0);
            let is_open = number == self.open as usize;
            let mut free = if is_open { self.free } else { segment.free };
            for _ in used..places {
                let Place::Free(next) = segment.places[free as usize] else {
                    panic!("a node is among the free places");
                };
                free = next;
            }
            assert_eq!(free, NONE, "each free place is in the list");
        }
        let used = self.segments.iter().map(|segment| segment.used as usize);
        assert_eq!(self.len, used.sum());
        assert!(self.len > 0 || self.segments.len() <= 1);
    }
}
