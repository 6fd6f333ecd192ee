//! The clock of a timer: that of the runtime which drives it, whoever asks.
//!
//! A multi-thread runtime has the system's clock. A current-thread runtime may be paused under tokio's `test-util`, at
//! any moment and with nobody told; then time is what that runtime says, and a caller outside it (a plain thread, a
//! second runtime) has to step into its context to read it.
//!
//! Invariants: a clock's readings never go back, and the epoch belongs to the timer, so that two equal runs under
//! a paused clock see equal moments. The clock of a runtime that is gone stands still.
//!
//! While the driver rests, callers read the clock for each new deadline. They do it through `deadline_after` and
//! `reset_moment` alone: the seam at which a published tick takes the place of a reading.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::tick::{Moment, Span, TickLength};

#[derive(Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    tick: TickLength,
    source: Source,
}

#[derive(Debug)]
enum Source {
    System,
    /// The clock of a current-thread runtime.
    Pausable {
        runtime: runtime::Id,
        /// Nothing panics under this lock, and a reader is whole at any time; so poison is ignored.
        reader: RwLock<Reader>,
    },
}

#[derive(Debug)]
enum Reader {
    Runtime(Handle),
    /// The runtime has gone; this is when.
    Stopped(Instant),
}

impl Clock {
    /// The clock of the runtime of `handle`, beginning now. To be called in that runtime's context.
    pub(crate) fn new(handle: &Handle, tick: TickLength) -> Clock {
        let source = match handle.runtime_flavor() {
            RuntimeFlavor::CurrentThread => Source::Pausable {
                runtime: handle.id(),
                reader: RwLock::new(Reader::Runtime(handle.clone())),
            },
            _ => Source::System,
        };
        Clock {
            epoch: Instant::now(),
            tick,
            source,
        }
    }

    /// The deadline of a timer that is made now, `duration` away.
    pub(crate) fn deadline_after(&self, duration: Duration) -> Moment {
        self.now().after(Span::from(duration))
    }

    /// The moment from which a deadline counts that is reset now.
    pub(crate) fn reset_moment(&self) -> Moment {
        self.now()
    }

    pub(crate) fn now(&self) -> Moment {
        self.moment(self.now_instant())
    }

    pub(crate) fn now_instant(&self) -> Instant {
        match &self.source {
            Source::System => system_now(),
            Source::Pausable {
                runtime, reader, ..
            } => match Handle::try_current() {
                Ok(current) if current.id() == *runtime => Instant::now(),
                Err(error) if error.is_thread_local_destroyed() => system_now(),
                _ => match &*reader.read().unwrap_or_else(PoisonError::into_inner) {
                    Reader::Runtime(handle) => {
                        let _context = handle.enter();
                        Instant::now()
                    }
                    Reader::Stopped(at) => *at,
                },
            },
        }
    }

    /// Whether the clock can ever be paused.
    pub(crate) fn is_pausable(&self) -> bool {
        matches!(self.source, Source::Pausable { .. })
    }

    /// Lets the clock stand still, and forgets the runtime: nothing of it is kept in memory by its timers.
    pub(crate) fn stop(&self) {
        if let Source::Pausable { reader, .. } = &self.source {
            let now = self.now_instant();
            // The handle is dropped after the lock.
            let mut reader = reader.write().unwrap_or_else(PoisonError::into_inner);
            let _handle = std::mem::replace(&mut *reader, Reader::Stopped(now));
            drop(reader);
        }
    }

    pub(crate) fn tick_length(&self) -> Duration {
        self.tick.as_duration()
    }

    pub(crate) fn current_tick(&self) -> u64 {
        self.tick.current(self.now())
    }

    /// The tick from which a timer of this deadline may fire.
    pub(crate) fn due(&self, deadline: Moment) -> u64 {
        self.tick.due(deadline)
    }

    /// When `tick` begins.
    pub(crate) fn start_of(&self, tick: u64) -> Instant {
        self.instant(self.tick.start_of(tick))
    }

    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        match instant.checked_duration_since(self.epoch) {
            Some(distance) => Moment::after_epoch(distance),
            None => Moment::before_epoch(self.epoch.duration_since(instant)),
        }
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        /// Some platforms cannot name an instant as far away as `Moment::MAX`; 30 years is tokio's bound too.
        const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
        let before = moment.until_epoch();
        if before > Duration::ZERO {
            return self.epoch.checked_sub(before).unwrap_or(self.epoch);
        }
        self.epoch
            .checked_add(moment.since_epoch())
            .unwrap_or_else(|| self.epoch + FAR_FUTURE)
    }
}

fn system_now() -> Instant {
    Instant::from_std(std::time::Instant::now())
}
