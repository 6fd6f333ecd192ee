//! One level of the hierarchy: its slots, and a bitmap of those that hold a timer.
//!
//! Invariant: a bit of the bitmap is set exactly while the list of its slot is not empty. So empty
//! slots cost nothing: one count of trailing zeros finds the next slot with a timer.

use slab::Slab;

use super::list::{Home, Links, List, Node};

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
