//! How late the driver comes to its turns: the worst of the last seconds.
//!
//! A turn is late by the time from the tick that its alarm was set for to the last timer that it
//! fires. Seconds are counted on the timer's clock.
//!
//! Invariant: only the running thread writes. A reader may see a second that is just being
//! replaced, and takes the number for what it is, a gauge. So all operations are Relaxed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::tick::Moment;

/// For how many seconds a lateness is kept.
pub(super) const SECONDS: usize = 10;

/// In each word the number of a second, and by how many ticks a turn of it was late at the most.
#[derive(Debug, Default)]
pub(super) struct WorstLateness([AtomicU64; SECONDS]);

const TICKS_BITS: u32 = 32;
const TICKS_MASK: u64 = (1 << TICKS_BITS) - 1;

impl WorstLateness {
    /// A turn was late by that many ticks.
    pub(super) fn note(&self, now: Moment, ticks: u64) {
        let second = now.since_epoch().as_secs();
        let word = &self.0[second as usize % SECONDS];
        let before = word.load(Ordering::Relaxed);
        let worst = if before >> TICKS_BITS == second {
            before & TICKS_MASK
        } else {
            0
        };
        let ticks = ticks.min(TICKS_MASK).max(worst);
        word.store(second << TICKS_BITS | ticks, Ordering::Relaxed);
    }

    /// By how many ticks a turn of the last seconds was late at the most.
    pub(super) fn worst(&self, now: Moment) -> u64 {
        let now = now.since_epoch().as_secs();
        let words = self.0.iter().map(|word| word.load(Ordering::Relaxed));
        let recent = words.filter(|word| now.saturating_sub(word >> TICKS_BITS) < SECONDS as u64);
        recent.map(|word| word & TICKS_MASK).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timer;
    use std::time::Duration;
    use tokio::time::{advance, sleep};

    #[test]
    fn the_worst_lateness_of_the_last_seconds_is_kept() {
        let lateness = WorstLateness::default();
        let at = |seconds| Moment::after_epoch(Duration::from_secs(seconds));
        assert_eq!(lateness.worst(at(0)), 0);
        lateness.note(at(0), 7);
        lateness.note(at(0), 3);
        lateness.note(at(5), 5);
        assert_eq!(lateness.worst(at(5)), 7);
        assert_eq!(lateness.worst(at(9)), 7);
        assert_eq!(lateness.worst(at(10)), 5);
        lateness.note(at(10), 1);
        assert_eq!(lateness.worst(at(14)), 5);
        assert_eq!(lateness.worst(at(15)), 1);
        assert_eq!(lateness.worst(at(20)), 0);
        lateness.note(at(20), u64::MAX);
        assert_eq!(lateness.worst(at(20)), TICKS_MASK);
    }

    #[tokio::test(start_paused = true)]
    async fn the_driver_reports_its_worst_lateness_for_ten_seconds() {
        const MS: Duration = Duration::from_millis(1);
        let timer = Timer::new();
        let deadline = timer.deadline(10 * MS);
        advance(15 * MS).await;
        assert_eq!(timer.metrics().lateness, 5 * MS);
        let again = timer.deadline(5 * MS);
        sleep(20 * MS).await;
        assert_eq!(timer.metrics().wake_ups, 2);
        assert_eq!(timer.metrics().lateness, 5 * MS);
        sleep(10_000 * MS).await;
        assert_eq!(timer.metrics().lateness, Duration::ZERO);
        drop((deadline, again));
    }
}
