//! When a value is due: the argument of each call that sets it, and what is left of it.

use std::time::Duration;

use tokio::time::Instant;

use super::part::Item;
use crate::clock::tick::Moment;
use crate::clock::{Clock, FAR};

/// When a value of a [`DelayMap`](crate::DelayMap) is due, and its longest life.
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
///     sessions.upsert("alice", SESSION, || 0, |uses| *uses += 1)?;
///     sleep(Duration::from_secs(20 * 60)).await;
/// }
/// let session = ended.recv().await.expect("the map is open");
/// assert_eq!((session.value, session.deadline), (72, login + DAY));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Usage
///
/// The calls that set a due take `impl Into<Expiry>`, so a [`Duration`] and an [`Instant`] need no
/// conversion:
///
/// | argument | the value is due |
/// |---|---|
/// | a `Duration` | when that has passed since the call |
/// | an `Instant` | at that instant, or at once if it lies in the past |
/// | either one with [`at_most`](Expiry::at_most) | the same, but no later than the longest life allows, however often a call sets it again |
///
/// The longest life belongs to the value and not to a delay. It counts from the call that puts the
/// value into the map: [`insert`](crate::DelayMap::insert),
/// [`insert_if_absent`](crate::DelayMap::insert_if_absent), or [`upsert`](crate::DelayMap::upsert)
/// where no value is pending. [`set`](crate::DelayMap::set), [`set_if`](crate::DelayMap::set_if),
/// [`touch`](crate::DelayMap::touch) and an `upsert` of a pending value do not change it: they
/// ignore the longest life of their own `Expiry`, and also that it has none. So a server can pass
/// the same `Expiry` at each use of a session.
///
/// # What is left
///
/// [`DelayMap::expiry`](crate::DelayMap::expiry) and
/// [`DelayMap::for_each`](crate::DelayMap::for_each) give the `Expiry` that a value has left: the
/// instant at which it is due, and the rest of its longest life. An insert with it goes on where
/// the value was. To store it, read both by [`deadline_from`](Expiry::deadline_from) and
/// [`longest_life`](Expiry::longest_life).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expiry {
    due: Due,
    /// From the insert on.
    longest_life: Option<Duration>,
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
            longest_life: None,
        }
    }

    /// Bounds the whole life of the value: it is due at most `longest_life` after it was inserted,
    /// or at its own due if that is earlier. This holds for an instant too, and for each due that a
    /// later call sets. Of two bounds the shorter one holds.
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
    ///     assert!(tokens.set(key, 10 * minute));
    ///     assert_eq!(tokens.deadline(key), Some(start + 5 * minute), "its longest life stays");
    /// }
    /// # Ok::<(), tickwheel::error::InsertError<(&str, ())>>(()) }).unwrap();
    /// ```
    #[inline]
    #[must_use = "it returns a new `Expiry`"]
    pub const fn at_most(self, longest_life: Duration) -> Expiry {
        let longest_life = match self.longest_life {
            // `Ord` is not const.
            Some(shorter) if shorter.as_nanos() < longest_life.as_nanos() => shorter,
            _ => longest_life,
        };
        Expiry {
            due: self.due,
            longest_life: Some(longest_life),
        }
    }

    /// When a value is due that is inserted at `now` with this: at its own due, or when its longest
    /// life ends if that is earlier. It is at most some 146 years after `now`.
    ///
    /// Of the `Expiry` that a map gives back, it is the value's deadline, for any `now` since then.
    ///
    /// ```
    /// # use tickwheel::{Duration, Expiry, Instant};
    /// # let minute = Duration::from_secs(60);
    /// let now = Instant::now();
    /// assert_eq!(Expiry::idle(2 * minute).deadline_from(now), now + 2 * minute);
    /// assert_eq!(Expiry::idle(2 * minute).at_most(minute).deadline_from(now), now + minute);
    /// assert_eq!(Expiry::from(now + minute).deadline_from(now), now + minute);
    /// ```
    pub fn deadline_from(self, now: Instant) -> Instant {
        let after = |delay: Duration| {
            let after = now.checked_add(delay.min(Moment::MAX.since(Moment::EPOCH)));
            after.or_else(|| now.checked_add(FAR)).unwrap_or(now)
        };
        let due = match self.due {
            Due::After(delay) => after(delay),
            Due::At(instant) => instant,
        };
        due.min(after(self.longest_life.unwrap_or(Duration::MAX)))
    }

    /// The longest life of a value that is inserted with this, or `None` without a bound.
    ///
    /// Of the `Expiry` that a map gives back, it is the rest, counted from that call, and `None`
    /// beyond some 146 years.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Expiry, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// sessions.insert("alice", 1, Expiry::idle(2 * minute).at_most(60 * minute))?;
    /// tokio::time::advance(minute).await;
    /// let left = sessions.expiry("alice").expect("it is pending");
    /// assert_eq!(left.longest_life(), Some(59 * minute));
    /// assert_eq!(Expiry::idle(minute).longest_life(), None);
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub const fn longest_life(self) -> Option<Duration> {
        self.longest_life
    }

    /// What is left of a value's at `now`.
    pub(super) fn left_of<K, V>(item: &Item<K, V>, clock: &Clock, now: Moment) -> Expiry {
        let is_bounded = item.latest_due < Moment::MAX;
        Expiry {
            due: Due::At(clock.instant(item.deadline)),
            longest_life: is_bounded.then(|| item.latest_due.since(now)),
        }
    }

    /// The due of a call at `now`, without the longest life.
    #[inline]
    pub(super) fn due(self, clock: &Clock, now: Moment) -> Moment {
        match self.due {
            Due::After(delay) => now.after(delay),
            Due::At(instant) => clock.moment(instant),
        }
    }

    /// When the longest life ends of a value that is inserted at `now`.
    #[inline]
    pub(super) fn latest_due(self, now: Moment) -> Moment {
        self.longest_life
            .map_or(Moment::MAX, |life| now.after(life))
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
            longest_life: None,
        }
    }
}
