//! [`Metrics`]: counts of a timer's work, past and present.
//!
//! Invariant: `armed` is the sum of `pending`, `fired` and `disarmed`. Each shard is read at one
//! moment, under its lock.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::driver::Driver;
use crate::shard::Counts;
use crate::shard::lateness::FiredCounts;

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
    pub rescheduled: u64,
    /// How often the driver's alarm has woken it.
    pub wake_ups: u64,
    /// How often the driver was held up for more than 50 ms and one tick, because something has
    /// stopped the process or blocked the runtime's time driver. Its own work does not count. On a
    /// clock that is or was paused nothing is a stall.
    pub stalls: u64,
    /// How long all stalls took together.
    pub stalled: Duration,
    /// How many deadlines passed within a stall, or soon after it, and were given its grace. See [`Builder::stall_grace`](crate::Builder::stall_grace).
    pub spared: u64,
    /// How many timers fired at most 1, 2, 4, .. 32,768 ms late, each with those before: the
    /// buckets of a histogram as Prometheus has them, whose last one, without a limit, is `fired`.
    /// A timer is late by the time from its due to the batch of the turn that wakes its task, or
    /// from when it was armed if that was later. But what was armed while the driver was held up,
    /// and was due then too, counts from its due. The time of wakers before it in the batch is not
    /// counted, nor the rounding of the due to a tick.
    pub fired_within: [u64; 16],
    /// How late all timers that fired were together: the sum of that histogram.
    pub fired_lateness_sum: Duration,
    /// Wakers that panicked when the timer woke them. The panics were contained.
    pub waker_panics: u64,
    /// Inserts into maps on this timer that were rejected, because the map was closed or at its
    /// limit.
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
