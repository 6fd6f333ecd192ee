//! The [`WallClock`]: due times that outlive the process. And [`sleep_until`] a time of day.
//!
//! An [`Instant`] means nothing to another process, and a [`SystemTime`] can jump. So a due is
//! translated when it is saved, and again when it is read.

// Invariant: a reading errs only by the time between its two clocks, so no instant is early.

mod sleep_until;

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

pub use sleep_until::{SleepUntil, sleep_until};

/// The system's wall clock and the clock of the timers, read at the same moment.
///
/// It translates between the two: a due is saved as a [`SystemTime`], and becomes an [`Instant`]
/// again in the process that reads it.
///
/// # When the wall clock jumps
///
/// An operator or NTP may set the wall clock, and after a suspension of the machine it is ahead.
/// Armed timers do not move. A `WallClock` does not see a jump after its reading: read it again for
/// each batch of translations. Then, for a due:
///
/// - *Relative*, such as a retry in 30 s: do nothing. A saved time read after a jump is off by the
///   jump.
/// - *Absolute*, such as nine o'clock: a task awaits [`sleep_until`], which checks the wall clock
///   again. For many at once, read it each minute, translate again, and move the armed ones with
///   [`DelayMap::set`](crate::DelayMap::set).
///
/// Without a jump the two clocks may drift apart slowly, for example while NTP slews the wall
/// clock. Under tokio's paused clock only instants are virtual: a test makes its pair with
/// [`WallClock::at`].
///
/// ```
/// use tickwheel::wall_clock::WallClock;
/// use tickwheel::{DelayMap, Duration, Instant, Timer};
///
/// # tokio_test::block_on(async { tokio::time::pause();
/// let (jobs, _due) = DelayMap::new(&Timer::current());
/// jobs.insert("mail", "to alice", Duration::from_secs(90))?;
///
/// // At the end of one process:
/// let clock = WallClock::now();
/// let due = |left| clock.system_time(Instant::now() + left);
/// let left = jobs.close().into_iter();
/// let saved: Vec<_> = left.map(|(key, value, left)| (key, value, due(left))).collect();
///
/// // At the beginning of another:
/// let (jobs, _due) = DelayMap::new(&Timer::current());
/// let clock = WallClock::now();
/// for (key, value, due) in saved {
///     jobs.insert(key, value, clock.instant(due))?;
/// }
/// assert!(jobs.deadline("mail") <= Some(Instant::now() + Duration::from_secs(91)));
/// # Ok::<(), tickwheel::error::InsertError<(&str, &str)>>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    instant: Instant,
    time: SystemTime,
}

/// Beyond the end of any timer's time, and within every platform's range.
const FAR: Duration = Duration::from_secs(200 * 365 * 24 * 60 * 60);

impl WallClock {
    /// Reads both clocks, three times, and keeps the reading with the least time between the two.
    /// It takes some 200 ns.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tickwheel::wall_clock::WallClock;
    /// use tickwheel::{Duration, Instant};
    ///
    /// let clock = WallClock::now();
    /// // The end of a lease of an hour, for another process to read.
    /// let end = clock.system_time(Instant::now() + Duration::from_secs(3600));
    /// assert!(end > SystemTime::now() + Duration::from_secs(3500));
    /// ```
    pub fn now() -> WallClock {
        let read = || {
            let before = Instant::now();
            let time = SystemTime::now();
            let instant = Instant::now();
            (instant - before, WallClock { instant, time })
        };
        // The thread may be preempted between two readings, but hardly each time.
        let (mut least, mut best) = read();
        for (apart, reading) in [read(), read()] {
            if apart < least {
                (least, best) = (apart, reading);
            }
        }
        best
    }

    /// Makes a pair of readings of your own, for a test.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tickwheel::wall_clock::WallClock;
    /// use tickwheel::{Duration, Instant};
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (hour, nine) = (Duration::from_secs(3600), SystemTime::UNIX_EPOCH);
    /// let at_eight = WallClock::at(Instant::now(), nine - hour);
    /// assert_eq!(at_eight.instant(nine), Instant::now() + hour);
    ///
    /// // An operator sets the clock back by an hour. Only another reading shows it.
    /// let at_seven = WallClock::at(Instant::now(), nine - 2 * hour);
    /// assert_eq!(at_seven.instant(nine), Instant::now() + 2 * hour);
    /// # });
    /// ```
    pub const fn at(instant: Instant, time: SystemTime) -> WallClock {
        WallClock { instant, time }
    }

    /// Returns the instant of a wall-clock time, if the wall clock does not jump.
    ///
    /// It saturates two hundred years ahead. A time without an instant on the platform, such as one
    /// before the machine was started on some, becomes the instant of this reading.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tickwheel::wall_clock::WallClock;
    /// use tickwheel::{Deadline, Duration, Timer};
    ///
    /// /// The deadline of a token that says until when it is valid.
    /// fn validity(expires: SystemTime) -> Deadline {
    ///     let clock = WallClock::now();
    ///     let timer = Timer::current();
    ///     timer.deadline(clock.instant(expires).saturating_duration_since(timer.now()))
    /// }
    ///
    /// # tokio_test::block_on(async {
    /// let mut token = validity(SystemTime::now() + Duration::from_millis(20));
    /// (&mut token).await?;
    /// let of_last_year = SystemTime::now() - Duration::from_secs(365 * 24 * 3600);
    /// validity(of_last_year).await?; // is over at once
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    pub fn instant(&self, time: SystemTime) -> Instant {
        let instant = match time.duration_since(self.time) {
            Ok(ahead) => self.instant.checked_add(ahead.min(FAR)),
            Err(behind) => self.instant.checked_sub(behind.duration()),
        };
        instant.unwrap_or(self.instant)
    }

    /// Returns the wall-clock time of an instant, if the wall clock does not jump. It saturates
    /// like [`instant`](WallClock::instant).
    ///
    /// ```
    /// use tickwheel::wall_clock::WallClock;
    /// use tickwheel::{Duration, Timer};
    ///
    /// # tokio_test::block_on(async {
    /// let idle = Timer::current().deadline(Duration::from_secs(60));
    /// let due = idle.handle().deadline().expect("it is pending");
    ///
    /// // For a log line, a database or an HTTP header: an instant has no date.
    /// let clock = WallClock::now();
    /// let expires = clock.system_time(due);
    /// assert_eq!(clock.instant(expires), due);
    /// # });
    /// ```
    pub fn system_time(&self, instant: Instant) -> SystemTime {
        let time = match instant.checked_duration_since(self.instant) {
            Some(ahead) => self.time.checked_add(ahead.min(FAR)),
            None => self.time.checked_sub(self.instant - instant),
        };
        time.unwrap_or(self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_time_comes_back_as_it_was_saved() {
        let (instant, time) = (Instant::now(), SystemTime::UNIX_EPOCH + 1_000 * SECOND);
        let clock = WallClock::at(instant, time);
        for seconds in [0, 1, 500] {
            let due = instant + seconds * SECOND;
            assert_eq!(clock.instant(clock.system_time(due)), due);
            let saved = time - seconds * SECOND;
            let restored = clock.instant(saved);
            // Some platforms have no instant before the machine was started.
            assert!(restored == instant || clock.system_time(restored) == saved);
        }
        let saved = clock.system_time(instant + 90 * SECOND);
        let other = WallClock::at(instant + 7_777 * SECOND, time + 30 * SECOND);
        assert_eq!(other.instant(saved) - other.instant, 60 * SECOND);
    }

    #[test]
    fn a_jump_is_seen_by_a_new_reading_only() {
        let (instant, time) = (Instant::now(), SystemTime::UNIX_EPOCH + 10_000 * SECOND);
        let before = WallClock::at(instant, time);
        let nine = time + 600 * SECOND;
        let after = WallClock::at(instant + 60 * SECOND, time + 60 * SECOND - 3_600 * SECOND);
        assert_eq!(before.instant(nine), instant + 600 * SECOND);
        assert_eq!(after.instant(nine), instant + (3_600 + 600) * SECOND);
    }

    #[test]
    fn a_time_far_away_saturates() {
        let clock = WallClock::now();
        let far_instant = clock.instant(SystemTime::UNIX_EPOCH + 5 * FAR);
        assert_eq!(far_instant - clock.instant, FAR);
        assert_eq!(clock.system_time(clock.instant + 5 * FAR), clock.time + FAR);
        // The year 970, which is before the first time on Windows and on WebAssembly.
        let epoch = SystemTime::UNIX_EPOCH;
        let ancient = clock.instant(epoch.checked_sub(5 * FAR).unwrap_or(epoch));
        assert!(ancient <= clock.instant);
        assert!(clock.system_time(ancient) <= clock.time);
    }

    #[test]
    fn readings_at_the_ends_of_both_clocks_saturate_too() {
        let last = |by: fn(&SystemTime, Duration) -> Option<SystemTime>| {
            let steps = (0..64).rev().map(|bit| Duration::from_secs(1 << bit));
            let take = |at, step| by(&at, step).unwrap_or(at);
            steps.fold(SystemTime::UNIX_EPOCH, take)
        };
        let (now, epoch) = (Instant::now(), SystemTime::UNIX_EPOCH);
        let (last, first) = (last(SystemTime::checked_add), last(SystemTime::checked_sub));
        let (far_ahead, long_ago) = (now.checked_add(5 * FAR), now.checked_sub(5 * FAR));
        let mut clocks = Vec::new();
        for time in [last, first, epoch, SystemTime::now()] {
            let instants = [far_ahead, long_ago, Some(now)].into_iter().flatten();
            clocks.extend(instants.map(|at| WallClock::at(at, time)));
        }
        for clock in &clocks {
            for other in &clocks {
                clock.instant(other.time);
                clock.system_time(other.instant);
            }
        }
    }
}
