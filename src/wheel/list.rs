//! The timers of one slot: a doubly linked list through the nodes of the slab.
//!
//! Links are indices into the slab, each a `u32`. So a node carries eight bytes of links and no
//! pointer.
//!
//! Invariant: a node is in exactly one list, the one that its `home` names. Only overdue nodes
//! are in none. The nodes of a list stand in the order in which they were linked.
//! Because of this, ties fire in insertion order.

use slab::Slab;

use super::level::{MAX_DIGIT_BITS, MAX_SLOTS};

/// The link that leads nowhere.
const NONE: u32 = u32::MAX;

/// Where a node is: in the list of a slot of a level, or among the overdue.
///
/// One number holds both the level and the slot. The slot takes the low `MAX_DIGIT_BITS` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home(u32);

impl Home {
    /// The home of timers whose due lay before `elapsed` when they were linked.
    pub(super) const OVERDUE: Home = Home(u32::MAX);

    #[inline]
    pub(super) fn of_slot(level: usize, slot: usize) -> Home {
        Home((level << MAX_DIGIT_BITS | slot) as u32)
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        (self.0 >> MAX_DIGIT_BITS) as usize
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        self.0 as usize & (MAX_SLOTS - 1)
    }
}

/// One timer in the slab.
pub(super) struct Node<T> {
    pub(super) due: u64,
    /// Unique in the wheel for ever. It tells this timer from a later one in the same place.
    pub(super) sequence: u64,
    pub(super) links: Links,
    pub(super) home: Home,
    _filling: Filling,
    pub(super) value: T,
}

/// Fills the gap beside a node's home, because a copy of the node would have to wait for a gap.
///
/// It is always zero, so that the slab can use its other values to mark a free place.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Filling {
    Zero = 0,
}

/// The node before a node in its list, and the node after it.
#[derive(Clone, Copy)]
pub(super) struct Links {
    previous: u32,
    next: u32,
}

impl<T> Node<T> {
    /// A node in which only the value is set yet.
    #[inline]
    pub(super) const fn blank(value: T) -> Self {
        Node {
            due: 0,
            sequence: 0,
            links: Links {
                previous: 0,
                next: 0,
            },
            home: Home(0),
            _filling: Filling::Zero,
            value,
        }
    }
}

/// A node that is in no list has no use for its links, so they can hold a number.
impl Links {
    pub(super) fn of_rank(rank: u64) -> Links {
        Links {
            previous: (rank >> 32) as u32,
            next: rank as u32,
        }
    }

    pub(super) fn to_rank(self) -> u64 {
        u64::from(self.previous) << 32 | u64::from(self.next)
    }
}

/// The two ends of a list.
#[derive(Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List {
        head: NONE,
        tail: NONE,
    };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Appends a node that is in no list. Gives the links that the caller must store in the node.
    #[inline]
    pub(super) fn append<T>(&mut self, nodes: &mut Slab<Node<T>>, index: u32) -> Links {
        let previous = std::mem::replace(&mut self.tail, index);
        match previous {
            NONE => self.head = index,
            previous => nodes[previous as usize].links.next = index,
        }
        Links {
            previous,
            next: NONE,
        }
    }

    /// Joins the neighbours of a node of this list, given its links.
    #[inline]
    pub(super) fn join_around<T>(&mut self, nodes: &mut Slab<Node<T>>, links: Links) {
        let Links { previous, next } = links;
        match previous {
            NONE => self.head = next,
            previous => nodes[previous as usize].links.next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => nodes[next as usize].links.previous = previous,
        }
    }

    /// The nodes of this list, first to last.
    pub(super) fn iter<'a, T>(
        &self,
        nodes: &'a Slab<Node<T>>,
    ) -> impl Iterator<Item = (u32, &'a Node<T>)> {
        let mut index = self.head;
        std::iter::from_fn(move || {
            let at = index;
            let node = (at != NONE).then(|| &nodes[at as usize])?;
            index = node.links.next;
            Some((at, node))
        })
    }

    /// Asserts that the links forth and back agree, and that every node names this list as its
    /// home. Gives the length of the list.
    #[cfg(test)]
    pub(super) fn check<T>(&self, nodes: &Slab<Node<T>>, home: Home) -> usize {
        let mut previous = NONE;
        let mut length = 0;
        for (index, node) in self.iter(nodes) {
            assert_eq!(
                node.links.previous, previous,
                "node {index} does not link back to the one before it"
            );
            assert_eq!(
                node.home, home,
                "node {index} does not know the list that it is in"
            );
            previous = index;
            length += 1;
        }
        assert_eq!(self.tail, previous, "the list does not end at its tail");
        length
    }
}
