//! Turning: firing the timers that are due, and cascading those that are not due yet.
//!
//! A turn works in bounded steps. Each step finds one due timer, or moves some to a finer level. So
//! an owner that locks the wheel can release the lock after any step.
//!
//! # Cascading ahead of time
//!
//! Emptying a coarse slot of a million timers in one turn takes tens of milliseconds. So a crowded
//! slot is emptied before its time, a bounded number of timers each turn. Two rotations of slots
//! make room for that: the next coarse slot fits into the level one rotation before it starts.
//!
//! ```text
//!   level 1   [ . . . X X X ]        the slot behind the present one holds many
//!                     |||            each turn moves some `EARLY` of them, the last one first
//!   level 0   [ . . . . | o o o ]    to the second rotation, before what was armed there since
//! ```
//!
//! Timers armed for that slot meanwhile go to the finer level at once, at the back. Cascading
//! timers go to the front. So ties keep their order, and a slot may be left half emptied at any
//! time. A slot of few waits for its time, and a crowded one as long as it can: many of its timers
//! will be gone.
//!
//! An owner that sleeps between turns must wake in time for that. So the next turn is that of the
//! first crowded slot, if it comes before the earliest due. An insert that makes a slot crowded
//! reports this through [`turn_for`](Wheel::turn_for).
//!
//! Invariant: between two steps every timer that is not overdue lies in a level that reaches its
//! due. Only timers of the slot being cascaded, which starts at `elapsed`, wait there.

use std::num::NonZeroU128;

use super::Wheel;
use super::slots::{FEW, Position, shift};

/// The most timers of a level that cascade ahead of their time at a tick, unless more must be moved
/// in time. Small in unit tests, so that small wheels reach it.
pub(super) const EARLY: usize = if cfg!(test) { 32 } else { 1_024 };

/// How many timers are left to cascade ahead of their time at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Early {
    /// The tick.
    tick: u64,
    /// The timers of all levels that may still cascade at it.
    left: usize,
}

/// The first occupied slot of a level.
#[derive(Clone, Copy)]
struct OccupiedSlot {
    /// Its level, the finest one is 0.
    level: usize,
    /// Counted from tick 0.
    number: u64,
    /// Its first tick.
    start: u64,
}

impl OccupiedSlot {
    #[inline]
    fn position(self) -> Position {
        Position::new(self.level, self.number)
    }
}

/// The timer that fires first, or one that stands for its slot.
#[derive(Clone, Copy)]
pub(super) struct Earliest {
    /// Its due, or the start of the slot that it stands for.
    pub(super) due: u64,
    /// Of its node.
    pub(super) index: u32,
}

/// The result of a search for a due timer, or of one step of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<D = u32> {
    /// This timer is due. In the wheel itself, this is its index, and it is still linked.
    Due(D),
    /// No timer is due.
    Nothing,
    /// There may be more: timers were moved to a finer level, or the budget ran out first.
    Unfinished,
}

impl<T> Wheel<T> {
    /// Finds the first timer that is due by `now`, in at most `budget` steps, and deducts them.
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

    /// Finds one timer that is due by `now`, or cascades timers within the budget.
    fn step(&mut self, budget: &mut usize) -> Found {
        if let Some(overdue) = self.overdue.values().next() {
            return Found::Due(overdue.head);
        }
        let next = self.next_slot().filter(|slot| slot.start <= self.now);
        let Some(slot) = next else {
            return self.finish(budget);
        };
        self.elapsed = slot.start;
        if slot.level == 0 {
            return Found::Due(self.list(slot.position()).head);
        }
        *budget -= self.cascade(slot.level, slot.number, *budget);
        Found::Unfinished
    }

    /// Moves at most `most` timers of a slot to finer levels. Returns how many it moved.
    fn cascade(&mut self, level: usize, number: u64, most: usize) -> usize {
        let slot = Position::new(level, number);
        let moved = self.list(slot).len().min(most);
        for _ in 0..moved {
            // Timers of the same due in a finer slot were linked later, so these go to the front.
            self.cascade_node(self.list(slot).tail, level);
        }
        moved
    }

    /// Nothing more is due by `now`. Cascades ahead of time as far as the budget allows.
    fn finish(&mut self, budget: &mut usize) -> Found {
        self.elapsed = self.now;
        if !self.may_have_crowd() {
            return self.finished();
        }
        if self.early.tick != self.now {
            self.early = Early {
                tick: self.now,
                left: self.early_quota(1),
            };
        }
        // The finest levels come first, since their slots have the least time left.
        for level in 1..self.levels() {
            if self.early.left == 0 {
                break;
            }
            let own = self.early.left.saturating_sub(self.early_quota(level + 1));
            let next = self.absolute_slot(level) + 1;
            let moved = self.cascade(level, next, own.min(*budget));
            self.early.left -= moved;
            *budget -= moved;
        }
        if *budget == 0 && self.early.left > 0 {
            return Found::Unfinished;
        }
        self.finished()
    }

    fn finished(&mut self) -> Found {
        self.early.left = 0;
        // From here on `next_turn` takes the crowd into account.
        self.crowded = u64::MAX;
        self.rotations.truncate(2 * self.levels());
        Found::Nothing
    }

    /// Whether a slot may hold more than a few timers.
    #[inline]
    fn may_have_crowd(&self) -> bool {
        self.len() > FEW
    }

    /// How many timers a turn moves out of the next slot of this level and of each coarser one. For
    /// each slot that is twice the even share of the ticks until it starts, so that nothing is left
    /// if turns are late.
    fn early_quota(&self, level: usize) -> usize {
        let shares = (level..self.levels()).filter_map(|level| {
            let next = self.absolute_slot(level) + 1;
            self.early_from(level, next)
                .filter(|&from| from <= self.elapsed)?;
            let ticks = (next << shift(level)) - self.elapsed;
            let timers = self.list(Position::new(level, next)).len();
            Some((2 * timers).div_ceil(ticks as usize))
        });
        shares.sum()
    }

    /// The tick from which a coarse slot is emptied ahead of its time. It leaves twice the turns
    /// needed, but at most a rotation of the finer level. `None` for few timers.
    #[inline]
    fn early_from(&self, level: usize, number: u64) -> Option<u64> {
        let timers = self.list(Position::new(level, number)).len();
        (timers > FEW).then(|| {
            let turns = 2 * timers.div_ceil(EARLY) as u64;
            (number << shift(level)) - turns.min(1 << shift(level))
        })
    }

    /// A slot has just become crowded. The owner's wake-up is still based on the old count.
    #[cold]
    #[inline(never)]
    pub(super) fn note_crowd(&mut self, slot: Position) {
        let level = slot.level();
        if level > 0 {
            let due = self.nodes[self.list(slot).head].due;
            // The slot may hold many more by then.
            let fits_from = ((due >> shift(level)) - 1) << shift(level);
            let next = self.now.saturating_add(1);
            self.crowded = self.crowded.min(fits_from.max(next));
        }
    }

    /// The number of a level's slot in which `elapsed` lies, counted from tick 0.
    fn absolute_slot(&self, level: usize) -> u64 {
        self.elapsed >> shift(level)
    }

    /// The occupied slot that starts first. Of two that start at one tick, the coarser one comes
    /// first, because its timers may be due by then, and were armed before those of the same due in
    /// the other.
    #[inline]
    fn next_slot(&self) -> Option<OccupiedSlot> {
        self.occupied_slots()
            .reduce(|next, slot| if slot.start <= next.start { slot } else { next })
    }

    /// Each level's first occupied slot, the finest level first.
    #[inline]
    fn occupied_slots(&self) -> impl Iterator<Item = OccupiedSlot> + '_ {
        let levels = self.rotations.chunks_exact(2).enumerate();
        levels.filter_map(|(level, rotations)| {
            let [low, high] = [0, 1].map(|half| u128::from(rotations[half].occupied));
            let occupied = NonZeroU128::new(high << 64 | low)?.get();
            let present = self.absolute_slot(level);
            let ahead = occupied.rotate_right(present as u32).trailing_zeros();
            let number = present + u64::from(ahead);
            Some(OccupiedSlot {
                level,
                number,
                start: number << shift(level),
            })
        })
    }

    /// The first occupied slot of the finest level after a tick. A hint: a cascade may add others.
    pub(crate) fn occupied_after(&self, tick: u64) -> Option<u64> {
        let [low, high] = [0, 1].map(|half| self.rotations.get(half).map_or(0, |it| it.occupied));
        let ahead = tick.checked_sub(self.elapsed)?.checked_add(1)?;
        if ahead >= 2 * u64::from(u64::BITS) {
            return None;
        }
        let occupied = (u128::from(high) << 64 | u128::from(low)).rotate_right(self.elapsed as u32);
        let left = occupied >> ahead;
        (left != 0).then(|| self.elapsed + ahead + u64::from(left.trailing_zeros()))
    }

    /// The timer that fires first. A coarse slot that holds more than `most` timers is not
    /// searched: any of its timers stands for it, as if due at its start.
    pub(super) fn earliest(&self, most: usize) -> Option<Earliest> {
        if let Some((&due, list)) = self.overdue.first_key_value() {
            let index = list.head;
            return Some(Earliest { due, index });
        }
        let mut earliest: Option<Earliest> = None;
        for slot in self.occupied_slots() {
            if earliest.is_some_and(|earliest| earliest.due < slot.start) {
                continue;
            }
            let list = self.list(slot.position());
            let first = if slot.level == 0 || list.len() > most {
                Earliest {
                    due: slot.start,
                    index: list.head,
                }
            } else {
                let timers = list.iter(&self.nodes);
                let (index, node) = timers.min_by_key(|(_, node)| node.due)?;
                let due = node.due;
                Earliest { due, index }
            };
            // Of two with the same due, the one in the coarser level was linked first.
            if earliest.is_none_or(|earliest| first.due <= earliest.due) {
                earliest = Some(first);
            }
        }
        earliest
    }

    /// The tick of the next turn that finds a timer due, or the start of its slot.
    pub(crate) fn next_due(&self) -> Option<u64> {
        // The search is bounded, because a needless turn costs little.
        self.earliest(16).map(|earliest| earliest.due)
    }

    /// The tick from which there is something to cascade ahead of time, or `due` if that is
    /// earlier.
    pub(super) fn early_before(&self, due: u64) -> u64 {
        if !self.may_have_crowd() {
            return due;
        }
        let mut earliest = due;
        for slot in self.occupied_slots().filter(|slot| slot.level > 0) {
            // Only the first slot and the one after it can be emptied before the first one's timers
            // are due.
            for number in [slot.number, slot.number + 1] {
                if let Some(from) = self.early_from(slot.level, number) {
                    earliest = earliest.min(from.max(self.now.saturating_add(1)));
                }
            }
        }
        earliest
    }
}
