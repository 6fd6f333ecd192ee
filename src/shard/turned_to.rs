//! How far a shard was turned, for a poll of an armed sleep that takes no lock.
//!
//! A sleep that is polled again while its timer is armed, by the waker that the timer has, is
//! pending, and the poll has nothing to do. It finds this out by two comparisons: the shard was
//! turned to an earlier tick than the timer's, and the waker is the registered one.
//!
//! **No wake-up is lost.** Only a turn and the closing of the shard take a timer out that its owner
//! leaves alone. Each writes how far the shard is turned, under the lock, and then takes the timer
//! out, and wakes its waker after the lock. So if a poll reads an earlier tick, that wake-up is yet
//! to come. It wakes the task that polls, because its waker is that task's, and the task polls
//! again. That poll comes after the wake-up, and so it reads the tick that was written before.
//!
//! **An address that is used again misleads no poll.** The timer holds a clone of its waker for as
//! long as it is armed. So nothing else can have the address of the waker's data meanwhile. A waker
//! of the same data and the same vtable wakes the same task, wherever the sleep was moved. This is
//! what `Waker::will_wake` compares.
//!
//! A tick that was reached says that the timer has fired, or will before the turn lets the lock go
//! for the last time. Either way its deadline has passed.

use std::task::Waker;

use super::lock::LockHeld;
use crate::clock::tick::{AtomicTick, Tick};

/// The tick up to which a shard was turned.
#[derive(Debug)]
pub(crate) struct TurnedTo(AtomicTick);

impl TurnedTo {
    pub(crate) fn new() -> TurnedTo {
        TurnedTo(AtomicTick::new(Tick::FIRST))
    }

    /// `Tick::NEVER` once the shard was closed.
    #[inline]
    pub(crate) fn get(&self) -> Tick {
        // What the turn did before is seen too.
        self.0.get()
    }

    /// Call this before a timer is taken out.
    pub(crate) fn set(&self, tick: Tick, _: LockHeld<'_>) {
        self.0.set(tick);
    }

    /// Call this before the timers of the shard are taken out for ever.
    pub(crate) fn close(&self, held: LockHeld<'_>) {
        self.set(Tick::NEVER, held);
    }
}

/// Which waker a timer has, without holding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakerId {
    data: usize,
    vtable: usize,
}

impl WakerId {
    /// That of no waker.
    pub(crate) const NONE: WakerId = WakerId { data: 0, vtable: 0 };

    #[inline]
    pub(crate) fn of(waker: &Waker) -> WakerId {
        WakerId {
            data: waker.data().addr(),
            vtable: std::ptr::from_ref(waker.vtable()).addr(),
        }
    }
}
