//! How late the timers of a shard fired, by powers of two of milliseconds.
//!
//! Lateness runs to the batch that wakes the timer's task. It begins at the due, at the end of the
//! grace, or at the arming if that was later. It is counted under the shard's lock, as the timer
//! fires.

use std::time::Duration;

/// How many bounds there are: 1, 2, 4, .. 32,768 ms.
const LIMITS: usize = 16;

/// Timers that fired, by how late they were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FiredCounts {
    /// Entry 0 counts timers at most 1 ms late, entry `i` those `2^(i-1)` to `2^i` ms late, the
    /// last one all later ones.
    pub(crate) by_lateness: [u64; LIMITS + 1],
    /// How late they were together, in nanoseconds.
    pub(crate) sum: u64,
}

impl FiredCounts {
    /// Counts a timer that fired this long after its due.
    #[inline]
    pub(crate) fn count(&mut self, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        let begun = nanos.div_ceil(1_000_000).max(1);
        let limit = u64::BITS - (begun - 1).leading_zeros();
        self.by_lateness[(limit as usize).min(LIMITS)] += 1;
        self.sum = self.sum.saturating_add(nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_counts_from_the_first_limit_that_it_keeps_on() {
        const MS: Duration = Duration::from_millis(1);
        const NANO: Duration = Duration::from_nanos(1);
        for (late, limit) in [
            (Duration::ZERO, 0),
            (MS, 0),
            (MS + NANO, 1),
            (2 * MS, 1),
            (2 * MS + NANO, 2),
            (600 * MS, 10),
            (32_768 * MS, 15),
            (32_768 * MS + NANO, 16),
            (Duration::MAX, 16),
        ] {
            let mut counts = FiredCounts::default();
            counts.count(late);
            let expected = std::array::from_fn(|index| u64::from(index == limit));
            assert_eq!(counts.by_lateness, expected, "{late:?}");
        }
    }
}
