//! Placing: which list a timer belongs to, and linking it there.
//!
//! Invariant: a timer is linked at the level of the highest digit in which its due differs from `elapsed`, in the
//! slot of its own digit there; one whose due lies before `elapsed` is among the overdue.

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
        let rank = self.next_rank;
        self.next_rank += 1;
        let node = &mut self.nodes[index as usize];
        node.home = Home::OVERDUE;
        node.set_rank(rank);
        self.overdue.insert((due, rank), index);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, level: usize) {
        self.levels.resize_with(level + 1, || Level::EMPTY);
    }

    /// Takes a node out of where it is.
    pub(super) fn unlink(&mut self, index: u32) -> Left {
        let node = &self.nodes[index as usize];
        let (due, home) = (node.due, node.home);
        if home == Home::OVERDUE {
            self.overdue.remove(&(due, node.rank()));
            return Left {
                due,
                emptied: Some(0),
            };
        }
        let level = &mut self.levels[home.level()];
        level.unlink(&mut self.nodes, index, home.slot());
        if level.is_empty() {
            self.occupied &= !(1 << home.level());
        }
        let shift = home.level() as u32 * self.digit_bits;
        let emptied = level
            .slot(home.slot())
            .is_empty()
            .then_some(due >> shift << shift);
        Left { due, emptied }
    }
}

/// What a timer's leaving means for the next turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    due: u64,
    /// The start of its slot, if it was the last timer there.
    emptied: Option<u64>,
}

impl Left {
    /// Whether a turn that was planned for tick `plan` may have been planned for this timer. If not, the wheel's next
    /// turn is still the one that was planned, or one that was made for timers that are still there.
    pub(crate) fn may_change(self, plan: u64) -> bool {
        self.due <= plan || self.emptied.is_some_and(|start| start <= plan)
    }
}
