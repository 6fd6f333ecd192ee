//! A sleep until a time of day, which follows the system's wall clock.
//!
//! Invariant: it is ready only after a reading of the wall clock has shown the time. A timer does
//! not know that clock, so it only wakes the next reading. If the timer's own clock is or was
//! paused, that clock decides instead, unless a test has replaced the wall clock. The system's wall
//! clock is then read only to find the due. The clock of the poller decides nothing, because it may
//! be that of another runtime.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::WallClock;
use crate::Sleep;
use crate::runtime::{Handle, Id};

/// Waits until the system's wall clock shows a time, on the current runtime's own timer.
///
/// Timers go by a clock that never jumps. The wall clock is set by operators and by NTP, and runs
/// on while the machine is suspended. So the future reads it again once a minute.
///
/// It is never ready before the system's clock has shown the time. After a jump or a suspension it
/// is at most a minute late, otherwise as late as a [`Sleep`], and by some milliseconds more if NTP
/// slews the clock. A time that has passed is ready at the first poll. Once ready, it stays ready.
///
/// It finds its timer as [`sleep_until`](crate::sleep_until) does: made in a task, it takes that of
/// the runtime that first polls it, or [`Timer::global`](crate::Timer::global) outside of one.
///
/// If the clock of that timer is or was paused, it goes by that clock alone. It then takes the time
/// that was left at the call or, if the call was made in another runtime, at the first poll. At the
/// end of the timer's time, 146 years after the timer was made, it stays pending. A test of a
/// schedule gives it [a clock of its own](SleepUntil::with_clock).
///
/// For a time zone, see [the recipe](crate::docs::recipes#a-job-at-nine-each-morning).
///
/// # Panics
///
/// Outside a tokio runtime, and in one without a time driver. The future panics if it is polled
/// while pending and the runtime of its timer has shut down.
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
#[track_caller]
pub fn sleep_until(time: SystemTime) -> SleepUntil {
    let due = WallClock::now().instant(time);
    SleepUntil {
        time,
        clock: None,
        due,
        sleep: crate::sleep_until(due),
        made_in: Handle::current().id(),
        has_ended: false,
    }
}

/// How often the clock is read again, and so how late the future is after a jump.
const MINUTE: Duration = Duration::from_secs(60);

/// A future that is ready once the system's wall clock shows a time: [`sleep_until`].
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct SleepUntil {
    time: SystemTime,
    /// Replaces the system's, for a test.
    clock: Option<Box<dyn Fn() -> WallClock + Send + Sync>>,
    /// When the time comes by the clock of the runtime `made_in`, if that is paused.
    due: Instant,
    made_in: Id,
    /// Until the clock is read again. New until the first poll.
    sleep: Sleep,
    has_ended: bool,
}

impl SleepUntil {
    /// Replaces the clock, for a test. Each call of `clock` returns a reading of both clocks.
    ///
    /// So a test of a schedule needs neither the system's clock nor its time: a day passes at once,
    /// and the clock may jump.
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
    /// assert!(clock().system_time(Instant::now()) >= SystemTime::UNIX_EPOCH + day);
    /// # });
    /// ```
    pub fn with_clock(
        mut self,
        clock: impl Fn() -> WallClock + Send + Sync + 'static,
    ) -> SleepUntil {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Finds its timer, and lets the first check come at once.
    fn begin(&mut self) {
        if !self.sleep.attach().clock().is_of(self.made_in) {
            self.due = WallClock::now().instant(self.time);
        }
        self.sleep.elapse();
    }

    /// Reads the clock, and returns whether it shows the time. If not, it resets the sleep, which
    /// was ready. So the sleep is armed for the task that polls, or wakes that task.
    fn check(&mut self) -> bool {
        let shard = self.sleep.attach().clone();
        let clock = shard.clock();
        // On another thread, the tick that the driver last reached is a lower bound for the clock.
        // If the driver reached it long ago, the sleep is ready soon, and the driver has come
        // further by then.
        let now = || {
            if clock.is_read_here() {
                clock.now_instant()
            } else {
                clock.start_of(shard.turned_to())
            }
        };
        let next = match &self.clock {
            Some(read) => self.next_check(read().time, now()),
            None if clock.is_virtual() => (now() < self.due).then_some(self.due),
            None => self.next_check(SystemTime::now(), now()),
        };
        match next {
            // Each sleep would be ready at once.
            Some(_) if shard.turned_to() == clock.last_tick() => {}
            Some(next) => self.sleep.reset_at(next),
            None => return true,
        }
        false
    }

    /// When to read the clock again, after a reading of `time` at `now`. `None` if that has come.
    fn next_check(&self, time: SystemTime, now: Instant) -> Option<Instant> {
        let due = WallClock::at(now, time).instant(self.time);
        let next = now.checked_add(MINUTE);
        (time < self.time).then(|| next.map_or(due, |next| due.min(next)))
    }
}

impl Future for SleepUntil {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.sleep.is_new() {
            this.begin();
        }
        ready!(Pin::new(&mut this.sleep).poll(cx));
        this.has_ended = this.has_ended || this.check();
        if this.has_ended {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl fmt::Debug for SleepUntil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepUntil")
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}
