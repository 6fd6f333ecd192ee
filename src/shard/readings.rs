//! How often callers read the clock while the driver rests: what decides when it is to tick.
//!
//! A reading costs tens of nanoseconds, a tick of the driver many microseconds: the time driver of
//! the runtime, a poll, a wake-up of the worker. Once more readings are made in a tick than a tick
//! costs, ticking is cheaper for all.
//!
//! Invariant: this is a gauge. Its count may miss some of two threads' readings at once, and
//! nothing but speed hangs on it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tick::{Moment, TickLength};

/// From so many counted readings in a tick on it pays to tick. A reading costs 23 ns, and the two
/// that a timer takes at rest count as one; a tick that wakes a parked worker costs 50 to 75 us.
/// And where a load comes in bursts, most ticks after one are for nothing.
const WORTH_A_TICK: u64 = 512;

#[derive(Debug)]
pub(crate) struct Readings {
    /// A stretch of time about as long as a tick, and how many readings fell into it.
    counted: AtomicU64,
    stretch_bits: u32,
    many: u64,
}

const COUNT_BITS: u32 = 16;

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

    /// Counts a reading; `true` when this makes them many, once in a stretch.
    pub(crate) fn count(&self, now: Moment) -> bool {
        let stretch = now.to_bits() >> self.stretch_bits << COUNT_BITS;
        let counted = self.counted.load(Ordering::Relaxed);
        let readings = match counted.checked_sub(stretch) {
            Some(readings) if readings < 1 << COUNT_BITS => {
                (readings + 1).min((1 << COUNT_BITS) - 1)
            }
            _ => 1,
        };
        self.counted.store(stretch | readings, Ordering::Relaxed);
        readings == self.many
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn many_readings_in_a_stretch_are_told_once_and_few_never() {
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
    }
}
