//! Placing: which list a timer belongs to, and linking it there.
//!
//! Invariant: a timer is linked at the level of the highest digit in which its due differs from `elapsed`, in the
//! slot of its own digit there; one whose due lies before `elapsed` is in the list of the overdue.

use super::Wheel;
use super::level::Level;
use super::list::Home;

impl<T> Wheel<T> {
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
        let level = self.level_of(due ^ self.elapsed);
        let slot = due >> (level as u32 * self.digit_bits) & ((1 << self.digit_bits) - 1);
        if level >= self.levels.len() {
            self.grow(level);
        }
        self.link_at(index, Home::of_slot(level, slot as usize));
    }

    fn link_at(&mut self, index: u32, home: Home) {
        self.levels[home.level()].push_back(&mut self.nodes, index, home);
        self.occupied |= 1 << home.level();
    }

    /// The level of the highest digit in which two ticks differ, given what `^` makes of them.
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
        if self.overdue.is_empty() {
            self.overdue_from = due;
        } else if self
            .overdue
            .last()
            .is_some_and(|last| self.nodes[last as usize].due > due)
        {
            self.overdue_sorted = false;
            self.overdue_from = self.overdue_from.min(due);
        }
        self.overdue
            .push_back(&mut self.nodes, index, Home::OVERDUE);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, level: usize) {
        self.levels.resize_with(level + 1, || Level::EMPTY);
    }

    pub(super) fn unlink(&mut self, index: u32) {
        match self.nodes[index as usize].home {
            Home::OVERDUE => self.overdue.unlink(&mut self.nodes, index),
            home => {
                let level = &mut self.levels[home.level()];
                level.unlink(&mut self.nodes, index, home.slot());
                if level.is_empty() {
                    self.occupied &= !(1 << home.level());
                }
            }
        }
    }
}
