//! The alarm of the process's timer: a plain thread, in the context of no runtime, which sleeps
//! until the alarm's tick and then makes the turn.
//!
//! ```text
//!   set for never: sleeps until it is set --(set)--> set: sleeps until that tick --(its time)--> fires: turns, sets it again
//!                                                      ^  |
//!                                                      +--+ set for another tick: wakes up if that is earlier
//! ```
//!
//! Invariant: a thread that sets an earlier tick wakes the waiting thread. That thread reads the
//! tick and goes to sleep under one hold of the lock, so it misses no earlier tick.

use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use super::alarm::Alarm;
use crate::clock::tick::Tick;
use crate::sync::{Condvar, Mutex, lock, unpoisoned};

pub(crate) struct ThreadAlarm {
    /// `NEVER` also once it has fired.
    pub(crate) at: Mutex<Tick>,
    is_earlier: Condvar,
}

impl ThreadAlarm {
    pub(crate) fn unset() -> ThreadAlarm {
        ThreadAlarm {
            at: Mutex::new(Tick::NEVER),
            is_earlier: Condvar::new(),
        }
    }

    /// Starts the thread, which calls `fire` at the alarm's tick. `left`: the time until a tick.
    pub(crate) fn start(
        name: &str,
        left: impl Fn(Tick) -> Duration + Send + 'static,
        fire: impl Fn() + Send + 'static,
    ) -> io::Result<Arc<ThreadAlarm>> {
        let alarm = Arc::new(ThreadAlarm::unset());
        let of_thread = alarm.clone();
        let run = move || {
            loop {
                of_thread.wait(&left);
                fire();
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(alarm)
    }

    /// Waits until the tick has begun, and unsets it. `left` returns the time until a tick begins.
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

impl Alarm for Arc<ThreadAlarm> {
    fn set(&mut self, tick: Tick) -> bool {
        let before = std::mem::replace(&mut *lock(&self.at), tick);
        if tick < before {
            self.is_earlier.notify_one();
        }
        true
    }
}
