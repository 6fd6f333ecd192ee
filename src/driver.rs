//! The driver: the one task that turns every wheel of a timer.
//!
//! ```text
//!             +---------------- woken by an arm, or asked to tick, or the interval has ticked -------------+
//!             v                                                                                            |
//!   turn: read the clock, publish (see `clock`), turn each shard         wait: until the next tick, or the earliest plan
//!         up to it in batches, wake what fired                                                             ^
//!             |                                                                                            |
//!             +---- ticking: the interval is `reset_at` the next tick -------------------------------------+
//!             +---- resting, some plan: the interval is `reset_at` it; none: there is no interval, parked --+
//!             |
//!             +---- every shard is gone: end                      dropped at any point: close all, wake all
//! ```
//!
//! Invariants:
//!
//! - The clock is read before any shard is turned, and the shards are turned to the floor of that reading.
//! - The driver holds its shards weakly. Who can still arm a timer, or has one pending, holds the shard strongly;
//!   when the last has let go (`shard::hold` tells who counts), the driver ends.
//! - While nothing is armed there is no tokio timer either, so neither a real nor a virtual clock is touched.
//! - Wakers are user code: they run outside every lock, and a panic in one stops neither the driver nor the batch.
//!
//! Between two batches the driver wakes itself and yields. It does not use tokio's `yield_now`: that defers to a
//! list of the worker which no other worker steals from, and a task that blocks would hold up every timer.
//! For the same reason it is not subject to tokio's cooperative budget, which defers too.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::clock::Clock;
use crate::mode::Mode;
use crate::shard::{BATCH, NEVER, Shard, Turned};
use crate::signal::Signal;
use crate::waking::wake_all;

/// What the driver lets others know of itself.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// How often it has waited and was woken, by an arm or by the time.
    pub(crate) wake_ups: AtomicU64,
    /// Set before the shards are closed, never cleared.
    pub(crate) ended: AtomicBool,
}

pub(crate) struct Driver {
    shards: Vec<Weak<Shard>>,
    clock: Arc<Clock>,
    signal: Arc<Signal>,
    progress: Arc<Progress>,
    /// What is due is woken from here; never holds anything outside a turn.
    wakers: Vec<Waker>,
    interval: Option<Interval>,
    mode: Mode,
    at_end: Option<Box<dyn FnOnce() + Send>>,
}

impl Driver {
    pub(crate) fn new(
        shards: &[Arc<Shard>],
        clock: Arc<Clock>,
        signal: Arc<Signal>,
        progress: Arc<Progress>,
    ) -> Driver {
        Driver {
            shards: shards.iter().map(Arc::downgrade).collect(),
            clock,
            signal,
            progress,
            wakers: Vec::with_capacity(BATCH),
            interval: None,
            mode: Mode::new(),
            at_end: None,
        }
    }

    /// Has `action` run when the driver has ended, however that came.
    pub(crate) fn at_end(&mut self, action: impl FnOnce() + Send + 'static) {
        self.at_end = Some(Box::new(action));
    }

    /// Runs the driver on a runtime until every shard is gone. If that runtime has shut down, the shards close now.
    pub(crate) fn spawn_on(self, handle: &Handle) {
        drop(handle.spawn(unconstrained(self.run())));
    }

    async fn run(mut self) {
        while let Some(plan) = self.turn().await {
            if !self.wait_until(plan).await {
                // Whatever made the wait end at once, others have their turn.
                yield_to_other_tasks().await;
            }
            self.progress.wake_ups.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Fires all that is due, and gives the tick of the next turn; `None` if no shard is left.
    async fn turn(&mut self) -> Option<u64> {
        let now = self.clock.current_tick();
        let ticking = self.mode.ticks(now, &self.clock);
        self.clock.publish(ticking.then_some(now));
        let plan = self.turn_shards(now).await?;
        Some(if ticking { now + 1 } else { plan })
    }

    /// Turns every shard up to `now`, and gives the earliest plan; `None` if no shard is left.
    async fn turn_shards(&mut self, now: u64) -> Option<u64> {
        loop {
            let mut plan = NEVER;
            let mut batch_full = false;
            let mut any_shard = false;
            // Wakers woken since the last yield, and never more than a batch of them.
            let mut woken = 0;
            for shard in &self.shards {
                let needed = shard.upgrade().filter(|shard| !shard.is_abandoned());
                let Some(shard) = needed else { continue };
                any_shard = true;
                match shard.turn(now, &mut self.wakers) {
                    Turned::Until(tick) => plan = plan.min(tick),
                    Turned::BatchFull => batch_full = true,
                }
                woken += self.wakers.len();
                wake_all(&mut self.wakers);
                if woken >= BATCH {
                    woken = 0;
                    yield_to_other_tasks().await;
                }
            }
            if !any_shard {
                return None;
            }
            if !batch_full {
                return Some(plan);
            }
            yield_to_other_tasks().await;
        }
    }

    /// Waits for the plan's tick to begin or for an arm that is due before it. `false` if there was nothing to wait for.
    async fn wait_until(&mut self, plan: u64) -> bool {
        self.plan_interval(plan);
        let mut woken = pin!(self.signal.woken());
        let interval = &mut self.interval;
        let mut waited = false;
        poll_fn(|cx| {
            if woken.as_mut().poll(cx).is_ready() {
                return Poll::Ready(waited);
            }
            let ticked = match interval {
                Some(interval) => interval.poll_tick(cx),
                None => Poll::Pending,
            };
            let ended_at_once = !std::mem::replace(&mut waited, true);
            ticked.map(|_| !ended_at_once)
        })
        .await
    }

    fn plan_interval(&mut self, plan: u64) {
        if plan == NEVER {
            self.interval = None;
            return;
        }
        let at = self.clock.start_of(plan);
        match &mut self.interval {
            Some(interval) => interval.reset_at(at),
            None => {
                let mut interval = interval_at(at, self.clock.tick().as_duration());
                interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
                self.interval = Some(interval);
            }
        }
    }
}

impl Drop for Driver {
    /// The runtime has gone, or the driver is not needed any more. Whoever waits is woken to find out.
    fn drop(&mut self) {
        self.progress.ended.store(true, Ordering::Release);
        self.clock.stop();
        let shards: Vec<_> = self.shards.iter().filter_map(Weak::upgrade).collect();
        for shard in shards {
            shard.retire();
            wake_all(&mut shard.close());
        }
        if let Some(action) = self.at_end.take() {
            action();
        }
    }
}

async fn yield_to_other_tasks() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
