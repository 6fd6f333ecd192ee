//! Pictures of a wheel: its slots counted, for a snapshot, and every timer drawn, for who debugs.

use std::fmt;

use super::Wheel;
use super::list::{Home, List};

/// The number of timers in each slot, level by level, and of those that are overdue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) levels: Vec<Vec<usize>>,
    pub(crate) overdue: usize,
}

impl<T> Wheel<T> {
    /// Counts in one pass over the slab: O(timers).
    pub(crate) fn slot_counts(&self) -> SlotCounts {
        let slots = 1 << self.digit_bits;
        let mut counts = SlotCounts {
            levels: vec![vec![0; slots]; self.levels()],
            overdue: 0,
        };
        for (_, node) in &self.nodes {
            match node.home {
                Home::OVERDUE => counts.overdue += 1,
                home => counts.levels[home.level()][home.slot()] += 1,
            }
        }
        counts
    }
}

/// Draws the wheel: each level with its occupied slots, and each timer in them as `due#number`.
impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let overdue: Vec<_> = self.overdue.keys().map(|(due, _)| due).collect();
        writeln!(f, "  overdue: {overdue:?}")?;
        for (number, level) in self.levels.iter().enumerate() {
            writeln!(f, "  level {number}")?;
            for slot in level.occupied_slots() {
                write!(f, "    slot {slot}:")?;
                draw(f, level.slot(slot))?;
            }
        }
        Ok(())
    }
}
