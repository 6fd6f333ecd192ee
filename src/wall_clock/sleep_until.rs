//! A sleep until a time of day, which follows the system's wall clock.
//!
//! Invariant: it is ready only after a reading of the wall clock has shown the time. A timer does
//! not know that clock, so it only wakes the next reading.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use futures_core::FusedFuture;
use tokio::time::Instant;

use super::WallClock;
use crate::Sleep;
use crate::runtime::coop;

/// Waits until the system's wall clock shows a time, on the current runtime's own timer.
///
/// Timers go by a clock that never jumps. The wall clock is set by operators and by NTP, and runs
/// on while the machine is suspended. So the future reads it again, once a minute or [more
/// often](SleepUntil::check_every).
///
/// - It is never ready before the system's clock has shown the time.
/// - After a jump or a suspension it is at most a minute late. Otherwise it is as late as a
///   [`Sleep`]. A clock that NTP slews moves by some milliseconds in that minute.
/// - A time that has passed is ready at the first poll. Once ready, it stays ready, even if the
///   clock is set back.
///
/// Under a paused clock it takes the time that was left at the call, if it is made in that runtime.
/// A test of a schedule gives it [a clock of its own](SleepUntil::with_clock).
///
/// For a time of day in a time zone, see [the
/// recipe](crate::docs::recipes#a-job-at-nine-each-morning).
///
/// # Panics
///
/// If it is pending at its first poll, as [`sleep_until`](crate::sleep_until) does where that is
/// called then: outside a tokio runtime, and in one without a time driver.
///
/// ```
/// use std::time::SystemTime;
/// use tickwheel::{Duration, wall_clock};
///
/// # tokio_test::block_on(async {
/// let expires = SystemTime::now() + Duration::from_millis(20);
/// wall_clock::sleep_until(expires).await;
/// assert!(SystemTime::now() >= expires);
/// # });
/// ```
pub fn sleep_until(time: SystemTime) -> SleepUntil {
    SleepUntil {
        time,
        check_every: MINUTE,
        clock: None,
        begun: WallClock::now(),
        sleep: None,
        has_ended: false,
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// A future that is ready once the system's wall clock shows a time: [`sleep_until`].
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct SleepUntil {
    time: SystemTime,
    check_every: Duration,
    /// Replaces the system's, for a test.
    clock: Option<Box<dyn Fn() -> WallClock + Send + Sync>>,
    begun: WallClock,
    /// Until the clock is read again. `None` before the first poll.
    sleep: Option<Sleep>,
    has_ended: bool,
}

impl SleepUntil {
    /// Sets how late it may be after a jump or a suspension, in place of a minute. The future wakes
    /// its task that often. The setting holds from the next check on.
    pub fn check_every(mut self, period: Duration) -> SleepUntil {
        self.check_every = period;
        self
    }

    /// Replaces the clock, for a test. Each call of `clock` returns a reading of both clocks.
    ///
    /// ```
    /// # use std::time::SystemTime;
    /// # use tickwheel::wall_clock::{WallClock, sleep_until};
    /// # use tickwheel::{Duration, Instant};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let start = WallClock::at(Instant::now(), SystemTime::UNIX_EPOCH);
    /// let clock = move || WallClock::at(Instant::now(), start.system_time(Instant::now()));
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// sleep_until(SystemTime::UNIX_EPOCH + day).with_clock(clock).await;
    /// # });
    /// ```
    pub fn with_clock(
        mut self,
        clock: impl Fn() -> WallClock + Send + Sync + 'static,
    ) -> SleepUntil {
        self.clock = Some(Box::new(clock));
        self
    }

    /// When to read the clock again. `None` if it shows the time.
    fn check(&self) -> Option<Instant> {
        let virtual_clock = || {
            let now = Instant::now();
            WallClock::at(now, self.begun.system_time(now))
        };
        let (clock, may_jump) = match &self.clock {
            Some(clock) => (clock(), true),
            None if is_virtual() => (virtual_clock(), false),
            None => (WallClock::now(), true),
        };
        if clock.time >= self.time {
            return None;
        }
        let due = clock.instant(self.time);
        let next = clock.instant.checked_add(self.check_every);
        Some(next.filter(|_| may_jump).map_or(due, |next| due.min(next)))
    }
}

const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Whether the clock of the timers is or was paused, and so differs from the system's.
fn is_virtual() -> bool {
    // A stopped clock may happen to show the system's time once, but not twice.
    let is_off = || {
        let before = std::time::Instant::now();
        let shown = Instant::now().into_std();
        shown < before || shown > std::time::Instant::now()
    };
    is_off() || is_off()
}

impl Future for SleepUntil {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let coop = ready!(coop::poll_proceed(cx));
        while !this.has_ended {
            if let Some(sleep) = &mut this.sleep {
                ready!(Pin::new(sleep).poll(cx));
            }
            match (this.check(), &mut this.sleep) {
                (None, _) => this.has_ended = true,
                (Some(next), Some(sleep)) if next > sleep.deadline() => sleep.reset_at(next),
                // A clock that stands names an instant that has passed, each time it is read.
                (Some(_), Some(sleep)) => sleep.reset_after(this.check_every.max(SHORTEST_WAIT)),
                (Some(next), sleep) => *sleep = Some(crate::sleep_until(next)),
            }
        }
        coop.made_progress();
        Poll::Ready(())
    }
}

/// Terminated once it was ready.
impl FusedFuture for SleepUntil {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

impl fmt::Debug for SleepUntil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepUntil")
            .field("time", &self.time)
            .field("check_every", &self.check_every)
            .finish_non_exhaustive()
    }
}
