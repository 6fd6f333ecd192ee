//! What a timer and a map report of themselves: [`Metrics`] and [`DelayMapMetrics`], counts of
//! their work, and [`Snapshot`], the contents of every slot of every level.

// Invariants: `armed` is the sum of `pending`, `fired` and `disarmed`, because each shard is read
// at one moment, under its lock. Everything here is a copy, so reading it touches no timer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::driver::Driver;
use crate::shard::Counts;
use crate::shard::lateness::FiredCounts;
use crate::wheel::{DIGIT_BITS, SlotCounts};

/// Counts of a timer's work, past and present: [`Timer::metrics`](crate::Timer::metrics).
///
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async {
/// let timer = Timer::new();
/// let _idle = timer.deadline(Duration::from_secs(30));
/// assert_eq!((timer.metrics().pending, timer.metrics().disarmed), (1, 0));
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Metrics {
    /// The name of the timer: [`Timer::name`](crate::Timer::name).
    pub name: Option<Arc<str>>,
    /// The number of shards.
    pub shards: usize,
    /// Timers that are armed now.
    pub pending: usize,
    /// Timers that were ever armed.
    pub armed: u64,
    /// Timers that the driver fired.
    pub fired: u64,
    /// Timers that were removed before the driver fired them.
    pub disarmed: u64,
    /// Expiries that were put off because of a reset, which is itself not counted, to stay fast.
    pub rescheduled: u64,
    /// How often the alarm woke the driver.
    pub wake_ups: u64,
    /// How often the driver was late by more than 50 ms plus one tick, because the process was
    /// stopped or the runtime's time driver was blocked. Its own work does not count. A clock that
    /// is or was paused has no stalls.
    pub stalls: u64,
    /// The total length of all stalls.
    pub stalled: Duration,
    /// Deadlines that passed during a stall, or soon after it, and were given its grace
    /// ([`Builder::stall_grace`](crate::timer::Builder::stall_grace)).
    pub spared: u64,
    /// Timers that fired at most 1, 2, 4 .. 32,768 ms late: cumulative histogram buckets
    /// (Prometheus `le`), with `fired` as the last one. A timer is late from its due, or from when
    /// it was armed if that was later, to the batch of wake-ups that it is in. If it was armed and
    /// due during a stall, it is late from its due. The rounding to a tick and the time of other
    /// wakers in the batch do not count.
    pub fired_within: [u64; 16],
    /// The sum of that histogram.
    pub fired_lateness_sum: Duration,
    /// Wakers that panicked. The panics were contained.
    pub waker_panics: u64,
    /// Inserts that maps on this timer rejected, because they were closed or at their limit.
    pub rejected_inserts: u64,
}

impl Metrics {
    pub(crate) fn new(
        shards: impl Iterator<Item = Counts>,
        driver: &Driver,
        clock: &Clock,
    ) -> Metrics {
        let stalls = clock.stalls();
        let mut fired = FiredCounts::default();
        let reporter = driver.reporter();
        let mut metrics = Metrics {
            name: reporter.name().cloned(),
            wake_ups: driver.wake_ups(),
            stalls: stalls.count(),
            stalled: stalls.total(),
            waker_panics: reporter.waker_panics(),
            rejected_inserts: reporter.rejected_inserts(),
            ..Metrics::default()
        };
        for counts in shards {
            metrics.shards += 1;
            metrics.pending += counts.pending;
            metrics.armed += counts.armed;
            fired.add(&counts.fired);
            metrics.spared += counts.spared;
            metrics.rescheduled += counts.rescheduled;
            metrics.disarmed += counts.armed - counts.fired.total() - counts.pending as u64;
        }
        metrics.fired = fired.total();
        metrics.fired_within = fired.cumulative();
        metrics.fired_lateness_sum = fired.sum();
        metrics
    }
}

/// Counts of a map's values: [`DelayMap::metrics`](crate::DelayMap::metrics).
///
/// The values of a [`DelayMap`](crate::DelayMap) are no timers of its [`Timer`](crate::Timer): the
/// [`Metrics`] of that count one timer, of the map's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct DelayMapMetrics {
    /// Values that are in the map now, due or not.
    pub len: usize,
    /// Values that were ever inserted, also in the place of another.
    pub inserted: u64,
    /// Values that came out of the stream. If `len` grows and this does not, no consumer takes
    /// them.
    pub expired: u64,
}

/// The contents of every level of a timer's wheels: [`Timer::snapshot`](crate::Timer::snapshot).
///
/// Its [`Display`](fmt::Display) is a heading, and a line for each level of all shards together.
/// `late` counts the timers whose time has passed. Any version may change the text.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tickwheel::error::BuildError> {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::builder().shards(1).build()?;
/// let idle: Vec<_> = (1..=20).map(|n| timer.deadline(Duration::from_millis(12 * n))).collect();
/// assert_eq!(timer.snapshot().to_string(), "\
/// timers 20, late 0, shards 1, tick 0 of 1ms
/// level 0: 10 timers in 10 of 128 slots of 1ms, at most 1 in a slot
/// level 1: 10 timers in 2 of 128 slots of 64ms, at most 5 in a slot");
/// # drop(idle);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Snapshot {
    /// The tick at which it was taken.
    pub now: u64,
    /// The length of a tick.
    pub tick: Duration,
    /// The shards.
    pub shards: Vec<ShardSnapshot>,
}

/// The contents of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// The levels that existed, the finest first.
    pub levels: Vec<LevelSnapshot>,
    /// Timers that were due when they were armed. They fire at the next turn.
    pub overdue: usize,
}

/// The contents of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct LevelSnapshot {
    /// The time that one slot covers.
    pub slot_width: Duration,
    /// The number of timers in each slot.
    pub slots: Vec<usize>,
    /// The slot of the snapshot's tick. The slots behind it come first, then those before it.
    pub now: usize,
    /// Timers in slots whose time has passed. The driver has not come to them yet.
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
        // A turn may have come since the clock was read.
        let ticks = [now.max(counts.elapsed), counts.elapsed];
        let (mut slot_width, mut shift) = (tick, 0);
        let level = |slots: Vec<usize>| {
            let [now, elapsed] = ticks.map(|tick| tick.checked_shr(shift).unwrap_or(0));
            let slot = |number: u64| (number % slots.len() as u64) as usize;
            let passed = elapsed..now.min(elapsed.saturating_add(slots.len() as u64));
            let level = LevelSnapshot {
                slot_width,
                now: slot(now),
                late: sum(passed.map(|number| slots[slot(number)])),
                slots,
            };
            shift += DIGIT_BITS;
            slot_width = slot_width.saturating_mul(1 << DIGIT_BITS);
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
    fn level<const N: usize>(taken: [(usize, usize); N]) -> Vec<usize> {
        let mut level = vec![0; 128];
        for (slot, timers) in taken {
            level[slot] = timers;
        }
        level
    }

    #[test]
    fn a_line_for_each_level_is_of_all_shards_and_tells_what_is_late() {
        // Now lies behind two slots of the first shard, and at the last turn of the others.
        let shards = [
            counts(
                vec![level([(126, 4), (1, 1)]), level([(1, 1), (2, 3), (7, 2)])],
                5,
                120,
            ),
            counts(vec![level([(2, 1)])], 0, 129),
            counts(vec![level([])], 0, 129),
        ];
        let snapshot = Snapshot::new(129, 10 * MS, shards.into_iter());
        let expected = "\
timers 17, late 10, shards 3, tick 129 of 10ms
level 0: 6 timers in 3 of 384 slots of 10ms, at most 4 in a slot
level 1: 6 timers in 3 of 128 slots of 640ms, at most 3 in a slot";
        assert_eq!(snapshot.to_string(), expected);
        assert_eq!(
            Snapshot::default().to_string(),
            "timers 0, late 0, shards 0, tick 0 of 0ns"
        );
    }

    #[test]
    fn the_width_of_a_slot_saturates() {
        let hour = Duration::from_secs(60 * 60);
        let twelve = counts(vec![level([]); 12], 0, 0);
        let snapshot = Snapshot::new(0, hour, [twelve].into_iter());
        let highest = snapshot.shards[0].levels.last().unwrap();
        assert_eq!(highest.slot_width, Duration::MAX);
    }

    #[test]
    fn now_lies_in_a_slot_of_each_level_and_what_lies_before_it_is_late() {
        let levels = || vec![level([(127, 1)]), level([]), level([(7, 1)])];
        let now = |now, elapsed| {
            let snapshot = Snapshot::new(now, MS, [counts(levels(), 0, elapsed)].into_iter());
            let levels = snapshot.shards[0].levels.iter();
            Vec::from_iter(levels.map(|level| (level.now, level.late)))
        };
        // A slot behind now is to come, the one before it too.
        assert_eq!(now(67, 64), [(67, 0), (1, 0), (0, 0)]);
        assert_eq!(now(129, 128), [(1, 0), (2, 0), (0, 0)]);
        assert_eq!(now(129, 127), [(1, 1), (2, 0), (0, 0)]);
        assert_eq!(now(8 << 12, 127), [(0, 1), (0, 0), (8, 1)]);
        // The wheel was turned after the clock was read.
        assert_eq!(now(127, 129), [(1, 0), (2, 0), (0, 0)]);
        let top = vec![level([(1, 1)]); 12];
        let snapshot = Snapshot::new(u64::MAX, MS, [counts(top, 0, u64::MAX)].into_iter());
        let levels = &snapshot.shards[0].levels;
        assert!(levels.iter().all(|level| level.late == 0));
    }
}
