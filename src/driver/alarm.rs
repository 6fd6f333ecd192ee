//! The alarm, and its lock.
//!
//! A thread that arms something earlier takes the lock, compares, and sets the alarm. A turn takes
//! the lock twice: when it begins, and when it reads the next expiries and sets the alarm again,
//! but not in between. Meanwhile the turn has the alarm, and the lock guards none.
//!
//! No thread waits for a thread that sets the alarm. If the lock is taken, a request is noted, also
//! that of an alarm that has fired. The holder reads the next expiries once more after it has
//! released the lock. If something is due by then, it sets the alarm to fire next.
//!
//! ```text
//!   no turn --(the alarm fires)--> a turn is made --(it has set the alarm)--> no turn
//! ```
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The alarm fires on two threads.* The second leaves its turn to the first, which reads the
//!   next expiries and sets the alarm after this firing. So no worker waits behind a slow waker on
//!   another worker.
//! - *That second firing is the end of the time driver.* The turn looks for the end after it has
//!   set the alarm, under the same hold of the lock.
//! - *A thread arms something while a turn is made.* It leaves the alarm alone, because the turn
//!   reads the next expiries before it ends (see `clock::next_check`).
//! - *The alarm fires on the thread that sets it*, within a call of tokio's. That firing notes a
//!   request too.
//! - *Foreign code runs on the thread that sets the alarm*: a panic hook as the runtime ends, or a
//!   subscriber of tokio's own tracing. It may arm something on this timer, or wait for a thread
//!   that does. Neither waits for the lock.
//! - *A request is noted as the holder releases the lock.* The thread notes it and then tries the
//!   lock again. The holder releases it and then looks. Each has a sequentially consistent fence in
//!   between, so one of the two sees the other.
//!
//! Invariants:
//!
//! - One turn is made at a time.
//! - No user code but such foreign code runs under the lock. Wakers, events and drops follow it.
//! - Only a turn waits for the lock, at its end. While a turn is made, no other thread that holds
//!   the lock sets the alarm.

use std::task::Waker;

use crate::clock::tick::{Moment, Tick};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, fence, lock, try_lock};

/// Fires when the next turn is due.
pub(crate) trait Alarm: Send {
    /// Sets it for the start of a tick, or unsets it for `NEVER`. `false` if the start of the tick
    /// has already passed.
    fn set(&mut self, tick: Tick) -> bool;

    /// Sets it to fire next after `now`, which the calling thread has just read. Returns the first
    /// tick for which that is in time. Only for an alarm that `set` can find passed.
    fn set_next_round(&mut self, now: Tick) -> Tick {
        now
    }

    /// Whether only the alarm's task can set it, and not the calling thread.
    fn needs_task(&self) -> bool {
        false
    }

    /// When the time driver has ended, once the timer is to learn of that.
    fn ended(&mut self) -> Option<Moment> {
        None
    }
}

#[derive(Default)]
pub(crate) struct AlarmLock {
    /// `None` before the driver begins, while a turn is made, and once the timer has ended.
    state: Mutex<Option<AlarmState>>,
    is_asked: AtomicBool,
}

pub(crate) type LockedAlarm<'a> = MutexGuard<'a, Option<AlarmState>>;

/// What a turn takes along.
pub(crate) struct AlarmState {
    pub(crate) alarm: Box<dyn Alarm>,
    /// The buffer for the wakers of a turn, empty outside of one.
    pub(crate) wakers: Vec<Waker>,
}

impl AlarmLock {
    /// Waits for the lock. Call this where no thread sets the alarm.
    pub(crate) fn lock(&self) -> LockedAlarm<'_> {
        lock(&self.state)
    }

    /// Locks the alarm. `None` if another thread or this one holds the lock. The holder will read
    /// the next expiries once more.
    pub(crate) fn try_lock(&self) -> Option<LockedAlarm<'_>> {
        if let Some(locked) = try_lock(&self.state) {
            return Some(locked);
        }
        // Relaxed, here and in `is_asked_again`: the fences order it.
        self.is_asked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        try_lock(&self.state)
    }

    /// Returns and clears whether a request was noted. Call this after the lock was released.
    pub(crate) fn is_asked_again(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::Relaxed)
    }
}
