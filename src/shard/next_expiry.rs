//! The next expiry of a shard: when the driver comes next, and whether it has to come earlier.
//!
//! Invariant: no timer of the wheel is due before it. It is written only under the shard's lock.
//!
//! A thread that changes the next expiry notifies the driver after the lock; `clock::next_check`
//! argues why no change is lost. The next expiry is too early once the timer that it was set for is
//! disarmed. On the system's clock that costs one empty turn, without a notification. On a clock
//! that can be paused, a cancelled timer would pull time along, so there the next expiry is read
//! from the wheel again, and the driver is told to read it.

use super::lock::LockHeld;
use crate::clock::tick::{AtomicTick, Tick};

#[derive(Debug)]
pub(crate) struct NextExpiry(AtomicTick);

/// A change of the next expiry under the lock. The driver must be notified after the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the driver has to be notified, after the lock"]
pub(crate) enum ExpiryChange {
    None,
    Earlier(Tick),
    /// It was deferred, so the expiries are to be read again. Only on a clock that can be paused.
    Deferred,
}

impl NextExpiry {
    pub(crate) fn new(tick: Tick) -> NextExpiry {
        NextExpiry(AtomicTick::new(tick))
    }

    pub(crate) fn tick(&self) -> Tick {
        // The driver reads it after a fence (see `NextCheck`), and misses no expiry.
        self.0.get()
    }

    #[inline]
    pub(crate) fn lower_to(&self, due: Tick, held: LockHeld<'_>) -> ExpiryChange {
        if due >= self.0.about() {
            return ExpiryChange::None;
        }
        self.set(due, held);
        ExpiryChange::Earlier(due)
    }

    pub(crate) fn defer_to(&self, next: Tick, held: LockHeld<'_>) -> ExpiryChange {
        if next <= self.0.about() {
            return ExpiryChange::None;
        }
        self.set(next, held);
        ExpiryChange::Deferred
    }

    pub(crate) fn set(&self, tick: Tick, _: LockHeld<'_>) {
        self.0.set(tick);
    }
}
