//! The next expiry of a shard: when the driver comes next, and when it has to come earlier.
//!
//! Invariant: no timer of the wheel is due before the next expiry. It is written only under the
//! shard's lock.
//!
//! A thread that changes the next expiry notifies the driver after the lock. `clock::next_check`
//! has the argument why no change is lost. Once the timer that it was set for is disarmed, it is
//! too early. On the system's clock that costs one empty turn, and nothing is notified. A clock
//! that can be paused may be paused in the next moment, and a cancelled timer would pull time
//! along. So there it is read from the wheel again, and the driver is told to read it.

use super::lock::LockHeld;
use crate::clock::tick::{AtomicTick, Tick};

/// No moment lies beyond this tick, however short a tick is.
pub(super) const LAST_TICK: Tick = Tick::new(1 << 62);

#[derive(Debug)]
pub(crate) struct NextExpiry(AtomicTick);

/// The change of the next expiry under the lock. The driver must be notified of it after the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the driver has to be notified, after the lock"]
pub(crate) enum ExpiryChange {
    None,
    /// It was lowered to this tick.
    Earlier(Tick),
    /// It was deferred: the expiries are to be read again. Only on a clock that can be paused.
    Deferred,
}

impl NextExpiry {
    pub(crate) fn never() -> NextExpiry {
        NextExpiry(AtomicTick::new(Tick::NEVER))
    }

    /// The tick at which the driver comes next.
    pub(crate) fn tick(&self) -> Tick {
        // The driver reads it after a fence (see `NextCheck`), and so sees each expiry that was
        // lowered by a thread that found the driver to come early enough.
        self.0.get()
    }

    /// As `tick`, for a reader that may miss what happens meanwhile.
    #[inline]
    pub(crate) fn tick_about(&self) -> Tick {
        self.0.about()
    }

    /// Lowers it for a timer that was linked at `due`.
    #[inline]
    pub(crate) fn lower_to(&self, due: Tick, held: LockHeld<'_>) -> ExpiryChange {
        if due >= self.tick_about() {
            return ExpiryChange::None;
        }
        self.set(due, held);
        ExpiryChange::Earlier(due)
    }

    /// Defers it to `next`, if that is later than the present one.
    pub(crate) fn defer_to(&self, next: Tick, held: LockHeld<'_>) -> ExpiryChange {
        if next <= self.tick_about() {
            return ExpiryChange::None;
        }
        self.set(next, held);
        ExpiryChange::Deferred
    }

    /// Sets it to that tick.
    pub(crate) fn set(&self, tick: Tick, _: LockHeld<'_>) {
        self.0.set(tick);
    }
}
