//! Turning: finding what is due, and cascading what is not due yet.
//!
//! A turn works in steps, and each step is bounded: it finds one timer due, or moves one to a finer
//! level. So an owner that holds a lock over the wheel can let it go after any number of steps.
//!
//! Invariant: between two steps every timer lies where `link` would put it. Only the timers of the
//! slot that is being cascaded wait there for their step. `elapsed` is the start of that slot.
//!
//! A step may go beyond `now`, for an owner that looks for the first timer before it is due.
//! `elapsed` is ahead of `now` then. A timer that is linked before it is among the overdue, and
//! comes out at its own tick: the turns up to then find nothing else to do.

use super::Wheel;
use super::slots::Home;

/// What [`Wheel::turn`] is to do with a timer whose slot has come.
pub(crate) enum Decision {
    /// The timer is due. The judge has taken what it needs out of the value.
    Fire,
    /// The timer is truly due at this later tick.
    Reschedule(u64),
}

/// Judging a timer and waking the task that waits for it costs as much as cascading this many.
pub(super) const JUDGED: usize = 8;

/// What one step towards `now` found.
pub(super) enum Step {
    /// This timer is due. It is still linked.
    Due(u32),
    /// The step moved one timer to a finer level.
    Cascaded,
    /// Nothing more is due, and `elapsed` has reached `now` or is ahead of it.
    Finished,
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
            match self.step(self.now) {
                Step::Due(index) => {
                    left = left.saturating_sub(JUDGED);
                    let node = &mut self.nodes[index as usize];
                    match judge(node.due, &mut node.value) {
                        Decision::Fire => drop(self.remove_node(index)),
                        // Always later than this turn. Otherwise the turn would not end.
                        Decision::Reschedule(due) => {
                            self.unlink(index);
                            self.link(index, due.max(self.now.saturating_add(1)));
                        }
                    }
                }
                Step::Cascaded => left -= 1,
                Step::Finished => return true,
            }
        }
        false
    }

    /// Makes one bounded step towards tick `by`: finds one timer that is due by then, or cascades
    /// one.
    pub(super) fn step(&mut self, by: u64) -> Step {
        if let Some((&(due, _), &index)) = self.overdue.first_key_value() {
            return if due <= by {
                Step::Due(index)
            } else {
                Step::Finished
            };
        }
        if let Some(index) = self.next_to_cascade() {
            return self.cascade(index);
        }
        self.cascading = None;
        let earliest = self.earliest_slot().filter(|&(.., start)| start <= by);
        let first = earliest.and_then(|(level, slot, _)| self.levels[level].slot(slot).first());
        let (Some((level, slot, start)), Some(index)) = (earliest, first) else {
            self.elapsed = self.elapsed.max(self.now);
            self.levels.truncate(self.levels());
            self.shrink_if_worth_a_look();
            return Step::Finished;
        };
        self.elapsed = start;
        if level == 0 {
            return Step::Due(index);
        }
        self.cascading = Some(Home::of_slot(level, slot));
        self.cascade(index)
    }

    /// The first timer of the slot that is being cascaded, if any is still there.
    pub(super) fn next_to_cascade(&self) -> Option<u32> {
        let home = self.cascading?;
        self.levels[home.level()].slot(home.slot()).first()
    }

    fn cascade(&mut self, index: u32) -> Step {
        self.unlink(index);
        let due = self.nodes[index as usize].due;
        self.link_into_level(index, due);
        Step::Cascaded
    }

    /// The level, the slot and the starting tick of the earliest slot that holds a timer.
    pub(super) fn earliest_slot(&self) -> Option<(usize, usize, u64)> {
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        let slot = self.levels[level].first_slot();
        Some((level, slot, self.start_of(level, slot)))
    }

    /// The starting tick of a slot.
    pub(super) fn start_of(&self, level: usize, slot: usize) -> u64 {
        let shift = level as u32 * self.digit_bits;
        // Above the digit of this level, the digits are those of `elapsed`. The digit of the top
        // level may have none above it.
        let above = u64::MAX.checked_shl(shift + self.digit_bits).unwrap_or(0);
        self.elapsed & above | (slot as u64) << shift
    }
}
