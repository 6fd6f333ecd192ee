//! One shard of a timer: a wheel behind a lock, and the driver's plan for it.
//!
//! States of a timer's entry and who moves it, always under the shard's lock:
//!
//! ```text
//!   arm ------> armed --(driver: due)--> fired: entry gone, key stale, waker to be woken outside the lock
//!                 |  \--(future: polled after its deadline, dropped, reset)--> entry gone or linked elsewhere
//!                 \---(runtime gone: close)--> entry gone, waker woken; the shard is closed for ever
//! ```
//!
//! Ground rules: which field of a shard may be touched by whom, and when.
//!
//! | what | who |
//! |---|---|
//! | `state`: the wheel, and whether it is closed | who holds the lock, through [`locked::Locked`] alone |
//! | `plan` | anybody reads it; it is written under the lock ([`plan`]) |
//! | a deadline's [`word`] | a reset that moves it later needs no lock; all else takes a [`locked_word::LockedWord`] |
//! | `readings`, `retired` | anybody, at any time: nothing but speed hangs on them |
//! | `clock`, `driver`, `identity` | never written |
//!
//! Invariant: no user code runs under the lock. A waker is cloned before it is taken, and woken or
//! dropped after it was let go. A key of a map never comes here. Hence a poisoned lock tells
//! nothing, and poison is ignored.

pub(crate) mod deadline_state;
mod deadlines;
mod last_reset;
mod locked;
mod locked_word;
mod plan;
mod readings;
mod spare;
mod start;
mod timeout;
mod timers;
mod turn;
pub(crate) mod word;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime;

use crate::driver::Driver;
use crate::time::clock::Clock;
use crate::wheel::SlotCounts;

pub(crate) use deadlines::Told;
pub(crate) use locked::Afterwards;
use locked::State;
pub(crate) use locked_word::LockedWord;
use plan::{Change, Plan};
pub(crate) use readings::Readings;
pub(crate) use spare::{Hold, TimerNumber, of_this_thread};
pub(crate) use timers::{Moved, NotArmed, Polled};
pub(crate) use turn::{BATCH, ShardTurned};

/// On cache lines of its own: each worker writes its own shard all the time.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
    plan: Plan,
    clock: Arc<Clock>,
    driver: Arc<Driver>,
    readings: Readings,
    identity: Identity,
    /// No `Timer` leads to the shard any more, or its driver has ended. So no thread keeps it to
    /// lend it.
    retired: AtomicBool,
}

/// Which shard a shard is, and whose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) timer: TimerNumber,
    pub(crate) number: usize,
    /// How many shards the timer has, a power of two.
    pub(crate) of: usize,
    /// The runtime whose own timer that is.
    pub(crate) own_timer_of: Option<runtime::Id>,
}

/// What a shard has done so far and holds now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pending: usize,
    pub(crate) armed: u64,
    pub(crate) fired: u64,
}

impl Shard {
    pub(crate) fn new(
        slots: usize,
        clock: Arc<Clock>,
        driver: Arc<Driver>,
        readings: Readings,
        identity: Identity,
    ) -> Shard {
        Shard {
            state: Mutex::new(State::with_slots(slots)),
            plan: Plan::never(),
            clock,
            driver,
            readings,
            identity,
            retired: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Which of its timer's shards it is.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.identity.number
    }

    /// The tick at which the driver comes next.
    pub(crate) fn plan(&self) -> u64 {
        self.plan.tick()
    }

    /// From here on no thread keeps or lends the shard as its spare.
    pub(crate) fn retire(&self) {
        // Relaxed: a thread that sees it late keeps a reference longer, and nothing else.
        self.retired.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts()
    }

    pub(crate) fn slot_counts(&self) -> SlotCounts {
        self.lock().slot_counts()
    }

    /// Tells the driver of what became of the plan. Under no lock. `true` if the new plan is for a
    /// tick up to which tokio's time driver has worked already.
    #[inline]
    fn tell(&self, change: Change) -> bool {
        match change {
            Change::None => false,
            Change::Earlier(tick) => self.driver.come_by(tick),
            Change::Later(tick) => {
                self.driver.need_not_come_at(tick);
                false
            }
        }
    }
}

impl Identity {
    /// Whether a thread of that number keeps to the shard.
    #[inline]
    fn is_of(self, thread: usize) -> bool {
        thread & (self.of - 1) == self.number
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { pending, .. } = self.counts();
        f.debug_struct("Shard")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}
