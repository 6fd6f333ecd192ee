//! Turning: firing the timers that are due, and cascading those that are not due yet.
//!
//! A turn works in bounded steps. Each step finds one due timer, or moves some to a finer level. So
//! an owner that locks the wheel can release the lock after any step.
//!
//! # Cascading ahead of time
//!
//! Emptying a coarse slot of a million timers in one turn takes tens of milliseconds. So a crowded
//! slot is emptied before its time, a bounded number of timers each turn. Two rotations of slots
//! make room for that: the next coarse slot fits into the level one rotation before it starts.
//!
//! ```text
//!   level 1   [ . . . X X X ]        the slot behind the present one holds many
//!                     |||            each turn moves at most `EARLY` of them, the last one first
//!   level 0   [ . . . . | o o o ]    to the second rotation, before what was armed there since
//! ```
//!
//! Timers armed for that slot meanwhile go to the finer level at once, at the back. Cascading
//! timers go to the front. So ties keep their order, and a slot may be left half emptied at any
//! time. A slot of few waits for its time, and a crowded one as long as it can: many of its timers
//! will be gone.
//!
//! An owner that sleeps between turns must wake in time for that. So the next turn is that of the
//! first crowded slot, if it comes before the earliest due. An insert that makes a slot crowded
//! reports this through [`turn_for`](Wheel::turn_for).
//!
//! Invariant: between two steps every timer lies in a level that reaches its due. Only timers of
//! the slot being cascaded, which starts at `elapsed`, wait there.

use super::Wheel;
use super::slots::{DIGIT_BITS, FEW, slot_of_number};

/// The decision of [`Wheel::turn`]'s caller on a timer whose slot has come.
pub(crate) enum Decision {
    /// The timer is due. The caller has taken what it needs from the value.
    Fire,
    /// The timer is truly due at this later tick.
    Reschedule(u64),
}

/// Judging a timer and waking its task costs as much as cascading this many.
pub(super) const JUDGED: usize = 8;

/// The most timers that cascade ahead of their time at a tick, unless more must be moved in time.
/// Small in unit tests, so that small wheels reach it.
pub(super) const EARLY: usize = if cfg!(test) { 32 } else { 1_024 };

/// How many timers are left to cascade ahead of their time at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Early {
    tick: u64,
    left: usize,
}

/// The result of a search for a due timer, or of one step of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<D = u32> {
    /// This timer is due. In the wheel itself, this is its index, and it is still linked.
    Due(D),
    Nothing,
    /// There may be more: timers were moved to a finer level, or the budget ran out first.
    Unfinished,
}

impl<T> Wheel<T> {
    /// Advances by a bounded amount of work: judges at most `budget` timers, or cascades at most
    /// [`JUDGED`] times as many. Returns whether nothing more is due by `now`.
    ///
    /// A timer is judged in place, so nothing is copied for a timer that is truly due later.
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
                        // Always later than this turn, or the turn would not end.
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

    /// Finds one timer that is due by `now`, or cascades timers of one slot within the budget.
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

    /// Moves at most `most` timers of a slot to finer levels. Returns how many it moved.
    fn cascade(&mut self, level: usize, slot: usize, most: usize) -> usize {
        let list = self.levels[level].slot(slot);
        let moved = list.len().min(most);
        for _ in 0..moved {
            // Timers of the same due in a finer slot were linked later, so these go to the front.
            let Some(last) = self.levels[level].slot(slot).last() else {
                break;
            };
            self.unlink(last);
            self.link_first(last, level);
        }
        moved
    }

    /// Nothing more is due by `now`. Cascades ahead of time as far as the budget allows.
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
        // The next turn takes all of this into account.
        self.crowded = u64::MAX;
        self.levels.truncate(self.levels());
        Found::Nothing
    }

    /// How many timers each turn has to move before the next slots of this and coarser levels
    /// start.
    fn early_quota(&self, level: usize) -> usize {
        let shares = (level..self.levels()).filter_map(|level| self.early_slot(level));
        shares.map(|(_, share)| share).sum()
    }

    /// The next slot of a coarse level, if it is to be emptied by now, and its timers for each
    /// turn.
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

    /// The tick from which a coarse slot is emptied ahead of its time. It leaves twice the turns
    /// needed, but at most a rotation of the finer level. `None` for few timers.
    fn early_from(&self, level: usize, number: u64) -> Option<u64> {
        let timers = self.levels[level].slot(slot_of_number(number)).len();
        if timers <= FEW {
            return None;
        }
        let shift = level as u32 * DIGIT_BITS;
        let turns = 2 * timers.div_ceil(EARLY) as u64;
        Some((number << shift) - turns.min(1 << shift))
    }

    /// A slot has just become crowded. The owner's wake-up is still based on the old count.
    #[cold]
    #[inline(never)]
    pub(super) fn note_crowd(&mut self, level: usize, slot: usize) {
        let present = self.absolute_slot(level);
        let ahead = slot_of_number((slot as u64).wrapping_sub(present)) as u64;
        if level > 0 && ahead > 0 {
            // The slot may hold many more by then.
            let fits_from = (present + ahead - 1) << (level as u32 * DIGIT_BITS);
            let next = self.now.saturating_add(1);
            self.crowded = self.crowded.min(fits_from.max(next));
        }
    }

    /// The tick of the next turn for a timer linked at `due`: that tick, or an earlier one if a
    /// slot has become crowded since the last turn.
    #[inline]
    pub(crate) fn turn_for(&self, due: u64) -> u64 {
        due.min(self.crowded)
    }

    /// The number of a level's slot in which `elapsed` lies, counted from tick 0.
    fn absolute_slot(&self, level: usize) -> u64 {
        self.elapsed >> (level as u32 * DIGIT_BITS)
    }

    pub(super) fn first_overdue(&self) -> Option<u32> {
        let (_, list) = self.overdue.first_key_value()?;
        list.first()
    }

    /// The slot whose time comes next. If two start at the same tick, a coarse one comes before
    /// level 0, because its timers may be due by then. The finer of two coarse ones comes first,
    /// because timers of the other have to pass through it.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let first = |one: (usize, usize, u64), other: (usize, usize, u64)| {
            let is_other = other.2 < one.2 || other.2 == one.2 && one.0 == 0;
            if is_other { other } else { one }
        };
        self.occupied_slots().reduce(first)
    }

    /// Each level's first occupied slot, the finest first: the level, the slot and its first tick.
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
    /// Finds the first timer that is due by `now`, in at most `budget` steps, and deducts them.
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

    /// The tick of the next turn that finds a timer due, or the start of its slot.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let overdue = self.overdue.first_key_value().map(|(&due, _)| due);
        overdue.or_else(|| self.earliest_in_slots())
    }

    /// The tick of the next turn that finds a timer due, or the start of its slot, or an earlier
    /// one if there is something to cascade ahead of time.
    pub(super) fn next_due_or_cascade(&self) -> Option<u64> {
        let due = self.next_due()?;
        // Only the first slot and the one after it can be emptied before the first one's timers are
        // due.
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

    /// The due of the earliest timer in the slots, or the start of its slot.
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

    /// The first due in a coarse slot, if the slot holds few timers.
    fn first_due_of_few(&self, level: usize, slot: usize) -> Option<u64> {
        /// The search is bounded, because a needless turn costs little.
        const MOST: usize = 16;
        let list = self.levels[level].slot(slot);
        if level == 0 || list.len() > MOST {
            return None;
        }
        list.iter(&self.nodes).map(|(_, node)| node.due).min()
    }
}
