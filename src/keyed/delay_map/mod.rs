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
//!   stream: calls by its key may take it out, and no more.
//! - Items come out in the order of their ticks, within a tick in the order in which they were set
//!   in their part, and parts in their order. An item made due counts from the present tick.
//! - A key's `Eq` and `Borrow` in a look-up, and the closures, are the only user code under a
//!   part's lock. Values, keys and wakers are dropped after all locks.

mod earliest;
#[cfg(test)]
mod earliest_tests;
mod inner;
mod part;
mod stream;
mod stream_waker;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::tick::Moment;
use crate::error::{InsertError, InsertIfAbsentError};
use crate::keyed::table::{DefaultHashBuilder, hash_of};
use crate::metrics::DelayMapMetrics;
use crate::timer::Timer;
use inner::{Handles, Inner, LockedPart, Place};
use part::Item;
pub use stream::{Expirations, Expired};

/// Delayed values by key, which come out of one stream when their delay has passed.
///
/// Clones insert, reset and remove from any task or thread. [`Expirations`] is the one stream. For
/// one owner that keeps the returned keys, a `DelayQueue` of tickwheel-util takes less CPU and
/// memory.
///
/// - A value never comes out early, and at most one tick of the timer late, on top of tokio's
///   rounding and scheduling. Values come in the order of their ticks, and within a tick in no
///   particular order. Each leaves the map once, by the stream or by one call.
/// - From its due on a value belongs to the stream, however busy the consumer is. The calls that
///   read, change or move the value of a key then return `false` or `None`, so none hands out or
///   revives an ended value.
/// - Until the stream has taken a value, it is in the map, due or not: it counts, and it can be
///   removed, replaced or drained. So a job that no task has begun can still be cancelled.
/// - The stream ends when the map is empty and was closed, or lost its last handle, and when the
///   timer's runtime has shut down. Dropping it loses no value.
///
/// | call | cost |
/// |---|---|
/// | insert, reset, remove and the others by key | a hash and the lock of one part of the map |
/// | [`drain`](DelayMap::drain), [`close`](DelayMap::close) | the locks of all parts at once, for a moment; O(keys) after them |
/// | [`for_each`](DelayMap::for_each), [`retain`](DelayMap::retain), [`expire_all`](DelayMap::expire_all) | O(keys), under the lock of one part at a time: a map has four for each core |
///
/// A key's `Hash`, and the drop of keys and values, run under no lock. If one of them panics, that
/// call panics and no other key is harmed.
///
/// # Closures
///
/// All closures run under the lock of one part, [as for a
/// `DeadlineMap`](crate::DeadlineMap#closures). They must not call the map, nor poll or drop its
/// stream.
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
    pub fn new(timer: &Timer) -> (Self, Expirations<K, V>) {
        Self::with_limit(timer, usize::MAX)
    }

    /// An empty map that holds at most `max` keys, due or not, and its stream.
    pub fn with_limit(timer: &Timer, max: usize) -> (Self, Expirations<K, V>) {
        Self::with_limit_and_hasher(timer, max, DefaultHashBuilder::of(timer))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> DelayMap<K, V, S> {
    /// Like [`with_limit`](DelayMap::with_limit), with a hasher of your own, [as for a
    /// `DeadlineMap`](crate::DeadlineMap::with_limit_and_hasher).
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

    /// Inserts a value under a key, to come out after `delay`. Returns the replaced value, due or
    /// not.
    ///
    /// # Errors
    ///
    /// Both return key and value. [`InsertError::AtCapacity`] if the key is new and the map is at
    /// its limit. [`InsertError::Closed`] if the map is closed, or a wait on the timer has noticed
    /// that its runtime has shut down. Until then [`drain`](DelayMap::drain) returns the value.
    pub fn insert(
        &self,
        key: K,
        value: V,
        delay: Duration,
    ) -> Result<Option<V>, InsertError<(K, V)>> {
        let times = |now: Moment| (now.after(delay), Moment::MAX);
        self.put(self.locate(&key), key, value, times)
    }

    /// Like [`insert`](DelayMap::insert), to come out at an instant.
    pub fn insert_at(
        &self,
        key: K,
        value: V,
        deadline: Instant,
    ) -> Result<Option<V>, InsertError<(K, V)>> {
        let deadline = self.inner.clock().moment(deadline);
        let times = |_| (deadline, Moment::MAX);
        self.put(self.locate(&key), key, value, times)
    }

    /// Like [`insert`](DelayMap::insert), with a time to live. However often the delay restarts,
    /// the value is due within `ttl` from now, and belongs to the stream from then on.
    pub fn insert_with_ttl(
        &self,
        key: K,
        value: V,
        delay: Duration,
        ttl: Duration,
    ) -> Result<Option<V>, InsertError<(K, V)>> {
        let times = |now: Moment| (now.after(delay), now.after(ttl));
        self.put(self.locate(&key), key, value, times)
    }

    /// Like [`insert`](DelayMap::insert), but only under a key that is not in the map.
    ///
    /// # Errors
    ///
    /// All return key and value. [`Occupied`](InsertIfAbsentError::Occupied) if the key is in the
    /// map, its value due or not; the map does not change. The others are those of an insert.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer, error::InsertIfAbsentError};
    /// # tokio_test::block_on(async {
    /// # let minute = Duration::from_secs(60);
    /// let (map, _expired) = DelayMap::new(&Timer::current());
    /// assert_eq!(map.insert_if_absent("key", 1, minute), Ok(()));
    /// let again = map.insert_if_absent("key", 2, minute);
    /// assert_eq!(again, Err(InsertIfAbsentError::Occupied(("key", 2))));
    /// # });
    /// ```
    pub fn insert_if_absent(
        &self,
        key: K,
        value: V,
        delay: Duration,
    ) -> Result<(), InsertIfAbsentError<(K, V)>> {
        let place = self.locate(&key);
        if place.found.is_some() && !self.inner.is_closed() {
            return Err(InsertIfAbsentError::Occupied((key, value)));
        }
        let times = |now: Moment| (now.after(delay), Moment::MAX);
        self.put(place, key, value, times)?;
        Ok(())
    }

    /// Locks the part of a key, and looks for its item.
    fn locate<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Place<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let hash = hash_of(&self.hash_builder, key);
        let table = &self.inner.table;
        let part = table.lock_part(table.part_of(hash));
        let found = part.find(hash, key);
        Place { part, hash, found }
    }

    fn put(
        &self,
        mut place: Place<'_, K, V>,
        key: K,
        value: V,
        times: impl FnOnce(Moment) -> (Moment, Moment),
    ) -> Result<Option<V>, InsertError<(K, V)>> {
        let inner = &*self.inner;
        let (key, value) = inner.admit(&mut place, (key, value))?;
        let now = inner.now();
        let (deadline, end) = times(now);
        let setting = inner.setting(now, deadline.min(end));
        Ok(inner.place(place, key, value, setting, end))
    }

    /// Makes the value of a key come out when `delay` has passed from now, earlier or later than
    /// before, but within its time to live. `false` if the key is missing or its value due.
    pub fn reset<Q: Hash + Eq + ?Sized>(&self, key: &Q, delay: Duration) -> bool
    where
        K: Borrow<Q>,
    {
        self.touch(key, delay, |_| ()).is_some()
    }

    /// Like [`reset`](DelayMap::reset), to come out at an instant.
    pub fn reset_at<Q: Hash + Eq + ?Sized>(&self, key: &Q, deadline: Instant) -> bool
    where
        K: Borrow<Q>,
    {
        let deadline = self.inner.clock().moment(deadline);
        let Some((part, index, now)) = self.find_pending(key) else {
            return false;
        };
        self.touch_at(part, index, |_| (), deadline, now);
        true
    }

    /// Calls `act` with a pending item's value, sets its deadline, and unlocks its part.
    fn touch_at<R>(
        &self,
        mut part: LockedPart<'_, K, V>,
        index: u32,
        act: impl FnOnce(&mut V) -> R,
        deadline: Moment,
        now: Moment,
    ) -> R {
        let item = part.items.at_mut(index);
        let result = act(&mut item.value);
        let setting = self.inner.setting(now, deadline.min(item.end));
        part.set(index, setting);
        self.inner.finish(part, Some(setting.tick));
        result
    }

    /// Makes the value of a key due now. `false` if the key is missing or its value due already.
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

    /// Removes a key and returns its value, due or not. `None` if the key is not in the map.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_if(key, |_| true)
    }

    /// [`remove`](DelayMap::remove), if `is_meant` returns `true` for the value, in one atomic
    /// step. `is_meant` must not call the map (see [Closures](DelayMap#closures)).
    pub fn remove_if<Q>(&self, key: &Q, is_meant: impl FnOnce(&V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut part, index) = self.find(key)?;
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

    /// Whether a key is in the map, its value due or not.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// When the value of a key comes out. `None` if the key is not in the map, or its value is due.
    pub fn deadline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        let (part, index, _) = self.find_pending(key)?;
        Some(self.inner.clock().instant(part.items.at(index).deadline))
    }

    /// Reads or changes the value of a key, while its delay goes on. `None` if the key is missing
    /// or its value due. `change` must not call the map (see [Closures](DelayMap#closures)). To
    /// drop an old value after the lock, return it: `|value| std::mem::replace(value, new)`.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut part, index, _) = self.find_pending(key)?;
        Some(change(&mut part.items.at_mut(index).value))
    }

    /// [`update`](DelayMap::update) and [`reset`](DelayMap::reset) in one atomic step. `None` if
    /// the key is missing or its value due. If `act` panics, the delay goes on.
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
    pub fn touch<Q, R>(&self, key: &Q, delay: Duration, act: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (part, index, now) = self.find_pending(key)?;
        Some(self.touch_at(part, index, act, now.after(delay), now))
    }

    /// [`touch`](DelayMap::touch) for a key that may be new: where no value is pending, inserts the
    /// one that `make` returns, and calls `act` with it. Returns the result of `act`, and a due
    /// value, which the new one replaces. If a closure panics, the map is as before the call, but
    /// for what `act` has changed in a pending value.
    ///
    /// # Errors
    ///
    /// Those of an [`insert`](DelayMap::insert), with the key. Neither closure was called.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let minute = Duration::from_secs(60);
    /// let (sessions, _ended) = DelayMap::new(&Timer::current());
    /// let count = |uses: &mut i32| { *uses += 1; *uses };
    /// assert_eq!(sessions.touch_or_insert_with("alice", minute, || 0, count)?, (1, None));
    /// assert_eq!(sessions.touch_or_insert_with("alice", minute, || 0, count)?, (2, None));
    /// tokio::time::advance(minute).await; // her session has ended
    /// assert_eq!(sessions.touch_or_insert_with("alice", minute, || 0, count)?, (1, Some(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn touch_or_insert_with<R>(
        &self,
        key: K,
        delay: Duration,
        make: impl FnOnce() -> V,
        act: impl FnOnce(&mut V) -> R,
    ) -> Result<(R, Option<V>), InsertError<K>> {
        let inner = &*self.inner;
        let mut place = self.locate(&key);
        let now = inner.now();
        let pending = |&index: &u32| place.part.items.at(index).is_pending(now);
        if let Some(index) = place.found.filter(pending) {
            let result = self.touch_at(place.part, index, act, now.after(delay), now);
            // If this panics, the result is dropped, not lost.
            drop(key);
            return Ok((result, None));
        }
        let key = inner.admit(&mut place, key)?;
        // Inserted only after both closures. It outlives the lock if one of them panics.
        let mut made = None;
        let acted = catch_unwind(AssertUnwindSafe(|| act(made.insert(make()))));
        let result = match acted {
            Ok(result) => result,
            Err(panic) => {
                place.part.release(usize::from(place.found.is_none()));
                drop(place);
                drop(made);
                resume_unwind(panic)
            }
        };
        let value = made.expect("`act` was called with it");
        let setting = inner.setting(now, now.after(delay));
        let replaced = inner.place(place, key, value, setting, Moment::MAX);
        Ok((result, replaced))
    }

    /// The pending item of a key, and the time of that look.
    fn find_pending<Q>(&self, key: &Q) -> Option<(LockedPart<'_, K, V>, u32, Moment)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (part, index) = self.find(key)?;
        let now = self.inner.now();
        let is_pending = part.items.at(index).is_pending(now);
        is_pending.then_some((part, index, now))
    }

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(LockedPart<'_, K, V>, u32)>
    where
        K: Borrow<Q>,
    {
        let Place { part, found, .. } = self.locate(key);
        Some((part, found?))
    }
}

impl<K, V, S> DelayMap<K, V, S> {
    /// How many values are in the map, due or not. It takes no lock, so the sum may mix moments.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether no value is in the map, at one moment of the call. It takes no lock unless the map
    /// seems empty, and then locks all parts.
    pub fn is_empty(&self) -> bool {
        self.inner.table.is_empty()
    }

    /// Calls `act` with each key, its value, due or not, and its deadline, in no order. It shows a
    /// key that stays in the map exactly once, and may miss one that comes or goes, or a value that
    /// moves between keys. `act` must not call the map (see [Closures](DelayMap#closures)).
    pub fn for_each(&self, mut act: impl FnMut(&K, &V, Instant)) {
        for part in self.inner.table.lock_each() {
            for item in part.indices().map(|index| part.items.at(index)) {
                let deadline = self.inner.clock().instant(item.deadline);
                act(&item.key, &item.value, deadline);
            }
        }
    }

    /// Another stream, if the previous one was dropped. `None` while there is one. The new stream
    /// first yields the values that became due meanwhile.
    pub fn expirations(&self) -> Option<Expirations<K, V>> {
        let is_ours = self.inner.try_acquire_stream();
        is_ours.then(|| Expirations::new(self.inner.clone()))
    }

    /// Keeps the values, due or not, for which `keep` returns `true`, and drops the others after
    /// the lock. `keep` must not call the map (see [Closures](DelayMap#closures)). If it panics, no
    /// further value is dropped.
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for mut part in self.inner.table.lock_each() {
            let mut removed = Vec::new();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let indices: Vec<_> = part.indices().collect();
                for index in indices {
                    let item = part.items.at_mut(index);
                    if !keep(&item.key, &mut item.value) {
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

    /// Removes everything, in no order: each value with its key and the time left, zero if it was
    /// due. It is atomic: an insert comes wholly before or wholly after it.
    pub fn drain(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(false)
    }

    /// Makes every value due now, and returns how many were pending. It is atomic for each key, and
    /// misses none that was in the map before the call.
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

    /// Drains the map, ends the stream, and makes every later insert an error.
    pub fn close(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(true)
    }

    /// Counts of the map, one part after the other. Inserted values that are neither in the map nor
    /// expired were removed, replaced or drained.
    pub fn metrics(&self) -> DelayMapMetrics {
        let mut metrics = DelayMapMetrics::default();
        for part in self.inner.table.lock_each() {
            metrics.len += part.len();
            metrics.inserted += part.inserted;
            metrics.expired += part.expired;
        }
        metrics
    }
}

impl<K, V, S: Clone> DelayMap<K, V, S> {
    /// A handle that does not keep the stream alive.
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

/// A handle of a [`DelayMap`] that does not keep its stream alive: [`DelayMap::downgrade`].
pub struct WeakDelayMap<K, V, S = DefaultHashBuilder> {
    handles: Weak<Handles<K, V>>,
    hash_builder: S,
}

impl<K, V, S: Clone> WeakDelayMap<K, V, S> {
    /// A handle of the map. `None` if the last one was dropped.
    pub fn upgrade(&self) -> Option<DelayMap<K, V, S>> {
        let handles = self.handles.upgrade()?;
        Some(DelayMap {
            inner: handles.0.clone(),
            handles,
            hash_builder: self.hash_builder.clone(),
        })
    }
}

impl<K, V, S: Clone> Clone for WeakDelayMap<K, V, S> {
    fn clone(&self) -> Self {
        WeakDelayMap {
            handles: self.handles.clone(),
            hash_builder: self.hash_builder.clone(),
        }
    }
}

impl<K, V, S> fmt::Debug for WeakDelayMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakDelayMap").finish_non_exhaustive()
    }
}
