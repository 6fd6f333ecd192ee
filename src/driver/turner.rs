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
//!   nor the batch. They run where tokio's own timers run theirs, or in a task of the runtime. So a
//!   waker that blocks holds up what it would hold up with tokio.

use std::sync::{Arc, Weak};
use std::task::Waker;

use super::mode::Mode;
use crate::shard::{BATCH, Shard, ShardTurned};
use crate::time::clock::Clock;
use crate::time::tick::NEVER;
use crate::waking::wake_all;

/// A turn fires or cascades at most this many timers. This is some hundred microseconds of work,
/// for which others wait.
const STRETCH: usize = 2 * BATCH;

/// A turn that was made.
#[derive(Debug)]
pub(super) struct Turned {
    /// The tick at which it began.
    pub(super) began: u64,
    pub(super) came_to: CameTo,
}

/// What a turn came to.
#[derive(Debug)]
pub(super) enum CameTo {
    /// All that was due is dealt with, and the next turn is at this tick.
    Until(u64),
    /// There may be more.
    Unfinished,
}

pub(super) struct Turner {
    /// A shard is dropped once nobody can arm on it any more and nothing is armed in it.
    shards: Box<[Weak<Shard>]>,
    clock: Arc<Clock>,
    mode: Mode,
    /// Which shard is turned next.
    next_shard: usize,
    /// The turn wakes what is due from here. Outside a turn it is empty.
    wakers: Vec<Waker>,
}

impl Turner {
    pub(super) fn new(shards: &[Arc<Shard>], clock: Arc<Clock>, mode: Mode) -> Turner {
        Turner {
            shards: shards.iter().map(Arc::downgrade).collect(),
            clock,
            mode,
            next_shard: 0,
            wakers: Vec::with_capacity(BATCH),
        }
    }

    /// Begins to tick, if that was asked for and is better, and gives the tick of the next turn. It
    /// turns no shard, so any thread may do it.
    pub(super) fn begin_to_tick(&mut self) -> Option<u64> {
        let now = self.clock.current_tick();
        self.ticks(now).then(|| {
            self.clock.publish(Some(now));
            now + 1
        })
    }

    pub(super) fn turn(&mut self) -> Turned {
        // P1.
        let now = self.clock.current_tick();
        let ticking = self.ticks(now);
        // P2 and P3.
        self.clock.publish(ticking.then_some(now));
        // P4.
        let came_to = match self.turn_shards(now) {
            CameTo::Until(_) if ticking => CameTo::Until(now + 1),
            came_to => came_to,
        };
        Turned {
            began: now,
            came_to,
        }
    }

    fn ticks(&mut self, now: u64) -> bool {
        let is_wanted = self.clock.take_ticking_wanted();
        self.mode.ticks(now, is_wanted, || self.clock.is_virtual())
    }

    fn turn_shards(&mut self, now: u64) -> CameTo {
        let mut left = STRETCH;
        loop {
            let mut plan = NEVER;
            let mut batch_full = false;
            for _ in 0..self.shards.len() {
                let shard = self.shards[self.next_shard].upgrade();
                // The next turn goes on where this one stops. Otherwise a shard could wait for the
                // others for ever.
                self.next_shard = (self.next_shard + 1) % self.shards.len();
                let Some(shard) = shard else { continue };
                let work = match shard.turn(now, &mut self.wakers) {
                    ShardTurned::Until(tick) => {
                        plan = plan.min(tick);
                        self.wakers.len()
                    }
                    ShardTurned::BatchFull => {
                        batch_full = true;
                        BATCH
                    }
                };
                drop(shard);
                wake_all(&mut self.wakers);
                left = left.saturating_sub(work);
                if left < BATCH {
                    // Another batch could be more than a stretch.
                    return CameTo::Unfinished;
                }
            }
            if !batch_full {
                return CameTo::Until(plan);
            }
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
            shard.retire();
            wake_all(&mut shard.close(at));
        }
    }

    fn shards(&self) -> impl Iterator<Item = Arc<Shard>> + '_ {
        self.shards.iter().filter_map(Weak::upgrade)
    }
}
