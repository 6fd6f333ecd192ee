//! One shard of a timer: a wheel behind a lock, and the driver's plan for it.
//!
//! The states of a timer's entry, and what moves it, always under the shard's lock:
//!
//! ```text
//!   arm --> armed --(the driver finds it due)-------------> fired: the entry is gone, the key is
//!             |                                             stale, the waker is woken after the lock
//!             +-----(the future is dropped, is reset, ----> the entry is gone, or linked elsewhere
//!             |      or is polled after its deadline)
//!             +-----(the runtime has shut down: close)----> the entry is gone, its waker is woken;
//!                                                           the shard is closed for ever
//! ```
//!
//! Ground rules: which thread may touch which field of a shard, and when.
//!
//! | field | rule |
//! |---|---|
//! | `state`: the wheel, and whether it is closed | only with the lock, through [`locked::Locked`] |
//! | `plan` | any thread reads it; only a thread with the lock writes it ([`plan`]) |
//! | a deadline's [`word`] | a reset to a later due needs no lock; see [`locked_word`] for the rest |
//! | `readings` | any thread, at any time: nothing but speed hangs on them |
//! | `clock`, `driver`, `number` | never written |
//!
//! Invariant: no user code runs under the lock. A thread clones a waker before it takes the lock,
//! and wakes or drops one after it has let the lock go. A key of a map never comes here. Hence a
//! poisoned lock tells nothing, and poison is ignored.

pub(crate) mod deadline_state;
mod deadlines;
mod locked;
mod locked_word;
mod plan;
#[cfg(test)]
mod plan_tests;
mod readings;
mod start;
mod timeout;
mod timers;
mod turn;
pub(crate) mod word;

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::driver::{Driver, Passed};
use crate::time::clock::Clock;
use crate::wheel::SlotCounts;

pub(crate) use deadlines::Told;
use locked::Guarded;
pub(crate) use locked_word::LockedWord;
use plan::{Change, Plan};
pub(crate) use readings::Readings;
pub(crate) use timers::{Moved, NotArmed, Polled};
pub(crate) use turn::{BATCH, ShardTurned};

/// It lies on cache lines of its own, because each worker writes its own shard all the time.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<Guarded>,
    plan: Plan,
    clock: Arc<Clock>,
    driver: Arc<Driver>,
    readings: Readings,
    /// Which of its timer's shards it is.
    number: usize,
}

/// What a shard has done so far and holds now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pending: usize,
    pub(crate) armed: u64,
    pub(crate) fired: u64,
    pub(crate) spared: u64,
}

impl Shard {
    pub(crate) fn new(
        slots: usize,
        clock: Arc<Clock>,
        driver: Arc<Driver>,
        readings: Readings,
        number: usize,
    ) -> Shard {
        Shard {
            state: Mutex::new(Guarded::with_slots(slots)),
            plan: Plan::never(),
            clock,
            driver,
            readings,
            number,
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Whether both are shards of one timer.
    #[cfg(feature = "hyper")]
    pub(crate) fn is_of(&self, same: &Shard) -> bool {
        Arc::ptr_eq(&self.driver, &same.driver)
    }

    /// The tick at which the driver comes next.
    pub(crate) fn plan(&self) -> u64 {
        self.plan.tick()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts()
    }

    pub(crate) fn slot_counts(&self) -> SlotCounts {
        self.lock().slot_counts()
    }

    /// Tells the driver what became of the plan. The caller holds no lock. `true` if tokio's time
    /// driver has already worked up to the tick of the new plan.
    #[inline]
    fn tell(&self, change: Change) -> bool {
        match change {
            Change::None => false,
            Change::Earlier(tick) => self
                .plan_after(self.driver.come_by(tick))
                .is_some_and(|passed| passed >= tick),
            Change::Later(tick) => {
                self.plan_after(self.driver.need_not_come_at(tick));
                false
            }
        }
    }

    /// Where a tick has passed for which the driver was to come, it comes only after that. The plan
    /// says so. Otherwise whoever arms something for such a tick would take it for planned, and a
    /// wheel with a cascade to do in the past goes on naming one.
    ///
    /// Returns the tick up to which tokio's time driver has worked.
    #[inline]
    fn plan_after(&self, passed: Option<Passed>) -> Option<u64> {
        let Passed { up_to, comes_from } = passed?;
        self.lock().plan_no_earlier_than(comes_from);
        Some(up_to)
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
