//! The timeout of a deadline in ticks, which a reset by a stamp needs.
//!
//! Invariant: no number of ticks reaches the mark, because the ticks saturate at half of the range
//! of moments.

use std::time::Duration;

use crate::time::tick::TickLength;

/// The timeout of a deadline in ticks, and whether it may count from a stamp, in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeoutTicks(u64);

/// Marks a timeout that must not count from a stamp.
const NOT_STAMPABLE: u64 = 1 << 63;

impl TimeoutTicks {
    pub(crate) fn new(timeout: Duration, tick: TickLength) -> TimeoutTicks {
        match tick.stampable_ticks(timeout) {
            Some(ticks) => TimeoutTicks(ticks),
            None => TimeoutTicks(tick.saturated_ticks(timeout) | NOT_STAMPABLE),
        }
    }

    #[inline]
    pub(crate) fn is_stampable(self) -> bool {
        self.0 & NOT_STAMPABLE == 0
    }

    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn from_bits(bits: u64) -> TimeoutTicks {
        TimeoutTicks(bits)
    }

    /// The timeout in ticks, rounded up.
    #[inline]
    pub(super) fn ticks(self) -> u64 {
        self.0 & !NOT_STAMPABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_keeps_its_ticks_beside_the_mark() {
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        for (duration, is_stampable, ticks) in [
            (Duration::ZERO, false, 0),
            (Duration::from_nanos(1), true, 1),
            (Duration::from_secs(30), true, 30_000),
            (Duration::MAX, false, tick.saturated_ticks(Duration::MAX)),
        ] {
            let timeout = TimeoutTicks::new(duration, tick);
            assert_eq!(timeout.is_stampable(), is_stampable, "{duration:?}");
            assert_eq!(timeout.ticks(), ticks, "{duration:?}");
            assert_eq!(TimeoutTicks::from_bits(timeout.to_bits()), timeout);
        }
    }
}
