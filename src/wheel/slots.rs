//! Where timers lie: the slots of the levels, and how timers are linked and unlinked.
//!
//! - A *list* holds and counts the timers of one slot. It is doubly linked through the nodes by
//!   32-bit indices, so a node carries eight bytes of links and no pointer.
//! - A *level* is two rotations of slots, and a bitmap of the occupied ones. Empty slots cost
//!   nothing: counting trailing zeros finds the next occupied slot.
//!
//! Invariants:
//!
//! - A timer is linked at the finest level that reaches its due, in the slot of its own digit
//!   there. A timer whose due lies before `elapsed` is overdue, and lies in the list of its due.
//! - A node is in exactly one list, the one that its `position` and its due name. Nodes of the same
//!   due stand in the order of their arming, and after those in a coarser slot.
//! - A bit of the bitmap is set exactly while the list of its slot is not empty.
//!
//! Arming and disarming are the hot path, and each is one flat function. A node is written and read
//! in place. Copying a node just built waits for its own fields, because a core cannot forward
//! several narrow stores to one wide load.

use std::collections::btree_map::Entry;
use std::num::NonZeroU64;

use super::segments::{NONE, Segments};
use super::{Key, Wheel};

impl<T> Wheel<T> {
    /// Arms a timer with the value that `make` returns, and lends that value to the caller.
    #[inline]
    pub(crate) fn arm(&mut self, due: u64, make: impl FnOnce() -> T) -> (Key, &mut T) {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.saturating_add(1);
        let index = self.nodes.vacant_index();
        let (previous, position) = self.append_by_due(index, due);
        let node = self.nodes.put(Node {
            due,
            sequence,
            links: Links::last(previous),
            position,
            value: make(),
        });
        (Key::new(index, sequence), &mut node.value)
    }

    /// Appends a node to the list of its due. Returns the node before it and the position.
    #[inline(always)]
    fn append_by_due(&mut self, index: u32, due: u64) -> (u32, Position) {
        if due < self.elapsed {
            return (self.append_overdue(index, due), Position::OVERDUE);
        }
        let (level, slot) = self.slot_of(due);
        (
            self.append(index, level, slot),
            Position::of_slot(level, slot),
        )
    }

    #[cold]
    fn append_overdue(&mut self, index: u32, due: u64) -> u32 {
        let list = self.overdue.entry(due).or_insert(List::EMPTY);
        list.append(index, &mut self.nodes)
    }

    /// Appends a node to the list of a slot. Returns the node before it, for the caller to store.
    #[inline]
    fn append(&mut self, index: u32, level: usize, slot: usize) -> u32 {
        let at = match self.levels.get_mut(level) {
            Some(level) => level,
            None => grow(&mut self.levels, level),
        };
        let list = &mut at.slots[slot];
        let previous = list.append(index, &mut self.nodes);
        if previous == NONE {
            at.occupied[slot / 64] |= 1 << (slot % 64);
            self.occupied |= 1 << level;
        } else if list.len() == FEW + 1 {
            self.note_crowd(level, slot);
        }
        previous
    }

    /// Disarms a timer and returns what `take` returns. The emptied value is forgotten, so it must
    /// need no drop. Nothing is copied out of the storage.
    #[inline(always)]
    pub(crate) fn disarm<R>(&mut self, key: Key, take: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (taken, due, position, links) = self.nodes.remove_with(key.index(), |node| {
            if !key.is_of(node) {
                return None;
            }
            let taken = take(&mut node.value);
            Some((taken, node.due, node.position, node.links))
        })?;
        self.unlink_from(position, links, due);
        Some(taken)
    }

    /// Removes a node from its list and from the storage.
    pub(super) fn remove_node(&mut self, index: u32) -> Option<T> {
        let node = self.nodes.remove(index)?;
        self.unlink_from(node.position, node.links, node.due);
        Some(node.value)
    }

    pub(super) fn link(&mut self, index: u32, due: u64) {
        let (previous, position) = self.append_by_due(index, due);
        let node = &mut self.nodes[index];
        (node.due, node.links, node.position) = (due, Links::last(previous), position);
    }

    /// Links a node that was unlinked from a slot of the level `from`, before all nodes of its new
    /// slot: those with the same due were armed later.
    ///
    /// If a slot of its due on a level in between is occupied, the node goes there. Otherwise a
    /// timer of that slot with the same due would later cascade in front of the node.
    pub(super) fn link_first(&mut self, index: u32, from: usize) {
        let due = self.nodes[index].due;
        let (finest, slot) = self.slot_of(due);
        let in_between = (finest + 1..from).rev().find_map(|level| {
            let slot = slot_of_number(due >> (level as u32 * DIGIT_BITS));
            let is_taken = self.levels[level].slot(slot).len() > 0;
            is_taken.then_some((level, slot))
        });
        let (level, slot) = in_between.unwrap_or((finest, slot));
        let list = &mut self.levels[level].slots[slot];
        if list.head == NONE {
            return self.link(index, due);
        }
        let second = std::mem::replace(&mut list.head, index);
        list.len += 1;
        self.nodes[second].links.previous = index;
        let node = &mut self.nodes[index];
        node.links = Links::first(second);
        node.position = Position::of_slot(level, slot);
    }

    /// The level and the slot for a due not before `elapsed`: the finest level whose present slot
    /// and the slots after it include that of the due.
    #[inline]
    fn slot_of(&self, due: u64) -> (usize, usize) {
        // With this bit set, a distance below two is level 0 too.
        let distance = (due - self.elapsed) | 2;
        let mut level = (distance.ilog2() - 1) / DIGIT_BITS;
        let mut shift = level * DIGIT_BITS;
        if (due >> shift) - (self.elapsed >> shift) >= SLOTS as u64 {
            level += 1;
            shift += DIGIT_BITS;
        }
        (level as usize, slot_of_number(due >> shift))
    }

    /// Removes a node from its list, but not from the storage.
    pub(super) fn unlink(&mut self, index: u32) {
        let node = &self.nodes[index];
        let (due, position, links) = (node.due, node.position, node.links);
        self.unlink_from(position, links, due);
    }

    #[inline]
    fn unlink_from(&mut self, position: Position, links: Links, due: u64) {
        if position == Position::OVERDUE {
            return self.unlink_overdue(due, links);
        }
        let level = &mut self.levels[position.level()];
        if !level.slots[position.slot()].unlink(links, &mut self.nodes) {
            return;
        }
        let (half, bit) = (position.slot() / 64, position.slot() % 64);
        level.occupied[half] &= !(1 << bit);
        if level.occupied[half] == 0 && level.occupied[1 - half] == 0 {
            self.occupied &= !(1 << position.level());
        }
    }

    #[cold]
    fn unlink_overdue(&mut self, due: u64, links: Links) {
        if let Entry::Occupied(mut list) = self.overdue.entry(due) {
            if list.get_mut().unlink(links, &mut self.nodes) {
                list.remove();
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

/// How many bits wider a slot is than one of the level below.
pub(crate) const DIGIT_BITS: u32 = 6;

/// Two rotations, so that the next slot of the level above fits in after the present one.
pub(super) const SLOTS: usize = 2 << DIGIT_BITS;

/// A coarse slot with at most this many timers is not crowded, and waits for its time.
pub(super) const FEW: usize = if cfg!(test) { 8 } else { 256 };

/// How many levels span every `u64`.
pub(super) const MAX_LEVELS: usize = (u64::BITS - 1).div_ceil(DIGIT_BITS) as usize;

/// The index within its level of the slot with this number, counted from tick 0.
#[inline]
pub(super) fn slot_of_number(number: u64) -> usize {
    number as usize & (SLOTS - 1)
}

pub(super) struct Level {
    /// Not one word of 128 bits: reading it whole would wait for a write of a part.
    occupied: [u64; 2],
    slots: [List; SLOTS],
}

impl Level {
    pub(super) const EMPTY: Level = Level {
        occupied: [0; 2],
        slots: [List::EMPTY; SLOTS],
    };

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == [0; 2]
    }

    /// The distance from the slot `present` to the first occupied one. There must be one.
    #[inline]
    pub(super) fn first_from(&self, present: usize) -> u64 {
        let [low, high] = self.occupied.map(u128::from);
        let ahead = (high << 64 | low).rotate_right(present as u32);
        u64::from(ahead.trailing_zeros())
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &List> {
        self.slots.iter()
    }

    pub(super) fn slot(&self, slot: usize) -> &List {
        &self.slots[slot]
    }

    #[cfg(test)]
    pub(super) fn check<T>(&self, nodes: &Segments<Node<T>>, level: usize) -> usize {
        (0..SLOTS)
            .map(|slot| {
                let length = self.slots[slot].check(nodes, Position::of_slot(level, slot));
                let bit = self.occupied[slot / 64] >> (slot % 64) & 1 == 1;
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

/// The list that a node is in: that of a slot of a level, or that of its due among the overdue. One
/// number holds both the level and the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(u64);

impl Position {
    pub(super) const OVERDUE: Position = Position(u64::MAX);

    #[inline]
    pub(super) fn of_slot(level: usize, slot: usize) -> Position {
        Position((level * SLOTS + slot) as u64)
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        self.0 as usize / SLOTS
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        slot_of_number(self.0)
    }
}

pub(super) struct Node<T> {
    pub(super) due: u64,
    /// Unique in the wheel for ever, unlike the index.
    pub(super) sequence: NonZeroU64,
    pub(super) links: Links,
    pub(super) position: Position,
    pub(super) value: T,
}

#[derive(Clone, Copy)]
pub(super) struct Links {
    previous: u32,
    next: u32,
}

impl Links {
    pub(super) fn is_last(self) -> bool {
        self.next == NONE
    }

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
}

/// The two ends of a list, and its length.
#[derive(Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    pub(super) const EMPTY: List = List {
        head: NONE,
        tail: NONE,
        len: 0,
    };

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn last(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

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

    /// Appends a node. Returns the node before it, for the caller to store.
    #[inline(always)]
    fn append<T>(&mut self, index: u32, nodes: &mut Segments<Node<T>>) -> u32 {
        self.len += 1;
        let previous = std::mem::replace(&mut self.tail, index);
        match previous {
            NONE => self.head = index,
            previous => nodes[previous].links.next = index,
        }
        previous
    }

    /// Unlinks a node that had these links. Returns whether the list is now empty.
    #[inline(always)]
    fn unlink<T>(&mut self, links: Links, nodes: &mut Segments<Node<T>>) -> bool {
        let Links { previous, next } = links;
        match previous {
            NONE => self.head = next,
            previous => nodes[previous].links.next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => nodes[next].links.previous = previous,
        }
        self.len -= 1;
        self.len == 0
    }

    /// Asserts that links agree in both directions and nodes have this position. Returns the
    /// length.
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
        assert_eq!(self.len(), length, "the list counts its nodes");
        length
    }
}
