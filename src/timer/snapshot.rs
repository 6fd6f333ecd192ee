//! [`Snapshot`]: the contents of every slot of every level, in numbers.
//!
//! Invariant: a snapshot is a copy. To read it touches no timer.

use std::fmt;
use std::time::Duration;

use crate::wheel::SlotCounts;

/// The contents of every level of a timer's wheels: [`Timer::snapshot`](crate::Timer::snapshot).
///
/// Its [`Display`](fmt::Display) is a heading, and a line for each level of all shards together.
/// `late` counts the timers whose time has passed. The text may change with any version.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tickwheel::error::BuildError> {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::builder().shards(1).slots(16).build()?;
/// let idle: Vec<_> = (1..=20).map(|n| timer.deadline(Duration::from_millis(3 * n))).collect();
/// assert_eq!(timer.snapshot().to_string(), "\
/// timers 20, late 0, shards 1, tick 0 of 1ms
/// level 0: 5 timers in 5 of 16 slots of 1ms, at most 1 in a slot
/// level 1: 15 timers in 3 of 16 slots of 16ms, at most 5 in a slot");
/// # drop(idle);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Snapshot {
    /// The tick at which the counting began.
    pub now: u64,
    /// The length of a tick.
    pub tick: Duration,
    /// The shards.
    pub shards: Vec<ShardSnapshot>,
}

/// The contents of one shard.
///
/// ```
/// # tokio_test::block_on(async {
/// for (number, shard) in tickwheel::Timer::new().snapshot().shards.iter().enumerate() {
///     println!("shard {number}: {} timers in {} levels", shard.pending(), shard.levels.len());
/// }
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// The levels that existed, the finest first.
    pub levels: Vec<LevelSnapshot>,
    /// How many timers had a due that had passed when they were armed. They fire at the next turn.
    pub overdue: usize,
}

/// The contents of one level.
///
/// ```
/// # tokio_test::block_on(async {
/// let finest = &tickwheel::Timer::new().snapshot().shards[0].levels[0];
/// assert_eq!((finest.slots.len(), finest.slot_width.as_millis()), (64, 1));
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct LevelSnapshot {
    /// How much time one slot covers.
    pub slot_width: Duration,
    /// The number of timers in each slot.
    pub slots: Vec<usize>,
    /// The slot in which the tick of the snapshot lies. The slots behind it come first, and then
    /// those before it, a rotation later.
    pub now: usize,
    /// How many of the timers lie in slots whose time has passed. The driver has not yet come to
    /// them.
    pub late: usize,
}

impl Snapshot {
    pub(crate) fn new(
        now: u64,
        tick: Duration,
        shards: impl Iterator<Item = SlotCounts>,
    ) -> Snapshot {
        let shards = shards.map(|counts| ShardSnapshot::new(now, tick, counts));
        let shards = shards.collect();
        Snapshot { now, tick, shards }
    }

    /// How many timers were counted in all shards.
    pub fn pending(&self) -> usize {
        sum(self.shards.iter().map(ShardSnapshot::pending))
    }
}

impl ShardSnapshot {
    fn new(now: u64, tick: Duration, counts: SlotCounts) -> ShardSnapshot {
        // A turn may have come since the counting began.
        let ticks = [now.max(counts.elapsed), counts.elapsed];
        let (mut slot_width, mut shift) = (tick, 0);
        let level = |slots: Vec<usize>| {
            let [now, elapsed] = ticks.map(|tick| tick.checked_shr(shift).unwrap_or(0));
            let digit = |number: u64| (number % slots.len() as u64) as usize;
            let passed = elapsed..now.min(elapsed.saturating_add(slots.len() as u64));
            let level = LevelSnapshot {
                slot_width,
                now: digit(now),
                late: sum(passed.map(|number| slots[digit(number)])),
                slots,
            };
            let bits = level.slots.len().max(1).ilog2();
            shift += bits;
            slot_width = slot_width.saturating_mul(1 << bits);
            level
        };
        ShardSnapshot {
            levels: counts.levels.into_iter().map(level).collect(),
            overdue: counts.overdue,
        }
    }

    /// How many timers were counted in this shard.
    pub fn pending(&self) -> usize {
        sum(self.levels.iter().map(LevelSnapshot::pending)).saturating_add(self.overdue)
    }

    /// How many timers were counted whose time had passed.
    fn late(&self) -> usize {
        sum(self.levels.iter().map(|level| level.late)).saturating_add(self.overdue)
    }
}

impl LevelSnapshot {
    /// How many timers were counted in this level.
    pub fn pending(&self) -> usize {
        sum(self.slots.iter().copied())
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (timers, shards) = (self.pending(), self.shards.len());
        let late = sum(self.shards.iter().map(ShardSnapshot::late));
        let Snapshot { now, tick, .. } = self;
        write!(
            f,
            "timers {timers}, late {late}, shards {shards}, tick {now} of {tick:?}"
        )?;
        let levels = self.shards.iter().map(|shard| shard.levels.len()).max();
        for number in 0..levels.unwrap_or(0) {
            let of_shards = self.shards.iter();
            let of_shards = of_shards.flat_map(|shard| shard.levels.get(number));
            let width = of_shards.clone().map(|level| level.slot_width).max();
            let slots: Vec<_> = of_shards
                .flat_map(|level| level.slots.iter().copied())
                .collect();
            let taken = slots.iter().filter(|&&timers| timers > 0).count();
            write!(
                f,
                "\nlevel {number}: {} timers in {taken} of {} slots of {:?}, at most {} in a slot",
                sum(slots.iter().copied()),
                slots.len(),
                width.unwrap_or_default(),
                slots.iter().max().unwrap_or(&0)
            )?;
        }
        Ok(())
    }
}

/// Saturates, because the fields are public.
fn sum(counts: impl Iterator<Item = usize>) -> usize {
    counts.fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn counts(levels: Vec<Vec<usize>>, overdue: usize, elapsed: u64) -> SlotCounts {
        SlotCounts {
            levels,
            overdue,
            elapsed,
        }
    }

    /// A level with as many timers in these slots.
    fn level<const N: usize>(slots: usize, taken: [(usize, usize); N]) -> Vec<usize> {
        let mut level = vec![0; slots];
        for (slot, timers) in taken {
            level[slot] = timers;
        }
        level
    }

    #[test]
    fn a_line_for_each_level_is_of_all_shards_and_tells_what_is_late() {
        // Now lies behind two slots of the first shard, and in the next rotation of the second one.
        let shards = [
            counts(
                vec![level(8, [(6, 4)]), level(8, [(0, 1), (1, 3), (7, 2)])],
                5,
                0,
            ),
            counts(vec![level(8, [(0, 1)])], 0, 8),
            counts(vec![level(8, [])], 0, 8),
        ];
        let snapshot = Snapshot::new(9, 10 * MS, shards.into_iter());
        let expected = "\
timers 16, late 11, shards 3, tick 9 of 10ms
level 0: 5 timers in 2 of 24 slots of 10ms, at most 4 in a slot
level 1: 6 timers in 3 of 8 slots of 80ms, at most 3 in a slot";
        assert_eq!(snapshot.to_string(), expected);
        assert_eq!(
            Snapshot::default().to_string(),
            "timers 0, late 0, shards 0, tick 0 of 0ns"
        );
    }

    #[test]
    fn the_width_of_a_slot_saturates() {
        let levels = vec![vec![0; 64]; 12];
        let hour = Duration::from_secs(60 * 60);
        let snapshot = Snapshot::new(0, hour, [counts(levels, 0, 0)].into_iter());
        let widths = snapshot.shards[0]
            .levels
            .iter()
            .map(|level| level.slot_width);
        assert_eq!(widths.max(), Some(Duration::MAX));
    }

    #[test]
    fn now_lies_in_the_slot_of_its_digit_and_what_lies_before_it_is_late() {
        let levels = || vec![level(8, [(7, 1)]), level(8, []), level(8, [(7, 1)])];
        let now = |now, elapsed| {
            let snapshot = Snapshot::new(now, MS, [counts(levels(), 0, elapsed)].into_iter());
            let levels = snapshot.shards[0].levels.iter();
            levels
                .map(|level| (level.now, level.late))
                .collect::<Vec<_>>()
        };
        // A slot behind now, by up to a rotation, is to come.
        assert_eq!(now(0o123, 0o120), [(3, 0), (2, 0), (1, 0)]);
        assert_eq!(now(0o131, 0o130), [(1, 0), (3, 0), (1, 0)]);
        assert_eq!(now(0o131, 0o127), [(1, 1), (3, 0), (1, 0)]);
        assert_eq!(now(0o1000, 0o127), [(0, 1), (0, 0), (0, 1)]);
        // The wheel was turned after the clock was read.
        assert_eq!(now(0o127, 0o131), [(1, 0), (3, 0), (1, 0)]);
        let top = vec![level(2, [(1, 1)]); 64];
        let snapshot = Snapshot::new(u64::MAX, MS, [counts(top, 0, u64::MAX)].into_iter());
        let levels = &snapshot.shards[0].levels;
        assert!(levels.iter().all(|level| (level.now, level.late) == (1, 0)));
    }
}
