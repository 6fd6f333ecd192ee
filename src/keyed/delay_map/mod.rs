//! The [`DelayMap`]: delayed values by key, and one stream of what has expired.
//!
//! The map turns wheels of its own, one in each part of its table, and its stream is their driver:
//! a timer wakes it at the earliest due of all parts. So a value costs no waker and
//! no entry in the timer's wheels, and everything about a key is under the one lock of its part.
//!
//! ```text
//!   insert --> waiting: in its part's wheel --(stream: advance)--> due: in its part's list of what is due, in order
//!                |  ^                                                |  |
//!                |  +---------- reset, insert under the key ---------+  +--(stream, remove, drain, ...)--> out
//!                +--(remove, drain, close)--> out
//! ```
//!
//! Invariants:
//!
//! - An item is in its part from its insert until it comes out, due or not. Whoever takes it out
//!   does so under the part's lock, so it comes out once, one way.
//! - The stream takes the first of all that is due, once all parts have been searched up to the
//!   present tick. What is set to be due at once goes straight among what is due, so the search has
//!   an end whatever others do meanwhile.
//! - No wake-up is lost: [`lookout`] has the argument.
//! - On the system's clock the stream's timer may be too early when its item was removed: one empty
//!   look. On a clock that can be paused whoever removes an item puts the stream's timer off, or
//!   the removed item would pull time along.
//!
//! Locks: the stream's timer, then a shard of the timer, with no waker in hand; a part, or the
//! lookout's waker, and nothing within. Under a part's lock the only user code is a key's `Eq`
//! during a look-up, and what the user gives to be called with a value (`with_value`, `update`,
//! `retain`). Values, keys and wakers are dropped after all.

mod due_queue;
mod inner;
mod lookout;
mod marks;
mod merge;
mod part;
mod states;
mod stream;
mod stream_timer;
mod weak;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::InsertError;
use crate::time::tick::Moment;
use crate::timer::Timer;
use inner::{Inner, Locked};
use part::Item;
pub use stream::{Expirations, Expired};
pub use weak::WeakDelayMap;

/// Delayed values by key, which come out of one stream when their delay has passed.
///
/// Any number of clones insert, reset and remove from any task or thread, by `&self`; the one
/// [`Expirations`] is the stream, and its consumer may use the map from its own loop.
///
/// - Never early; late by at most two ticks of the timer, besides tokio's rounding and scheduling.
/// - Each value comes out once, one way: by the stream, [`remove`](DelayMap::remove),
///   [`drain`](DelayMap::drain), [`close`](DelayMap::close), or replaced by an
///   [`insert`](DelayMap::insert). What is due but not yet taken from the stream can still be
///   removed, reset or drained.
/// - Values come out in the order of their deadlines.
/// - The stream ends when the map is closed and empty, or every handle of the map is gone and it is
///   empty, or the timer's runtime has shut down. Dropping the stream closes the map and drops what
///   it holds.
///
/// | call | cost |
/// |---|---|
/// | insert, reset, remove and the others by key | a hash and the lock of one part of the map |
/// | [`drain`](DelayMap::drain), [`expire_all`](DelayMap::expire_all), [`close`](DelayMap::close) | the locks of all parts at once, for a moment; O(keys) after them (`expire_all`: O(what is due) under them) |
///
/// Every look-up takes any borrowed form of the key, as a `HashMap`'s do. A key's `Hash` is called
/// with no lock held, its `Eq` under the lock of a part; keys and values are dropped after all
/// locks. If one of them panics, that call panics and no other key is harmed. `Eq` must not call
/// the map.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures::StreamExt;
/// use tickwheel::{DelayMap, Duration, Timer};
///
/// let (sessions, mut expired) = DelayMap::new(&Timer::current());
/// sessions.insert("alice", 1, Duration::from_secs(60))?;
/// sessions.insert("bob", 2, Duration::from_secs(30))?;
/// sessions.reset("bob", Duration::from_secs(90));
///
/// let first = expired.next().await.expect("the map is open");
/// assert_eq!((first.key, first.value), ("alice", 1));
/// assert_eq!(sessions.remove("bob"), Some(2));
/// drop(sessions);
/// assert!(expired.next().await.is_none());
/// # Ok(())
/// # }
/// ```
pub struct DelayMap<K, V> {
    inner: Arc<Inner<K, V>>,
}

impl<K: Hash + Eq, V> DelayMap<K, V> {
    /// An empty map on `timer`, and its stream.
    pub fn new(timer: &Timer) -> (Self, Expirations<K, V>) {
        Self::with_limit(timer, usize::MAX)
    }

    /// An empty map that holds at most `max` keys, and its stream.
    pub fn with_limit(timer: &Timer, max: usize) -> (Self, Expirations<K, V>) {
        Self::with_limit_and_capacity(timer, max, 0)
    }

    /// An empty map with room for about so many keys, and its stream.
    pub fn with_capacity(timer: &Timer, capacity: usize) -> (Self, Expirations<K, V>) {
        Self::with_limit_and_capacity(timer, usize::MAX, capacity)
    }

    fn with_limit_and_capacity(
        timer: &Timer,
        max: usize,
        capacity: usize,
    ) -> (Self, Expirations<K, V>) {
        let inner = Arc::new(Inner::new(timer, max, capacity));
        (
            DelayMap {
                inner: inner.clone(),
            },
            Expirations::new(inner),
        )
    }

    /// Puts a value under a key, to come out of the stream when `delay` has passed. A value that
    /// was under the key is replaced and given back, and the delay starts anew.
    ///
    /// # Errors
    ///
    /// Gives the value back: [`InsertError::Closed`] when the map is closed, its stream was
    /// dropped, or the timer's runtime has gone; [`InsertError::AtCapacity`] if the key is new and
    /// the map holds as many as it may.
    pub fn insert(&self, key: K, value: V, delay: Duration) -> Result<Option<V>, InsertError<V>> {
        self.insert_due(key, value, |now| now.after(delay.into()))
    }

    /// Puts a value under a key, to come out of the stream at `deadline`; else as
    /// [`insert`](DelayMap::insert).
    ///
    /// # Errors
    ///
    /// As for [`insert`](DelayMap::insert).
    pub fn insert_at(
        &self,
        key: K,
        value: V,
        deadline: Instant,
    ) -> Result<Option<V>, InsertError<V>> {
        let deadline = self.inner.clock().moment(deadline);
        self.insert_due(key, value, |_| deadline)
    }

    /// As [`insert`](DelayMap::insert), with a life: however often the delay starts anew, the value
    /// comes out when `life` has passed from now, at the latest. (Time to live beside time to
    /// idle.)
    ///
    /// # Errors
    ///
    /// As for [`insert`](DelayMap::insert).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Instant, Timer};
    ///
    /// let (cache, mut expired) = DelayMap::new(&Timer::current());
    /// let (idle, life) = (Duration::from_secs(10), Duration::from_secs(25));
    /// let start = Instant::now();
    /// cache.insert_with_life("page", 1, idle, life).unwrap();
    /// for _use in 0..3 {
    ///     tickwheel::sleep(Duration::from_secs(8)).await;
    ///     cache.reset("page", idle);
    /// }
    /// assert_eq!(expired.recv().await.unwrap().deadline, start + life);
    /// # }
    /// ```
    pub fn insert_with_life(
        &self,
        key: K,
        value: V,
        delay: Duration,
        life: Duration,
    ) -> Result<Option<V>, InsertError<V>> {
        self.insert_until(
            key,
            value,
            |now| now.after(delay.into()),
            |now| now.after(life.into()),
        )
    }

    /// Puts a value under a key that is not there; `Some` gives the value back if the key is there,
    /// and nothing changes.
    ///
    /// # Errors
    ///
    /// As for [`insert`](DelayMap::insert).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let (map, _expired) = DelayMap::new(&Timer::current());
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(map.insert_if_absent("key", 1, minute), Ok(None));
    /// assert_eq!(map.insert_if_absent("key", 2, minute), Ok(Some(2)), "not inserted");
    /// assert_eq!(map.remove("key"), Some(1));
    /// # }
    /// ```
    pub fn insert_if_absent(
        &self,
        key: K,
        value: V,
        delay: Duration,
    ) -> Result<Option<V>, InsertError<V>> {
        let inner = &*self.inner;
        let hash = inner.table.hash(&key);
        let mut locked = inner.lock(hash);
        if self.is_closed(&locked) {
            let_go(locked, key);
            return Err(InsertError::Closed(value));
        }
        if locked.part.find(hash, &key).is_some() {
            let_go(locked, key);
            return Ok(Some(value));
        }
        if !inner.table.take_place(locked.number) {
            let_go(locked, key);
            return Err(InsertError::AtCapacity(value));
        }
        let setting = inner.due_now(|now| now.after(delay.into()));
        locked.part.insert(key, hash, value, setting, Moment::MAX);
        inner.plan_for(locked, setting);
        Ok(None)
    }

    fn insert_due(
        &self,
        key: K,
        value: V,
        deadline: impl FnOnce(Moment) -> Moment,
    ) -> Result<Option<V>, InsertError<V>> {
        self.insert_until(key, value, deadline, |_| Moment::MAX)
    }

    fn insert_until(
        &self,
        key: K,
        value: V,
        deadline: impl FnOnce(Moment) -> Moment,
        end: impl FnOnce(Moment) -> Moment,
    ) -> Result<Option<V>, InsertError<V>> {
        let inner = &*self.inner;
        let hash = inner.table.hash(&key);
        let mut locked = inner.lock(hash);
        if self.is_closed(&locked) {
            let_go(locked, key);
            return Err(InsertError::Closed(value));
        }
        let found = locked.part.find(hash, &key);
        if found.is_none() && !inner.table.take_place(locked.number) {
            let_go(locked, key);
            return Err(InsertError::AtCapacity(value));
        }
        let mut until = Moment::MAX;
        let setting = inner.due_now(|now| {
            until = end(now);
            deadline(now).min(until)
        });
        let replaced = match found {
            Some(index) => {
                locked.part.set_end(index, until);
                locked.part.set(index, setting);
                Some(locked.part.replace_value(index, value))
            }
            None => {
                locked.part.insert(key, hash, value, setting, until);
                inner.plan_for(locked, setting);
                return Ok(None);
            }
        };
        inner.plan_for(locked, setting);
        // As in `let_go`: before anything is given back.
        drop(key);
        Ok(replaced)
    }

    /// To be asked with a part locked: who closes has all of them.
    fn is_closed(&self, _locked: &Locked<'_, K, V>) -> bool {
        self.inner.table.is_closed() || self.inner.timer.has_ended()
    }

    /// Has the value of a key come out when `delay` has passed from now, earlier or later than
    /// before, but no later than its life; `false` for a key that is not there.
    pub fn reset<Q>(&self, key: &Q, delay: Duration) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.reset_due(key, |now| now.after(delay.into()))
    }

    /// Has the value of a key come out at `deadline`; else as [`reset`](DelayMap::reset).
    pub fn reset_at<Q>(&self, key: &Q, deadline: Instant) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let deadline = self.inner.clock().moment(deadline);
        self.reset_due(key, |_| deadline)
    }

    fn reset_due<Q>(&self, key: &Q, deadline: impl FnOnce(Moment) -> Moment) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = &*self.inner;
        let Some((mut locked, index)) = self.find(key) else {
            return false;
        };
        let end = locked.part.end_of(index);
        let setting = inner.due_now(|now| deadline(now).min(end));
        locked.part.set(index, setting);
        inner.plan_for(locked, setting);
        true
    }

    /// Has the value of a key come out of the stream now; `false` for a key that is not there, or
    /// whose value is due already.
    pub fn expire<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some((mut locked, index)) = self.find(key) else {
            return false;
        };
        let is_pending = locked.part.expire(index, self.inner.clock().now());
        self.inner.plan_again(locked);
        is_pending
    }

    /// Takes the value of a key out; `None` for a key that is not there.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut locked, index) = self.find(key)?;
        let item = locked.part.remove(index);
        locked.part.shrink_if_due();
        self.inner.table.give_back(locked.number, 1);
        self.inner.plan_without(locked);
        let Item { key, value, .. } = item;
        // After the lock; and should it panic, the value is dropped and not lost.
        drop(key);
        Some(value)
    }

    /// Whether a key is there, its value not yet taken out.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key).is_some()
    }

    /// When the value of a key is to come out; `None` for a key that is not there.
    pub fn deadline<Q>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.due_at(key).map(|at| self.inner.clock().instant(at))
    }

    /// The time that is left until the value of a key comes out, zero if it is due; `None` for a
    /// key that is not there.
    pub fn remaining<Q>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (locked, index) = self.find(key)?;
        let at = locked.part.due_at(index);
        // Read under the lock, after the last reset: so no more is told than was set.
        Some(at.since(self.inner.clock().now()))
    }

    fn due_at<Q>(&self, key: &Q) -> Option<Moment>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (locked, index) = self.find(key)?;
        Some(locked.part.due_at(index))
    }

    /// Looks at the value of a key, due or not; `None` for a key that is not there. Its delay goes
    /// on.
    ///
    /// `look` is called under the lock of a part: it must not call the map. If it panics, nothing
    /// is changed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let (map, _expired) = DelayMap::new(&Timer::current());
    /// map.insert("key", vec![1, 2], Duration::from_secs(60)).unwrap();
    /// assert_eq!(map.update("key", |value| value.push(3)), Some(()));
    /// assert_eq!(map.with_value("key", Vec::len), Some(3));
    /// # }
    /// ```
    pub fn with_value<Q, R>(&self, key: &Q, look: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (locked, index) = self.find(key)?;
        Some(look(&locked.part.item(index).value))
    }

    /// Changes the value of a key, due or not; `None` for a key that is not there. Its delay goes
    /// on.
    ///
    /// `change` is called under the lock of a part: it must not call the map. If it panics, the
    /// value is as it left it.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut locked, index) = self.find(key)?;
        Some(change(locked.part.value_mut(index)))
    }

    /// Uses the value of a key: looks at it or changes it, and starts its delay anew, in one;
    /// `None` for a key that is not there.
    ///
    /// `act` is called under the lock of a part: it must not call the map. If it panics, the delay
    /// goes on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let minute = Duration::from_secs(60);
    /// let (cache, _expired) = DelayMap::new(&Timer::current());
    /// cache.insert("page", "text", minute).unwrap();
    /// tickwheel::sleep(minute / 2).await;
    /// assert_eq!(cache.touch("page", minute, |text| *text), Some("text"));
    /// assert_eq!(cache.remaining("page"), Some(minute));
    /// # }
    /// ```
    pub fn touch<Q, R>(&self, key: &Q, delay: Duration, act: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut locked, index) = self.find(key)?;
        let result = act(locked.part.value_mut(index));
        let end = locked.part.end_of(index);
        let setting = self.inner.due_now(|now| now.after(delay.into()).min(end));
        locked.part.set(index, setting);
        self.inner.plan_for(locked, setting);
        Some(result)
    }

    fn find<Q>(&self, key: &Q) -> Option<(Locked<'_, K, V>, u32)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.inner.table.hash(key);
        let locked = self.inner.lock(hash);
        let index = locked.part.find(hash, key)?;
        Some((locked, index))
    }
}

impl<K, V> DelayMap<K, V> {
    /// How many values are there, due or not.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether no value is there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys, in no order. Each was there at some moment of the call.
    ///
    /// The key's `Clone` is called under the lock of a part: it must not call the map.
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        let mut keys = Vec::with_capacity(self.len());
        self.each_part(|part| {
            keys.extend(
                part.indices()
                    .into_iter()
                    .map(|index| part.item(index).key.clone()),
            );
        });
        keys
    }

    /// Calls `act` with each key and when its value is to come out, in no order, with no lock held:
    /// it may use the map. Each was there at some moment of the call.
    pub fn for_each(&self, mut act: impl FnMut(&K, Instant))
    where
        K: Clone,
    {
        for Locked { part, .. } in self.inner.locked_parts() {
            let indices = part.indices().into_iter();
            let keys: Vec<_> = indices
                .map(|index| (part.item(index).key.clone(), part.due_at(index)))
                .collect();
            drop(part);
            for (key, at) in keys {
                act(&key, self.inner.clock().instant(at));
            }
        }
    }

    /// Keeps what `keep` says, due or not, and drops the rest. The delays go on.
    ///
    /// `keep` is called under the lock of a part: it must not call the map. If it panics, no more
    /// is dropped.
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for mut locked in self.inner.locked_parts() {
            let mut removed = Vec::new();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                for index in locked.part.indices() {
                    let (key, value) = locked.part.entry_mut(index);
                    if !keep(key, value) {
                        removed.push(locked.part.remove(index));
                        self.inner.table.give_back(locked.number, 1);
                    }
                }
            }));
            locked.part.shrink_if_due();
            self.inner.plan_without(locked);
            // Dropped here, after the lock.
            drop(removed);
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
        }
    }

    fn each_part(&self, mut look: impl FnMut(&part::Part<K, V>)) {
        for Locked { part, .. } in self.inner.locked_parts() {
            look(&part);
        }
    }

    /// Takes everything out, in no order. Atomic: an insert comes wholly before it or wholly after.
    pub fn drain(&self) -> Vec<(K, V)> {
        let items = self.inner.take_all(false).into_iter();
        items.map(|(_, item)| item.into_pair()).collect()
    }

    /// As [`drain`](DelayMap::drain), each with the time that it had left, zero for what was due.
    pub fn take_all(&self) -> Vec<(K, V, Duration)> {
        let with_time_left = |(left, item): (Duration, Item<K, V>)| {
            let (key, value) = item.into_pair();
            (key, value, left)
        };
        let items = self.inner.take_all(false).into_iter();
        items.map(with_time_left).collect()
    }

    /// Has everything come out of the stream now, in the order of the deadlines that it had, and
    /// says how many were pending. Atomic, as [`drain`](DelayMap::drain) is.
    pub fn expire_all(&self) -> usize {
        self.inner.expire_all()
    }

    /// Takes everything out, and the stream ends; every later insert is an error. A second close
    /// finds nothing.
    pub fn close(&self) -> Vec<(K, V)> {
        let items = self.inner.take_all(true).into_iter();
        items.map(|(_, item)| item.into_pair()).collect()
    }

    /// A handle that does not keep the stream from ending.
    pub fn downgrade(&self) -> WeakDelayMap<K, V> {
        WeakDelayMap::new(&self.inner)
    }
}

/// Drops a key that is not needed, after the lock. Should that panic, the value that is to be given
/// back is dropped and not lost, as it is not on its way yet.
fn let_go<K, V>(locked: Locked<'_, K, V>, key: K) {
    drop(locked);
    drop(key);
}

impl<K, V> Clone for DelayMap<K, V> {
    fn clone(&self) -> Self {
        // This one is a handle, so there is one to be added to.
        self.inner.add_handle();
        DelayMap {
            inner: self.inner.clone(),
        }
    }
}

impl<K, V> Drop for DelayMap<K, V> {
    fn drop(&mut self) {
        self.inner.drop_handle();
    }
}

impl<K, V> fmt::Debug for DelayMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayMap")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
