//! The driver's plan for a shard: when the driver comes next, and when it is told to come earlier.
//!
//! Invariant: the plan is the tick at which the driver comes next, and no timer of the wheel is due
//! before it. It is written only under the shard's lock.
//!
//! A call that arms a timer before the plan lowers the plan under the lock. It lets the lock go,
//! and then tells the driver of the change. `time::next_look` has the argument why no change is
//! lost.
//!
//! A plan is too early if the timer that it was made for was disarmed. On the system's clock that
//! costs one empty turn, and disarming tells nobody. On a clock that can be paused the driver is
//! told, in real time too. The clock may be paused in the next moment, and then a cancelled timer
//! would pull time along.
//!
//! Its tests are in `plan_tests`, because `tests/loom` compiles this file too.

use super::locked_word::LockHeld;
use crate::sync::{AtomicU64, Ordering};
use crate::time::tick::NEVER;

/// No moment lies beyond this tick, however short a tick is.
pub(super) const LAST_TICK: u64 = 1 << 62;

#[derive(Debug)]
pub(crate) struct Plan(AtomicU64);

/// What became of a plan under the lock. The driver must be told of it after the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the driver has to be told, after the lock"]
pub(crate) enum Change {
    None,
    /// It was lowered to this tick.
    Earlier(u64),
    /// It was put off from this tick.
    Later(u64),
}

impl Plan {
    pub(crate) fn never() -> Plan {
        Plan(AtomicU64::new(NEVER))
    }

    /// The tick at which the driver comes next.
    pub(crate) fn tick(&self) -> u64 {
        // Acquire: pairs with the Release in `set`. The driver reads it after a fence (see
        // `NextLook`). So the driver sees each plan that was lowered before the call found the
        // driver planned early enough. A sleep reads it to learn that its timer has fired. The turn
        // that took the timer out stored the plan after that.
        self.0.load(Ordering::Acquire)
    }

    /// As `tick`, for a look that may miss what happens meanwhile.
    #[inline]
    pub(crate) fn tick_about(&self) -> u64 {
        // Relaxed: the caller takes nothing but the number from it.
        self.0.load(Ordering::Relaxed)
    }

    /// Plans for a timer that was linked at `due`.
    #[inline]
    pub(crate) fn lower_to(&self, due: u64, held: &LockHeld) -> Change {
        // Relaxed: only a thread that holds the lock writes it.
        if due >= self.0.load(Ordering::Relaxed) {
            return Change::None;
        }
        self.set(due, held);
        Change::Earlier(due)
    }

    /// Plans later, if `next` gives a later tick than the present plan.
    pub(crate) fn put_off(&self, held: &LockHeld, next: impl FnOnce(u64) -> Option<u64>) -> Change {
        // Relaxed: only a thread that holds the lock writes it.
        let plan = self.0.load(Ordering::Relaxed);
        match next(plan) {
            Some(next) if next > plan => {
                self.set(next, held);
                Change::Later(plan)
            }
            _ => Change::None,
        }
    }

    /// Plans for that tick.
    pub(crate) fn set(&self, tick: u64, _: &LockHeld) {
        // Release: pairs with the Acquire in `tick`. A thread that reads a plan later than its
        // timer sees what the turn did.
        self.0.store(tick, Ordering::Release);
    }
}
