//! Turning: finding what is due, and cascading what is not due yet.
//!
//! A turn works in steps, and each step is bounded: it finds one timer due, or moves some to a
//! finer level. So an owner that holds a lock over the wheel can let it go after any number of
//! steps.
//!
//! Invariant: between two steps every timer lies in a level that reaches its due. Only the timers
//! of the slot that is being cascaded wait there for their step. `elapsed` is the start of that
//! slot.
//!
//! The timers of a coarse slot are in no order. An owner that looks for the first timer of all
//! makes them sorted, each once. `elapsed` waits for its time all the same.

use super::Wheel;

/// The choice that [`Wheel::turn`] has for a timer whose slot has come.
pub(crate) enum Decision {
    /// The timer is due. The judge has taken what it needs out of the value.
    Fire,
    /// The timer is truly due at this later tick.
    Reschedule(u64),
}

/// Judging a timer and waking the task that waits for it costs as much as cascading this many.
pub(super) const JUDGED: usize = 8;

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
        let slot = self.slot_to_work_on();
        // Of two with the same due, the sorted one was linked first.
        match self.first_sorted() {
            Some((due, first)) if slot.is_none_or(|(.., start)| due <= start) => {
                return if due <= self.now {
                    Found::Due(first)
                } else {
                    self.finish()
                };
            }
            _ => {}
        }
        let Some((level, slot, start)) = slot.filter(|&(.., start)| start <= self.now) else {
            return self.finish();
        };
        self.elapsed = start;
        if level == 0 {
            let first = self.levels[level].slot(slot).first();
            return first.map_or(Found::Nothing, Found::Due);
        }
        // A timer of the same due in a finer slot was linked later. So each timer goes to the
        // front there, the last one first.
        while let Some(last) = self.levels[level].slot(slot).last().filter(|_| *budget > 0) {
            *budget -= 1;
            self.unlink(last);
            self.link_first(last);
        }
        Found::Unfinished
    }

    /// Nothing more is due by `now`.
    fn finish(&mut self) -> Found {
        self.elapsed = self.now;
        self.levels.truncate(self.levels());
        Found::Nothing
    }

    /// The due and the index of the first timer that is sorted.
    #[inline]
    pub(super) fn first_sorted(&self) -> Option<(u64, u32)> {
        let (&(due, _), &index) = self.sorted.first_key_value()?;
        Some((due, index))
    }

    /// The slot whose time comes next. Of two that start at the same tick: a coarse one comes
    /// before level 0, because what is in it may be due by then, and the finer of two coarse ones,
    /// because what is in the other was linked earlier and goes before it.
    fn slot_to_work_on(&self) -> Option<(usize, usize, u64)> {
        let first = |one: (usize, usize, u64), other: (usize, usize, u64)| {
            let is_other = other.2 < one.2 || other.2 == one.2 && one.0 == 0;
            if is_other { other } else { one }
        };
        self.first_slots().reduce(first)
    }

    /// The first slot of each level that holds a timer, the finest level first: the level, the slot
    /// and the starting tick.
    fn first_slots(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let mut occupied = self.occupied;
        std::iter::from_fn(move || {
            if occupied == 0 {
                return None;
            }
            let level = occupied.trailing_zeros() as usize;
            occupied &= occupied - 1;
            let shift = level as u32 * self.digit_bits;
            let present = self.elapsed >> shift;
            let slots = self.slot_mask as usize + 1;
            let ahead = self.levels[level].first_from((present & self.slot_mask) as usize, slots);
            let number = present + ahead as u64;
            Some((level, (number & self.slot_mask) as usize, number << shift))
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

    /// Finds the first timer, due or not, in at most `budget` steps, which are taken from the
    /// budget.
    ///
    /// The timers of a coarse slot are in no order. So where they are many, they are sorted before
    /// their time, which each of them pays for once, in O(log n).
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) fn find_first(&mut self, budget: &mut usize) -> Found {
        while *budget > 0 {
            *budget -= 1;
            let sorted = self.first_sorted();
            // Of two that start at the same tick, what is in the coarser one was linked first.
            let earliest = self.first_slots().reduce(|one, other| {
                let is_other = other.2 <= one.2;
                if is_other { other } else { one }
            });
            let Some((level, slot, start)) = earliest else {
                return sorted.map_or(Found::Nothing, |(_, index)| Found::Due(index));
            };
            if let Some((_, first)) = sorted.filter(|&(due, _)| due <= start) {
                return Found::Due(first);
            }
            let is_first = |due| {
                let mut others = self.first_slots().filter(|&(other, ..)| other != level);
                others.all(|(.., start)| due < start)
            };
            let in_slot = self.first_of_few(level, slot);
            if let Some((due, index)) = in_slot.filter(|&(due, _)| level == 0 || is_first(due)) {
                let before = sorted.filter(|&(sorted, _)| sorted <= due);
                return Found::Due(before.map_or(index, |(_, sorted)| sorted));
            }
            if let Some(index) = self.levels[level].slot(slot).first() {
                self.unlink(index);
                self.link_sorted(index, self.nodes[index].due);
            }
        }
        Found::Unfinished
    }

    /// The tick of the earliest timer in the slots, or that of the beginning of its slot.
    pub(super) fn earliest_in_slots(&self) -> Option<u64> {
        self.first_slots()
            .fold(None, |earliest, (level, slot, start)| {
                if earliest.is_some_and(|earliest| earliest <= start) {
                    return earliest;
                }
                let due = self.first_of_few(level, slot).map_or(start, |(due, _)| due);
                Some(earliest.map_or(due, |earliest: u64| earliest.min(due)))
            })
    }

    /// The due and the index of a slot's first timer, if the slot is of one tick or holds few.
    fn first_of_few(&self, level: usize, slot: usize) -> Option<(u64, u32)> {
        /// The search has a bound because a turn too many costs little.
        const FEW: usize = 16;
        let mut timers = self.levels[level].slot(slot).iter(&self.nodes);
        let most = if level == 0 { 1 } else { FEW };
        let earliest = timers
            .by_ref()
            .take(most)
            .map(|(index, node)| (node.due, index))
            // Of several, the one that was linked first.
            .min_by_key(|&(due, _)| due);
        // Only if these were all. Otherwise the earliest may be among the rest.
        (level == 0 || timers.next().is_none()).then_some(earliest)?
    }
}
