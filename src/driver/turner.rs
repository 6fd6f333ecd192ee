//! One turn of all wheels, and the seat of who makes it.
//!
//! ```text
//!   read the clock, publish (see `clock`), turn each shard up to that reading, a batch of each by turns, wake what fired
//! ```
//!
//! Invariants:
//!
//! - The clock is read before any shard is turned, and the shards are turned to the floor of that reading.
//! - Wakers are user code: they run outside every lock, also that of the seat, and a panic in one stops neither the
//!   turn nor the batch. While the runtime runs, those that are not of tokio's own tasks are woken from the driver's task
//!   alone: within tokio's timers they would find a runtime that can do less than they are used to. (A task of a
//!   `LocalSet` counts as tokio's, and wakes whoever polls that set.)
//! - When the driver ends, the shards are closed once: then and there, or by whoever is turning them, afterwards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{RawWakerVTable, Waker};

use crate::clock::Clock;
use crate::mode::Mode;
use crate::shard::{BATCH, NEVER, Shard, ShardTurned};
use crate::waking::{wake, wake_all};

/// So many timers at most are fired or cascaded in one turn: some hundred microseconds of work, for which others wait.
const STRETCH: usize = 2 * BATCH;

/// What a turn came to.
#[derive(Debug)]
pub(super) enum Turned {
    /// All that was due is dealt with, and the next turn is at this tick.
    Until(u64),
    /// There may be more.
    Unfinished,
    NoShardLeft,
}

/// Where the turner is while nobody turns.
pub(super) struct Seat(Mutex<Sitting>);

enum Sitting {
    Here(Turner),
    Turning,
    Ended,
}

impl Seat {
    pub(super) fn new(turner: Turner) -> Seat {
        Seat(Mutex::new(Sitting::Here(turner)))
    }

    /// Makes a turn; `None` if one is being made, or the driver has ended.
    pub(super) fn turn(&self) -> Option<Turned> {
        let mut turning = Turning::begin(self)?;
        turning.turner().wake_those_left();
        Some(turning.turner().turn(wake))
    }

    /// As `turn`, where tokio's timers fire. Only what has this kind of waker is woken there: a task of tokio's. The rest, which
    /// is user code, is left to the next turn of the driver's task.
    pub(super) fn turn_in_place(&self, of_a_task: &'static RawWakerVTable) -> Option<Turned> {
        let mut turning = Turning::begin(self)?;
        let mut left = std::mem::take(&mut turning.turner().left);
        let turned = turning.turner().turn(|waker| {
            if std::ptr::eq(waker.vtable(), of_a_task) {
                wake(waker);
            } else {
                left.push(waker);
            }
        });
        turning.turner().left = left;
        Some(turned)
    }

    /// Closes every shard, for ever.
    pub(super) fn end(&self) {
        let before = std::mem::replace(&mut *self.lock(), Sitting::Ended);
        if let Sitting::Here(turner) = before {
            turner.close();
        }
    }

    fn take(&self) -> Option<Turner> {
        let mut sitting = self.lock();
        match std::mem::replace(&mut *sitting, Sitting::Turning) {
            Sitting::Here(turner) => Some(turner),
            other => {
                *sitting = other;
                None
            }
        }
    }

    fn put_back(&self, turner: Turner) {
        let mut sitting = self.lock();
        if matches!(*sitting, Sitting::Ended) {
            drop(sitting);
            turner.close();
        } else {
            *sitting = Sitting::Here(turner);
        }
    }

    /// Nothing panics under this lock.
    fn lock(&self) -> MutexGuard<'_, Sitting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the turner, and puts it back at the end, also when that is a panic.
struct Turning<'a> {
    seat: &'a Seat,
    /// Taken in `drop` alone.
    turner: Option<Turner>,
}

impl Turning<'_> {
    fn begin(seat: &Seat) -> Option<Turning<'_>> {
        let turner = Some(seat.take()?);
        Some(Turning { seat, turner })
    }

    fn turner(&mut self) -> &mut Turner {
        self.turner.as_mut().expect("it is here until the end")
    }
}

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        if let Some(turner) = self.turner.take() {
            self.seat.put_back(turner);
        }
    }
}

pub(super) struct Turner {
    shards: Vec<Weak<Shard>>,
    clock: Arc<Clock>,
    mode: Mode,
    /// Which shard is turned next.
    next_shard: usize,
    /// What is due is woken from here; never holds anything outside a turn.
    wakers: Vec<Waker>,
    /// What was not woken where the interval has ticked.
    left: Vec<Waker>,
}

impl Turner {
    pub(super) fn new(shards: &[Arc<Shard>], clock: Arc<Clock>) -> Turner {
        Turner {
            shards: shards.iter().map(Arc::downgrade).collect(),
            clock,
            mode: Mode::new(),
            next_shard: 0,
            wakers: Vec::with_capacity(BATCH),
            left: Vec::new(),
        }
    }

    fn wake_those_left(&mut self) {
        wake_all(&mut std::mem::take(&mut self.left));
    }

    fn turn(&mut self, wake: impl FnMut(Waker)) -> Turned {
        let now = self.clock.current_tick();
        let ticking = self.mode.ticks(now, &self.clock);
        self.clock.publish(ticking.then_some(now));
        match self.turn_shards(now, wake) {
            Turned::Until(_) if ticking => Turned::Until(now + 1),
            turned => turned,
        }
    }

    fn turn_shards(&mut self, now: u64, mut wake: impl FnMut(Waker)) -> Turned {
        let mut plan = NEVER;
        let mut left = STRETCH;
        loop {
            let mut any_shard = false;
            let mut batch_full = false;
            for _ in 0..self.shards.len() {
                let shard = self.shards[self.next_shard].upgrade();
                // The next turn goes on where this one stops, so that no shard has to wait for the others for ever.
                self.next_shard = (self.next_shard + 1) % self.shards.len();
                let Some(shard) = shard.filter(|shard| !shard.is_abandoned()) else {
                    continue;
                };
                any_shard = true;
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
                self.wakers.drain(..).for_each(&mut wake);
                left = left.saturating_sub(work);
                if left < BATCH {
                    // No room for another batch.
                    return Turned::Unfinished;
                }
            }
            if !any_shard {
                return Turned::NoShardLeft;
            }
            if !batch_full {
                return Turned::Until(plan);
            }
        }
    }

    fn close(mut self) {
        self.wake_those_left();
        self.clock.stop();
        for shard in self.shards.iter().filter_map(Weak::upgrade) {
            shard.retire();
            wake_all(&mut shard.close());
        }
    }
}
