//! Placing: which list a timer belongs to, linking it there and taking it out.
//!
//! Invariant: a timer is linked at the level of the highest digit in which its due differs from
//! `elapsed`, in the slot of its own digit there; one whose due lies before `elapsed` is among the
//! overdue.
//!
//! Arming and disarming are the hot path. A node goes into the slab blank, and is filled in and
//! linked there: one that is put together elsewhere and then copied in has to wait for its own
//! parts, as a core cannot forward several narrow stores to one wide load.

use std::num::NonZeroU64;

use super::Wheel;
use super::level::Level;
use super::list::{Home, Links, Node};

/// What it means for the next turn that a timer was unlinked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unlinked {
    due: u64,
    /// It was the last timer of its slot, which is so many ticks wide, as a power of two.
    emptied: Option<u32>,
}

impl Unlinked {
    /// Whether a turn that was planned for tick `plan` may have been planned for this timer. If
    /// not, the wheel's next turn is still the one that was planned, or one that was made for
    /// timers that are still there.
    pub(crate) fn may_change(self, plan: u64) -> bool {
        self.due <= plan
            || self
                .emptied
                .is_some_and(|width| self.due >> width << width <= plan)
    }
}

impl<T> Wheel<T> {
    /// Puts a new node into the slab, linked where its due belongs.
    #[inline]
    pub(super) fn insert_node(
        &mut self,
        due: u64,
        sequence: NonZeroU64,
        value: T,
    ) -> (u32, &mut T) {
        // The slab has fewer places than there are indices; see `grow_nodes`.
        let index = self.nodes.insert(Node::blank(value)) as u32;
        let is_plain = due >= self.elapsed && self.cascading.is_none();
        let linked = is_plain.then(|| self.append(index, due));
        let node = &mut self.nodes[index as usize];
        node.sequence = sequence.get();
        if let Some((home, links)) = linked {
            (node.due, node.home, node.links) = (due, home, links);
        } else {
            self.link(index, due);
        }
        (index, &mut self.nodes[index as usize].value)
    }

    /// Makes the list where a due belongs end with a node, and gives what that node has to know of
    /// it.
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

    /// Takes a node out of the list that it is in and out of the slab.
    pub(super) fn remove_node(&mut self, index: u32) -> (T, Unlinked) {
        let unlinked = self.unlink(index);
        let node = self.nodes.remove(index as usize);
        self.shrink_if_due();
        (node.value, unlinked)
    }

    /// Links a node that is in no list where its due belongs.
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

    /// Where a due belongs that `elapsed` has not left behind.
    #[inline]
    fn home_of(&self, due: u64) -> Home {
        let level = self.level_of(due ^ self.elapsed);
        let slot = due >> (level as u32 * self.digit_bits) & ((1 << self.digit_bits) - 1);
        Home::of_slot(level, slot as usize)
    }

    /// The level of the highest digit in which two ticks differ, given what `^` makes of them.
    #[inline]
    fn level_of(&self, difference: u64) -> usize {
        // The lowest bit is set so that a difference of zero is level 0 too.
        usize::from(self.level_of_bit[(difference | 1).ilog2() as usize])
    }

    /// A timer that belongs below a slot whose cascade has only begun queues up behind the slot's
    /// other timers, or it would overtake those of its own due.
    #[cold]
    fn link_during_cascade(&mut self, index: u32, due: u64) {
        match self.cascading {
            Some(home)
                if self.next_to_cascade().is_some()
                    && self.level_of(due ^ self.elapsed) < home.level() =>
            {
                // That level and that slot are occupied.
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

    /// Takes a node out of where it is; it stays in the slab.
    pub(super) fn unlink(&mut self, index: u32) -> Unlinked {
        let node = &self.nodes[index as usize];
        let (due, home, links) = (node.due, node.home, node.links);
        self.unlink_from(home, links, due)
    }

    /// Takes a node with that home, those links and that due out of where it is.
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
