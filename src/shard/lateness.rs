//! How late the timers of a shard fired, by powers of two of milliseconds.
//!
//! Lateness runs from a timer's due, or from its arming if that was later, to the batch that wakes
//! its task. It is counted under the shard's lock, as the timer fires.

use std::time::Duration;

/// The limits: 1, 2, 4, .. 32,768 ms.
pub(crate) const LIMITS: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FiredCounts {
    /// Entry `i` counts timers that were `2^(i-1)` to `2^i` ms late, the last one all later ones.
    by_lateness: [u64; LIMITS + 1],
    sum: u64,
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

    pub(crate) fn add(&mut self, other: &FiredCounts) {
        for (own, other) in self.by_lateness.iter_mut().zip(other.by_lateness) {
            *own += other;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    pub(crate) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_lateness.iter().sum()
    }

    /// How many timers were at most 1, 2, 4, .. ms late.
    pub(crate) fn cumulative(&self) -> [u64; LIMITS] {
        let mut sum = 0;
        std::array::from_fn(|limit| {
            sum += self.by_lateness[limit];
            sum
        })
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
            let expected = std::array::from_fn(|index| u64::from(index >= limit));
            assert_eq!(counts.cumulative(), expected, "{late:?}");
            assert_eq!(counts.total(), 1);
        }
    }

    #[test]
    fn the_counts_of_shards_add_up() {
        let mut all = FiredCounts::default();
        for late in [2, 600] {
            let mut shard = FiredCounts::default();
            shard.count(Duration::from_millis(late));
            all.add(&shard);
        }
        assert_eq!((all.total(), all.sum()), (2, Duration::from_millis(602)));
    }
}
