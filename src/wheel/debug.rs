//! What a wheel holds, for people: the number of timers in each slot, for a snapshot, and a drawing
//! of every timer, for a person who debugs.
//!
//! Invariant: nothing here changes the wheel. Each timer in a slot or among the overdue counts
//! once.

use std::fmt;

use super::Wheel;
use super::slots::{Home, List};

/// The number of timers in each slot, level by level, and the number of overdue timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) levels: Vec<Vec<usize>>,
    pub(crate) overdue: usize,
}

impl<T> Wheel<T> {
    /// Counts the timers in one pass over the slab: O([`capacity`](Wheel::capacity)).
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
        write!(f, "  overdue:")?;
        for (due, _) in self.overdue.keys() {
            write!(f, " {due}")?;
        }
        writeln!(f)?;
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
