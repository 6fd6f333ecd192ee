//! The driver's plan for a shard: when it comes next, and who tells it to come earlier.
//!
//! Invariant: `plan` is the tick at which the driver comes next, and no timer of the wheel is due before it. It is written
//! only under the lock. An arm that is due before the plan lowers it there and then wakes the driver; the driver
//! reads the plan after it was woken. So whichever comes first, the arm or the driver's visit, the driver knows.
//!
//! A plan may be too early, when the timer it was made for was disarmed. On the system's clock that costs one empty
//! turn, and disarming wakes nobody. On a clock that can be paused the driver is told, in real time too: the clock
//! may be paused in the next moment, and then a cancelled timer would pull time along.

use std::sync::atomic::Ordering;

use super::{Shard, State};
use crate::wheel::Left;

/// The plan of a shard with nothing armed.
pub(crate) const NEVER: u64 = u64::MAX;

/// No moment lies beyond this tick, however short a tick is.
const LAST_TICK: u64 = 1 << 62;

impl Shard {
    /// Plans for a timer that was linked at `due`; says whether the driver must be woken. With the lock held.
    #[inline]
    pub(super) fn plan_for(&self, due: u64) -> bool {
        let earlier = due < self.plan.load(Ordering::Relaxed);
        if earlier {
            self.plan.store(due, Ordering::SeqCst);
        }
        earlier
    }

    /// After the plan was changed, and the lock let go: has a driver that rests plan again. One that ticks comes by.
    #[cold]
    pub(super) fn wake_resting_driver(&self) {
        if self.clock.stamp().is_none() {
            self.signal.wake_driver();
        }
    }

    /// Plans for a timer having left the wheel; says whether the driver must be woken.
    #[inline]
    pub(super) fn plan_without(&self, state: &State, left: Left) -> bool {
        self.clock.is_pausable() && self.plan_later(state, left)
    }

    /// The clock may be paused: plans later if the timer that has left was the earliest.
    fn plan_later(&self, state: &State, left: Left) -> bool {
        let plan = self.plan.load(Ordering::Relaxed);
        if !left.may_change(plan) {
            return false;
        }
        let next = state.next_plan();
        if next > plan {
            self.plan.store(next, Ordering::SeqCst);
        }
        next > plan
    }
}

impl State {
    /// The tick at which something may be due next.
    pub(super) fn next_plan(&self) -> u64 {
        // The wheel may name the start of a coarse slot. What is linked at `NEVER` lies in one of its own, which no
        // moment comes near.
        self.wheel
            .next_turn()
            .filter(|&tick| tick <= LAST_TICK)
            .unwrap_or(NEVER)
    }
}
