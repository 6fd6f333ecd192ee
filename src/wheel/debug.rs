//! The contents of a wheel, for people: counts of each slot for a snapshot, and a line.
//!
//! Invariant: nothing here changes the wheel.

use std::fmt;

use super::Wheel;
use super::slots::{List, MAX_LEVELS, SLOTS};

/// The number of timers in each slot, level by level, and the number of overdue timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    /// A count for each slot of each level, the finest level first.
    pub(crate) levels: Vec<Vec<usize>>,
    /// Timers in no level, because they were linked after their due.
    pub(crate) overdue: usize,
    /// The tick that the wheel has worked up to. The slots of a level begin there.
    pub(crate) elapsed: u64,
}

impl SlotCounts {
    /// Has room for all levels, so that counting under the owner's lock allocates nothing.
    pub(crate) fn with_room() -> SlotCounts {
        SlotCounts {
            levels: vec![vec![0; SLOTS]; MAX_LEVELS],
            ..SlotCounts::default()
        }
    }
}

impl<T> Wheel<T> {
    /// Counts the timers of each slot into counts made by `with_room`.
    pub(crate) fn count_slots(&self, counts: &mut SlotCounts) {
        counts.levels.truncate(self.levels());
        let slots = counts.levels.iter_mut().flatten();
        for (count, list) in slots.zip(self.lists()) {
            *count = list.len();
        }
        counts.overdue = self.overdue.values().map(List::len).sum();
        counts.elapsed = self.elapsed;
    }
}

/// One line, without the timers.
///
/// ```
/// # use tickwheel::wheel::Wheel;
/// let mut wheel = Wheel::new();
/// wheel.insert(20, "request");
/// assert_eq!(
///     format!("{wheel:?}"),
///     "Wheel { now: 0, len: 1, levels: 1, next_turn: Some(20), .. }"
/// );
/// ```
impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("now", &self.now)
            .field("len", &self.len())
            .field("levels", &self.levels())
            .field("next_turn", &self.next_turn())
            .finish_non_exhaustive()
    }
}
