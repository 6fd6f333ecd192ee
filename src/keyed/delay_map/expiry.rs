//! When a value is due: the argument of each call that sets it.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::clock::tick::Moment;

/// When a value of a [`DelayMap`](crate::DelayMap) is due, and the longest that it may live.
///
/// The calls that set a due take `impl Into<Expiry>`, so a [`Duration`] and an [`Instant`] need no
/// conversion:
///
/// | argument | the value is due |
/// |---|---|
/// | a `Duration` | when that has passed since the call |
/// | an `Instant` | at that instant, or at once if it has passed |
/// | either one with [`at_most`](Expiry::at_most) | the same, but no later than the limit, however often a reset restarts the delay |
///
/// The limit belongs to the value and not to a delay. It counts from the call that puts the value
/// into the map: [`insert`](crate::DelayMap::insert),
/// [`insert_if_absent`](crate::DelayMap::insert_if_absent), or
/// [`touch_or_insert_with`](crate::DelayMap::touch_or_insert_with) where no value is pending. A
/// reset or a touch does not change the limit of a pending value: it ignores the limit of its own
/// `Expiry`, even if the value has none. So a server can pass the same `Expiry` at each use of a
/// session.
///
/// # Example
///
/// A session ends when nobody has used it for 30 minutes, and after a day in any case:
///
/// ```
/// # tokio_test::block_on(async { tokio::time::pause();
/// use tickwheel::{DelayMap, Duration, Expiry, Instant, Timer, sleep};
///
/// const IDLE: Duration = Duration::from_secs(30 * 60);
/// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// const SESSION: Expiry = Expiry::idle(IDLE).at_most(DAY);
///
/// let (sessions, mut ended) = DelayMap::new(&Timer::current());
/// let login = Instant::now();
/// for _ in 0..72 {
///     let use_it = |uses: &mut u32| *uses += 1;
///     sessions.touch_or_insert_with("alice", SESSION, || 0, use_it)?;
///     sleep(Duration::from_secs(20 * 60)).await;
/// }
/// let session = ended.recv().await.expect("the map is open");
/// assert_eq!((session.value, session.deadline), (72, login + DAY));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expiry {
    due: Due,
    /// The longest life, from the insert on.
    limit: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Due {
    After(Duration),
    At(Instant),
}

impl Expiry {
    /// Due when `delay` has passed since the call: the same as `Expiry::from(delay)`.
    ///
    /// ```
    /// # use tickwheel::{Duration, Expiry};
    /// const IDLE: Expiry = Expiry::idle(Duration::from_secs(60));
    /// assert_eq!(IDLE, Duration::from_secs(60).into());
    /// ```
    #[inline]
    #[must_use = "an `Expiry` is for a call of a map"]
    pub const fn idle(delay: Duration) -> Expiry {
        Expiry {
            due: Due::After(delay),
            limit: None,
        }
    }

    /// Adds a limit on the whole life of the value: it is due at most `ttl` after it was inserted,
    /// or at its own due if that is earlier. This holds for an instant too, and for each due to
    /// which a reset moves the value. Of two limits the shorter one holds.
    ///
    /// ```
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # use tickwheel::{DelayMap, Duration, Expiry, Instant, Timer};
    /// # let minute = Duration::from_secs(60);
    /// let (tokens, _expired) = DelayMap::new(&Timer::current());
    /// let start = Instant::now();
    /// tokens.insert("idle", (), Expiry::idle(minute).at_most(5 * minute))?;
    /// tokens.insert("instant", (), Expiry::from(start + minute).at_most(5 * minute))?;
    /// for key in ["idle", "instant"] {
    ///     assert_eq!(tokens.deadline(key), Some(start + minute));
    ///     assert!(tokens.reset(key, 10 * minute));
    ///     assert_eq!(tokens.deadline(key), Some(start + 5 * minute), "it keeps the limit");
    /// }
    /// # Ok::<(), tickwheel::error::InsertError<(&str, ())>>(()) }).unwrap();
    /// ```
    #[inline]
    #[must_use = "it returns a new `Expiry`"]
    pub const fn at_most(self, ttl: Duration) -> Expiry {
        let limit = match self.limit {
            // `Ord` is not const.
            Some(limit) if limit.as_nanos() < ttl.as_nanos() => limit,
            _ => ttl,
        };
        Expiry {
            due: self.due,
            limit: Some(limit),
        }
    }

    /// The due of a call at `now`, without the limit.
    #[inline]
    pub(super) fn due(self, clock: &Clock, now: Moment) -> Moment {
        match self.due {
            Due::After(delay) => now.after(delay),
            Due::At(instant) => clock.moment(instant),
        }
    }

    /// The end of the life of a value that is inserted at `now`.
    #[inline]
    pub(super) fn end_of_life(self, now: Moment) -> Moment {
        self.limit.map_or(Moment::MAX, |ttl| now.after(ttl))
    }
}

impl From<Duration> for Expiry {
    /// The same as [`Expiry::idle`].
    #[inline]
    fn from(delay: Duration) -> Expiry {
        Expiry::idle(delay)
    }
}

impl From<Instant> for Expiry {
    /// Due at that instant.
    #[inline]
    fn from(deadline: Instant) -> Expiry {
        Expiry {
            due: Due::At(deadline),
            limit: None,
        }
    }
}
