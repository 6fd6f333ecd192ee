//! The alarm of the process's timer: a thread of its own, which sleeps until the alarm's tick and
//! then makes the turn. It is a plain thread, in the context of no runtime.
//!
//! ```text
//!   set for never: sleeps until it is set --(set)--> set: sleeps until that tick --(its time)--> fires: turns, sets it again
//!                                                      ^  |
//!                                                      +--+ set for another tick: wakes up if that is earlier
//! ```
//!
//! Invariant: whoever sets the alarm earlier wakes the thread. The thread looks at the tick again
//! under the lock before it sleeps, so it overlooks no earlier tick.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{io, thread};

use super::Driver;
use crate::clock::Clock;
use crate::clock::tick::Tick;
use crate::sync::{lock, unpoisoned};

pub(super) struct ThreadAlarm {
    shared: Arc<Shared>,
}

struct Shared {
    setting: Mutex<Setting>,
    is_earlier: Condvar,
}

struct Setting {
    /// The tick that it is set for; `NEVER` also once it has fired.
    at: Tick,
}

impl ThreadAlarm {
    /// Starts the thread. It keeps the driver, and so neither ever ends.
    pub(super) fn start(driver: &Arc<Driver>, name: &str) -> io::Result<ThreadAlarm> {
        let shared = Arc::new(Shared {
            setting: Mutex::new(Setting { at: Tick::NEVER }),
            is_earlier: Condvar::new(),
        });
        let (of_thread, driver) = (shared.clone(), driver.clone());
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || of_thread.fire_for_ever(&driver))?;
        Ok(ThreadAlarm { shared })
    }

    /// The tick that it is set for.
    pub(super) fn at(&self) -> Tick {
        self.shared.lock().at
    }

    /// Sets the alarm for the beginning of a tick.
    pub(super) fn set(&self, tick: Tick) {
        let mut setting = self.shared.lock();
        let is_earlier = tick < setting.at;
        setting.at = tick;
        drop(setting);
        if is_earlier {
            self.shared.is_earlier.notify_one();
        }
    }
}

impl Shared {
    fn fire_for_ever(&self, driver: &Arc<Driver>) {
        loop {
            self.wait(&driver.clock);
            driver.handle_alarm();
        }
    }

    /// Waits until the alarm's tick has begun, and unsets the alarm.
    fn wait(&self, clock: &Clock) {
        let mut setting = self.lock();
        loop {
            setting = if setting.at == Tick::NEVER {
                let waited = self.is_earlier.wait(setting);
                unpoisoned(waited)
            } else {
                let begins = clock.start_of(setting.at).into_std();
                let left = begins.saturating_duration_since(std::time::Instant::now());
                if left.is_zero() {
                    setting.at = Tick::NEVER;
                    return;
                }
                let waited = self.is_earlier.wait_timeout(setting, left);
                unpoisoned(waited).0
            };
        }
    }

    /// Nothing panics under this lock.
    fn lock(&self) -> MutexGuard<'_, Setting> {
        lock(&self.setting)
    }
}
