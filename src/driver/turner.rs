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

use std::sync::{Arc, Weak};
use std::task::Waker;

use super::mode::Mode;
use super::{Driver, Fired};
use crate::shard::{BATCH, Shard, ShardTurned};
use crate::time::clock::Clock;
use crate::time::tick::{Moment, NEVER};
use crate::waking::Reporter;

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

    /// Turns every shard up to the floor of `at`, a reading that the caller took (P1).
    pub(super) fn turn(&mut self, at: Moment, driver: &Driver) -> Turned {
        let now = self.clock.tick().current(at);
        let ticking = self.ticks();
        // P2 and P3.
        self.clock.publish(ticking.then_some(now));
        // P4.
        let (expiry, is_long) = self.turn_shards(at, driver);
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
    fn turn_shards(&mut self, mut at: Moment, driver: &Driver) -> (u64, bool) {
        let now = self.clock.tick().current(at);
        let mut is_long = false;
        loop {
            let mut expiry = NEVER;
            let mut is_finished = true;
            for shard in self.shards.iter().filter_map(Weak::upgrade) {
                let mut fired = Fired::new(driver.fired_late(), self.clock.tick(), at);
                match shard.turn(now, &mut self.wakers, &mut fired) {
                    ShardTurned::Until(tick) => expiry = expiry.min(tick),
                    ShardTurned::BatchFull => is_finished = false,
                }
                drop(shard);
                drop(fired);
                driver.reporter().wake_all(&mut self.wakers);
            }
            if is_finished {
                return (expiry, is_long);
            }
            is_long = true;
            at = self.clock.now();
        }
    }

    /// The earliest expiry of all shards.
    pub(super) fn earliest_expiry(&self) -> u64 {
        let expiries = self.shards().map(|shard| shard.next_expiry());
        expiries.min().unwrap_or(NEVER)
    }

    /// Closes every shard, for ever, and wakes every task that waits.
    pub(super) fn close(self, reporter: &Reporter) {
        // One moment for all shards, also for what is armed meanwhile.
        let at = self.clock.stop();
        for shard in self.shards() {
            reporter.wake_all(&mut shard.close(at));
        }
    }

    fn shards(&self) -> impl Iterator<Item = Arc<Shard>> + '_ {
        self.shards.iter().filter_map(Weak::upgrade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::time::clock::Clock;
    use crate::time::tick::TickLength;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::runtime::Handle;
    use tokio::time::{Instant, sleep};

    /// Two threads tell the driver in the wrong order: of an expiry, and that it was deferred.
    #[tokio::test(start_paused = true)]
    async fn an_expiry_that_was_deferred_pulls_no_virtual_time_along() {
        let runtime = Handle::current();
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(&runtime, tick, Instant::now());
        let driver = Arc::new(Driver::new(Arc::new(clock), false, Reporter::default()));
        driver.begin(&[], &runtime);
        driver.need_not_come_at(10);
        driver.come_by(10);
        sleep(Duration::from_millis(20)).await;
        assert_eq!(driver.wake_ups(), 0);
    }
}
