//! A tick of a shard that any thread reads, and that is written only under the shard's lock: how
//! far the shard was turned (see `turned_to`), and its next expiry.
//!
//! The next expiry is when the driver comes next. Invariant: no timer of the wheel is due before
//! it.
//!
//! A thread that changes the next expiry notifies the driver after the lock; `clock::next_check`
//! argues why no change is lost. The next expiry is too early once the timer that it was set for is
//! disarmed. On the system's clock that costs one empty turn, without a notification. On a clock
//! that can be paused, a cancelled timer would make virtual time jump to it. There the next expiry
//! is read from the wheel again, and the driver is told to read it.

use super::lock::LockHeld;
use crate::clock::tick::{AtomicTick, Tick};

/// A tick that is written only with proof of the shard's lock.
#[derive(Debug)]
pub(crate) struct ShardTick(AtomicTick);

/// A change of the next expiry under the lock. The driver must be notified after the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the driver has to be notified, after the lock"]
pub(crate) enum ExpiryChange {
    /// It stays, or the alarm that is set comes in time.
    None,
    /// It was lowered to this tick.
    Earlier(Tick),
    /// It was deferred, so the expiries are to be read again. Only on a clock that can be paused.
    Deferred,
}

impl ShardTick {
    pub(crate) fn new(tick: Tick) -> ShardTick {
        ShardTick(AtomicTick::new(tick))
    }

    #[inline]
    pub(crate) fn get(&self) -> Tick {
        // The driver reads the next expiry after a fence (see `NextCheck`), so it sees each of
        // them. A poll sees what the turn did before.
        self.0.get()
    }

    #[inline]
    pub(crate) fn lower_to(&self, due: Tick, held: LockHeld<'_>) -> ExpiryChange {
        if due >= self.0.get_relaxed() {
            return ExpiryChange::None;
        }
        self.set(due, held);
        ExpiryChange::Earlier(due)
    }

    pub(crate) fn defer_to(&self, next: Tick, held: LockHeld<'_>) -> ExpiryChange {
        if next <= self.0.get_relaxed() {
            return ExpiryChange::None;
        }
        self.set(next, held);
        ExpiryChange::Deferred
    }

    pub(crate) fn set(&self, tick: Tick, _: LockHeld<'_>) {
        self.0.set(tick);
    }
}
