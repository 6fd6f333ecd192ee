//! The alarm of the process's timer: a thread of its own, which sleeps until the alarm's tick and
//! then makes the turn. It is a plain thread, in the context of no runtime.
//!
//! ```text
//!   set for never: sleeps until it is set --(set)--> set: sleeps until that tick --(its time)--> fires: turns, sets it again
//!                                                      ^  |
//!                                                      +--+ set for another tick: wakes up if that is earlier
//! ```
//!
//! Invariant: a thread that sets the alarm earlier wakes this one, which reads the tick again under
//! the lock before it sleeps. So it misses no earlier tick.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{io, thread};

use super::Driver;
use super::core::{Alarm, SetOutcome};
use crate::clock::Clock;
use crate::clock::tick::Tick;
use crate::sync::{lock, unpoisoned};

pub(super) struct ThreadAlarm {
    /// The tick that it is set for; `NEVER` also once it has fired.
    at: Mutex<Tick>,
    is_earlier: Condvar,
}

impl ThreadAlarm {
    /// Starts the thread. It keeps the driver, and so neither ever ends.
    pub(super) fn start(driver: &Arc<Driver>, name: &str) -> io::Result<Arc<ThreadAlarm>> {
        let alarm = Arc::new(ThreadAlarm {
            at: Mutex::new(Tick::NEVER),
            is_earlier: Condvar::new(),
        });
        let (of_thread, driver) = (alarm.clone(), driver.clone());
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                loop {
                    of_thread.wait(&driver.clock);
                    driver.handle_alarm();
                }
            })?;
        Ok(alarm)
    }
}

impl Alarm for Arc<ThreadAlarm> {
    fn at(&self) -> Tick {
        *self.lock()
    }

    fn set(&mut self, tick: Tick) -> SetOutcome {
        let before = std::mem::replace(&mut *self.lock(), tick);
        if tick < before {
            self.is_earlier.notify_one();
        }
        SetOutcome::Done
    }

    fn set_soon(&mut self, now: Tick) -> (SetOutcome, Tick) {
        (self.set(now), now)
    }

    fn note_fired(&mut self, _: Tick) {}
}

impl ThreadAlarm {
    /// Waits until the alarm's tick has begun, and unsets the alarm.
    fn wait(&self, clock: &Clock) {
        let mut at = self.lock();
        loop {
            at = if *at == Tick::NEVER {
                unpoisoned(self.is_earlier.wait(at))
            } else {
                let begins = clock.start_of(*at).into_std();
                let left = begins.saturating_duration_since(std::time::Instant::now());
                if left.is_zero() {
                    *at = Tick::NEVER;
                    return;
                }
                unpoisoned(self.is_earlier.wait_timeout(at, left)).0
            };
        }
    }

    /// Nothing panics under this lock.
    fn lock(&self) -> MutexGuard<'_, Tick> {
        lock(&self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::clock::tick::TickLength;

    /// The thread goes to sleep at the moment in which it is set again.
    #[test]
    fn a_thread_that_goes_to_sleep_misses_no_earlier_tick() {
        let clock = Clock::of_system(TickLength::new(Duration::from_millis(1)).unwrap(), true);
        let mut alarm = Arc::new(ThreadAlarm {
            at: Mutex::new(Tick::NEVER),
            is_earlier: Condvar::new(),
        });
        let (fired, firings) = channel();
        let of_thread = alarm.clone();
        let thread = thread::spawn(move || {
            for _ in 0..20_000 {
                of_thread.wait(&clock);
                fired.send(()).unwrap();
            }
        });
        for round in 0..20_000 {
            alarm.set(Tick::FIRST);
            let fired = firings.recv_timeout(Duration::from_secs(60));
            assert!(fired.is_ok(), "it sleeps on, round {round}");
        }
        thread.join().unwrap();
    }
}
