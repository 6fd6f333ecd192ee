//! Turning: finding what is due, and cascading what is not due yet.
//!
//! A turn works in steps, and each step is bounded: it finds one timer due, or moves some to a
//! finer level. So an owner that holds a lock over the wheel can let it go after any number of
//! steps.
//!
//! # Cascading ahead of time
//!
//! To empty a coarse slot of a million timers in one turn takes tens of milliseconds. So a slot of
//! many is emptied before its time, a bounded number for each turn. It can be: a level has two
//! rotations of slots, and so takes in the whole of the next coarse slot from a rotation of its own
//! before that starts.
//!
//! ```text
//!   level 1   [ . . . X X X ]        the slot behind the present one holds many
//!                     |||            each turn moves at most `EARLY` of them, the last one first
//!   level 0   [ . . . . | o o o ]    to the second rotation, before what was armed there since
//! ```
//!
//! What is armed for that slot meanwhile goes to the finer level at once, behind. What cascades
//! goes to the front. So ties keep their order, and a slot may be left half emptied at any time.
//! A slot of few waits for its time, and a slot of many as long as it can, since many of its timers
//! will be gone by then.
//!
//! An owner that turns the wheel when it has to must come in time for that. So the next turn is
//! that of the first crowded slot, if it comes before what is due, and an insert that makes a slot
//! crowded says so by [`turn_for`](Wheel::turn_for).
//!
//! Invariant: between two steps every timer lies in a level that reaches its due. Only the timers
//! of the slot that is being cascaded wait there for their step. `elapsed` is the start of that
//! slot.

use super::Wheel;
use super::slots::{DIGIT_BITS, FEW, slot_of_number};

/// The choice that [`Wheel::turn`] has for a timer whose slot has come.
pub(crate) enum Decision {
    /// The timer is due. The judge has taken what it needs out of the value.
    Fire,
    /// The timer is truly due at this later tick.
    Reschedule(u64),
}

/// Judging a timer and waking the task that waits for it costs as much as cascading this many.
pub(super) const JUDGED: usize = 8;

/// At a tick at most this many timers cascade ahead of their time, or more if they would not all
/// have been moved by then. Small in unit tests, so that small wheels come to it.
pub(super) const EARLY: usize = if cfg!(test) { 32 } else { 1_024 };

/// How many timers are left to cascade ahead of their time at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Early {
    tick: u64,
    left: usize,
}

/// The result of a search for a timer that is due, or of one step of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<D = u32> {
    /// This timer is due. It is still linked, where this is its index.
    Due(D),
    /// Nothing more is due.
    Nothing,
    /// There may be more to find: timers were moved to a finer level, or the budget was spent
    /// before the search had an end.
    Unfinished,
}

impl<T> Wheel<T> {
    /// Advances with a bounded amount of work: it judges at most `budget` timers, or cascades at
    /// most [`JUDGED`] times as many.
    ///
    /// A timer whose slot has come is judged where it is stored. So nothing is copied for a timer
    /// that is truly due later. Returns whether nothing more is due by `now`. If more is due, the
    /// next call goes on.
    pub(crate) fn turn(
        &mut self,
        now: u64,
        budget: usize,
        mut judge: impl FnMut(u64, &mut T) -> Decision,
    ) -> bool {
        self.now = self.now.max(now);
        let mut left = budget * JUDGED;
        while left > 0 {
            match self.step(&mut left) {
                Found::Due(index) => {
                    left = left.saturating_sub(JUDGED);
                    let node = &mut self.nodes[index];
                    match judge(node.due, &mut node.value) {
                        Decision::Fire => drop(self.remove_node(index)),
                        // Always later than this turn. Otherwise the turn would not end.
                        Decision::Reschedule(due) => {
                            self.unlink(index);
                            self.link(index, due.max(self.now.saturating_add(1)));
                        }
                    }
                }
                Found::Unfinished => {}
                Found::Nothing => return true,
            }
        }
        false
    }

    /// Finds one timer that is due by `now`, or cascades at most `budget` timers of one slot, which
    /// are taken from the budget.
    pub(super) fn step(&mut self, budget: &mut usize) -> Found {
        if let Some(first) = self.first_overdue() {
            return Found::Due(first);
        }
        let next = self.next_slot();
        let Some((level, slot, start)) = next.filter(|&(.., start)| start <= self.now) else {
            return self.finish(budget);
        };
        self.elapsed = start;
        if level == 0 {
            let first = self.levels[level].slot(slot).first();
            return first.map_or(Found::Nothing, Found::Due);
        }
        *budget -= self.cascade(level, slot, *budget);
        Found::Unfinished
    }

    /// Moves at most so many timers of a slot to finer levels. Returns how many it moved.
    fn cascade(&mut self, level: usize, slot: usize, most: usize) -> usize {
        let list = self.levels[level].slot(slot);
        let moved = list.len().min(most);
        for _ in 0..moved {
            // A timer of the same due in a finer slot was linked later. So each timer goes to the
            // front there, the last one first.
            let Some(last) = self.levels[level].slot(slot).last() else {
                break;
            };
            self.unlink(last);
            self.link_first(last, level);
        }
        moved
    }

    /// Nothing more is due by `now`. What is to be cascaded ahead of its time is moved, as far as
    /// the budget allows.
    fn finish(&mut self, budget: &mut usize) -> Found {
        self.elapsed = self.now;
        let mut left = if self.early.tick == self.now {
            self.early.left
        } else {
            match self.early_quota(1) {
                0 => 0,
                shares => shares.max(EARLY),
            }
        };
        // The finest levels come first, since their slots have the least time left.
        for level in 1..self.levels() {
            if let Some((slot, _)) = self.early_slot(level) {
                let own = left.saturating_sub(self.early_quota(level + 1));
                let moved = self.cascade(level, slot, own.min(*budget));
                left -= moved;
                *budget -= moved;
            }
        }
        let is_cut = *budget == 0 && left > 0;
        self.early = Early {
            tick: self.now,
            left: if is_cut { left } else { 0 },
        };
        if is_cut {
            return Found::Unfinished;
        }
        // The next turn is found with all of it.
        self.crowded = u64::MAX;
        self.levels.truncate(self.levels());
        Found::Nothing
    }

    /// How many timers each turn has to move until the coarse slots that come next start, on this
    /// level and the coarser ones.
    fn early_quota(&self, level: usize) -> usize {
        let shares = (level..self.levels()).filter_map(|level| self.early_slot(level));
        shares.map(|(_, share)| share).sum()
    }

    /// The slot of a coarse level that comes next, if it holds so many timers that some are to be
    /// moved by now, and how many each turn has to move.
    fn early_slot(&self, level: usize) -> Option<(usize, usize)> {
        let number = self.absolute_slot(level) + 1;
        let from = self.early_from(level, number)?;
        if from > self.elapsed {
            return None;
        }
        let slot = slot_of_number(number);
        let ticks = (number << (level as u32 * DIGIT_BITS)) - self.elapsed;
        let ticks = usize::try_from(ticks).unwrap_or(usize::MAX);
        Some((slot, self.levels[level].slot(slot).len().div_ceil(ticks)))
    }

    /// The tick from which a coarse slot is emptied ahead of its time: as late as leaves twice the
    /// turns that it takes, but no earlier than the whole of it fits into the finer level. `None`
    /// if it holds few.
    fn early_from(&self, level: usize, number: u64) -> Option<u64> {
        let timers = self.levels[level].slot(slot_of_number(number)).len();
        if timers <= FEW {
            return None;
        }
        let shift = level as u32 * DIGIT_BITS;
        let turns = 2 * timers.div_ceil(EARLY) as u64;
        Some((number << shift) - turns.min(1 << shift))
    }

    /// A slot has just become crowded. Until the owner's next turn, its wake-up is still based on
    /// the old count.
    #[cold]
    #[inline(never)]
    pub(super) fn note_crowd(&mut self, level: usize, slot: usize) {
        let present = self.absolute_slot(level);
        let ahead = slot_of_number((slot as u64).wrapping_sub(present)) as u64;
        if level > 0 && ahead > 0 {
            // By then it may hold many more.
            let fits_from = (present + ahead - 1) << (level as u32 * DIGIT_BITS);
            let next = self.now.saturating_add(1);
            self.crowded = self.crowded.min(fits_from.max(next));
        }
    }

    /// The tick of the next turn for a timer that was linked at `due`: that itself, or sooner if a
    /// slot has come to hold many since the last turn.
    #[inline]
    pub(crate) fn turn_for(&self, due: u64) -> u64 {
        due.min(self.crowded)
    }

    /// The number of the slot of a level in which `elapsed` lies.
    fn absolute_slot(&self, level: usize) -> u64 {
        self.elapsed >> (level as u32 * DIGIT_BITS)
    }

    pub(super) fn first_overdue(&self) -> Option<u32> {
        let (_, list) = self.overdue.first_key_value()?;
        list.first()
    }

    /// The slot whose time comes next. Of two that start at the same tick: a coarse one comes
    /// before level 0, because what is in it may be due by then, and the finer of two coarse ones,
    /// because what is in the other would have to pass through it.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let first = |one: (usize, usize, u64), other: (usize, usize, u64)| {
            let is_other = other.2 < one.2 || other.2 == one.2 && one.0 == 0;
            if is_other { other } else { one }
        };
        self.occupied_slots().reduce(first)
    }

    /// The first slot of each level that holds a timer, the finest level first: the level, the slot
    /// and the starting tick.
    pub(super) fn occupied_slots(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let mut occupied = self.occupied;
        std::iter::from_fn(move || {
            if occupied == 0 {
                return None;
            }
            let level = occupied.trailing_zeros() as usize;
            occupied &= occupied - 1;
            let shift = level as u32 * DIGIT_BITS;
            let present = self.elapsed >> shift;
            let number = present + self.levels[level].first_from(slot_of_number(present));
            Some((level, slot_of_number(number), number << shift))
        })
    }
}

impl<T> Wheel<T> {
    /// Finds the first timer that is due by `now`, in at most `budget` steps, which are taken from
    /// the budget.
    pub(crate) fn find_due(&mut self, now: u64, budget: &mut usize) -> Found {
        self.now = self.now.max(now);
        while *budget > 0 {
            let found = self.step(budget);
            if found != Found::Unfinished {
                *budget = budget.saturating_sub(1);
                return found;
            }
        }
        Found::Unfinished
    }

    /// The tick of the next turn that finds a timer due, or the start of its slot, and sooner if
    /// there is something to cascade ahead of its time.
    pub(super) fn next_due_or_cascade(&self) -> Option<u64> {
        let overdue = self.overdue.first_key_value().map(|(&due, _)| due);
        let due = overdue.or_else(|| self.earliest_in_slots())?;
        // Of each level the first slot and the one behind it: no other is to be emptied before what
        // is in the first one is due.
        let coarse = self.occupied_slots().filter(|&(level, ..)| level > 0);
        let cascades = coarse.filter_map(|(level, _, start)| {
            let number = start >> (level as u32 * DIGIT_BITS);
            let both = [Some(number), number.checked_add(1)].into_iter().flatten();
            both.filter(|&number| number > self.absolute_slot(level))
                .filter_map(|number| self.early_from(level, number))
                .min()
        });
        let next = self.now.saturating_add(1);
        let cascade = cascades.min().map(|from| from.max(next));
        Some(cascade.map_or(due, |cascade| cascade.min(due)))
    }

    /// The tick of the earliest timer in the slots, or that of the beginning of its slot.
    fn earliest_in_slots(&self) -> Option<u64> {
        self.occupied_slots()
            .fold(None, |earliest, (level, slot, start)| {
                if earliest.is_some_and(|earliest| earliest <= start) {
                    return earliest;
                }
                let due = self.first_due_of_few(level, slot).unwrap_or(start);
                Some(earliest.map_or(due, |earliest: u64| earliest.min(due)))
            })
    }

    /// The first due in a slot of several ticks, if the slot holds few timers.
    fn first_due_of_few(&self, level: usize, slot: usize) -> Option<u64> {
        /// The search has a bound because a turn too many costs little.
        const MOST: usize = 16;
        let list = self.levels[level].slot(slot);
        if level == 0 || list.len() > MOST {
            return None;
        }
        list.iter(&self.nodes).map(|(_, node)| node.due).min()
    }
}
