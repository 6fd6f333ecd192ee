//! [`Metrics`]: what a timer holds and has done, in numbers.
//!
//! Invariant: `armed` is the sum of `pending`, `fired` and `disarmed`. Each shard is read at one
//! moment, under its lock.

use std::time::Duration;

use crate::shard::Counts;

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
    /// How often the driver's alarm has woken it.
    pub wake_ups: u64,
    /// How late the driver came to the last turn that its alarm has asked for, in whole ticks. It
    /// is great after a stall: something has blocked the runtime's time driver.
    pub lateness: Duration,
    /// Whether the driver ticks now, so that arming and resetting read no clock. It ticks under a
    /// load of very many operations.
    pub ticking: bool,
}

impl Metrics {
    pub(crate) fn new(
        shards: impl Iterator<Item = Counts>,
        wake_ups: u64,
        lateness: Duration,
        ticking: bool,
    ) -> Metrics {
        let mut metrics = Metrics {
            wake_ups,
            lateness,
            ticking,
            ..Metrics::default()
        };
        for Counts {
            pending,
            armed,
            fired,
        } in shards
        {
            metrics.shards += 1;
            metrics.pending += pending;
            metrics.armed += armed;
            metrics.fired += fired;
            metrics.disarmed += armed - fired - pending as u64;
        }
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_disarmed_is_what_neither_fired_nor_is_pending() {
        let shards = [(3, 10, 5), (0, 0, 0), (1, 1, 0)];
        let counts = shards.map(|(pending, armed, fired)| Counts {
            pending,
            armed,
            fired,
        });
        let metrics = Metrics::new(counts.into_iter(), 7, Duration::from_millis(3), true);
        let expected = Metrics {
            shards: 3,
            pending: 4,
            armed: 11,
            fired: 5,
            disarmed: 2,
            wake_ups: 7,
            lateness: Duration::from_millis(3),
            ticking: true,
        };
        assert_eq!(metrics, expected);
    }
}
