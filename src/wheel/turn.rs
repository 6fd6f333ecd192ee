//! Turning: finding what is due, and cascading what is not due yet.
//!
//! Works in steps, each bounded: one timer found due, or one moved to a finer level. So whoever
//! holds a lock over the wheel can let it go after any number of them.
//!
//! Invariant: between two steps every timer lies where `place` would put it, but for those of the
//! slot that is being cascaded, which wait in it for their step. `elapsed` is the start of that
//! slot.

use super::Wheel;
use super::list::Home;

/// What [`Wheel::turn`] is to do with a timer whose slot has come.
pub(crate) enum Verdict {
    /// It is due; the judge has taken out of the value what it needs.
    Fire,
    /// It is truly due at this later tick.
    Later(u64),
}

/// Judging a timer, and waking whoever waits for it, costs as much as cascading so many.
const JUDGED: usize = 8;

/// What one step towards `now` came upon.
pub(super) enum Step {
    /// This timer is due; it is still linked.
    Due(u32),
    /// One timer was moved to a finer level.
    Cascaded,
    /// Nothing more is due; `elapsed` has reached `now`.
    Finished,
}

impl<T> Wheel<T> {
    /// Advances with a bounded amount of work: at most `budget` timers are judged, or a few times
    /// as many cascaded, which costs that much less.
    ///
    /// A timer whose slot has come is judged in place, so nothing is copied for one that goes on
    /// waiting. Returns whether all that is due by `now` was dealt with; if not, the next call goes
    /// on.
    pub(crate) fn turn(
        &mut self,
        now: u64,
        budget: usize,
        mut judge: impl FnMut(u64, &mut T) -> Verdict,
    ) -> bool {
        self.now = self.now.max(now);
        let mut left = budget * JUDGED;
        while left > 0 {
            match self.step() {
                Step::Due(index) => {
                    left = left.saturating_sub(JUDGED);
                    let node = &mut self.nodes[index as usize];
                    match judge(node.due, &mut node.value) {
                        Verdict::Fire => drop(self.remove_node(index)),
                        // Later than this turn in any case, or the turn would not end.
                        Verdict::Later(due) => {
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

    /// One bounded step towards `now`: finds one timer that is due, or cascades one.
    pub(super) fn step(&mut self) -> Step {
        if let Some((_, &index)) = self.overdue.first_key_value() {
            return Step::Due(index);
        }
        if let Some(index) = self.next_to_cascade() {
            return self.cascade(index);
        }
        self.cascading = None;
        let earliest = self
            .earliest_slot()
            .filter(|&(.., start)| start <= self.now);
        let first = earliest.and_then(|(level, slot, _)| self.levels[level].slot(slot).first());
        let (Some((level, slot, start)), Some(index)) = (earliest, first) else {
            self.elapsed = self.now;
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
        let shift = level as u32 * self.digit_bits;
        // The digits above this level's are those of `elapsed`; the top level's digit may have none
        // above it.
        let above = u64::MAX.checked_shl(shift + self.digit_bits).unwrap_or(0);
        Some((level, slot, self.elapsed & above | (slot as u64) << shift))
    }
}
