//! How often callers read the clock while the driver rests. This decides when the driver ticks.
//!
//! A reading costs tens of nanoseconds. A tick of the driver costs many microseconds: for the time
//! driver of the runtime, for a poll, and for a wake-up of the worker. Once the readings in a tick
//! cost more than a tick, ticking is cheaper for all.
//!
//! Invariant: this is a gauge. If two threads read at once, its count may miss some readings.
//! Nothing but speed hangs on it, and so its atomic operations are Relaxed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::tick::{Moment, TickLength};

/// It pays to tick if each of two stretches in a row has this many counted readings.
///
/// A reading costs 23 ns. A tick that wakes a parked worker costs 50 to 75 us. It costs a fraction
/// of that where workers are awake anyway, as they are under a load that lasts.
const WORTH_A_TICK: u64 = 512;

/// A burst is over before the first tick has paid, unless it is this many times as large.
const LARGE_BURST: u64 = 4;

#[derive(Debug)]
pub(crate) struct Readings {
    /// The number of a stretch of time, whether the stretch before it had many readings, and how
    /// many readings fell into it. A stretch is about half as long as a tick.
    counted: AtomicU64,
    stretch_bits: u32,
    many: u64,
}

const COUNT_BITS: u32 = 15;
const MOST: u64 = (1 << COUNT_BITS) - 1;
/// The stretch before had many readings.
const SECOND: u64 = 1 << COUNT_BITS;

impl Readings {
    /// The readings of one shard, for a timer that has this many shards.
    pub(crate) fn new(tick: TickLength, shards: usize) -> Readings {
        let nanos = u64::try_from(tick.as_duration().as_nanos()).unwrap_or(u64::MAX);
        let many = WORTH_A_TICK / (shards as u64).max(1);
        Readings {
            counted: AtomicU64::new(0),
            stretch_bits: nanos.ilog2(),
            many: many.max(16),
        }
    }

    /// Counts a reading. `true` if this one makes the readings many in a second stretch, or a large
    /// burst. Each happens once in a stretch.
    pub(crate) fn count(&self, now: Moment) -> bool {
        let stretch = now.to_bits() >> self.stretch_bits;
        let counted = self.counted.load(Ordering::Relaxed);
        let before = counted >> (COUNT_BITS + 1);
        let (second, readings) = if stretch == before {
            (counted & SECOND, (counted & MOST) + 1)
        } else {
            let had_many = stretch == before + 1 && counted & MOST >= self.many;
            (if had_many { SECOND } else { 0 }, 1)
        };
        let counted = stretch << (COUNT_BITS + 1) | second | readings.min(MOST);
        self.counted.store(counted, Ordering::Relaxed);
        let is_lasting = readings == self.many && second == SECOND;
        is_lasting || readings == LARGE_BURST * self.many
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn many_lasting_readings_are_told_but_few_or_bursts_are_not() {
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let readings = Readings::new(tick, 1);
        let at = |nanos| Moment::after_epoch(Duration::from_nanos(nanos));
        let told = |from: u64, step: u64| {
            (0..100_000)
                .filter(|n| readings.count(at(from + n * step)))
                .count()
        };
        assert_eq!(told(0, 0), 1, "a clock that stands still");
        assert_eq!(told(1 << 40, 5_000), 0, "five microseconds apart");
        assert!(told(1 << 41, 500) > 10, "half a microsecond apart");
        // Each burst is followed by a pause.
        let bursts = (0..100_000_u64).map(|n| (1 << 42) + n / 2_000 * 2_000_000 + n % 2_000);
        assert_eq!(bursts.filter(|&nanos| readings.count(at(nanos))).count(), 0);
    }
}
