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
//!   replaces it, a drain and a close take it from the stream.
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

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{InsertError, InsertIfAbsentError};
use crate::keyed::table::DefaultHashBuilder;
use crate::metrics::DelayMapMetrics;
use crate::timer::Timer;
pub use expiry::Expiry;
use inner::{Handles, Inner, LockedPart};
use part::Item;
pub use stream::{Expirations, Expired};
pub use weak::WeakDelayMap;

/// Delayed values by key, which come out of one stream when their delay has passed.
///
/// Clones insert, reset and remove from any task or thread. [`Expirations`] is the one stream. For
/// one owner that keeps the returned keys, a `DelayQueue` of tickwheel-util takes less CPU and
/// memory.
///
/// - A value never comes out early, and at most one tick of the timer late, on top of tokio's
///   rounding and scheduling. Values come in the order of their ticks, and within a tick in no
///   particular order. Each leaves the map once, by the stream or by one call.
/// - From its due on a value belongs to the stream, however busy the consumer is. The clock decides
///   that. No call but the three below reads, changes, moves, revives or removes it then. A call
///   that would do so for its key returns `false` or `None`, and one for all values skips it. So a
///   session or a one-time code is not accepted after its end.
/// - Until the stream has taken it, such a value stays in the map:
///   [`contains_key`](DelayMap::contains_key), [`len`](DelayMap::len),
///   [`is_empty`](DelayMap::is_empty) and the limit count it. Three calls give it in place of the
///   stream: an insert that replaces it ([`insert`](DelayMap::insert) or
///   [`touch_or_insert_with`](DelayMap::touch_or_insert_with)), [`drain`](DelayMap::drain) and
///   [`close`](DelayMap::close). If no task takes from the stream, nothing else takes it out.
/// - The stream ends when the map is empty and was closed or has lost its last handle. It also ends
///   when the timer's runtime has shut down. Dropping the stream loses no value.
///
/// | call | cost |
/// |---|---|
/// | insert, reset, remove and the others by key | a hash and the lock of one part of the map; another short lock if the stream has to be woken |
/// | [`drain`](DelayMap::drain), [`close`](DelayMap::close) | the locks of all parts at once, for a moment; O(keys) after them |
/// | [`for_each`](DelayMap::for_each), [`retain`](DelayMap::retain), [`expire_all`](DelayMap::expire_all) | O(keys), under the lock of one part at a time: a map has at least four for each core, and at most 256 |
///
/// A key's `Hash`, and the drop of keys and values, run under no lock. If one of them panics, that
/// call panics and no other key is harmed.
///
/// # Closures
///
/// All closures run under the lock of one part, [as for a
/// `DeadlineMap`](crate::DeadlineMap#closures). They must not call the map, nor poll or drop its
/// stream. Whether a value is pending is decided once, before the closures of that part run.
///
/// # Example
///
/// ```
/// # tokio_test::block_on(async { tokio::time::pause();
/// use futures::StreamExt;
/// use tickwheel::{DelayMap, Duration, Timer};
///
/// let (sessions, mut expired) = DelayMap::new(&Timer::current());
/// sessions.insert("alice", 1, Duration::from_secs(60))?;
/// sessions.insert("bob", 2, Duration::from_secs(30))?;
/// sessions.reset("bob", Duration::from_secs(90));
/// let first = expired.next().await.expect("the map is open");
/// assert_eq!((first.key, sessions.remove("bob")), ("alice", Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
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

    /// An empty map that holds at most `max` keys, and its stream. A value that is due counts until
    /// the stream has taken it.
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
    pub fn with_limit(timer: &Timer, max: usize) -> (Self, Expirations<K, V>) {
        Self::with_limit_and_hasher(timer, max, DefaultHashBuilder::of(timer))
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
        max: usize,
        hash_builder: S,
    ) -> (Self, Expirations<K, V>) {
        let inner = Arc::new(Inner::new(timer, max));
        inner.try_acquire_stream();
        let map = DelayMap {
            inner: inner.clone(),
            handles: Arc::new(Handles(inner.clone())),
            hash_builder,
        };
        (map, Expirations::new(inner))
    }

    /// Inserts a value under a key, to come out after a delay or at an instant: see [`Expiry`].
    /// Returns the value that was under the key, even one that is due and that the stream has not
    /// taken. The new one does not inherit its limit.
    ///
    /// # Errors
    ///
    /// Both return key and value. [`InsertError::AtCapacity`] if the key is new and the map is at
    /// its limit. [`InsertError::Closed`] if the map is closed, or a wait on the timer has noticed
    /// that its runtime has shut down. Until then [`drain`](DelayMap::drain) returns the value.
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Expiry, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// let now = Instant::now();
    /// jobs.insert("after", 1, minute)?;
    /// jobs.insert("at", 2, now + 2 * minute)?;
    /// jobs.insert("within", 3, Expiry::idle(minute).at_most(5 * minute))?;
    /// assert_eq!(jobs.deadline("at"), Some(now + 2 * minute));
    /// assert_eq!(jobs.insert("at", 4, 3 * minute)?, Some(2));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn insert(
        &self,
        key: K,
        value: V,
        expiry: impl Into<Expiry>,
    ) -> Result<Option<V>, InsertError<(K, V)>> {
        let expiry = expiry.into();
        self.put(self.locate(&key), key, value, expiry)
    }

    /// Moves the deadline of a key's value, earlier or later than before, to a delay from now or to
    /// an instant. `false` if the key is missing or its value due. The limit on the value's whole
    /// life does not change: the value keeps the one with which it was inserted, and the limit of
    /// `expiry` is ignored.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Expiry, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// let login = Instant::now();
    /// sessions.insert("alice", 1, Expiry::idle(minute).at_most(5 * minute))?;
    /// assert!(sessions.reset("alice", 2 * minute));
    /// assert_eq!(sessions.deadline("alice"), Some(login + 2 * minute));
    /// assert!(sessions.reset("alice", login + 10 * minute));
    /// assert_eq!(sessions.deadline("alice"), Some(login + 5 * minute), "its limit");
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn reset<Q: Hash + Eq + ?Sized>(&self, key: &Q, expiry: impl Into<Expiry>) -> bool
    where
        K: Borrow<Q>,
    {
        self.touch(key, expiry, |_| ()).is_some()
    }

    /// Removes a key and returns its value. `None` if the key is missing or its value due: that
    /// value comes out of the stream, or of a [`drain`](DelayMap::drain).
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (codes, mut ended) = DelayMap::new(&Timer::current());
    /// codes.insert(1234, "alice", minute)?;
    /// codes.insert(5678, "bob", minute)?;
    /// assert_eq!(codes.remove(&1234), Some("alice"), "redeemed in time");
    /// tokio::time::advance(minute).await;
    /// assert_eq!(codes.remove(&5678), None, "too late");
    /// assert_eq!(ended.recv().await.map(|code| code.value), Some("bob"));
    /// # Ok::<(), tickwheel::error::InsertError<(i32, &str)>>(()) }).unwrap();
    /// ```
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_if(key, |_| true)
    }

    /// [`update`](DelayMap::update) and [`reset`](DelayMap::reset) in one atomic step. `None` if
    /// the key is missing or its value due.
    ///
    /// # Panics
    ///
    /// If `act` panics: then the delay goes on. In debug builds, if `act` calls the map (see
    /// [Closures](DelayMap#closures)).
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// sessions.insert("alice", "her cart", minute)?;
    /// assert_eq!(sessions.touch("alice", minute, |cart| *cart), Some("her cart"));
    /// tokio::time::advance(minute).await;
    /// assert_eq!(sessions.touch("alice", minute, |cart| *cart), None, "her session has ended");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn touch<Q, R>(
        &self,
        key: &Q,
        expiry: impl Into<Expiry>,
        act: impl FnOnce(&mut V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let expiry = expiry.into();
        let (part, index, now) = self.find_pending(key)?;
        Some(self.touch_at(part, index, act, expiry, now))
    }

    /// [`touch`](DelayMap::touch) for a key that may be new: where no value is pending, inserts the
    /// one that `make` returns, and calls `act` with it. Returns the result of `act`, and the value
    /// that the new one replaces, if one was due that the stream has not taken.
    ///
    /// The limit of `expiry` counts from the insert. A later use of the value does not move it, so
    /// one [`Expiry`] serves all uses.
    ///
    /// # Errors
    ///
    /// Those of an [`insert`](DelayMap::insert), with the key. Neither closure was called.
    ///
    /// # Panics
    ///
    /// If a closure panics: then the map is as before the call, but for what `act` has changed in a
    /// pending value. In debug builds, if a closure calls the map (see
    /// [Closures](DelayMap#closures)).
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Expiry, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// let session = Expiry::idle(minute).at_most(60 * minute);
    /// let count = |uses: &mut i32| { *uses += 1; *uses };
    /// assert_eq!(sessions.touch_or_insert_with("alice", session, || 0, count)?, (1, None));
    /// assert_eq!(sessions.touch_or_insert_with("alice", session, || 0, count)?, (2, None));
    /// tokio::time::advance(minute).await; // her session has ended
    /// assert_eq!(sessions.touch_or_insert_with("alice", session, || 0, count)?, (1, Some(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn touch_or_insert_with<R>(
        &self,
        key: K,
        expiry: impl Into<Expiry>,
        make: impl FnOnce() -> V,
        act: impl FnOnce(&mut V) -> R,
    ) -> Result<(R, Option<V>), InsertError<K>> {
        let expiry = expiry.into();
        let inner = &*self.inner;
        let mut place = self.locate(&key);
        let now = inner.now();
        let pending = |&index: &u32| place.part.items.at(index).is_pending(now);
        if let Some(index) = place.found.filter(pending) {
            let result = self.touch_at(place.part, index, act, expiry, now);
            // If this panics, the result is dropped, not lost.
            drop(key);
            return Ok((result, None));
        }
        let key = inner.admit(&mut place, key)?;
        // Inserted only after both closures.
        let (mut value, place) = place.call(make);
        let (result, place) = place.call(|| act(&mut value));
        let replaced = inner.insert(place, key, value, expiry, now);
        Ok((result, replaced))
    }

    /// Reads or changes the value of a key, while its delay goes on. `None` if the key is missing
    /// or its value due. To drop an old value after the lock, return it:
    /// `|value| std::mem::replace(value, new)`.
    ///
    /// # Panics
    ///
    /// If `change` panics. In debug builds, if `change` calls the map (see
    /// [Closures](DelayMap#closures)).
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// let deadline = Instant::now() + minute;
    /// jobs.insert("mail", 1, minute)?;
    /// assert_eq!(jobs.update("mail", |attempts| { *attempts += 1; *attempts }), Some(2));
    /// assert_eq!(jobs.deadline("mail"), Some(deadline), "as before");
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut part, index, _) = self.find_pending(key)?;
        Some(change(&mut part.items.at_mut(index).value))
    }

    /// Like [`insert`](DelayMap::insert), but only under a key that is not in the map.
    ///
    /// # Errors
    ///
    /// All return key and value. [`Occupied`](InsertIfAbsentError::Occupied) if the key is in the
    /// map, even with a value that is due and that the stream has not taken; the map does not
    /// change. The others are those of an insert.
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Expiry, Timer, error::InsertIfAbsentError};
    /// # tokio_test::block_on(async {
    /// # let minute = Duration::from_secs(60);
    /// let (map, _expired) = DelayMap::new(&Timer::current());
    /// let expiry = Expiry::idle(minute).at_most(60 * minute);
    /// assert_eq!(map.insert_if_absent("key", 1, expiry), Ok(()));
    /// let again = map.insert_if_absent("key", 2, expiry);
    /// assert_eq!(again, Err(InsertIfAbsentError::Occupied(("key", 2))));
    /// # });
    /// ```
    pub fn insert_if_absent(
        &self,
        key: K,
        value: V,
        expiry: impl Into<Expiry>,
    ) -> Result<(), InsertIfAbsentError<(K, V)>> {
        let expiry = expiry.into();
        let place = self.locate(&key);
        if place.found.is_some() && !self.inner.is_closed() {
            return Err(InsertIfAbsentError::Occupied((key, value)));
        }
        self.put(place, key, value, expiry)?;
        Ok(())
    }

    /// [`remove`](DelayMap::remove), if `is_meant` returns `true` for the value, in one atomic
    /// step. It is not called for a value that is due.
    ///
    /// # Panics
    ///
    /// If `is_meant` panics: then the value stays. In debug builds, if `is_meant` calls the map
    /// (see [Closures](DelayMap#closures)).
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// sessions.insert("alice", "token 2", Duration::from_secs(60))?;
    /// assert_eq!(sessions.remove_if("alice", |token| *token == "token 1"), None);
    /// assert_eq!(sessions.remove_if("alice", |token| *token == "token 2"), Some("token 2"));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, &str)>>(()) }).unwrap();
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, is_meant: impl FnOnce(&V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut part, index, _) = self.find_pending(key)?;
        if !is_meant(&part.items.at(index).value) {
            return None;
        }
        let Item { key, value, .. } = part.remove(index);
        part.release(1);
        self.inner.finish(part, None);
        // If this panics, the value is dropped, not lost.
        drop(key);
        Some(value)
    }

    /// Makes the value of a key due now. `false` if the key is missing or its value due already.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, Duration::from_secs(60))?;
    /// assert!(jobs.expire("mail"));
    /// assert!(!jobs.expire("mail"), "it is due already");
    /// assert_eq!(due.recv().await.map(|job| job.value), Some(1));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn expire<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let Some((mut part, index)) = self.find(key) else {
            return false;
        };
        let now = self.inner.now();
        let now = self.inner.setting(now, now);
        let is_pending = part.make_due(index, now);
        self.inner.finish(part, Some(now.tick));
        is_pending
    }

    /// When the value of a key is due. `None` if the key is missing or its value due already.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, minute)?;
    /// assert_eq!(jobs.deadline("mail"), Some(Instant::now() + minute));
    /// tokio::time::advance(minute).await;
    /// assert_eq!(jobs.deadline("mail"), None);
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn deadline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        let (part, index, _) = self.find_pending(key)?;
        Some(self.inner.clock().instant(part.items.at(index).deadline))
    }

    /// Whether a key is in the map, even with a value that is due and that the stream has not
    /// taken. To ask whether it is pending, use [`deadline`](DelayMap::deadline).
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
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

    /// Calls `act` with each key whose value is pending, the value and its deadline, in no order.
    /// It skips a value that is due. It shows a value that stays pending exactly once, and may miss
    /// one that comes or goes, or that is removed and inserted under another key.
    ///
    /// # Panics
    ///
    /// If `act` panics. In debug builds, if `act` calls the map (see
    /// [Closures](DelayMap#closures)).
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// sessions.insert("alice", 1, minute)?;
    /// sessions.insert("bob", 2, 3 * minute)?;
    /// tokio::time::advance(2 * minute).await; // the session of alice has ended
    /// let mut live = Vec::new();
    /// sessions.for_each(|name, _, deadline| live.push((*name, deadline.elapsed())));
    /// assert_eq!(live, [("bob", Duration::ZERO)]);
    /// assert_eq!(sessions.len(), 2, "the stream has taken neither of them");
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn for_each(&self, mut act: impl FnMut(&K, &V, Instant)) {
        for part in self.inner.table.lock_each() {
            let now = self.inner.now();
            let items = part.indices().map(|index| part.items.at(index));
            for item in items.filter(|item| item.is_pending(now)) {
                let deadline = self.inner.clock().instant(item.deadline);
                act(&item.key, &item.value, deadline);
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
            let now = self.inner.setting(now, now);
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
