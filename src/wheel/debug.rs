//! What a wheel holds, for people: the number of timers in each slot, for a snapshot, and a drawing
//! of every timer, for a person who debugs.
//!
//! Invariant: nothing here changes the wheel. A timer keeps its place in the storage for as long as
//! it is armed, whatever slot it moves to. So a count that passes each place once counts no timer
//! twice, and none that stays armed is missed, however the wheel changes between two steps.

use std::fmt;

use super::Wheel;
use super::slots::{List, Position};
use super::turn::JUDGED;

/// The number of timers in each slot, level by level, and the number of overdue timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) levels: Vec<Vec<usize>>,
    pub(crate) overdue: usize,
    /// The tick that the wheel had worked up to at the last step. The slots of a level are those of
    /// the rotation in which this tick lies.
    pub(crate) elapsed: u64,
}

/// Counts the timers of a wheel in steps of a bounded length, between which the wheel may change.
///
/// [`Wheel::count_some`] only copies where timers lie, into room that is there already. So whoever
/// holds a lock over the wheel holds it for no counting and no allocation.
#[derive(Debug)]
pub(crate) struct SlotCounter {
    /// How many places one step passes.
    places: u32,
    next: u32,
    /// How many places there were at the first step. A wheel that grows faster than it is counted
    /// would have no end else.
    end: Option<u32>,
    slots: usize,
    levels: usize,
    pub(super) seen: Vec<Position>,
    counts: SlotCounts,
}

impl SlotCounter {
    /// A counter whose steps take no longer than a turn with that budget. Such a turn cascades
    /// [`JUDGED`] times as many timers, and touches the place of each and of its neighbours. A step
    /// passes as many places, one after the other.
    pub(crate) fn with_budget(budget: usize) -> SlotCounter {
        let places = budget * JUDGED;
        SlotCounter {
            places: places as u32,
            next: 0,
            end: None,
            slots: 0,
            levels: 0,
            seen: Vec::with_capacity(places),
            counts: SlotCounts::default(),
        }
    }

    /// Counts what the last step has seen. The caller holds no lock.
    pub(crate) fn count(&mut self) {
        let SlotCounts {
            levels, overdue, ..
        } = &mut self.counts;
        levels.resize_with(self.levels, || vec![0; self.slots]);
        for position in self.seen.drain(..) {
            match position {
                Position::SORTED => *overdue += 1,
                position => levels[position.level()][position.slot()] += 1,
            }
        }
    }

    pub(crate) fn into_counts(self) -> SlotCounts {
        self.counts
    }
}

impl<T> Wheel<T> {
    /// Copies where the timers in the next places of the storage lie. `true` if there are no more
    /// places.
    pub(crate) fn count_some(&self, counter: &mut SlotCounter) -> bool {
        counter.slots = 1 << self.digit_bits;
        counter.levels = counter.levels.max(self.levels());
        counter.counts.elapsed = self.elapsed;
        let places = self.nodes.end();
        let end = (*counter.end.get_or_insert(places)).min(places);
        let first = self.nodes.skip_vacant(counter.next);
        let next = end.min(first.saturating_add(counter.places));
        let nodes = (first..next).filter_map(|index| self.nodes.get(index));
        counter.seen.extend(nodes.map(|node| node.position));
        counter.next = next;
        next == end || self.is_empty()
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
        write!(f, "  sorted:")?;
        for (due, _) in self.sorted.keys() {
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
