//! The alarm of the process's timer: a thread of its own, which sleeps until the alarm's tick and
//! then makes the turn. It is a plain thread, in the context of no runtime.
//!
//! ```text
//!   set for never: sleeps until it is set --(set)--> set: sleeps until that tick --(its time)--> fires: turns, sets it again
//!                                                      ^  |
//!                                                      +--+ set for another tick: wakes up if that is earlier
//! ```

use std::sync::Arc;
use std::time::Instant;
use std::{io, thread};

use super::Driver;
use super::alarm_tick::AlarmTick;
use super::core::{Alarm, SetOutcome};
use crate::clock::tick::Tick;

pub(super) struct ThreadAlarm(Arc<AlarmTick>);

impl ThreadAlarm {
    /// Starts the thread. It keeps the driver, and so neither ever ends.
    pub(super) fn start(driver: &Arc<Driver>, name: &str) -> io::Result<ThreadAlarm> {
        let alarm = Arc::new(AlarmTick::unset());
        let (of_thread, driver) = (alarm.clone(), driver.clone());
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let left = |tick| {
                    let begins = driver.clock.start_of(tick).into_std();
                    begins.saturating_duration_since(Instant::now())
                };
                loop {
                    of_thread.wait(left);
                    driver.handle_alarm();
                }
            })?;
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

    fn set_soon(&mut self, now: Tick) -> (SetOutcome, Tick) {
        (self.set(now), now)
    }

    fn note_fired(&mut self) {}
}
