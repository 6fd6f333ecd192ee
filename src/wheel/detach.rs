//! Timers that are in the wheel's storage but in none of its slots.
//!
//! They are for an owner that still needs a timer's value after its due. Such an owner *detaches* a
//! timer that has come due. The index of the timer finds it until the owner takes it out or
//! attaches it again.
//!
//! Invariant: a detached node has the home `DETACHED`, which no list has. It is never due and never
//! cascades.

use std::ops::Range;

use super::Wheel;
use super::list::Home;
use super::turn::Step;

impl<T> Wheel<T> {
    /// Inserts a timer that is detached, and gives its index.
    pub(crate) fn insert_detached(&mut self, value: T) -> u32 {
        // Links and unlinks the timer. This is rare, so it needs no way of its own.
        let (index, _) = self.insert(self.now, value).into_halves();
        self.detach(index);
        index
    }

    /// Detaches what is due by `now`, in at most `budget` steps, and takes the steps from the
    /// budget. `true` if nothing more is due by `now`.
    pub(crate) fn detach_due(
        &mut self,
        now: u64,
        budget: &mut usize,
        mut detached: impl FnMut(u32, &mut T),
    ) -> bool {
        self.now = self.now.max(now);
        while *budget > 0 {
            *budget -= 1;
            match self.step() {
                Step::Due(index) => {
                    self.detach(index);
                    detached(index, &mut self.nodes[index as usize].value);
                }
                Step::Cascaded => {}
                Step::Finished => return true,
            }
        }
        false
    }

    /// Takes a timer that is attached out of its slot.
    pub(crate) fn detach(&mut self, index: u32) {
        self.unlink(index);
        self.nodes[index as usize].home = Home::DETACHED;
    }

    /// Makes a timer due at a tick, whether it is attached or detached.
    pub(crate) fn attach(&mut self, index: u32, due: u64) {
        if !self.is_detached(index) {
            self.unlink(index);
        }
        self.link(index, due);
    }

    pub(crate) fn is_detached(&self, index: u32) -> bool {
        self.nodes[index as usize].home == Home::DETACHED
    }

    /// Whether there is a detached timer with that index, and its value is as wanted.
    pub(crate) fn is_detached_as(&self, index: u32, is_wanted: impl FnOnce(&T) -> bool) -> bool {
        let node = self.nodes.get(index as usize);
        node.is_some_and(|node| node.home == Home::DETACHED && is_wanted(&node.value))
    }

    /// Takes a timer out, whether it is attached or detached.
    pub(crate) fn remove_at(&mut self, index: u32) -> T {
        if !self.is_detached(index) {
            return self.remove_node(index).0;
        }
        let node = self.nodes.remove(index as usize);
        self.shrink_if_due();
        node.value
    }

    /// The tick at which the timer with that index is due, or was. `None` if there is no such
    /// timer.
    pub(crate) fn tick_at(&self, index: u32) -> Option<u64> {
        self.nodes.get(index as usize).map(|node| node.due)
    }

    /// The value of a timer that is there.
    pub(crate) fn at(&self, index: u32) -> &T {
        &self.nodes[index as usize].value
    }

    /// The value of a timer that is there.
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.nodes[index as usize].value
    }

    /// Those of the given indices at which there are timers.
    pub(crate) fn indices(&self, of: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        of.filter(|&index| self.nodes.contains(index as usize))
    }

    /// One more than the largest index that a timer may have.
    pub(crate) fn end_of_indices(&self) -> u32 {
        self.nodes.capacity() as u32
    }
}
