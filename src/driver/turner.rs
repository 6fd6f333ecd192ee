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
use crate::shard::{BATCH, Shard, ShardTurned};
use crate::time::clock::Clock;
use crate::time::tick::NEVER;
use crate::waking::wake_all;

/// A turn that was made.
#[derive(Debug)]
pub(super) struct Turned {
    /// The tick at which it began.
    pub(super) began: u64,
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

    pub(super) fn turn(&mut self) -> Turned {
        // P1.
        let now = self.clock.current_tick();
        let ticking = self.ticks();
        // P2 and P3.
        self.clock.publish(ticking.then_some(now));
        // P4.
        let (plan, is_long) = self.turn_shards(now);
        Turned {
            began: now,
            next: if ticking { now + 1 } else { plan },
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
    /// another. Returns the earliest plan, and whether some shard had more than a batch. A pass
    /// fires all that is due, as tokio's does: work that was left for a task would wait in a run
    /// queue, behind tasks that are always ready.
    fn turn_shards(&mut self, now: u64) -> (u64, bool) {
        let mut is_long = false;
        loop {
            let mut plan = NEVER;
            let mut is_finished = true;
            for shard in self.shards.iter().filter_map(Weak::upgrade) {
                match shard.turn(now, &mut self.wakers) {
                    ShardTurned::Until(tick) => plan = plan.min(tick),
                    ShardTurned::BatchFull => is_finished = false,
                }
                drop(shard);
                wake_all(&mut self.wakers);
            }
            if is_finished {
                return (plan, is_long);
            }
            is_long = true;
        }
    }

    /// The earliest plan of all shards.
    pub(super) fn earliest_plan(&self) -> u64 {
        let plans = self.shards().map(|shard| shard.plan());
        plans.min().unwrap_or(NEVER)
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
