//! A segment of a wheel's storage: a row of places, each of which holds a node or is vacant.
//!
//! The vacant places form a list, which is threaded through the places themselves. The place that
//! was vacated last is filled first.
//!
//! ```text
//!   vacant: 2     places   [ node | -> 4 | -> 1 | node ]     4 is the place that is added next
//! ```
//!
//! This is what the crate `slab` does. A node is built in its place here. `slab` takes the node by
//! value, and the compiler then copies it twice on the stack. Without these copies, arming and
//! disarming a sleep takes a tenth less time.
//!
//! Invariant: the list of vacant places holds each vacant place once, and ends at the number of
//! places, where the next place is added.

use std::mem;

/// A row of places.
pub(super) struct Segment<N> {
    /// Those that were ever filled. More are added up to the capacity.
    places: Vec<Place<N>>,
    /// How far it is filled, unless the caller keeps that.
    pub(super) filling: Filling,
}

/// How far a segment is filled. Each insert and each removal changes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    /// The head of the list of vacant places.
    vacant: u16,
    /// The one behind it in the list, or `UNKNOWN`. After a removal it is known, so the next insert
    /// writes the place without a look at what is there.
    behind: u16,
    /// How many places hold a node.
    len: u16,
}

/// No place: a segment has at most 512.
const UNKNOWN: u16 = u16::MAX;

/// Room for one node.
enum Place<N> {
    /// It holds this node.
    Occupied(N),
    /// The next one in the list of vacant places.
    Vacant(u16),
}

impl Filling {
    /// No place was ever filled.
    pub(super) const EMPTY: Filling = Filling {
        vacant: 0,
        behind: UNKNOWN,
        len: 0,
    };

    #[inline]
    pub(super) fn len(self) -> usize {
        self.len as usize
    }

    /// The place of the next node.
    #[inline]
    pub(super) fn vacant_place(self) -> u32 {
        self.vacant.into()
    }
}

impl<N> Segment<N> {
    /// A segment without memory, which doubles as it fills.
    pub(super) fn new() -> Segment<N> {
        Segment::with_capacity(0)
    }

    pub(super) fn with_capacity(places: usize) -> Segment<N> {
        Segment {
            places: Vec::with_capacity(places),
            filling: Filling::EMPTY,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&N> {
        self.places.get(place)?.node()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut N> {
        self.places.get_mut(place)?.node_mut()
    }

    /// Builds a node in the vacant place. `kept` is the filling, if the caller keeps it.
    #[inline(always)]
    pub(super) fn insert_with(
        &mut self,
        kept: Option<&mut Filling>,
        make: impl FnOnce() -> N,
    ) -> &mut N {
        let filling = kept.unwrap_or(&mut self.filling);
        let vacant = filling.vacant as usize;
        if vacant == self.places.len() {
            add_place(&mut self.places);
        }
        let place = &mut self.places[vacant];
        filling.vacant = match filling.behind {
            UNKNOWN => place.next(),
            behind => behind,
        };
        filling.behind = UNKNOWN;
        filling.len += 1;
        // A vacant place needs no drop, which the compiler does not see.
        mem::forget(mem::replace(place, Place::Occupied(make())));
        place.node_mut().expect("it was just put there")
    }

    /// Removes a node if `take` returns `Some` for it, and passes the node to `rest`. `kept` is the
    /// filling, if the caller keeps it. Returns how many nodes are left, too.
    ///
    /// If `rest` forgets the node, nothing is copied out of the place: a copy reads in one piece
    /// what was just written in several, and waits for that.
    #[inline(always)]
    pub(super) fn remove_with<R, V>(
        &mut self,
        kept: Option<&mut Filling>,
        place: usize,
        take: impl FnOnce(&mut N) -> Option<R>,
        rest: impl FnOnce(N) -> V,
    ) -> Option<((R, V), usize)> {
        let removed = self.places.get_mut(place)?;
        let taken = take(removed.node_mut()?)?;
        let filling = kept.unwrap_or(&mut self.filling);
        let node = mem::replace(removed, Place::Vacant(filling.vacant)).into_node()?;
        (filling.vacant, filling.behind) = (place as u16, filling.vacant);
        filling.len -= 1;
        Some(((taken, rest(node)), filling.len()))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut N> {
        self.places.iter_mut().filter_map(Place::node_mut)
    }

    pub(super) fn into_nodes(self) -> impl Iterator<Item = N> {
        self.places.into_iter().filter_map(Place::into_node)
    }

    /// The first place from `from` on that holds a node.
    pub(super) fn next_occupied(&self, from: usize) -> Option<usize> {
        let places = self.places.iter().enumerate().skip(from);
        places
            .filter(|(_, place)| place.node().is_some())
            .map(|(number, _)| number)
            .next()
    }
}

#[cold]
#[inline(never)]
fn add_place<N>(places: &mut Vec<Place<N>>) {
    places.push(Place::Vacant(places.len() as u16 + 1));
}

impl<N> Default for Segment<N> {
    fn default() -> Segment<N> {
        Segment::new()
    }
}

impl<N> Place<N> {
    /// The next vacant place.
    #[inline]
    fn next(&self) -> u16 {
        let Place::Vacant(next) = *self else {
            unreachable!("{VACANT}");
        };
        next
    }

    #[inline]
    fn node(&self) -> Option<&N> {
        match self {
            Place::Occupied(node) => Some(node),
            Place::Vacant(_) => None,
        }
    }

    #[inline]
    fn node_mut(&mut self) -> Option<&mut N> {
        match self {
            Place::Occupied(node) => Some(node),
            Place::Vacant(_) => None,
        }
    }

    #[inline]
    fn into_node(self) -> Option<N> {
        match self {
            Place::Occupied(node) => Some(node),
            Place::Vacant(_) => None,
        }
    }
}

const VACANT: &str = "the list of vacant places holds vacant places";

#[cfg(test)]
impl<N> Segment<N> {
    /// Walks the list of vacant places.
    pub(super) fn check(&self, filling: Filling) {
        let (mut place, mut vacant) = (usize::from(filling.vacant), 0);
        if filling.behind != UNKNOWN {
            assert_eq!(self.places[place].next(), filling.behind);
        }
        while place < self.places.len() {
            let next = self.places[place].next();
            vacant += 1;
            assert!(vacant <= self.places.len(), "the list has a circle");
            place = usize::from(next);
        }
        assert_eq!(place, self.places.len(), "the list ends there");
        assert_eq!(vacant + filling.len(), self.places.len());
        let occupied = self.places.iter().filter_map(Place::node).count();
        assert_eq!(occupied, filling.len());
    }
}
