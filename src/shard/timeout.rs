//! The timeout of a deadline in ticks, which a reset by a stamp needs.
//!
//! Invariant: no number of ticks reaches the mark, because the ticks saturate at half of the range
//! of moments.

use std::time::Duration;

use crate::time::tick::TickLength;

/// The timeout of a deadline in ticks, and whether it may count from a stamp, in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout(u64);

/// Marks a timeout that must not count from a stamp.
const NOT_STAMPABLE: u64 = 1 << 63;

impl Timeout {
    pub(crate) fn new(timeout: Duration, tick: TickLength) -> Timeout {
        match tick.stampable_ticks(timeout) {
            Some(ticks) => Timeout(ticks),
            None => Timeout(tick.saturated_ticks(timeout) | NOT_STAMPABLE),
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
    pub(super) fn from_bits(bits: u64) -> Timeout {
        Timeout(bits)
    }

    /// The timeout in ticks, rounded up.
    #[inline]
    pub(super) fn ticks(self) -> u64 {
        self.0 & !NOT_STAMPABLE
    }
}
