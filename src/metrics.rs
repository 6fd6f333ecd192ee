//! The state that a timer and a map expose: [`Metrics`] and [`DelayMapMetrics`], counts of their
//! work, and [`Snapshot`], the contents of every level.
//!
//! With the feature `serde` the counts are serialized, each field under the name of its getter, and
//! a [`Duration`] in serde's form. A later version may add fields.

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
/// # tokio_test::block_on(async { tokio::time::pause();
/// let timer = Timer::builder().name("sessions").build().unwrap();
/// let _idle = timer.deadline(Duration::from_secs(30));
/// timer.sleep(Duration::from_secs(1)).await;
///
/// let metrics = timer.metrics();
/// assert_eq!(metrics.name(), Some("sessions"));
/// assert_eq!((metrics.armed(), metrics.fired(), metrics.pending()), (2, 1, 1));
/// # });
/// ```
///
/// # Usage
///
/// Counters start at zero when the timer is made, and never go back. [`armed`](Metrics::armed) is
/// always the sum of [`pending`](Metrics::pending), [`fired`](Metrics::fired) and
/// [`disarmed`](Metrics::disarmed). [Operations](crate::docs::operations) has recipes that export
/// them, and tells what to alert on.
///
/// With the feature `serde` it is serialized: each field under the name of its getter, a
/// [`Duration`] as `{"secs":1,"nanos":0}`, and [`fired_within`](Metrics::fired_within) as
/// `fired_within_ms`, a map from each limit in milliseconds to its count. A later version may add
/// fields.
///
/// ```
/// # #[cfg(feature = "serde")] {
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let timer = Timer::current();
/// timer.sleep(Duration::from_secs(1)).await;
/// let written = serde_json::to_value(timer.metrics()).unwrap();
/// assert_eq!(written["fired"], 1);
/// assert_eq!(written["fired_within_ms"]["32768"], 1);
/// # });
/// # }
/// ```
///
/// # Cost
///
/// One reading takes the lock of each shard for a moment. It does not change afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize))]
pub struct Metrics {
    name: Option<Arc<str>>,
    shards: usize,
    pending: usize,
    armed: u64,
    fired: u64,
    disarmed: u64,
    rescheduled: u64,
    wake_ups: u64,
    stalls: u64,
    stalled: Duration,
    spared: u64,
    /// Entry `i` counts the timers that fired at most `2^i` ms late.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "fired_within_ms", serialize_with = "serialize_by_limit")
    )]
    fired_within: [u64; 16],
    fired_lateness_sum: Duration,
    waker_panics: u64,
    rejected_inserts: u64,
}

/// The length of the array is no part of the format.
#[cfg(feature = "serde")]
fn serialize_by_limit<S: ::serde::Serializer>(
    fired_within: &[u64; 16],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(limits().zip(fired_within).map(|(limit, fired)| {
        // The longest is 32,768 ms.
        (limit.as_millis() as u64, fired)
    }))
}

/// The ends of the histogram's buckets: 1, 2, 4 .. ms.
fn limits() -> impl Iterator<Item = Duration> {
    (0..).map(|exponent| Duration::from_millis(1 << exponent))
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
            shards: 0,
            pending: 0,
            armed: 0,
            fired: 0,
            disarmed: 0,
            rescheduled: 0,
            wake_ups: driver.wake_ups(),
            stalls: stalls.count(),
            stalled: stalls.total(),
            spared: 0,
            fired_within: [0; 16],
            fired_lateness_sum: Duration::ZERO,
            waker_panics: reporter.waker_panics.load(Ordering::Relaxed),
            rejected_inserts: reporter.rejected_inserts.load(Ordering::Relaxed),
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

    /// Returns the name of the timer: [`Builder::name`](crate::timer::Builder::name), the runtime's
    /// name for its own timer, or `tickwheel-timer` for [`Timer::global`](crate::Timer::global).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Returns how many timers are armed now: deadlines that are pending, and sleeps, timeouts and
    /// intervals that were polled and are pending.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Returns how many timers were ever armed.
    #[must_use]
    pub fn armed(&self) -> u64 {
        self.armed
    }

    /// Returns how many timers fired: the driver came to them, or a sleep was reset to the past.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired
    }

    /// Returns how many timers were taken out before the driver fired them.
    #[must_use]
    pub fn disarmed(&self) -> u64 {
        self.disarmed
    }

    /// Returns how many expiries a reset has postponed. Resets themselves are not counted, to stay
    /// fast.
    #[must_use]
    pub fn rescheduled(&self) -> u64 {
        self.rescheduled
    }

    /// Returns how often the alarm woke the driver.
    #[must_use]
    pub fn wake_ups(&self) -> u64 {
        self.wake_ups
    }

    /// Returns how often the driver was held up: a [stall](crate::guarantees#what-a-stall-is). A
    /// clock that is or was paused has none.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Returns the total length of all stalls.
    #[must_use]
    pub fn stalled(&self) -> Duration {
        self.stalled
    }

    /// Returns how many deadlines fell due in a stall, or soon after it, and got its grace
    /// ([`Builder::stall_grace`](crate::timer::Builder::stall_grace)).
    #[must_use]
    pub fn spared(&self) -> u64 {
        self.spared
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
    /// assert_eq!((in_time, metrics.fired()), (1, 1));
    ///
    /// let mut page = String::new();
    /// for (late, fired) in metrics.fired_within() {
    ///     page += &format!("timers_fired_bucket{{le=\"{}\"}} {fired}\n", late.as_secs_f64());
    /// }
    /// page += &format!("timers_fired_bucket{{le=\"+Inf\"}} {}\n", metrics.fired());
    /// assert!(page.ends_with("timers_fired_bucket{le=\"+Inf\"} 1\n"));
    /// # });
    /// ```
    pub fn fired_within(&self) -> impl Iterator<Item = (Duration, u64)> + use<> {
        limits().zip(self.fired_within)
    }

    /// Returns the sum of the histogram that [`fired_within`](Metrics::fired_within) yields.
    #[must_use]
    pub fn fired_lateness_sum(&self) -> Duration {
        self.fired_lateness_sum
    }

    /// Returns how many wakers panicked, apart from those that wait for an
    /// [`IdleTimeout`](crate::io::IdleTimeout). The panics were contained.
    #[must_use]
    pub fn waker_panics(&self) -> u64 {
        self.waker_panics
    }

    /// Returns how many inserts the maps on this timer rejected, because they were closed or at
    /// their capacity.
    #[must_use]
    pub fn rejected_inserts(&self) -> u64 {
        self.rejected_inserts
    }
}

/// Counts of a map's values: [`DelayMap::metrics`](crate::DelayMap::metrics). The [`Metrics`] of
/// its timer count the stream's one timer, and not the values.
///
/// With the feature `serde` it is serialized, each field under the name of its getter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize))]
pub struct DelayMapMetrics {
    pub(crate) len: usize,
    pub(crate) inserted: u64,
    pub(crate) expired: u64,
}

#[allow(
    clippy::len_without_is_empty,
    reason = "a count of the map's, which has `is_empty`"
)]
impl DelayMapMetrics {
    /// Returns how many values are in the map now, due or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns how many values were ever inserted, including replacements.
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Returns how many values came out of the stream. If [`len`](DelayMapMetrics::len) grows and
    /// this does not, nothing is due, or no consumer takes it.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired
    }
}

/// The contents of every level of a timer's wheels: [`Timer::snapshot`](crate::Timer::snapshot).
///
/// It is for a person to read, by its [`Display`](fmt::Display). **The text may change in any
/// version**, so do not parse it: [`pending`](Snapshot::pending) and
/// [`Timer::metrics`](crate::Timer::metrics) are for programs.
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
///
/// # Usage
///
/// The text is a heading and, for each level of all shards together, a line and a row of its slots,
/// from the present one to the last occupied one: `.` for none, a digit for as many timers, `X`,
/// `C` and `M` for ten, a hundred and a thousand or more. `late` counts the timers that are due and
/// have not fired, which are in no row.
///
/// # Cost
///
/// It takes the lock of each shard for some microseconds, however many timers there are.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The tick of the timer's clock when it was taken.
    now: u64,
    tick: Duration,
    shards: usize,
    /// Timers that were due when they were armed, and fire at the next turn.
    overdue: usize,
    /// All shards together, from the finest level on.
    levels: Vec<Level>,
}

#[derive(Clone, PartialEq, Eq)]
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
            shards: 0,
            overdue: 0,
            levels: Vec::new(),
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
    #[must_use]
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

/// The same text.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
