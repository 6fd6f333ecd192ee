//! The contents of a wheel, for people: counts of each slot for a snapshot, and a drawing.
//!
//! Invariant: nothing here changes the wheel.

use std::fmt;

use super::Wheel;
use super::slots::{List, MAX_LEVELS, SLOTS};

/// The number of timers in each slot, level by level, and the number of overdue timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) levels: Vec<Vec<usize>>,
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
        for (counts, level) in counts.levels.iter_mut().zip(&self.levels) {
            for (count, list) in counts.iter_mut().zip(level.slots()) {
                *count = list.len();
            }
        }
        counts.overdue = self.overdue.values().map(List::len).sum();
        counts.elapsed = self.elapsed;
    }
}

/// `{:?}` prints one line, without the timers. `{:#?}` draws the wheel: each level with its
/// occupied slots, and each timer in them as `due#number`.
///
/// ```
/// # use tickwheel::wheel::Wheel;
/// let mut wheel = Wheel::new();
/// wheel.insert(20, "request");
/// assert_eq!(
///     format!("{wheel:?}"),
///     "Wheel { now: 0, len: 1, levels: 1, next_turn: Some(20), .. }"
/// );
/// assert!(format!("{wheel:#?}").contains("slot 20: 20#1"));
/// ```
impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.draw(f);
        }
        f.debug_struct("Wheel")
            .field("now", &self.now)
            .field("len", &self.len())
            .field("levels", &self.levels())
            .field("next_turn", &self.next_turn())
            .finish_non_exhaustive()
    }
}

impl<T> Wheel<T> {
    fn draw(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "wheel at tick {}, worked up to {}, {} timers",
            self.now,
            self.elapsed,
            self.len()
        )?;
        let draw = |f: &mut fmt::Formatter<'_>, list: &List| {
            for (_, node) in list.iter(&self.nodes) {
                write!(f, " {}#{}", node.due, node.sequence)?;
            }
            writeln!(f)
        };
        for list in self.overdue.values() {
            write!(f, "  overdue:")?;
            draw(f, list)?;
        }
        for (number, level) in self.levels.iter().enumerate() {
            writeln!(f, "  level {number}")?;
            let slots = level.slots().enumerate();
            for (slot, list) in slots.filter(|(_, list)| list.len() > 0) {
                write!(f, "    slot {slot}:")?;
                draw(f, list)?;
            }
        }
        Ok(())
    }
}
