//! Where timers lie: the slots of the levels, and linking a timer into them and out of them.
//!
//! - A *list* holds the timers of one slot. It is doubly linked through the nodes by indices of 32
//!   bits, so a node carries eight bytes of links and no pointer.
//! - A *level* is the lists of its slots, and a bitmap of those that hold a timer. So empty slots
//!   cost nothing: one count of trailing zeros finds the next slot with a timer.
//!
//! Invariants:
//!
//! - A timer is linked at the finest level that reaches its due, in the slot of its own digit
//!   there. A timer whose due lies before `elapsed` is sorted.
//! - A node is in exactly one list, the one that its `position` names. Only sorted nodes are in
//!   none. The nodes of a list that have the same due stand in the order in which they were armed.
//!   What is in a coarser slot with that due was armed before them.
//! - A sorted node was linked before each node of a list that has the same due.
//! - A bit of the bitmap is set exactly while the list of its slot is not empty.
//!
//! Arming and disarming are the hot path, and each is one flat function. A node is written and read
//! in its place. A node that is built elsewhere and then copied has to wait for its own fields,
//! because a core cannot forward several narrow stores to one wide load.

use std::num::NonZeroU64;

use super::segments::{NONE, Segments};
use super::{Key, Wheel};

/// The rest of a timer that was unlinked from its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unlinked {
    due: u64,
    /// The slot of which it was the last timer, if it was.
    emptied: Position,
}

impl<T> Wheel<T> {
    /// Arms a timer with the value that `make` makes, and lets the caller change it.
    #[inline]
    pub(crate) fn arm(&mut self, due: u64, make: impl FnOnce() -> T) -> (Key, &mut T) {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.saturating_add(1);
        let index = self.nodes.vacant_index();
        let key = Key::new(index, sequence);
        if due < self.elapsed {
            return (key, self.arm_late(due, key, make()));
        }
        let (level, slot) = self.slot_of(due);
        let previous = self.append(index, level, slot);
        let node = self.nodes.put(Node {
            due,
            sequence,
            links: Links::last(previous),
            position: Position::of_slot(level, slot),
            value: make(),
        });
        (key, &mut node.value)
    }

    /// Arms a timer that is overdue.
    #[cold]
    fn arm_late(&mut self, due: u64, key: Key, value: T) -> &mut T {
        self.nodes.put(Node {
            due,
            sequence: key.sequence(),
            links: Links::last(NONE),
            position: Position::SORTED,
            value,
        });
        self.link_sorted(key.index(), due);
        &mut self.nodes[key.index()].value
    }

    /// Appends a node to the list of a slot. Returns the node before it, which the caller stores.
    #[inline]
    fn append(&mut self, index: u32, level: usize, slot: usize) -> u32 {
        let at = match self.levels.get_mut(level) {
            Some(level) => level,
            None => grow(&mut self.levels, level),
        };
        let list = &mut at.slots[slot];
        let previous = std::mem::replace(&mut list.tail, index);
        if previous == NONE {
            list.head = index;
            at.occupied |= 1 << slot;
            self.occupied |= 1 << level;
        } else {
            self.nodes[previous].links.next = index;
        }
        previous
    }

    /// Disarms a timer whose value `take` empties: what it leaves is forgotten, so it must need no
    /// drop. Then nothing is copied out of the storage. Returns what `take` returns, and what is
    /// left of the timer.
    #[inline]
    pub(crate) fn disarm<R>(
        &mut self,
        key: Key,
        take: impl FnOnce(&mut T) -> R,
    ) -> Option<(R, Unlinked)> {
        let (taken, due, position, links) = self.nodes.remove_with(key.index(), |node| {
            if !key.is_of(node) {
                return None;
            }
            let taken = take(&mut node.value);
            Some((taken, node.due, node.position, node.links))
        })?;
        Some((taken, self.unlink_from(position, links, due)))
    }

    /// Moves a timer to another due. Returns what it means for the next turn that it was unlinked
    /// from its old slot.
    pub(crate) fn relink(&mut self, key: Key, due: u64) -> Option<Unlinked> {
        self.get(key)?;
        let unlinked = self.unlink(key.index());
        self.link(key.index(), due);
        Some(unlinked)
    }

    /// Takes a node out of its list and out of the storage.
    pub(super) fn remove_node(&mut self, index: u32) -> Option<T> {
        let node = self.nodes.remove(index)?;
        self.unlink_from(node.position, node.links, node.due);
        Some(node.value)
    }

    /// Links a node that is in no list, where its due belongs.
    pub(super) fn link(&mut self, index: u32, due: u64) {
        if due < self.elapsed {
            return self.link_sorted(index, due);
        }
        let (level, slot) = self.slot_of(due);
        let previous = self.append(index, level, slot);
        let node = &mut self.nodes[index];
        (node.due, node.links) = (due, Links::last(previous));
        node.position = Position::of_slot(level, slot);
    }

    /// Links a node that was unlinked from a coarser slot before all that lies where its due
    /// belongs: a timer of the same due there was armed later.
    pub(super) fn link_first(&mut self, index: u32) {
        let due = self.nodes[index].due;
        let (level, slot) = self.slot_of(due);
        let list = self.levels[level].slots[slot];
        if list.head == NONE {
            return self.link(index, due);
        }
        self.levels[level].slots[slot].head = index;
        self.nodes[list.head].links.previous = index;
        let node = &mut self.nodes[index];
        node.links = Links::first(list.head);
        node.position = Position::of_slot(level, slot);
    }

    /// The level and the slot of a timer whose due does not lie before `elapsed`: the finest level
    /// among whose next slots, the present one included, is that of its due.
    #[inline]
    fn slot_of(&self, due: u64) -> (usize, usize) {
        // The lowest bit is set so that a distance of zero is level 0 too.
        let distance = (due - self.elapsed) | 1;
        let mut digit = self.digit_of_bit[distance.ilog2() as usize];
        if (due >> digit.shift) - (self.elapsed >> digit.shift) > self.slot_mask {
            digit = digit.next(self.digit_bits);
        }
        let slot = (due >> digit.shift & self.slot_mask) as usize;
        (usize::from(digit.level), slot & (MAX_SLOTS - 1))
    }

    #[cold]
    pub(super) fn link_sorted(&mut self, index: u32, due: u64) {
        let rank = self.next_rank;
        self.next_rank += 1;
        let node = &mut self.nodes[index];
        (node.due, node.position) = (due, Position::SORTED);
        node.links = Links::of_rank(rank);
        self.sorted.insert((due, rank), index);
    }

    /// Takes a node out of its list, or from among the sorted ones. It stays in the storage.
    pub(super) fn unlink(&mut self, index: u32) -> Unlinked {
        let node = &self.nodes[index];
        let (due, position, links) = (node.due, node.position, node.links);
        self.unlink_from(position, links, due)
    }

    /// Unlinks a node that had this position, these links and this due.
    #[inline]
    fn unlink_from(&mut self, position: Position, links: Links, due: u64) -> Unlinked {
        if position == Position::SORTED {
            return self.unlink_sorted(due, links);
        }
        let Links { previous, next } = links;
        let level = &mut self.levels[position.level()];
        let list = &mut level.slots[position.slot()];
        match previous {
            NONE => list.head = next,
            previous => self.nodes[previous].links.next = next,
        }
        match next {
            NONE => list.tail = previous,
            next => self.nodes[next].links.previous = previous,
        }
        if (previous, next) != (NONE, NONE) {
            let emptied = Position::NOWHERE;
            return Unlinked { due, emptied };
        }
        level.occupied &= !(1 << position.slot());
        if level.occupied == 0 {
            self.occupied &= !(1 << position.level());
        }
        let emptied = position;
        Unlinked { due, emptied }
    }

    #[cold]
    fn unlink_sorted(&mut self, due: u64, links: Links) -> Unlinked {
        self.sorted.remove(&(due, links.to_rank()));
        let emptied = Position::SORTED;
        Unlinked { due, emptied }
    }

    /// Whether a turn that is to come at tick `expiry` may have been meant for a timer that was
    /// just unlinked. If not, it is still the wheel's next turn, or it was meant for timers that
    /// are still in the wheel.
    pub(crate) fn may_change(&self, unlinked: Unlinked, expiry: u64) -> bool {
        let Unlinked { due, emptied } = unlinked;
        match emptied {
            Position::SORTED => true,
            Position::NOWHERE => due <= expiry,
            slot => {
                let shift = slot.level() as u32 * self.digit_bits;
                due >> shift << shift <= expiry
            }
        }
    }
}

#[cold]
#[inline(never)]
fn grow(levels: &mut Vec<Level>, level: usize) -> &mut Level {
    levels.resize_with(level + 1, || Level::EMPTY);
    &mut levels[level]
}

/// A digit of a tick.
#[derive(Clone, Copy)]
pub(super) struct Digit {
    pub(super) level: u8,
    /// How many bits are below it.
    pub(super) shift: u8,
}

impl Digit {
    #[inline]
    fn next(self, bits: u32) -> Digit {
        Digit {
            level: self.level + 1,
            shift: self.shift + bits as u8,
        }
    }
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

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// How many slots after the slot `present` the first one is that holds a timer. The slots
    /// before the present one come last. The level must not be empty.
    #[inline]
    pub(super) fn first_from(&self, present: usize, slots: usize) -> usize {
        match self.occupied >> present {
            0 => slots - present + self.occupied.trailing_zeros() as usize,
            ahead => ahead.trailing_zeros() as usize,
        }
    }

    /// The slots that hold a timer, first to last.
    pub(super) fn occupied_slots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MAX_SLOTS).filter(|slot| self.occupied >> slot & 1 == 1)
    }

    pub(super) fn slot(&self, slot: usize) -> &List {
        &self.slots[slot]
    }

    #[cfg(test)]
    pub(super) fn check<T>(&self, nodes: &Segments<Node<T>>, level: usize) -> usize {
        (0..MAX_SLOTS)
            .map(|slot| {
                let length = self.slots[slot].check(nodes, Position::of_slot(level, slot));
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

/// Where a node is: in the list of a slot of a level, or among the sorted ones.
///
/// One number holds both the level and the slot. The slot takes the low `MAX_DIGIT_BITS` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(u64);

impl Position {
    pub(super) const SORTED: Position = Position(u64::MAX);

    const NOWHERE: Position = Position(u64::MAX - 1);

    #[inline]
    pub(super) fn of_slot(level: usize, slot: usize) -> Position {
        Position((level << MAX_DIGIT_BITS | slot) as u64)
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

/// One timer in the storage.
pub(super) struct Node<T> {
    pub(super) due: u64,
    /// Unique in the wheel for ever. It tells this timer from a later one in the same place.
    pub(super) sequence: NonZeroU64,
    pub(super) links: Links,
    pub(super) position: Position,
    pub(super) value: T,
}

/// The node before a node in its list, and the node after it.
#[derive(Clone, Copy)]
pub(super) struct Links {
    previous: u32,
    next: u32,
}

/// A node that is in no list has no use for its links, so they can hold a number.
impl Links {
    fn first(next: u32) -> Links {
        Links {
            previous: NONE,
            next,
        }
    }

    #[inline]
    fn last(previous: u32) -> Links {
        Links {
            previous,
            next: NONE,
        }
    }

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

    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn last(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// The nodes of this list, first to last.
    pub(super) fn iter<'a, T>(
        &self,
        nodes: &'a Segments<Node<T>>,
    ) -> impl Iterator<Item = (u32, &'a Node<T>)> {
        let mut index = self.head;
        std::iter::from_fn(move || {
            let at = index;
            let node = (at != NONE).then(|| &nodes[at])?;
            index = node.links.next;
            Some((at, node))
        })
    }

    /// Asserts that the links forth and back agree, and that every node names this list as its
    /// position. Returns the length of the list.
    #[cfg(test)]
    pub(super) fn check<T>(&self, nodes: &Segments<Node<T>>, position: Position) -> usize {
        let mut previous = NONE;
        let mut length = 0;
        for (index, node) in self.iter(nodes) {
            assert_eq!(
                node.links.previous, previous,
                "node {index} does not link back to the one before it"
            );
            assert_eq!(
                node.position, position,
                "node {index} does not know the list that it is in"
            );
            previous = index;
            length += 1;
        }
        assert_eq!(self.tail, previous, "the list does not end at its tail");
        length
    }
}
