//! What the picture shows at one moment, whoever turns the wheel and whoever draws it.
//!
//! The live program and `--frame` look at a running [`Timer`](tickwheel::Timer), and `--svg` at a
//! `Wheel` that is turned by hand. Both give a [`Moment`]. The terminal and the SVG draw nothing
//! else.
//!
//! Invariant: a moment is a copy. The counts of its slots add up to what is pending, but for the
//! timers that were overdue.

use std::time::Duration;

use tickwheel::Snapshot;

/// What is shown at one moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The tick that it is.
    pub now: u64,
    pub tick: Duration,
    /// The finest first.
    pub levels: Vec<Level>,
    /// Timers in no slot, since their due had passed when they were armed.
    pub overdue: usize,
    pub counts: Counts,
    pub is_paused: bool,
    /// How long after the tick in which it was due the load was woken. One value for each look, the
    /// latest last.
    pub lateness: Vec<Duration>,
    /// How late the driver came within the last ten seconds.
    pub worst_lateness: Duration,
    pub load: Rates,
    /// The timers that a key has added.
    pub own: Vec<Own>,
    /// What moved since the moment before, if the one who turns the wheel knows each timer.
    pub moves: Vec<Move>,
}

/// One level of the hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub slot_width: Duration,
    /// The number of timers in each slot.
    pub slots: Vec<usize>,
    /// The slot in whose time we are.
    pub hand: usize,
    /// How many timers lay, at the last look, in slots whose time has come since then.
    pub passed: usize,
}

/// What the load is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub name: &'static str,
    pub heartbeats_a_second: f64,
    pub requests_a_second: f64,
}

/// How many timers there are, and what has become of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pending: u64,
    pub armed: u64,
    /// Resets of pending timers.
    pub pushed_back: u64,
    pub cancelled: u64,
    pub fired: u64,
}

/// A timer that a key has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub number: usize,
    pub timeout: Duration,
    /// `None` once it has fired.
    pub remaining: Option<Duration>,
    pub is_selected: bool,
}

/// Where a timer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub level: usize,
    pub slot: usize,
}

/// What has become of one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub timer: u64,
    pub from: Option<Place>,
    pub to: Option<Place>,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    Armed,
    Cascaded,
    /// Its slot has come, and it was reset meanwhile.
    PushedBack,
    Cancelled,
    Fired,
}

impl Moment {
    /// How many slots a level has.
    pub fn slots(&self) -> usize {
        self.levels.first().map_or(1, |level| level.slots.len())
    }
}

impl Level {
    pub fn pending(&self) -> usize {
        self.slots.iter().sum()
    }

    /// An empty level with that number, as it is at tick `now`.
    pub fn empty(number: usize, slots: usize, now: u64, tick: Duration) -> Level {
        let ticks = ticks_of_a_slot(number, slots);
        let for_duration = ticks.map_or(u32::MAX, |ticks| ticks.try_into().unwrap_or(u32::MAX));
        Level {
            slot_width: tick.saturating_mul(for_duration),
            slots: vec![0; slots],
            hand: slot_of(now, number, slots),
            passed: 0,
        }
    }

    /// How many timers of this level lay in slots that begin after tick `before`, and by `now`.
    fn passed(&self, number: usize, before: u64, now: u64) -> usize {
        let slots = self.slots.len();
        let Some(ticks) = ticks_of_a_slot(number, slots) else {
            return 0;
        };
        let (first, last) = (before / ticks + 1, now / ticks);
        // After a whole turn each slot's time has come.
        let first = first.max((last + 1).saturating_sub(slots as u64));
        let passed = first..=last;
        passed
            .map(|n| self.slots[(n % slots as u64) as usize])
            .sum()
    }
}

/// The levels of a snapshot, all its shards together, and the number of the overdue timers.
pub fn levels(snapshot: &Snapshot, before: Option<&Moment>) -> (Vec<Level>, usize) {
    let mut levels: Vec<Level> = Vec::new();
    for shard in &snapshot.shards {
        for (number, level) in shard.levels.iter().enumerate() {
            if levels.len() == number {
                let slots = level.slots.len();
                levels.push(Level {
                    slot_width: level.slot_width,
                    ..Level::empty(number, slots, snapshot.now, snapshot.tick)
                });
            }
            for (sum, timers) in levels[number].slots.iter_mut().zip(&level.slots) {
                *sum += timers;
            }
        }
    }
    for (number, level) in levels.iter_mut().enumerate() {
        if let Some((before, lay)) = before.and_then(|it| Some((it, it.levels.get(number)?))) {
            level.passed = lay.passed(number, before.now, snapshot.now);
        }
    }
    let overdue = snapshot.shards.iter().map(|shard| shard.overdue).sum();
    (levels, overdue)
}

/// Where a timer lies in a wheel that has worked up to `now`: at the level of the highest digit in
/// which its due differs from it. `None` if it is due.
pub fn place(due: u64, now: u64, slots: usize) -> Option<Place> {
    if due <= now {
        return None;
    }
    let level = ((due ^ now).ilog2() / slots.ilog2()) as usize;
    let slot = slot_of(due, level, slots);
    Some(Place { level, slot })
}

/// The digit of a tick at a level.
fn slot_of(tick: u64, level: usize, slots: usize) -> usize {
    match ticks_of_a_slot(level, slots) {
        Some(ticks) => (tick / ticks % slots as u64) as usize,
        None => 0,
    }
}

/// How many ticks a slot of a level is wide. `None` if that is more than any tick.
fn ticks_of_a_slot(level: usize, slots: usize) -> Option<u64> {
    (slots as u64).checked_pow(u32::try_from(level).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_lies_at_the_highest_digit_that_differs() {
        let at = |level, slot| Some(Place { level, slot });
        assert_eq!(place(70_000, 69_500, 64), at(2, 17));
        assert_eq!(place(70_000, 69_632, 64), at(1, 5));
        assert_eq!(place(70_000, 69_952, 64), at(0, 48));
        assert_eq!(place(70_000, 70_000, 64), None);
        assert_eq!(place(u64::MAX, 0, 64), at(10, 15));
    }

    #[test]
    fn slots_whose_time_has_come_are_passed_once() {
        let level = Level {
            slots: vec![1, 2, 4, 8],
            ..Level::default()
        };
        assert_eq!(level.passed(0, 1, 3), 4 + 8);
        assert_eq!(level.passed(0, 3, 3), 0);
        assert_eq!(level.passed(1, 3, 4), 2);
        assert_eq!(level.passed(1, 4, 7), 0);
        assert_eq!(level.passed(0, 0, 1_000), 15, "a whole turn and more");
        assert_eq!(level.passed(40, 0, u64::MAX), 0, "wider than any tick");
    }
}
