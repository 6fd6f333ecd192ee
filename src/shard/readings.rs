//! How often callers read the clock while the driver rests: what decides when it is to tick.
//!
//! A reading costs tens of nanoseconds, a tick of the driver many microseconds: the time driver of
//! the runtime, a poll, a wake-up of the worker. Once more readings are made in a tick than a tick
//! costs, ticking is cheaper for all.
//!
//! Invariant: this is a gauge. Its count may miss some of two threads' readings at once, and
//! nothing but speed hangs on it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::tick::{Moment, TickLength};

/// From so many counted readings in each of two stretches on it pays to tick. A reading costs 23
/// ns; a tick that wakes a parked worker costs 50 to 75 us, and a fraction of that where workers
/// are awake anyway, as under a load that lasts. A burst is over before the first tick has paid,
/// unless it is this many times as large.
const WORTH_A_TICK: u64 = 512;
const LARGE_BURST: u64 = 4;

#[derive(Debug)]
pub(crate) struct Readings {
    /// A stretch of time about half as long as a tick, whether the one before it had many readings,
    /// and how many fell into it.
    counted: AtomicU64,
    stretch_bits: u32,
    many: u64,
}

const COUNT_BITS: u32 = 15;
const MOST: u64 = (1 << COUNT_BITS) - 1;
/// The stretch before had many.
const SECOND: u64 = 1 << COUNT_BITS;

impl Readings {
    /// For one of so many shards.
    pub(crate) fn new(tick: TickLength, shards: usize) -> Readings {
        let nanos = u64::try_from(tick.as_duration().as_nanos()).unwrap_or(u64::MAX);
        let many = WORTH_A_TICK / (shards as u64).max(1);
        Readings {
            counted: AtomicU64::new(0),
            stretch_bits: nanos.ilog2(),
            many: many.max(16),
        }
    }

    /// Counts a reading; `true` when this makes them many in a second stretch, or a large burst:
    /// once in a stretch each.
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
    fn many_readings_that_last_are_told_once_in_a_stretch_and_few_or_bursts_never() {
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
        // So many at once, with a pause after them.
        let bursts = (0..100_000_u64).map(|n| (1 << 42) + n / 2_000 * 2_000_000 + n % 2_000);
        assert_eq!(bursts.filter(|&nanos| readings.count(at(nanos))).count(), 0);
    }
}
