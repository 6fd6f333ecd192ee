//! The timers of one slot: a doubly linked list through the nodes of the slab.
//!
//! Links are `u32` slab indices, so a node carries eight bytes of them and no pointer. Invariant: a node is in
//! exactly one list, which its `home` names (or among the overdue, which are in none), and a list is in the order in which its nodes were linked; firing
//! ties in insertion order rests on that.

use std::num::NonZeroU64;

use slab::Slab;

/// The link that leads nowhere.
const NONE: u32 = u32::MAX;

/// Where a node is: in the list of a slot of a level, or among the overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home(u16);

impl Home {
    /// Timers that were inserted after their due had passed.
    pub(super) const OVERDUE: Home = Home(u16::MAX);

    #[inline]
    pub(super) fn of_slot(level: usize, slot: usize) -> Home {
        // 64 levels of 64 slots are the most there can be, so both fit.
        Home((level << 6 | slot) as u16)
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        usize::from(self.0 >> 6)
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        usize::from(self.0 & 63)
    }
}

/// One timer in the slab.
pub(super) struct Node<T> {
    pub(super) due: u64,
    /// Unique in the wheel for ever; tells this timer from a later one in the same place.
    pub(super) sequence: NonZeroU64,
    previous: u32,
    next: u32,
    pub(super) home: Home,
    pub(super) value: T,
}

impl<T> Node<T> {
    /// A node that is in no list yet.
    pub(super) fn new(due: u64, sequence: NonZeroU64, value: T) -> Self {
        Node::linked(due, sequence, value, None, Home::OVERDUE)
    }

    /// A node that is the last of its list, behind another one or as the only one.
    #[inline]
    pub(super) fn linked(
        due: u64,
        sequence: NonZeroU64,
        value: T,
        before: Option<u32>,
        home: Home,
    ) -> Self {
        Node {
            due,
            sequence,
            previous: before.unwrap_or(NONE),
            next: NONE,
            home,
            value,
        }
    }

    /// The node without its value.
    #[inline]
    pub(super) fn outline(&self) -> Node<()> {
        let Node {
            due,
            sequence,
            previous,
            next,
            home,
            ..
        } = *self;
        Node {
            due,
            sequence,
            previous,
            next,
            home,
            value: (),
        }
    }

    #[inline]
    pub(super) fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// A node that is in no list has its links free for a number.
impl<T> Node<T> {
    pub(super) fn rank(&self) -> u64 {
        u64::from(self.previous) << 32 | u64::from(self.next)
    }

    pub(super) fn set_rank(&mut self, rank: u64) {
        (self.previous, self.next) = ((rank >> 32) as u32, rank as u32);
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

    /// Links a node that is in no list at the end of this one.
    pub(super) fn push_back<T>(&mut self, nodes: &mut Slab<Node<T>>, index: u32, home: Home) {
        let node = &mut nodes[index as usize];
        node.previous = self.tail;
        node.next = NONE;
        node.home = home;
        match self.tail {
            NONE => self.head = index,
            tail => nodes[tail as usize].next = index,
        }
        self.tail = index;
    }

    /// Takes in the index of a node at the end of this list, and gives the one that was the last before.
    #[inline]
    pub(super) fn append(&mut self, index: u32) -> Option<u32> {
        let before = std::mem::replace(&mut self.tail, index);
        if before == NONE {
            self.head = index;
            return None;
        }
        Some(before)
    }

    /// Joins the neighbours of a node of this list, which may have left the slab.
    #[inline]
    pub(super) fn join_around<T>(&mut self, nodes: &mut Slab<Node<T>>, node: &Node<()>) {
        match node.previous {
            NONE => self.head = node.next,
            previous => nodes[previous as usize].next = node.next,
        }
        match node.next {
            NONE => self.tail = node.previous,
            next => nodes[next as usize].previous = node.previous,
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
            index = node.next;
            Some((at, node))
        })
    }

    /// Asserts that the links forth and back agree and that every node names this list as its home.
    #[cfg(test)]
    pub(super) fn check<T>(&self, nodes: &Slab<Node<T>>, home: Home) -> usize {
        let mut previous = NONE;
        let mut length = 0;
        for (index, node) in self.iter(nodes) {
            assert_eq!(
                node.previous, previous,
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
