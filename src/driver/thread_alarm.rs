//! The alarm of the process's timer: a plain thread, in the context of no runtime, which sleeps
//! until the alarm's tick and then makes the turn.
//!
//! ```text
//!   set for never: sleeps until it is set --(set)--> set: sleeps until that tick --(its time)--> fires: turns, sets it again
//!                                                      ^  |
//!                                                      +--+ set for another tick
//! ```
//!
//! The thread receives the ticks through a channel. They are sent under the alarm's lock, so the
//! last one is the one that counts.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::{io, thread};

use super::Driver;
use super::alarm::Alarm;
use crate::clock::tick::Tick;

/// The sending end of the channel to the thread.
pub(super) struct ThreadAlarm(Sender<Tick>);

impl ThreadAlarm {
    /// Starts the thread. It keeps the driver, so neither ever ends.
    pub(super) fn start(name: &str, driver: Arc<Driver>) -> io::Result<ThreadAlarm> {
        let (sender, ticks) = channel();
        let run = move || {
            let mut at = Tick::NEVER;
            loop {
                let left = driver.clock.tick().start_of(at).since(driver.clock.now());
                match ticks.recv_timeout(left) {
                    Ok(tick) => at = tick,
                    Err(RecvTimeoutError::Timeout) => {
                        at = Tick::NEVER;
                        driver.handle_alarm();
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(ThreadAlarm(sender))
    }
}

impl Alarm for ThreadAlarm {
    fn set(&mut self, tick: Tick) -> Result<(), Tick> {
        // The thread never ends.
        let _ = self.0.send(tick);
        Ok(())
    }
}
