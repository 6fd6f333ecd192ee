//! The driver: the one task that turns every wheel of a timer.
//!
//! ```text
//!             +---------------- woken by an arm, or asked to tick, or the interval has ticked -------------+
//!             v                                                                                            |
//!   turn (see `turner`)                                                  wait: until the next tick, or the earliest plan
//!             |                                                                                            ^
//!             +---- ticking: the interval is `reset_at` the next tick -------------------------------------+
//!             +---- resting, some plan: the interval is `reset_at` it; none: there is no interval, parked --+
//!             |
//!             +---- not finished: yield, and turn again
//!             +---- every shard is gone: end                      dropped at any point: close all, wake all
//! ```
//!
//! When the interval ticks, the turn is made at once, where tokio's own timers fire: while a worker of the runtime waits for
//! events. The runtime's tasks that are woken there are queued together, and another worker is told of them once. What a task
//! wakes is announced one by one, and each time a worker is unparked for a single task and parks again. The driver's task is
//! then woken too; it wakes what is no task of tokio's, goes on where that turn left off, and plans the next. (When the
//! interval is reset to a time that has passed, it ticks within the driver's task; then the turn is made there.)
//!
//! Invariants:
//!
//! - One turn is made at a time. Whoever wants to turn takes the [`Turner`] from its [`Seat`]; if it is not there, somebody is
//!   turning, and the task is woken after that, or the driver has ended.
//! - The driver holds its shards weakly. Who can still arm a timer, or has one pending, holds the shard strongly;
//!   when the last has let go (`shard::hold` tells who counts), the driver ends.
//! - While nothing is armed there is no tokio timer either, so neither a real nor a virtual clock is touched.
//!
//! Between two stretches of a turn the driver wakes itself and yields. It does not use tokio's `yield_now`: that defers to a
//! list of the worker which no other worker steals from, and a task that blocks would hold up every timer.
//! For the same reason it is not subject to tokio's cooperative budget, which defers too.

mod turner;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};

use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::clock::Clock;
use crate::shard::{NEVER, Shard};
use crate::signal::Signal;
use turner::{Seat, Turned, Turner};

/// What the driver lets others know of itself.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// How often it was woken after it had planned to wait, by an arm or by the time.
    pub(crate) wake_ups: AtomicU64,
    /// Set before the shards are closed, never cleared.
    pub(crate) ended: AtomicBool,
}

pub(crate) struct Driver {
    seat: Arc<Seat>,
    clock: Arc<Clock>,
    signal: Arc<Signal>,
    progress: Arc<Progress>,
    interval: Option<Interval>,
    /// What the interval wakes.
    turning: Arc<TurnAtOnce>,
    at_end: Option<Box<dyn FnOnce() + Send>>,
}

impl Driver {
    pub(crate) fn new(
        shards: &[Arc<Shard>],
        clock: Arc<Clock>,
        signal: Arc<Signal>,
        progress: Arc<Progress>,
    ) -> Driver {
        let seat = Arc::new(Seat::new(Turner::new(shards, clock.clone())));
        let turning = Arc::new(TurnAtOnce {
            seat: seat.clone(),
            signal: signal.clone(),
            of_a_task: OnceLock::new(),
            has_stretched: AtomicBool::new(false),
        });
        Driver {
            seat,
            clock,
            signal,
            progress,
            interval: None,
            turning,
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
        let of_a_task = poll_fn(|cx| Poll::Ready(cx.waker().vtable())).await;
        let _ = self.turning.of_a_task.set(of_a_task);
        loop {
            if self.turning.has_stretched.swap(false, Ordering::Relaxed) {
                yield_to_other_tasks().await;
            }
            match self.seat.turn() {
                Some(Turned::Until(plan)) => {
                    if !self.wait_until(plan).await {
                        // Whatever made the wait end at once, others have their turn.
                        yield_to_other_tasks().await;
                    }
                    self.progress.wake_ups.fetch_add(1, Ordering::Relaxed);
                }
                Some(Turned::Unfinished) => yield_to_other_tasks().await,
                Some(Turned::NoShardLeft) => return,
                // It is being turned; whoever does it says when it is done.
                None => self.signal.woken().await,
            }
        }
    }

    /// Waits for the plan's tick to begin or for an arm that is due before it. `false` if there was nothing to wait for.
    async fn wait_until(&mut self, plan: u64) -> bool {
        self.plan_interval(plan);
        let mut woken = pin!(self.signal.woken());
        let interval = &mut self.interval;
        let turning = Waker::from(self.turning.clone());
        let mut waited = false;
        poll_fn(|cx| {
            if woken.as_mut().poll(cx).is_ready() {
                return Poll::Ready(waited);
            }
            let ticked = match interval {
                Some(interval) => interval.poll_tick(&mut Context::from_waker(&turning)),
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
        self.seat.end();
        if let Some(action) = self.at_end.take() {
            action();
        }
    }
}

/// Turns where it is woken, and has the task plan the next turn.
struct TurnAtOnce {
    seat: Arc<Seat>,
    signal: Arc<Signal>,
    /// What the wakers of tokio's tasks have in common.
    of_a_task: OnceLock<&'static RawWakerVTable>,
    /// There is more to be done, but first others have their turn.
    has_stretched: AtomicBool,
}

impl Wake for TurnAtOnce {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let turned = match self.of_a_task.get() {
            Some(of_a_task) => self.seat.turn_in_place(of_a_task),
            None => None,
        };
        if let Some(Turned::Unfinished) = turned {
            self.has_stretched.store(true, Ordering::Relaxed);
        }
        // Out of the LIFO slot too: this worker may take a task from the runtime's common queue before it, and that may block.
        self.signal.wake_driver();
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
