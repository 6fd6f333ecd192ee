//! [`Metrics`]: what a timer holds and has done, in numbers.
//!
//! Invariant: `armed` is the sum of `pending`, `fired` and `disarmed`. Each shard is read at one
//! moment, under its lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::Driver;
use crate::shard::Counts;
use crate::time::clock::Clock;
use crate::wheel::SlotCounts;

/// What a timer holds and has done so far: [`Timer::metrics`](crate::Timer::metrics).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::new();
/// let deadline = timer.deadline(Duration::from_secs(30));
/// assert_eq!(timer.metrics().pending, 1);
/// drop(deadline);
/// assert_eq!((timer.metrics().pending, timer.metrics().disarmed), (0, 1));
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The name that the timer was given: [`Builder::name`](crate::Builder::name).
    pub name: Option<Arc<str>>,
    /// The number of shards.
    pub shards: usize,
    /// Timers that are armed now.
    pub pending: usize,
    /// Timers that were ever armed.
    pub armed: u64,
    /// Timers that were fired by the driver.
    pub fired: u64,
    /// Timers that were taken out before the driver fired them.
    pub disarmed: u64,
    /// How often a deadline had been reset when its time came, and was put off. A reset is not
    /// counted by itself, because that would slow it down. Each of these stands for one or more.
    pub put_off: u64,
    /// How often the driver's alarm has woken it.
    pub wake_ups: u64,
    /// How late the driver came to a turn within the last ten seconds at the most, in whole ticks.
    pub lateness: Duration,
    /// How often the driver came late by more than 50 ms and 16 ticks, because something has
    /// stopped the process or blocked the runtime's time driver. On a clock that is or was paused
    /// nothing is a stall.
    pub stalls: u64,
    /// How long all stalls took together, in whole ticks.
    pub stalled: Duration,
    /// How many deadlines passed within a stall, or before its grace was over, and were given that
    /// grace. See
    /// [`Builder::count_stalls`](crate::Builder::count_stalls).
    pub spared: u64,
    /// While the driver ticks: how often it came late to replace its tick, by a tick or more. What
    /// was armed or reset by that tick is late by as much.
    pub late_windows: u64,
    /// Wakers that panicked when the timer woke them. The panics were contained.
    pub waker_panics: u64,
    /// Inserts into maps on this timer that were refused, because the map was closed or at its
    /// limit.
    pub refused: u64,
    /// Whether the driver ticks now, so that timeouts and resets read no clock. It ticks under a
    /// load of very many operations.
    pub ticking: bool,
}

impl Metrics {
    pub(crate) fn new(
        shards: impl Iterator<Item = Counts>,
        driver: &Driver,
        clock: &Clock,
    ) -> Metrics {
        let (stalls, stalled) = driver.stalls();
        let reporter = driver.reporter();
        let mut metrics = Metrics {
            name: reporter.name().cloned(),
            wake_ups: driver.wake_ups(),
            lateness: driver.lateness(),
            stalls,
            stalled,
            late_windows: clock.log().number_of_late_windows(),
            waker_panics: reporter.waker_panics(),
            refused: reporter.refused(),
            ticking: clock.stamp().is_some(),
            ..Metrics::default()
        };
        for Counts {
            pending,
            armed,
            fired,
            spared,
            put_off,
        } in shards
        {
            metrics.shards += 1;
            metrics.pending += pending;
            metrics.armed += armed;
            metrics.fired += fired;
            metrics.spared += spared;
            metrics.put_off += put_off;
            metrics.disarmed += armed - fired - pending as u64;
        }
        metrics
    }
}

// `Snapshot`: what every slot of every level held at one moment, and a drawing of it.
//
// Invariant: a snapshot is a copy. A look at it touches no timer.

/// What every level of a timer's wheels held at one moment:
/// [`Timer::snapshot`](crate::Timer::snapshot).
///
/// Its [`Display`](fmt::Display) draws it, with a line for each level and a mark for each slot. The
/// mark is `.` for an empty slot, the number of timers up to 9, and `+` for more.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::builder().shards(1).slots(16).build().unwrap();
/// let deadlines: Vec<_> = (1..=20).map(|n| timer.deadline(Duration::from_millis(3 * n))).collect();
/// let drawing = timer.snapshot().to_string();
/// assert_eq!(drawing, "\
/// tick 0 of 1ms, 20 timers pending
/// shard 0: 20 timers
///   level 0, 1ms a slot    ...1..1..1..1..1  5
///   level 1, 16ms a slot   .555............  15
/// ");
/// # drop(deadlines);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The tick of the moment.
    pub now: u64,
    /// The length of a tick.
    pub tick: Duration,
    /// The shards.
    pub shards: Vec<ShardSnapshot>,
}

/// What one shard held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// The levels that existed, the finest first.
    pub levels: Vec<LevelSnapshot>,
    /// How many timers had a due that had passed when they were armed. They fire at the next turn.
    pub overdue: usize,
}

/// What one level held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelSnapshot {
    /// How much time one slot covers.
    pub slot_width: Duration,
    /// The number of timers in each slot.
    pub slots: Vec<usize>,
}

impl Snapshot {
    pub(crate) fn new(
        now: u64,
        tick: Duration,
        shards: impl Iterator<Item = SlotCounts>,
    ) -> Snapshot {
        let shards = shards
            .map(
                |SlotCounts {
                     levels, overdue, ..
                 }| {
                    let mut slot_width = tick;
                    let levels = levels
                        .into_iter()
                        .map(|slots| {
                            let level = LevelSnapshot { slot_width, slots };
                            let slots = u32::try_from(level.slots.len()).unwrap_or(u32::MAX);
                            slot_width = slot_width.saturating_mul(slots);
                            level
                        })
                        .collect();
                    ShardSnapshot { levels, overdue }
                },
            )
            .collect();
        Snapshot { now, tick, shards }
    }

    /// How many timers were armed in all shards.
    pub fn pending(&self) -> usize {
        self.shards.iter().map(ShardSnapshot::pending).sum()
    }
}

impl ShardSnapshot {
    /// How many timers were armed in this shard.
    pub fn pending(&self) -> usize {
        self.overdue
            + self
                .levels
                .iter()
                .map(LevelSnapshot::pending)
                .sum::<usize>()
    }
}

impl LevelSnapshot {
    /// How many timers were in this level.
    pub fn pending(&self) -> usize {
        self.slots.iter().sum()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "tick {} of {:?}, {} timers pending",
            self.now,
            self.tick,
            self.pending()
        )?;
        for (number, shard) in self.shards.iter().enumerate() {
            writeln!(f, "shard {number}: {} timers", shard.pending())?;
            if shard.overdue > 0 {
                writeln!(f, "  overdue {}", shard.overdue)?;
            }
            for (number, level) in shard.levels.iter().enumerate() {
                let title = format!("level {number}, {:?} a slot", level.slot_width);
                let marks: String = level.slots.iter().map(|&timers| mark(timers)).collect();
                writeln!(f, "  {title:<22} {marks}  {}", level.pending())?;
            }
        }
        Ok(())
    }
}

fn mark(timers: usize) -> char {
    match timers {
        0 => '.',
        1..=9 => char::from(b'0' + timers as u8),
        _ => '+',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_marks_many_timers_and_tells_of_overdue_ones() {
        let counts = SlotCounts {
            levels: vec![vec![0, 9, 10, 0], vec![0, 1, 0, 0]],
            overdue: 2,
            elapsed: 0,
        };
        let snapshot = Snapshot::new(7, Duration::from_millis(5), [counts].into_iter());
        assert_eq!(snapshot.pending(), 22);
        let drawing = "\
tick 7 of 5ms, 22 timers pending
shard 0: 22 timers
  overdue 2
  level 0, 5ms a slot    .9+.  19
  level 1, 20ms a slot   .1..  1
";
        assert_eq!(snapshot.to_string(), drawing);
    }

    #[test]
    fn the_width_of_a_slot_saturates() {
        let levels = vec![vec![0; 64]; 12];
        let counts = SlotCounts {
            levels,
            overdue: 0,
            elapsed: 0,
        };
        let hour = Duration::from_secs(60 * 60);
        let snapshot = Snapshot::new(0, hour, [counts].into_iter());
        let widths = snapshot.shards[0]
            .levels
            .iter()
            .map(|level| level.slot_width);
        assert_eq!(widths.max(), Some(Duration::MAX));
    }
}
