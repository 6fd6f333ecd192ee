//! What a wheel holds, for people: the number of timers in each slot, for a snapshot, and a drawing
//! of every timer, for a person who debugs.
//!
//! Invariant: nothing here changes the wheel. A timer keeps its place in the slab for as long as it
//! is armed, whatever slot it moves to. So a count that passes each place once counts no timer
//! twice, and none that stays armed is missed, however the wheel changes between two looks.

use std::fmt;

use super::Wheel;
use super::slots::{Home, List};
use super::turn::JUDGED;

/// The number of timers in each slot, level by level, and the number of overdue timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) levels: Vec<Vec<usize>>,
    pub(crate) overdue: usize,
    /// The tick that the wheel had worked up to at the last look. The slots of a level are those of
    /// the rotation in which this tick lies.
    pub(crate) elapsed: u64,
}

/// Counts the timers of a wheel in looks of a bounded length, between which the wheel may change.
///
/// A look only copies where timers lie, into room that is there already. So whoever holds a lock
/// over the wheel holds it for no counting and no allocation.
#[derive(Debug)]
pub(crate) struct SlotCounter {
    /// How many places one look passes.
    places: usize,
    next: usize,
    /// How many places there were at the first look. A wheel that grows faster than it is counted
    /// would have no end else.
    end: Option<usize>,
    slots: usize,
    levels: usize,
    pub(super) seen: Vec<Home>,
    counts: SlotCounts,
}

impl SlotCounter {
    /// A counter whose looks take no longer than a turn with that budget. Such a turn cascades
    /// [`JUDGED`] times as many timers, and touches the place of each and of its neighbours. A look
    /// passes as many places, one after the other.
    pub(crate) fn with_budget(budget: usize) -> SlotCounter {
        let places = budget * JUDGED;
        SlotCounter {
            places,
            next: 0,
            end: None,
            slots: 0,
            levels: 0,
            seen: Vec::with_capacity(places),
            counts: SlotCounts::default(),
        }
    }

    /// Counts what the last look has seen. The caller holds no lock.
    pub(crate) fn count(&mut self) {
        let SlotCounts {
            levels, overdue, ..
        } = &mut self.counts;
        levels.resize_with(self.levels, || vec![0; self.slots]);
        for home in self.seen.drain(..) {
            match home {
                Home::OVERDUE => *overdue += 1,
                home => levels[home.level()][home.slot()] += 1,
            }
        }
    }

    pub(crate) fn into_counts(self) -> SlotCounts {
        self.counts
    }
}

impl<T> Wheel<T> {
    /// Sees where the timers in the next places of the slab lie. `true` if there are no more
    /// places.
    pub(crate) fn look(&self, counter: &mut SlotCounter) -> bool {
        counter.slots = 1 << self.digit_bits;
        counter.levels = counter.levels.max(self.levels());
        counter.counts.elapsed = self.elapsed;
        let capacity = self.nodes.capacity();
        let end = (*counter.end.get_or_insert(capacity)).min(capacity);
        let next = end.min(counter.next.saturating_add(counter.places));
        let nodes = (counter.next..next).filter_map(|place| self.nodes.get(place));
        counter.seen.extend(nodes.map(|node| node.home));
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
