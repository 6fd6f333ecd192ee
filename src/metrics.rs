//! The state that a timer and a map expose: [`Metrics`] and [`DelayMapMetrics`], counts of their
//! work, and [`Snapshot`], the contents of every level.

// Invariant: `armed` is the sum of `pending`, `fired` and `disarmed`, because each shard is read at
// one moment, under its lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Clock;
use crate::driver::Driver;
use crate::shard::Counts;
use crate::wheel::{DIGIT_BITS, SlotCounts};

/// Counts of a timer's work, past and present: [`Timer::metrics`](crate::Timer::metrics).
///
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async {
/// let timer = Timer::current();
/// let _idle = timer.deadline(Duration::from_secs(30));
/// assert_eq!(timer.metrics().pending, 1);
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Metrics {
    /// The name of the timer: [`Builder::name`](crate::timer::Builder::name), the runtime's name
    /// for its own timer, or `tickwheel-timer` for [`Timer::global`](crate::Timer::global).
    pub name: Option<Arc<str>>,
    /// The number of shards.
    pub shards: usize,
    /// Timers that are armed now.
    pub pending: usize,
    /// Timers that were ever armed.
    pub armed: u64,
    /// Timers that fired: the driver came to them, or a sleep was reset to the past.
    pub fired: u64,
    /// Timers that were removed before the driver fired them.
    pub disarmed: u64,
    /// Expiries that a reset has postponed. Resets themselves are not counted, to stay fast.
    pub rescheduled: u64,
    /// How often the alarm woke the driver.
    pub wake_ups: u64,
    /// How often the driver was held up: a [stall](crate::guarantees#what-a-stall-is). A clock that
    /// is or was paused has none.
    pub stalls: u64,
    /// The total length of all stalls.
    pub stalled: Duration,
    /// Deadlines that passed during a stall, or soon after it, and got its grace
    /// ([`Builder::stall_grace`](crate::timer::Builder::stall_grace)).
    pub spared: u64,
    fired_within: [u64; 16],
    /// The sum of the histogram that [`fired_within`](Metrics::fired_within) yields.
    pub fired_lateness_sum: Duration,
    /// Wakers that panicked, apart from those that wait for an
    /// [`IdleTimeout`](crate::io::IdleTimeout). The panics were contained.
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
        let reporter = driver.reporter();
        let mut metrics = Metrics {
            name: reporter.name().cloned(),
            wake_ups: driver.wake_ups(),
            stalls: stalls.count(),
            stalled: stalls.total(),
            waker_panics: reporter.waker_panics.load(Ordering::Relaxed),
            rejected_inserts: reporter.rejected_inserts.load(Ordering::Relaxed),
            ..Metrics::default()
        };
        for counts in shards {
            metrics.shards += 1;
            metrics.pending += counts.pending;
            metrics.armed += counts.armed;
            metrics.spared += counts.spared;
            metrics.rescheduled += counts.rescheduled;
            let mut fired = 0;
            for (limit, count) in counts.fired.by_lateness.into_iter().enumerate() {
                fired += count;
                if let Some(within) = metrics.fired_within.get_mut(limit) {
                    *within += fired;
                }
            }
            metrics.fired += fired;
            metrics.disarmed += counts.armed - fired - counts.pending as u64;
            let late = Duration::from_nanos(counts.fired.sum);
            metrics.fired_lateness_sum = metrics.fired_lateness_sum.saturating_add(late);
        }
        metrics
    }

    /// Returns how many timers fired at most 1, 2, 4 .. 32,768 ms late: the cumulative buckets of a
    /// histogram (Prometheus `le`), with `fired` as the last one.
    ///
    /// Lateness counts from a timer's due, or from its arming if that was later and in no stall, to
    /// its batch of wake-ups, without the rounding to a tick and without other wakers in the batch.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let timer = Timer::current();
    /// timer.sleep(Duration::from_secs(1)).await;
    ///
    /// let metrics = timer.metrics();
    /// let in_time = metrics.fired_within().find(|(late, _)| late.as_millis() == 64).unwrap().1;
    /// assert_eq!((in_time, metrics.fired), (1, 1));
    ///
    /// let mut page = String::new();
    /// for (late, fired) in metrics.fired_within() {
    ///     page += &format!("timers_fired_bucket{{le=\"{}\"}} {fired}\n", late.as_secs_f64());
    /// }
    /// page += &format!("timers_fired_bucket{{le=\"+Inf\"}} {}\n", metrics.fired);
    /// assert!(page.ends_with("timers_fired_bucket{le=\"+Inf\"} 1\n"));
    /// # });
    /// ```
    pub fn fired_within(&self) -> impl Iterator<Item = (Duration, u64)> + use<> {
        let ends = (0..).map(|exponent| Duration::from_millis(1 << exponent));
        ends.zip(self.fired_within)
    }
}

/// Counts of a map's values: [`DelayMap::metrics`](crate::DelayMap::metrics). The [`Metrics`] of
/// its timer count the stream's one timer, and not the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct DelayMapMetrics {
    /// Values that are in the map now, due or not.
    pub len: usize,
    /// Values that were ever inserted, including replacements.
    pub inserted: u64,
    /// Values that came out of the stream. If `len` grows and this does not, nothing is due, or no
    /// consumer takes it.
    pub expired: u64,
}

/// The contents of every level of a timer's wheels: [`Timer::snapshot`](crate::Timer::snapshot).
///
/// Its [`Display`](fmt::Display) is a heading and, for each level of all shards together, a line
/// and a row of its slots, from the present one to the last occupied one: `.` for none, a digit for
/// as many timers, `X`, `C` and `M` for ten, a hundred and a thousand or more. `late` counts the
/// timers whose time has passed, which are in no row. The text may change in any version.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # use tickwheel::{Duration, Timer};
/// let timer = Timer::builder().shards(1).build().unwrap();
/// let after = |n: u64| timer.deadline(Duration::from_millis(6 * n));
/// let _deadlines: Vec<_> = (1..=7).chain(161..=180).map(after).collect();
/// assert_eq!(timer.snapshot().to_string(), "\
/// timers 27, late 0, shards 1, tick 0 of 1ms
/// level 0: 7 timers in 7 of 128 slots of 1ms, at most 1 in a slot
///   ......1.....1.....1.....1.....1.....1.....1
/// level 1: 20 timers in 2 of 128 slots of 64ms, at most 10 in a slot
///   ...............XX");
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    now: u64,
    tick: Duration,
    shards: usize,
    /// Timers that were due when they were armed, and fire at the next turn.
    overdue: usize,
    levels: Vec<Level>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Level {
    slot_width: Duration,
    /// The number of timers in each slot, from the slot of the snapshot's tick on.
    slots: Vec<usize>,
    /// Timers in slots whose time has passed, which the driver has yet to visit.
    late: usize,
}

impl Snapshot {
    pub(crate) fn new(
        now: u64,
        tick: Duration,
        shards: impl Iterator<Item = SlotCounts>,
    ) -> Snapshot {
        let mut snapshot = Snapshot {
            now,
            tick,
            ..Snapshot::default()
        };
        shards.for_each(|counts| snapshot.add(&counts));
        snapshot
    }

    fn add(&mut self, counts: &SlotCounts) {
        self.shards += 1;
        self.overdue += counts.overdue;
        // A turn may have come since the clock was read.
        let now = self.now.max(counts.elapsed);
        let mut slot_width = self.tick;
        let mut shift = 0;
        for (number, slots) in counts.levels.iter().enumerate() {
            if self.levels.len() == number {
                self.levels.push(Level {
                    slot_width,
                    slots: vec![0; slots.len()],
                    late: 0,
                });
            }
            let first = counts.elapsed.checked_shr(shift).unwrap_or(0);
            let present = now.checked_shr(shift).unwrap_or(0);
            self.levels[number].add(slots, first, present);
            shift += DIGIT_BITS;
            slot_width = slot_width.saturating_mul(1 << DIGIT_BITS);
        }
    }

    /// Returns how many timers were counted, in slots or late.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let timer = Timer::current();
    /// let before = timer.snapshot();
    /// let _idle = [60, 3_600].map(|seconds| timer.deadline(Duration::from_secs(seconds)));
    /// assert_eq!((before.pending(), timer.snapshot().pending()), (0, 2));
    /// # });
    /// ```
    pub fn pending(&self) -> usize {
        self.overdue + self.levels.iter().map(Level::pending).sum::<usize>()
    }
}

impl Level {
    /// Adds the same level of a shard, whose slots go round. Slots count from tick 0 here: `first`
    /// is the one that the wheel has worked up to, and `present` is the slot of the snapshot's
    /// tick.
    fn add(&mut self, slots: &[usize], first: u64, present: u64) {
        let round = slots.len() as u64;
        let last = first.saturating_add(round - 1);
        for slot in first..=last {
            let timers = slots[(slot % round) as usize];
            if slot < present {
                self.late += timers;
            } else {
                self.slots[(slot - present) as usize] += timers;
            }
        }
    }

    fn pending(&self) -> usize {
        self.late + self.slots.iter().sum::<usize>()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timers = self.pending();
        let late = self.overdue + self.levels.iter().map(|level| level.late).sum::<usize>();
        let Snapshot {
            now, tick, shards, ..
        } = self;
        write!(
            f,
            "timers {timers}, late {late}, shards {shards}, tick {now} of {tick:?}"
        )?;
        for (number, level) in self.levels.iter().enumerate() {
            let taken = level.slots.iter().filter(|&&timers| timers > 0).count();
            write!(
                f,
                "\nlevel {number}: {} timers in {taken} of {} slots of {:?}, at most {} in a slot",
                level.pending(),
                level.slots.len(),
                level.slot_width,
                level.slots.iter().max().unwrap_or(&0)
            )?;
            if let Some(last) = level.slots.iter().rposition(|&timers| timers > 0) {
                let row = level.slots[..=last].iter().map(|&timers| letter(timers));
                write!(f, "\n  {}", row.collect::<String>())?;
            }
        }
        Ok(())
    }
}

fn letter(timers: usize) -> char {
    match timers {
        0 => '.',
        1..=9 => char::from(b'0' + timers as u8),
        10..=99 => 'X',
        100..=999 => 'C',
        _ => 'M',
    }
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

    fn level(taken: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
        let mut level = vec![0; 128];
        for (slot, timers) in taken {
            level[slot] += timers;
        }
        level
    }

    #[test]
    fn a_row_for_each_level_is_of_all_shards_and_begins_at_now() {
        // Now lies after two slots of the first shard, and at the last turn of the others.
        let shards = [
            (
                [(126, 4), (1, 10), (4, 12)],
                [(1, 1), (2, 3), (7, 2)],
                5,
                120,
            ),
            ([(2, 1), (4, 300), (0, 7)], [(0, 0); 3], 0, 129),
            ([(9, 1_000), (0, 0), (0, 0)], [(0, 0); 3], 0, 129),
        ];
        let shards = shards.map(|(first, second, overdue, elapsed)| {
            counts(vec![level(first), level(second)], overdue, elapsed)
        });
        let snapshot = Snapshot::new(129, 10 * MS, shards.into_iter());
        let row = format!("X1.C....M{}7", ".".repeat(118));
        let expected = format!(
            "\
timers 1345, late 10, shards 3, tick 129 of 10ms
level 0: 1334 timers in 5 of 128 slots of 10ms, at most 1000 in a slot
  {row}
level 1: 6 timers in 2 of 128 slots of 640ms, at most 3 in a slot
  3....2"
        );
        assert_eq!(snapshot.to_string(), expected);
    }

    #[test]
    fn the_last_tick_of_the_longest_wheel_is_not_late() {
        let hour = Duration::from_secs(60 * 60);
        let twelve = counts(vec![level([(127, 1)]); 12], 0, u64::MAX);
        let snapshot = Snapshot::new(u64::MAX, hour, [twelve].into_iter());
        assert_eq!(snapshot.levels.last().unwrap().slot_width, Duration::MAX);
        assert!(snapshot.levels.iter().all(|level| level.late == 0));
        assert_eq!(snapshot.levels[0].slots[0], 1, "it counts");
    }

    #[test]
    fn timers_before_now_are_late_and_others_have_their_distance() {
        let shown = |now, elapsed| {
            let levels = vec![level([(127, 1)]), level([]), level([(7, 1)])];
            let snapshot = Snapshot::new(now, MS, [counts(levels, 0, elapsed)].into_iter());
            assert_eq!(snapshot.pending(), 2);
            let levels = snapshot.levels.into_iter();
            let place = |level: Level| level.slots.iter().position(|&timers| timers > 0);
            Vec::from_iter(levels.map(|level| (level.late, place(level))))
        };
        assert_eq!(shown(67, 64), [(0, Some(60)), (0, None), (0, Some(7))]);
        assert_eq!(shown(129, 128), [(0, Some(126)), (0, None), (0, Some(7))]);
        assert_eq!(shown(129, 127), [(1, None), (0, None), (0, Some(7))]);
        assert_eq!(shown(8 << 12, 127), [(1, None), (0, None), (1, None)]);
        assert_eq!(shown(127, 129), [(0, Some(126)), (0, None), (0, Some(7))]);
    }
}
