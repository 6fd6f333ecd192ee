//! Linking: which list a timer belongs to, linking it there, and unlinking it.
//!
//! Invariant: a timer is linked at the level of the highest digit in which its due differs from
//! `elapsed`, in the slot of its own digit there. A timer whose due lies before `elapsed` is among
//! the overdue.
//!
//! Arming and disarming are the hot path. So a node goes into the slab blank, and its fields are
//! written there. A node that is built elsewhere and then copied has to wait for its own fields,
//! because a core cannot forward several narrow stores to one wide load.

use std::num::NonZeroU64;

use super::Wheel;
use super::level::Level;
use super::list::{Home, Links, Node};

/// What it means for the next turn that a timer was unlinked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unlinked {
    due: u64,
    /// Set if it was the last timer of its slot: the slot is 2 to the power of this many ticks
    /// wide.
    emptied: Option<u32>,
}

impl Unlinked {
    /// Whether a turn that was planned for tick `plan` may have been planned for this timer. If
    /// not, the planned turn is still the wheel's next turn, or it was planned for timers that are
    /// still in the wheel.
    pub(crate) fn may_change(self, plan: u64) -> bool {
        self.due <= plan
            || self
                .emptied
                .is_some_and(|width| self.due >> width << width <= plan)
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

    /// Appends a node to the list where a due belongs. Gives what the caller must store in the
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
