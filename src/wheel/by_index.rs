//! Timers by their index, for an owner that has an index of its own over them.
//!
//! Such an owner keeps no [`Key`](super::Key): an index is half of one, and is good as long as its
//! timer is in the wheel. It finds a timer that is due before it takes that timer out, and moves
//! all timers together when few are left of many.

use std::collections::BTreeMap;

use slab::Slab;

use super::Wheel;
use super::level::Level;
use super::list::Node;
use super::turn::Step;
use crate::shrinking::Shrinking;

/// What [`Wheel::find_due`] finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The first timer that is due. It is still in the wheel.
    Due(u32),
    Nothing,
    /// The budget was spent before the search had an end.
    Unfinished,
}

impl<T> Wheel<T> {
    /// Arms a timer, and returns its index.
    pub(crate) fn insert_at(&mut self, due: u64, value: T) -> u32 {
        self.insert(due, value).index
    }

    /// Moves a timer that is there to another due.
    pub(crate) fn relink_at(&mut self, index: u32, due: u64) {
        self.unlink(index);
        self.link(index, due);
    }

    /// Takes out a timer that is there.
    pub(crate) fn remove_at(&mut self, index: u32) -> T {
        self.remove_node(index).0
    }

    /// One more than the largest index that a timer may have.
    pub(crate) fn end_of_indices(&self) -> u32 {
        self.nodes.capacity() as u32
    }

    /// Whether there is a timer with that index.
    pub(crate) fn contains_index(&self, index: u32) -> bool {
        self.nodes.contains(index as usize)
    }

    /// The tick at which a timer that is there is due.
    pub(crate) fn due_at(&self, index: u32) -> u64 {
        self.nodes[index as usize].due
    }

    /// The value of a timer that is there.
    pub(crate) fn at(&self, index: u32) -> &T {
        &self.nodes[index as usize].value
    }

    /// The value of a timer that is there.
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.nodes[index as usize].value
    }

    /// Finds the first timer that is due by `now`, in at most `budget` steps, which are taken from
    /// the budget.
    pub(crate) fn find_due(&mut self, now: u64, budget: &mut usize) -> Found {
        self.now = self.now.max(now);
        while *budget > 0 {
            *budget -= 1;
            match self.step() {
                Step::Due(index) => return Found::Due(index),
                Step::Cascaded => {}
                Step::Finished => return Found::Nothing,
            }
        }
        Found::Unfinished
    }

    /// Moves all timers together, into a store that is as large as they need. After it, their
    /// indices are those from zero on. Their order stays, and no key of before is good.
    pub(crate) fn move_together(&mut self) {
        let mut order = Vec::with_capacity(self.len());
        for level in &mut self.levels {
            for slot in level.occupied_slots() {
                order.extend(level.slot(slot).iter(&self.nodes).map(|(index, _)| index));
            }
            *level = Level::EMPTY;
        }
        let overdue = std::mem::take(&mut self.overdue);
        let store = Slab::with_capacity(self.nodes.len());
        let mut old = std::mem::replace(&mut self.nodes, store);
        let mut moved =
            |from: u32, nodes: &mut Slab<Node<T>>| nodes.insert(old.remove(from as usize)) as u32;
        for from in order {
            let index = moved(from, &mut self.nodes);
            let home = self.nodes[index as usize].home;
            let links = self.levels[home.level()].append(&mut self.nodes, index, home);
            self.nodes[index as usize].links = links;
        }
        let overdue = overdue.into_iter();
        self.overdue = overdue
            .map(|(rank, from)| (rank, moved(from, &mut self.nodes)))
            .collect::<BTreeMap<_, _>>();
        self.shrinking = Shrinking::default();
        self.shrinking.grown(self.nodes.capacity());
    }
}
