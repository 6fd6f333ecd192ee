//! The log of late windows: by how much the window of a stamp ended later than it should.
//!
//! Invariant: for a stamp whose window has ended, `lateness` is at least by how many ticks that was after
//! `stamp + WINDOW`. It is exact for recent ones. The log is bounded: when it is full, the older half of it is merged
//! pair by pair, each pair to its worst, and the stamps between the two with it. So the older a stamp is, the coarser
//! is its answer, and always on the side of firing later.

use crate::due::WINDOW;

/// So many ranges at most, of 24 bytes each. A stall is one range, so this is many seconds of a driver that is late
/// at every other tick.
const CAPACITY: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct LateWindows {
    /// In the order of their stamps, not overlapping.
    ranges: Vec<Range>,
}

/// Stamps and by how many ticks the worst of their windows ended late.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    last: u64,
    lateness: u64,
}

impl LateWindows {
    /// Notes that the window of `stamp` has ended before tick `end` began. Stamps come in order; one may come again,
    /// if it was published twice, and then the later end counts.
    pub(crate) fn ended(&mut self, stamp: u64, end: u64) {
        let lateness = end.saturating_sub(stamp + WINDOW);
        if lateness == 0 {
            return;
        }
        match self.ranges.last_mut() {
            Some(range) if range.last >= stamp => range.lateness = range.lateness.max(lateness),
            _ => self.ranges.push(Range {
                first: stamp,
                last: stamp,
                lateness,
            }),
        }
        if self.ranges.len() == CAPACITY {
            self.merge_the_older_half();
        }
    }

    /// By how many ticks the window of `stamp` ended late.
    pub(crate) fn lateness(&self, stamp: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.first <= stamp);
        match after.checked_sub(1).map(|index| self.ranges[index]) {
            Some(range) if stamp <= range.last => range.lateness,
            _ => 0,
        }
    }

    fn merge_the_older_half(&mut self) {
        let newer = self.ranges.split_off(CAPACITY / 2);
        let merged: Vec<Range> = self
            .ranges
            .chunks(2)
            .map(|pair| Range {
                first: pair[0].first,
                last: pair[pair.len() - 1].last,
                lateness: pair.iter().map(|range| range.lateness).max().unwrap_or(0),
            })
            .collect();
        self.ranges = merged;
        self.ranges.extend(newer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_answer_is_never_less_than_the_lateness_and_exact_for_recent_stamps(
            steps in proptest::collection::vec((1..4_u64, 0..20_u64), 1..5_000),
        ) {
            let mut log = LateWindows::default();
            let mut ended = Vec::new();
            let mut stamp = 0;
            for (step, late) in steps {
                stamp += step;
                let end = stamp + WINDOW + late.saturating_sub(10);
                log.ended(stamp, end);
                ended.push((stamp, end - WINDOW - stamp));
            }
            for (age, &(stamp, lateness)) in ended.iter().rev().enumerate() {
                prop_assert!(log.lateness(stamp) >= lateness);
                if age < CAPACITY / 2 {
                    prop_assert_eq!(log.lateness(stamp), lateness);
                }
            }
            prop_assert!(log.ranges.len() < CAPACITY);
            prop_assert!(log.ranges.windows(2).all(|pair| pair[0].last < pair[1].first));
            prop_assert_eq!(log.lateness(stamp + 1), 0);
        }
    }

    #[test]
    fn of_two_windows_of_one_stamp_the_later_end_counts() {
        let mut log = LateWindows::default();
        log.ended(10, 20);
        log.ended(10, 17);
        log.ended(10, 25);
        assert_eq!(log.lateness(10), 13);
        log.ended(11, 13);
        assert_eq!((log.lateness(9), log.lateness(11)), (0, 0));
    }
}
