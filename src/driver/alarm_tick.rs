//! The tick of an alarm that is a thread of its own, and how that thread waits for it.
//!
//! Invariant: a thread that sets an earlier tick wakes the waiting one, which reads the tick and
//! goes to sleep under one hold of the lock. So it misses no earlier tick.

use std::time::Duration;

use crate::clock::tick::Tick;
use crate::sync::{Condvar, Mutex, lock, unpoisoned};

pub(crate) struct AlarmTick {
    /// `NEVER` also once it has fired.
    at: Mutex<Tick>,
    is_earlier: Condvar,
}

impl AlarmTick {
    pub(crate) fn unset() -> AlarmTick {
        AlarmTick {
            at: Mutex::new(Tick::NEVER),
            is_earlier: Condvar::new(),
        }
    }

    pub(crate) fn get(&self) -> Tick {
        *lock(&self.at)
    }

    pub(crate) fn set(&self, tick: Tick) {
        let before = std::mem::replace(&mut *lock(&self.at), tick);
        if tick < before {
            self.is_earlier.notify_one();
        }
    }

    /// Waits until the tick has begun, and unsets it. `left` returns how long it is until a tick
    /// begins.
    pub(crate) fn wait(&self, left: impl Fn(Tick) -> Duration) {
        let mut at = lock(&self.at);
        loop {
            at = if *at == Tick::NEVER {
                unpoisoned(self.is_earlier.wait(at))
            } else {
                let left = left(*at);
                if left.is_zero() {
                    *at = Tick::NEVER;
                    return;
                }
                unpoisoned(self.is_earlier.wait_timeout(at, left)).0
            };
        }
    }
}
