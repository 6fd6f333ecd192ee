//! How far a shard was turned, for a poll of an armed sleep that takes no lock.
//!
//! A sleep that is polled again by its registered waker while its timer is armed is pending, and
//! the poll has nothing to do. Two comparisons show this: the shard was turned to an earlier tick
//! than the timer's, and the waker is the registered one.
//!
//! **No wake-up is lost.** Apart from its owner, only a turn and the closing of the shard take a
//! timer out. Each writes how far the shard is turned, under the lock, then takes the timer out,
//! and wakes its waker after the lock. So if a poll reads an earlier tick, that wake-up is yet to
//! come. It wakes the polling task, whose waker is registered, and the task polls again. That poll
//! comes after the wake-up, and so reads the tick that was written before it.
//!
//! **A reused address misleads no poll.** The timer holds a clone of its waker while it is armed,
//! so no other data can take the address of the waker's. A waker of the same data and vtable
//! wakes the same task, wherever the sleep was moved; `Waker::will_wake` compares the same two.
//!
//! A tick that was reached shows that the timer has fired, or will before the turn releases the
//! lock for the last time. Either way it is due.

use std::task::Waker;

/// The identity of a timer's waker, without holding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakerId {
    /// The address of its data.
    data: usize,
    /// The address of its functions.
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
