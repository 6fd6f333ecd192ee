//! The [`DelayMap`]: delayed values by key, and one stream of the expired ones.
//!
//! Each part of the table has a wheel, which the stream advances. One timer wakes the stream at the
//! earliest due of all. So a value costs no waker and no entry in the timer's wheels.
//!
//! Invariants:
//!
//! - An item is in its part from its insert until it comes out, due or not. It is taken out under
//!   the part's lock, so it comes out once, one way.
//! - From its due on, by a reading of the clock under the part's lock, an item belongs to the
//!   stream. No call reads it, changes it, moves its deadline or removes it. Only an insert that
//!   replaces it, a drain and a close take it from the stream. An upsert that finds it due takes it
//!   out of the index by key, for a newer item, and so from the insert.
//! - Items come out in the order of their ticks. Within a tick they come out part by part, and
//!   within a part in the order in which they were set. An item made due counts from the present
//!   tick.
//! - A key's `Eq` and `Borrow` in a look-up, and the closures, are the only user code under a
//!   part's lock. A conversion to an [`Expiry`] runs before it. Values, keys and wakers are dropped
//!   after all locks.

mod by_key;
mod earliest;
#[cfg(test)]
mod earliest_tests;
mod expiry;
mod inner;
mod part;
mod stream;
mod stream_waker;
mod weak;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::keyed::table::DefaultHashBuilder;
use crate::metrics::DelayMapMetrics;
use crate::timer::Timer;
pub use expiry::Expiry;
use inner::{Handles, Inner, LockedPart};
pub use stream::{Expirations, Expired};
pub use weak::WeakDelayMap;

/// Delayed values by key, which come out of one stream when they are due.
///
/// ```
/// # tokio_test::block_on(async { tokio::time::pause();
/// use futures::StreamExt;
/// use tickwheel::{DelayMap, Duration, Timer};
///
/// let (sessions, mut expired) = DelayMap::new(&Timer::current());
/// sessions.insert("alice", 1, Duration::from_secs(60))?;
/// sessions.insert("bob", 2, Duration::from_secs(30))?;
/// sessions.set("bob", Duration::from_secs(90));
/// let first = expired.next().await.expect("the map is open");
/// assert_eq!((first.key, sessions.remove("bob")), ("alice", Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Usage
///
/// Clones insert, set and remove from any task or thread. [`Expirations`] is the one stream. For
/// one owner that keeps the returned keys, a `DelayQueue` of tickwheel-util takes less CPU and
/// memory. Where a task awaits each key's end, use a [`DeadlineMap`](crate::DeadlineMap).
///
/// - A value never comes out early, and at most one tick of the timer late, on top of tokio's
///   rounding and scheduling. Values come in the order of their ticks, and within a tick in no
///   particular order. Each leaves the map once, by the stream or by one call.
/// - The stream ends when the map is empty and was closed or has lost its last handle. It also ends
///   when the timer's runtime has shut down. Dropping the stream loses no value.
///
/// # What is due
///
/// From its due on a value belongs to the stream, however busy the consumer is. The clock decides
/// that. Apart from [`drain`](DelayMap::drain), [`close`](DelayMap::close) and an
/// [`insert`](DelayMap::insert) that replaces it, no call reads, changes, moves, revives or removes
/// it then. A call that would do so for its key returns `false` or `None`, and one for all values
/// skips it. So a session
/// or a one-time code is not accepted after its end.
///
/// - Until the stream has taken it, such a value stays in the map: [`len`](DelayMap::len),
///   [`is_empty`](DelayMap::is_empty), [`contains_key`](DelayMap::contains_key) and the capacity
///   count it. If no task takes from the stream, only those three calls take it out, and
///   return it.
/// - An [`upsert`](DelayMap::upsert) leaves it to the stream, and puts a new value under its key.
///   Both count then. No call by key finds the older one any more, not even an insert.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | insert, set, remove and the others by key | a hash and the lock of one part of the map; another short lock if the stream has to be woken |
/// | [`drain`](DelayMap::drain), [`close`](DelayMap::close) | the locks of all parts at once, for a moment; O(keys) after them |
/// | [`for_each`](DelayMap::for_each), [`retain`](DelayMap::retain), [`expire_all`](DelayMap::expire_all) | O(keys), under the lock of one part at a time: a map has at least four for each core, and at most 256 |
///
/// # Panics
///
/// A key's `Hash`, and the drop of keys and values, run under no lock. If one of them panics, that
/// call panics and no other key is harmed. If two drops panic in one call, the process aborts.
///
/// # Closures
///
/// All closures run under the lock of one part, [as for a
/// `DeadlineMap`](crate::DeadlineMap#closures). They must not call the map, nor poll or drop its
/// stream. In debug builds a call that would take the lock panics. Whether a value is pending is
/// decided once, before the closures of that part run.
pub struct DelayMap<K, V, S = DefaultHashBuilder> {
    /// The same as in `handles`, a step nearer.
    inner: Arc<Inner<K, V>>,
    handles: Arc<Handles<K, V>>,
    hash_builder: S,
}

impl<K: Hash + Eq, V> DelayMap<K, V> {
    /// An empty map on `timer`, and its stream.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", "to alice", Duration::from_secs(5))?;
    /// assert_eq!(due.recv().await.map(|job| job.value), Some("to alice"));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, &str)>>(()) }).unwrap();
    /// ```
    pub fn new(timer: &Timer) -> (Self, Expirations<K, V>) {
        Self::with_limit(timer, usize::MAX)
    }

    /// An empty map that holds at most `capacity` values, and its stream. A value that is due
    /// counts until the stream has taken it.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer, error::InsertError};
    /// # tokio_test::block_on(async {
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::with_limit(&Timer::current(), 1);
    /// assert_eq!(sessions.insert("alice", 1, minute), Ok(None));
    /// assert_eq!(sessions.insert("alice", 2, minute), Ok(Some(1)), "she is in already");
    /// let rejected = sessions.insert("bob", 3, minute);
    /// assert_eq!(rejected, Err(InsertError::AtCapacity(("bob", 3))));
    /// # });
    /// ```
    pub fn with_limit(timer: &Timer, capacity: usize) -> (Self, Expirations<K, V>) {
        Self::with_limit_and_hasher(timer, capacity, DefaultHashBuilder::of(timer))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> DelayMap<K, V, S> {
    /// Like [`with_limit`](DelayMap::with_limit), with a hasher of your own, [as for a
    /// `DeadlineMap`](crate::DeadlineMap::with_limit_and_hasher).
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    ///
    /// let hasher = BuildHasherDefault::<DefaultHasher>::default(); // the same in each run
    /// let timer = Timer::current();
    /// let (jobs, _due) = DelayMap::with_limit_and_hasher(&timer, usize::MAX, hasher);
    /// jobs.insert("mail", 1, Duration::from_secs(60))?;
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn with_limit_and_hasher(
        timer: &Timer,
        capacity: usize,
        hash_builder: S,
    ) -> (Self, Expirations<K, V>) {
        let inner = Arc::new(Inner::new(timer, capacity));
        inner.try_acquire_stream();
        let map = DelayMap {
            inner: inner.clone(),
            handles: Arc::new(Handles(inner.clone())),
            hash_builder,
        };
        (map, Expirations::new(inner))
    }
}

impl<K, V, S> DelayMap<K, V, S> {
    /// How many values are in the map, those included that are due and not yet taken. It takes no
    /// lock, so the sum may mix moments.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether no value is in the map, not even one that is due and not yet taken, at one moment of
    /// the call. It takes no lock unless the map seems empty, and then locks all parts.
    pub fn is_empty(&self) -> bool {
        self.inner.table.is_empty()
    }

    /// Calls `act` with each key whose value is pending, the value and the [`Expiry`] that it has
    /// left, in no order. It skips a value that is due. It shows a value that stays pending exactly
    /// once, and may miss one that comes or goes, or that is removed and inserted under another
    /// key.
    ///
    /// # Panics
    ///
    /// If `act` panics. In debug builds, if `act` calls the map (see
    /// [Closures](DelayMap#closures)).
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// sessions.insert("alice", 1, minute)?;
    /// sessions.insert("bob", 2, 3 * minute)?;
    /// tokio::time::advance(2 * minute).await; // the session of alice has ended
    /// let mut live = Vec::new();
    /// let now = Instant::now();
    /// sessions.for_each(|name, _, left| live.push((*name, left.deadline_from(now) - now)));
    /// assert_eq!(live, [("bob", minute)]);
    /// assert_eq!(sessions.len(), 2, "the stream has taken neither of them");
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn for_each(&self, mut act: impl FnMut(&K, &V, Expiry)) {
        let clock = self.inner.clock();
        for part in self.inner.table.lock_each() {
            let now = self.inner.now();
            let items = part.indices().map(|index| part.items.at(index));
            for item in items.filter(|item| item.is_pending(now)) {
                act(&item.key, &item.value, Expiry::left_of(item, clock, now));
            }
        }
    }

    /// Drops each pending value for which `keep` returns `false`, after the lock. It skips a value
    /// that is due: that value stays in the map, and comes out of the stream.
    ///
    /// # Panics
    ///
    /// If `keep` panics: then no further value is dropped. In debug builds, if `keep` calls the map
    /// (see [Closures](DelayMap#closures)).
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// sessions.insert("alice", "admin", minute)?;
    /// sessions.insert("bob", "guest", minute)?;
    /// sessions.retain(|_, role| *role != "guest");
    /// assert!(sessions.contains_key("alice") && !sessions.contains_key("bob"));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, &str)>>(()) }).unwrap();
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for mut part in self.inner.table.lock_each() {
            let now = self.inner.now();
            let mut removed = Vec::new();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let indices: Vec<_> = part.indices().collect();
                for index in indices {
                    let item = part.items.at_mut(index);
                    if item.is_pending(now) && !keep(&item.key, &mut item.value) {
                        removed.push(part.remove(index));
                        part.release(1);
                    }
                }
            }));
            self.inner.finish(part, None);
            // After the lock, because these drops are user code.
            drop(removed);
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
        }
    }

    /// Removes everything, in no order: each value with its key and the time left, which is zero
    /// for a value that is due and that the stream has not taken. It is atomic: an insert comes
    /// wholly before or wholly after it.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, minute)?;
    /// jobs.insert("report", 2, 5 * minute)?;
    /// tokio::time::advance(2 * minute).await;
    /// let mut left = jobs.drain();
    /// left.sort();
    /// assert_eq!(left, [("mail", 1, Duration::ZERO), ("report", 2, 3 * minute)]);
    /// assert!(due.try_recv().is_err(), "each comes out once");
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn drain(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(false)
    }

    /// [Drains](DelayMap::drain) the map, what is due included, ends the stream, and makes every
    /// later insert an error.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, minute)?;
    /// assert_eq!(jobs.close(), [("mail", 1, minute)]);
    /// assert_eq!(due.recv().await, None);
    /// assert!(jobs.insert("report", 2, minute).is_err());
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn close(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(true)
    }

    /// Makes every value due now, and returns how many were pending. It is atomic for each key, and
    /// finds each that was in the map before the call.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// # let minute = Duration::from_secs(60);
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, minute)?;
    /// jobs.insert("report", 2, minute)?;
    /// assert_eq!(jobs.expire_all(), 2);
    /// assert_eq!(jobs.expire_all(), 0, "they are due already");
    /// assert!(due.recv().await.is_some() && due.recv().await.is_some());
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn expire_all(&self) -> usize {
        let mut pending = 0;
        let filled = |part: &LockedPart<'_, K, V>| part.len() > 0;
        for mut part in self.inner.table.lock_each().filter(filled) {
            let now = self.inner.now();
            let now = self.inner.schedule_for(now, now);
            pending += part.make_all_due(now);
            self.inner.finish(part, Some(now.tick));
        }
        pending
    }

    /// Another stream, if the previous one was dropped. `None` while there is one. The new stream
    /// first yields the values that became due meanwhile.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let (jobs, due) = DelayMap::new(&Timer::current());
    /// assert!(jobs.expirations().is_none(), "there is one");
    /// jobs.insert("mail", 1, Duration::from_millis(5))?;
    /// drop(due); // for example because its task has panicked
    /// let mut due = jobs.expirations().expect("there is none");
    /// assert_eq!(due.recv().await.map(|job| job.value), Some(1));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn expirations(&self) -> Option<Expirations<K, V>> {
        let is_ours = self.inner.try_acquire_stream();
        is_ours.then(|| Expirations::new(self.inner.clone()))
    }

    /// Counts of the map, one part after the other. Inserted values that are neither in the map nor
    /// expired were removed, replaced or drained.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// # let minute = Duration::from_secs(60);
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, minute)?;
    /// jobs.insert("report", 2, minute)?;
    /// jobs.expire("mail");
    /// due.recv().await;
    /// let metrics = jobs.metrics();
    /// assert_eq!((metrics.len(), metrics.inserted(), metrics.expired()), (1, 2, 1));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn metrics(&self) -> DelayMapMetrics {
        let mut metrics = DelayMapMetrics {
            len: 0,
            inserted: 0,
            expired: 0,
        };
        for part in self.inner.table.lock_each() {
            metrics.len += part.len();
            metrics.inserted += part.inserted();
            metrics.expired += part.expired;
        }
        metrics
    }
}

impl<K, V, S: Clone> DelayMap<K, V, S> {
    /// A handle that does not keep the stream alive.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Timer};
    /// # tokio_test::block_on(async {
    /// let (jobs, mut due) = DelayMap::<&str, u64>::new(&Timer::current());
    /// let watched = jobs.downgrade();
    /// drop(jobs);
    /// assert_eq!(due.recv().await, None, "the last handle that keeps it alive is gone");
    /// # drop(watched);
    /// # });
    /// ```
    pub fn downgrade(&self) -> WeakDelayMap<K, V, S> {
        WeakDelayMap {
            handles: Arc::downgrade(&self.handles),
            hash_builder: self.hash_builder.clone(),
        }
    }
}

impl<K, V, S: Clone> Clone for DelayMap<K, V, S> {
    fn clone(&self) -> Self {
        DelayMap {
            inner: self.inner.clone(),
            handles: self.handles.clone(),
            hash_builder: self.hash_builder.clone(),
        }
    }
}

impl<K, V, S> fmt::Debug for DelayMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayMap")
            .field("len", &self.inner.table.len())
            .finish_non_exhaustive()
    }
}
