//! Time as the model counts it: nanoseconds on tokio's grid, and the ticks of a timer on that.

use tickwheel::{Duration, Instant};

use super::program::Offset;

/// A point in time, in nanoseconds. [`START`] is when the runtime was built, and a line of tokio's
/// grid.
pub(crate) type At = u64;

pub(crate) const MS: At = 1_000_000;

/// Far enough from zero that a program can name instants before its start.
pub(crate) const START: At = 3_600_000 * MS;

/// What lies this far away is only compared with a lower bound, because each clock saturates
/// somewhere else.
pub(crate) const FAR: At = 50 * 365 * 24 * 3_600_000 * MS;

/// The first line of tokio's grid that is not before `at`.
pub(crate) fn line_from(at: At) -> u64 {
    at.div_ceil(MS)
}

/// The last line of tokio's grid that is not after `at`.
pub(crate) fn line_until(at: At) -> u64 {
    at / MS
}

/// Translates between the model's time and the clock's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// To be made as soon as the runtime of a paused clock runs.
    pub(crate) fn start() -> Clock {
        Clock {
            start: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> At {
        self.at(Instant::now())
    }

    pub(crate) fn at(self, instant: Instant) -> At {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(FAR);
        match instant.checked_duration_since(self.start) {
            Some(since) => START.saturating_add(nanos(since)).min(FAR),
            None => START.saturating_sub(nanos(self.start - instant)),
        }
    }

    /// The time that lies so many microseconds from another, and its instant.
    pub(crate) fn from(self, now: At, from_now: Offset) -> (At, Instant) {
        let at = now.saturating_add_signed(from_now * 1_000);
        (at, self.instant(at))
    }

    /// The instant of a time that is not far.
    pub(crate) fn instant(self, at: At) -> Instant {
        match at.checked_sub(START) {
            Some(since) => self.start + Duration::from_nanos(since),
            None => self.start - Duration::from_nanos(START - at),
        }
    }
}

/// The time that lies a duration after another, or [`FAR`].
pub(crate) fn after(at: At, duration: Duration) -> At {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(FAR);
    at.saturating_add(nanos).min(FAR)
}

/// The ticks of a timer. They begin on the line of the grid on which, or after which, the timer was
/// made, or just there if a plain thread has made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    length: At,
    begin: At,
}

impl Ticks {
    pub(crate) fn new(length: Duration, made_at: At, is_made_outside: bool) -> Ticks {
        let line = line_until(made_at) * MS;
        Ticks {
            length: after(0, length),
            begin: if is_made_outside { made_at } else { line },
        }
    }

    /// Whether what is due then, and is not armed, is ready now: by the milliseconds since the
    /// beginning of the ticks.
    pub(crate) fn is_ready(self, due: At, now: At) -> bool {
        let since = |at: At| at.saturating_sub(self.begin);
        line_from(since(due)) <= line_until(since(now))
    }

    pub(crate) fn length(self) -> Duration {
        Duration::from_nanos(self.length)
    }

    /// The beginning of the tick from which what has this deadline may fire.
    pub(crate) fn rounded(self, deadline: At) -> At {
        self.begin_of(self.due(deadline)).min(FAR)
    }

    /// The tick from which what has this deadline may fire.
    pub(crate) fn due(self, deadline: At) -> u64 {
        deadline.saturating_sub(self.begin).div_ceil(self.length)
    }

    /// The tick that has begun.
    pub(crate) fn current(self, now: At) -> u64 {
        now.saturating_sub(self.begin) / self.length
    }

    pub(crate) fn begin_of(self, tick: u64) -> At {
        (self.begin).saturating_add(tick.saturating_mul(self.length))
    }

    /// The line of tokio's grid at which what has this deadline fires, at the latest.
    pub(crate) fn fires(self, deadline: At) -> u64 {
        line_from(self.begin_of(self.due(deadline)))
    }
}
