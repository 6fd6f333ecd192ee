//! The alarm of a runtime's timer: the one timer of tokio's that its driver has.
//!
//! It is a [`tokio::time::Sleep`] beside the driver, in no task. Its waker makes the turn where
//! tokio's own timers fire. A thread that arms something earlier than the alarm is set for resets
//! it, in the way that tokio's own sleeps register themselves. A `tokio::time::Interval` is the
//! same sleep within. But it forgets its waker at each tick, and has to be polled before it can be
//! set again.
//!
//! ```text
//!   unset: not among tokio's timers --(set)--> set: among them --(its time, or the time driver's end)--> fired
//!     ^                                          |    ^                                                   |
//!     +---------------(unset)--------------------+    +-------------------(set)---------------------------+
//! ```
//!
//! Beside that, the alarm is *attached* while tokio has its waker. Firing spends the waker. Polling
//! attaches it again, also to an alarm that is unset. So any thread can set an attached alarm,
//! without a runtime's context and without a poll.
//!
//! Where it may be polled: a poll panics once the runtime's time driver has ended. So only these
//! attach it:
//!
//! - the time driver itself, after a look that it has not ended (below);
//! - a task of the runtime, which is an errand, because the time driver ends after the last task;
//! - a thread that works for the runtime right now, as far as this can be told. A thread that has
//!   gone into `block_in_place` looks the same. So does a worker of another runtime that has
//!   entered this one. If the runtime ends between the look and the poll, the panic is caught, and
//!   counts as the end.
//!
//! How the end of the time driver is told: it fires all of its timers. So an alarm that is attached
//! and set learns of the end by its waker, after the last task was dropped. From then on, each
//! sleep that is reset has elapsed at once. Therefore an alarm that has elapsed, while the instant
//! that it was reset to lies ahead, tells the end for certain, on any thread.
//!
//! While nothing is armed, the alarm is unset on a clock that can be paused. Otherwise virtual time
//! would run to it, because it runs to the next timer whatever that is. On the system's clock the
//! alarm is then set for the end of time, where it wakes nobody. So there it tells the end in any
//! case.
//!
//! Invariant: once it was noted that the alarm has fired, it is not attached before the next poll.
//! Only the attendant sets, unsets and polls it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use crate::runtime::coop::unconstrained;
use crate::runtime::{Handle, worker_index};
use tokio::time::{Instant, Sleep};

use super::{Driver, Whereabouts};
use crate::time::clock::Clock;
use crate::time::tick::NEVER;

pub(super) struct RuntimeAlarm {
    sleep: Pin<Box<Sleep>>,
    clock: Arc<Clock>,
    handle: Handle,
    ring: Arc<Ring>,
    waker: Waker,
    /// The tick that it is set for; `NEVER` if it is unset, or if its firing was noted.
    at: u64,
    is_attached: bool,
}

/// What came of setting the alarm.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Set {
    Done,
    /// Its time has passed already.
    Passed,
    /// The runtime's time driver has ended.
    Ended,
}

impl RuntimeAlarm {
    /// A new alarm, which is unset. To be called in the context of the runtime of `handle`.
    pub(super) fn new(handle: &Handle, clock: Arc<Clock>, ring: Ring) -> RuntimeAlarm {
        let ring = Arc::new(ring);
        RuntimeAlarm {
            // It is not among tokio's timers before it is set.
            sleep: Box::pin(tokio::time::sleep_until(Instant::now())),
            clock,
            handle: handle.clone(),
            waker: Waker::from(ring.clone()),
            ring,
            at: NEVER,
            is_attached: false,
        }
    }

    /// The tick that it is set for.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Notes that it has fired, so that its waker is spent. Gives the tick that it was set for.
    pub(super) fn fired(&mut self) -> u64 {
        self.is_attached = false;
        std::mem::replace(&mut self.at, NEVER)
    }

    /// Sets the alarm for the beginning of a tick. For `NEVER` it is unset on a clock that can be
    /// paused. On the system's clock it is then set for the end of time, so that it tells the time
    /// driver's end.
    pub(super) fn set(&mut self, tick: u64, whereabouts: Whereabouts) -> Set {
        if tick == NEVER && self.clock.is_pausable() {
            return self.unset(whereabouts);
        }
        let tick = tick.min(self.clock.last_tick());
        if tick == self.at && self.is_attached {
            return Set::Done;
        }
        match self.reset_to(tick) {
            Set::Done => self.attach(whereabouts),
            passed_or_ended => passed_or_ended,
        }
    }

    /// Unsets it. Within the time driver it first makes sure that the time driver has not ended.
    fn unset(&mut self, whereabouts: Whereabouts) -> Set {
        if self.at == NEVER && self.is_attached {
            return Set::Done;
        }
        if whereabouts == Whereabouts::TimeDriver
            && self.reset_to(self.clock.last_tick()) == Set::Ended
        {
            return Set::Ended;
        }
        self.at = NEVER;
        // An instant in the past elapses at once, and so tokio drops it from its timers.
        self.ring
            .while_muted(|| self.sleep.as_mut().reset(self.clock.long_ago()));
        self.is_attached = false;
        match self.attach(whereabouts) {
            Set::Ended => Set::Ended,
            // It has elapsed, as it should.
            _ => Set::Done,
        }
    }

    fn reset_to(&mut self, tick: u64) -> Set {
        let instant = self.clock.start_of(tick);
        self.sleep.as_mut().reset(instant);
        self.at = tick;
        if self.sleep.is_elapsed() {
            self.passed_or_ended()
        } else {
            Set::Done
        }
    }

    /// It has elapsed. Has its time passed?
    fn passed_or_ended(&mut self) -> Set {
        // The clock is read after that: in a runtime that is alive it has reached the instant.
        let is_ahead = self.clock.is_ahead(self.clock.start_of(self.at));
        let has_ended = is_ahead.unwrap_or_else(|| {
            // Where the clock cannot be read, try the end of time. It has passed for nobody.
            self.sleep
                .as_mut()
                .reset(self.clock.start_of(self.clock.last_tick()));
            self.sleep.is_elapsed()
        });
        if has_ended { Set::Ended } else { Set::Passed }
    }

    /// Attaches it, if it may be polled here. A thread that may not poll it leaves that to an
    /// errand.
    fn attach(&mut self, whereabouts: Whereabouts) -> Set {
        if self.is_attached || !self.may_poll(whereabouts) {
            return Set::Done;
        }
        // Not at the cost of the budget of the task that this may run in.
        let mut sleep = unconstrained(self.sleep.as_mut());
        let mut context = Context::from_waker(&self.waker);
        let poll = || Pin::new(&mut sleep).poll(&mut context);
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(polled) => {
                self.is_attached = true;
                if polled.is_pending() {
                    Set::Done
                } else if self.at == NEVER {
                    Set::Passed
                } else {
                    self.passed_or_ended()
                }
            }
            Err(_) => Set::Ended,
        }
    }

    fn may_poll(&self, whereabouts: Whereabouts) -> bool {
        match whereabouts {
            Whereabouts::TimeDriver | Whereabouts::Errand => true,
            Whereabouts::Caller => {
                worker_index().is_some()
                    && Handle::try_current().is_ok_and(|current| current.id() == self.handle.id())
            }
        }
    }

    pub(super) fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Whether it is set, and would wake nobody.
    pub(super) fn must_be_attached(&self) -> bool {
        self.at != NEVER && !self.is_attached
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// What the alarm wakes.
pub(super) struct Ring {
    driver: Weak<Driver>,
    /// The alarm is being unset, and so elapses for nobody.
    is_muted: AtomicBool,
}

impl Ring {
    pub(super) fn new(driver: &Arc<Driver>) -> Ring {
        Ring {
            driver: Arc::downgrade(driver),
            is_muted: AtomicBool::new(false),
        }
    }

    fn while_muted(&self, act: impl FnOnce()) {
        // Relaxed, here and in `wake_by_ref`: the alarm elapses within `act`, on this thread. If
        // another thread fires it meanwhile, it fires what is being unset, and may read either.
        self.is_muted.store(true, Ordering::Relaxed);
        act();
        self.is_muted.store(false, Ordering::Relaxed);
    }
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// While a thread sets the alarm, that thread attends already. So a thread that attends from
    /// here is within tokio's time driver.
    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_muted.load(Ordering::Relaxed) {
            return;
        }
        if let Some(driver) = self.driver.upgrade() {
            driver.alarm_has_fired();
        }
    }
}
