//! One turn of all wheels.
//!
//! ```text
//!   read the clock, publish (see `time::clock`), turn the shards up to that reading, a batch of each one after the other, wake what fired
//! ```
//!
//! Invariants:
//!
//! - The clock is read before any shard is turned, and the shards are turned to the floor of that
//!   reading. `P1` to `P4` are the steps of the proof in `time`.
//! - Wakers are user code. They run outside every lock, and a panic in one stops neither the turn
//!   nor the batch. They run where tokio's own timers run theirs. So a waker that blocks holds up
//!   what it would hold up with tokio.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use super::mode::Mode;
use crate::shard::{BATCH, Shard, ShardTurned};
use crate::time::clock::Clock;
use crate::time::tick::{Moment, NEVER};
use crate::waking::wake_all;

/// A turn that was made.
#[derive(Debug)]
pub(super) struct Turned {
    /// The tick of the next one.
    pub(super) next: u64,
    /// It fired more than a batch of some shard.
    pub(super) is_long: bool,
}

pub(super) struct Turner {
    /// A shard is dropped once nobody can arm on it any more and nothing is armed in it.
    shards: Box<[Weak<Shard>]>,
    clock: Arc<Clock>,
    mode: Mode,
    /// The turn wakes what is due from here. Outside a turn it is empty.
    wakers: Vec<Waker>,
}

impl Turner {
    pub(super) fn new(shards: &[Arc<Shard>], clock: Arc<Clock>, mode: Mode) -> Turner {
        Turner {
            shards: shards.iter().map(Arc::downgrade).collect(),
            clock,
            mode,
            wakers: Vec::with_capacity(BATCH),
        }
    }

    /// Begins to tick, if that was asked for and is better, and returns the tick of the next turn.
    /// It turns no shard, so any thread may do it.
    pub(super) fn begin_to_tick(&mut self) -> Option<u64> {
        let now = self.clock.current_tick();
        self.ticks().then(|| {
            self.clock.publish(Some(now));
            now + 1
        })
    }

    /// Turns every shard up to `now`, the floor of a reading that the caller took (P1).
    pub(super) fn turn(&mut self, now: u64) -> Turned {
        let ticking = self.ticks();
        // P2 and P3.
        self.clock.publish(ticking.then_some(now));
        // P4.
        let (expiry, is_long) = self.turn_shards(now);
        Turned {
            next: if ticking { now + 1 } else { expiry },
            is_long,
        }
    }

    fn ticks(&mut self) -> bool {
        let is_wanted = self.clock.take_ticking_wanted();
        let looks = self.clock.take_looks();
        self.mode
            .ticks(is_wanted, looks, || self.clock.is_virtual())
    }

    /// Turns every shard up to `now`, a batch of each by turns, so that none waits for all of
    /// another. Returns the earliest expiry, and whether some shard had more than a batch. A pass
    /// fires all that is due, as tokio's does: work that was left for a task would wait in a run
    /// queue, behind tasks that are always ready.
    fn turn_shards(&mut self, now: u64) -> (u64, bool) {
        let mut is_long = false;
        loop {
            let mut expiry = NEVER;
            let mut is_finished = true;
            for shard in self.shards.iter().filter_map(Weak::upgrade) {
                match shard.turn(now, &mut self.wakers) {
                    ShardTurned::Until(tick) => expiry = expiry.min(tick),
                    ShardTurned::BatchFull => is_finished = false,
                }
                drop(shard);
                wake_all(&mut self.wakers);
            }
            if is_finished {
                return (expiry, is_long);
            }
            is_long = true;
        }
    }

    /// The earliest expiry of all shards.
    pub(super) fn earliest_expiry(&self) -> u64 {
        let expiries = self.shards().map(|shard| shard.next_expiry());
        expiries.min().unwrap_or(NEVER)
    }

    /// Closes every shard, for ever, and wakes every task that waits.
    pub(super) fn close(self) {
        // One moment for all shards, also for what is armed meanwhile.
        let at = self.clock.stop();
        for shard in self.shards() {
            wake_all(&mut shard.close(at));
        }
    }

    fn shards(&self) -> impl Iterator<Item = Arc<Shard>> + '_ {
        self.shards.iter().filter_map(Weak::upgrade)
    }
}

// How late the driver comes to its turns: the worst of the last seconds.
//
// A turn is late by the time from the tick that its alarm was set for to the last timer that it
// fires. Seconds are counted on the timer's clock.
//
// Invariant: only the running thread writes. A reader may see a second that is just being replaced,
// and takes the number for what it is, a gauge. So all operations are Relaxed.

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
    use crate::driver::Driver;
    use crate::time::clock::Clock;
    use crate::time::tick::TickLength;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::runtime::Handle;
    use tokio::time::{Instant, advance, sleep};

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

    /// Two threads tell the driver in the wrong order: of an expiry, and that it was deferred.
    #[tokio::test(start_paused = true)]
    async fn an_expiry_that_was_deferred_pulls_no_virtual_time_along() {
        let runtime = Handle::current();
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(&runtime, tick, Instant::now());
        let driver = Arc::new(Driver::new(Arc::new(clock), false));
        driver.begin(&[], &runtime);
        driver.need_not_come_at(10);
        driver.come_by(10);
        sleep(Duration::from_millis(20)).await;
        assert_eq!(driver.wake_ups(), 0);
    }
}
