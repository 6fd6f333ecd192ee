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

use super::alarm::{Alarm, SetOutcome};
use crate::clock::tick::Tick;
use crate::sync::{Condvar, Mutex, lock, unpoisoned};

pub(crate) struct ThreadAlarm(Arc<AlarmTick>);

impl ThreadAlarm {
    /// Starts the thread, which calls `fire` at the alarm's tick. `left`: the time until a tick.
    pub(crate) fn start(
        name: &str,
        left: impl Fn(Tick) -> Duration + Send + 'static,
        fire: impl Fn() + Send + 'static,
    ) -> io::Result<ThreadAlarm> {
        let alarm = Arc::new(AlarmTick::unset());
        let of_thread = alarm.clone();
        let run = move || {
            loop {
                of_thread.wait(&left);
                fire();
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(ThreadAlarm(alarm))
    }
}

impl Alarm for ThreadAlarm {
    fn at(&self) -> Tick {
        self.0.get()
    }

    fn set(&mut self, tick: Tick) -> SetOutcome {
        self.0.set(tick);
        SetOutcome::Done
    }
}

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
