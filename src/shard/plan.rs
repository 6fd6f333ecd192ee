//! The driver's plan for a shard: when it comes next, and who tells it to come earlier.
//!
//! Invariant: `plan` is the tick at which the driver comes next, and no timer of the wheel is due
//! before it. It is written only under the lock. An arm that is due before the plan lowers it
//! there, lets the lock go, and then tells the driver of the change (`driver::bell` has the
//! argument why no change is lost).
//!
//! A plan may be too early, when the timer it was made for was disarmed. On the system's clock that
//! costs one empty turn, and disarming tells nobody. On a clock that can be paused the driver is
//! told, in real time too: the clock may be paused in the next moment, and then a cancelled timer
//! would pull time along.

use std::sync::atomic::Ordering;

use super::{Shard, State};
pub(crate) use crate::driver::bell::NEVER;
use crate::wheel::Left;

/// No moment lies beyond this tick, however short a tick is.
const LAST_TICK: u64 = 1 << 62;

/// What became of a plan under the lock; the driver is told of it after the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the driver has to be told, after the lock"]
pub(super) enum Change {
    None,
    /// It was lowered to this tick.
    Earlier(u64),
    /// It was put off from this tick.
    Later(u64),
}

impl Change {
    /// The first of two changes that matters: an earlier plan is told, whatever else changed.
    pub(super) fn or(self, other: Change) -> Change {
        match self {
            Change::None => other,
            change => change,
        }
    }
}

impl Shard {
    /// The tick at which the driver comes next.
    pub(crate) fn plan(&self) -> u64 {
        self.plan.load(Ordering::SeqCst)
    }

    /// Plans for a timer that was linked at `due`. With the lock held.
    #[inline]
    pub(super) fn plan_for(&self, due: u64) -> Change {
        if due >= self.plan.load(Ordering::Relaxed) {
            return Change::None;
        }
        self.plan.store(due, Ordering::SeqCst);
        Change::Earlier(due)
    }

    /// Plans for a timer having left the wheel. With the lock held.
    #[inline]
    pub(super) fn plan_without(&self, state: &State, left: Left) -> Change {
        if self.clock.is_pausable() {
            self.plan_later(state, left)
        } else {
            Change::None
        }
    }

    /// The clock may be paused: plans later if the timer that has left was the earliest.
    fn plan_later(&self, state: &State, left: Left) -> Change {
        let plan = self.plan.load(Ordering::Relaxed);
        if !left.may_change(plan) {
            return Change::None;
        }
        let next = state.next_plan();
        if next <= plan {
            return Change::None;
        }
        self.plan.store(next, Ordering::SeqCst);
        Change::Later(plan)
    }

    /// Tells the driver. Under no lock. `true` if the new plan is for a tick up to which tokio's
    /// time driver has worked already.
    #[inline]
    pub(super) fn tell(&self, change: Change) -> bool {
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

impl State {
    /// The tick at which something may be due next.
    pub(super) fn next_plan(&self) -> u64 {
        // The wheel may name the start of a coarse slot. What is linked at `NEVER` lies in one of
        // its own, which no moment comes near.
        self.wheel
            .next_turn()
            .filter(|&tick| tick <= LAST_TICK)
            .unwrap_or(NEVER)
    }
}
