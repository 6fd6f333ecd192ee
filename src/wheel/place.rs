//! Placing: which list a timer belongs to, linking it there and taking it out.
//!
//! Invariant: a timer is linked at the level of the highest digit in which its due differs from `elapsed`, in the
//! slot of its own digit there; one whose due lies before `elapsed` is among the overdue.
//!
//! Arming and disarming are the hot path. They touch the node once, and of its neighbours what they must: a new node
//! is linked as it is written, and one that goes is taken out of the slab before its neighbours are joined.

use std::num::NonZeroU64;

use super::Wheel;
use super::level::Level;
use super::list::{Home, Node};

/// What a timer's leaving means for the next turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    due: u64,
    /// It was the last timer of its slot, which is so many ticks wide, as a power of two.
    emptied: Option<u32>,
}

impl Left {
    /// Whether a turn that was planned for tick `plan` may have been planned for this timer. If not, the wheel's next
    /// turn is still the one that was planned, or one that was made for timers that are still there.
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
    pub(super) fn insert_node(&mut self, due: u64, sequence: NonZeroU64, value: T) -> u32 {
        if due < self.elapsed || self.cascading.is_some() {
            let index = self.nodes.insert(Node::new(due, sequence, value)) as u32;
            self.link(index, due);
            return index;
        }
        let home = self.home_of(due);
        if home.level() >= self.levels.len() {
            grow(&mut self.levels, home.level());
        }
        let place = self.nodes.vacant_entry();
        // The slab has fewer places than there are indices; see `grow_nodes`.
        let index = place.key() as u32;
        let before = self.levels[home.level()].append(home.slot(), index);
        place.insert(Node::linked(due, sequence, value, before, home));
        match before {
            None => self.occupied |= 1 << home.level(),
            Some(before) => self.nodes[before as usize].set_next(index),
        }
        index
    }

    /// Takes a node out of the slab and of the list that it is in.
    #[inline]
    pub(super) fn remove_node(&mut self, index: u32) -> (T, Left) {
        let node = self.nodes.remove(index as usize);
        let left = if node.home == Home::OVERDUE {
            self.overdue.remove(&(node.due, node.rank()));
            Left {
                due: node.due,
                emptied: Some(u64::BITS - 1),
            }
        } else {
            self.unlink_from_level(&node.outline())
        };
        if self.shrinking.is_due(self.nodes.len()) {
            self.shrink();
        }
        (node.value, left)
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
        let home = self.home_of(due);
        if home.level() >= self.levels.len() {
            grow(&mut self.levels, home.level());
        }
        self.link_at(index, home);
    }

    fn link_at(&mut self, index: u32, home: Home) {
        self.levels[home.level()].push_back(&mut self.nodes, index, home);
        self.occupied |= 1 << home.level();
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

    /// A timer that belongs below a slot whose cascade has only begun queues up behind the slot's other timers,
    /// or it would overtake those of its own due.
    #[cold]
    fn link_during_cascade(&mut self, index: u32, due: u64) {
        match self.cascading {
            Some(home)
                if self.next_to_cascade().is_some()
                    && self.level_of(due ^ self.elapsed) < home.level() =>
            {
                self.link_at(index, home);
            }
            _ => self.link_into_level(index, due),
        }
    }

    #[cold]
    fn link_overdue(&mut self, index: u32, due: u64) {
        let rank = self.next_rank;
        self.next_rank += 1;
        let node = &mut self.nodes[index as usize];
        node.home = Home::OVERDUE;
        node.set_rank(rank);
        self.overdue.insert((due, rank), index);
    }

    /// Takes a node out of where it is; it stays in the slab.
    pub(super) fn unlink(&mut self, index: u32) -> Left {
        let node = &self.nodes[index as usize];
        if node.home == Home::OVERDUE {
            self.overdue.remove(&(node.due, node.rank()));
            return Left {
                due: node.due,
                emptied: Some(u64::BITS - 1),
            };
        }
        let outline = node.outline();
        self.unlink_from_level(&outline)
    }

    #[inline]
    fn unlink_from_level(&mut self, node: &Node<()>) -> Left {
        let number = node.home.level();
        let level = &mut self.levels[number];
        let emptied = level.join_around(&mut self.nodes, node);
        if emptied && level.is_empty() {
            self.occupied &= !(1 << number);
        }
        Left {
            due: node.due,
            emptied: emptied.then(|| number as u32 * self.digit_bits),
        }
    }
}

#[cold]
#[inline(never)]
fn grow(levels: &mut Vec<Level>, level: usize) {
    levels.resize_with(level + 1, || Level::EMPTY);
}
