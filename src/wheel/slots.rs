//! Where timers lie: the slots of the levels, and linking a timer into them and out of them.
//!
//! - A *list* holds the timers of one slot. It is doubly linked through the nodes of the slab by
//!   indices of 32 bits, so a node carries eight bytes of links and no pointer.
//! - A *level* is the lists of its slots, and a bitmap of those that hold a timer. So empty slots
//!   cost nothing: one count of trailing zeros finds the next slot with a timer.
//!
//! Invariants:
//!
//! - A timer is linked at the level of the highest digit in which its due differs from `elapsed`,
//!   in the slot of its own digit there. A timer whose due lies before `elapsed` is among the
//!   overdue.
//! - A node is in exactly one list, the one that its `home` names. Only overdue nodes are in none.
//!   The nodes of a list stand in the order in which they were linked, so ties fire in insertion
//!   order.
//! - A bit of the bitmap is set exactly while the list of its slot is not empty.
//!
//! Arming and disarming are the hot path. So a node goes into the slab blank, and its fields are
//! written there. A node that is built elsewhere and then copied has to wait for its own fields,
//! because a core cannot forward several narrow stores to one wide load.

use std::num::NonZeroU64;

use slab::Slab;

use super::Wheel;

/// What it means for the next turn that a timer was unlinked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unlinked {
    due: u64,
    /// Set if it was the last timer of its slot: the slot is 2 to the power of this many ticks
    /// wide.
    emptied: Option<u32>,
}

impl Unlinked {
    /// Whether a turn that is to come at tick `expiry` may have been meant for this timer. If
    /// not, it is still the wheel's next turn, or it was meant for timers that are
    /// still in the wheel.
    pub(crate) fn may_change(self, expiry: u64) -> bool {
        self.due <= expiry
            || self
                .emptied
                .is_some_and(|width| self.due >> width << width <= expiry)
    }
}

impl<T> Wheel<T> {
    /// Puts a new node into the slab, and links it where its due belongs.
    #[inline]
    pub(super) fn insert_node(
        &mut self,
        due: u64,
        sequence: NonZeroU64,
        value: T,
    ) -> (u32, &mut T) {
        // The slab has fewer places than there are indices. See `grow_nodes`.
        let index = self.nodes.vacant_key() as u32;
        if due < self.elapsed || self.cascading.is_some() {
            return (index, self.insert_late(index, due, sequence, value));
        }
        let (home, links) = self.append(index, due);
        let node = self.nodes.vacant_entry().insert(Node::blank(value));
        (node.due, node.home, node.links) = (due, home, links);
        node.sequence = sequence.get();
        (index, &mut node.value)
    }

    /// Puts a new node in that is overdue, or while a slot is cascaded.
    #[cold]
    fn insert_late(&mut self, index: u32, due: u64, sequence: NonZeroU64, value: T) -> &mut T {
        let node = self.nodes.vacant_entry().insert(Node::blank(value));
        node.sequence = sequence.get();
        self.link(index, due);
        &mut self.nodes[index as usize].value
    }

    /// Appends a node to the list where a due belongs. Returns what the caller must store in the
    /// node.
    #[inline]
    fn append(&mut self, index: u32, due: u64) -> (Home, Links) {
        let home = self.home_of(due);
        if home.level() >= self.levels.len() {
            grow(&mut self.levels, home.level());
        }
        self.occupied |= 1 << home.level();
        let links = self.levels[home.level()].append(&mut self.nodes, index, home);
        (home, links)
    }

    /// Takes a node out of its list and out of the slab.
    pub(super) fn remove_node(&mut self, index: u32) -> (T, Unlinked) {
        let unlinked = self.unlink(index);
        let node = self.nodes.remove(index as usize);
        self.shrink_if_due();
        (node.value, unlinked)
    }

    /// Links a node that is in no list, where its due belongs.
    pub(super) fn link(&mut self, index: u32, due: u64) {
        self.nodes[index as usize].due = due;
        if due < self.elapsed {
            self.link_overdue(index, due);
        } else if self.cascading.is_some() {
            self.link_during_cascade(index, due);
        } else {
            self.link_into_level(index, due);
        }
    }

    pub(super) fn link_into_level(&mut self, index: u32, due: u64) {
        let (home, links) = self.append(index, due);
        let node = &mut self.nodes[index as usize];
        (node.home, node.links) = (home, links);
    }

    /// The home of a timer whose due does not lie before `elapsed`.
    #[inline]
    fn home_of(&self, due: u64) -> Home {
        let level = self.level_of(due ^ self.elapsed);
        let slot = due >> (level as u32 * self.digit_bits) & ((1 << self.digit_bits) - 1);
        Home::of_slot(level, slot as usize)
    }

    /// The level of the highest digit in which two ticks differ, given their exclusive or.
    #[inline]
    fn level_of(&self, difference: u64) -> usize {
        // The lowest bit is set so that a difference of zero is level 0 too.
        usize::from(self.level_of_bit[(difference | 1).ilog2() as usize])
    }

    /// Links a timer while a slot is cascaded. A timer that belongs below this slot goes to the end
    /// of the slot's list. Otherwise it would overtake timers with the same due.
    #[cold]
    fn link_during_cascade(&mut self, index: u32, due: u64) {
        match self.cascading {
            Some(home)
                if self.next_to_cascade().is_some()
                    && self.level_of(due ^ self.elapsed) < home.level() =>
            {
                // The bits of this level and this slot are set already.
                let links = self.levels[home.level()].append(&mut self.nodes, index, home);
                let node = &mut self.nodes[index as usize];
                (node.home, node.links) = (home, links);
            }
            _ => self.link_into_level(index, due),
        }
    }

    #[cold]
    fn link_overdue(&mut self, index: u32, due: u64) {
        let rank = self.next_rank;
        self.next_rank += 1;
        let node = &mut self.nodes[index as usize];
        (node.home, node.links) = (Home::OVERDUE, Links::of_rank(rank));
        self.overdue.insert((due, rank), index);
        if self.elapsed > self.now && self.overdue.len() > self.nodes.len() / 2 {
            self.go_back_to_now();
        }
    }

    /// Links every timer as if nobody had looked for the first one before its time. So one look at
    /// a wheel with far timers alone does not make an ordered map of all that comes after it. The
    /// timers that came since then, which are the most, pay for it.
    #[cold]
    fn go_back_to_now(&mut self) {
        let mut order: Vec<_> = std::mem::take(&mut self.overdue).into_values().collect();
        for level in &mut self.levels {
            for slot in level.occupied_slots() {
                order.extend(level.slot(slot).iter(&self.nodes).map(|(index, _)| index));
            }
            *level = Level::EMPTY;
        }
        (self.occupied, self.elapsed, self.cascading) = (0, self.now, None);
        for index in order {
            self.link(index, self.nodes[index as usize].due);
        }
    }

    /// Takes a node out of its list or from among the overdue. It stays in the slab.
    pub(super) fn unlink(&mut self, index: u32) -> Unlinked {
        let node = &self.nodes[index as usize];
        let (due, home, links) = (node.due, node.home, node.links);
        self.unlink_from(home, links, due)
    }

    /// Unlinks a node whose home, links and due the caller has read.
    #[inline]
    pub(super) fn unlink_from(&mut self, home: Home, links: Links, due: u64) -> Unlinked {
        if home == Home::OVERDUE {
            return self.unlink_overdue(due, links);
        }
        let level = &mut self.levels[home.level()];
        let emptied = level.join_around(&mut self.nodes, home.slot(), links);
        if emptied && level.is_empty() {
            self.occupied &= !(1 << home.level());
        }
        Unlinked {
            due,
            emptied: emptied.then(|| home.level() as u32 * self.digit_bits),
        }
    }

    #[cold]
    fn unlink_overdue(&mut self, due: u64, links: Links) -> Unlinked {
        self.overdue.remove(&(due, links.to_rank()));
        Unlinked {
            due,
            emptied: Some(u64::BITS - 1),
        }
    }
}

#[cold]
#[inline(never)]
fn grow(levels: &mut Vec<Level>, level: usize) {
    levels.resize_with(level + 1, || Level::EMPTY);
}

/// The widest digit: a slot for each of its values has a bit in the bitmap of its level.
pub(super) const MAX_DIGIT_BITS: u32 = u64::BITS.ilog2();

/// The most slots that a level can have.
pub(super) const MAX_SLOTS: usize = 1 << MAX_DIGIT_BITS;

pub(super) struct Level {
    occupied: u64,
    slots: [List; MAX_SLOTS],
}

impl Level {
    pub(super) const EMPTY: Level = Level {
        occupied: 0,
        slots: [List::EMPTY; MAX_SLOTS],
    };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The first slot that holds a timer. The level must not be empty.
    pub(super) fn first_slot(&self) -> usize {
        self.occupied.trailing_zeros() as usize
    }

    /// The slots that hold a timer, first to last.
    pub(super) fn occupied_slots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MAX_SLOTS).filter(|slot| self.occupied >> slot & 1 == 1)
    }

    pub(super) fn slot(&self, slot: usize) -> &List {
        &self.slots[slot]
    }

    /// Appends a node to the list of its slot. See [`List::append`].
    #[inline]
    pub(super) fn append<T>(&mut self, nodes: &mut Slab<Node<T>>, index: u32, home: Home) -> Links {
        self.occupied |= 1 << home.slot();
        self.slots[home.slot()].append(nodes, index)
    }

    /// Joins the neighbours of a node that goes out of its slot. `true` if the slot is empty now.
    #[inline]
    pub(super) fn join_around<T>(
        &mut self,
        nodes: &mut Slab<Node<T>>,
        slot: usize,
        links: Links,
    ) -> bool {
        let list = &mut self.slots[slot];
        list.join_around(nodes, links);
        let emptied = list.is_empty();
        if emptied {
            self.occupied &= !(1 << slot);
        }
        emptied
    }

    #[cfg(test)]
    pub(super) fn check<T>(&self, nodes: &Slab<Node<T>>, level: usize) -> usize {
        (0..MAX_SLOTS)
            .map(|slot| {
                let length = self.slots[slot].check(nodes, Home::of_slot(level, slot));
                let bit = self.occupied >> slot & 1 == 1;
                assert_eq!(
                    bit,
                    length > 0,
                    "the bit of slot {slot} of level {level} is wrong"
                );
                length
            })
            .sum()
    }
}

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

    /// Appends a node that is in no list. Returns the links that the caller must store in the node.
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
    /// home. Returns the length of the list.
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
