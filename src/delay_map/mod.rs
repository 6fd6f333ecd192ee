//! The [`DelayMap`]: delayed values by key, and one stream of what has expired.
//!
//! The map turns wheels of its own, one in each part of its table, and its stream is their driver: an alarm on the
//! timer wakes it at the earliest due of all parts. So a value costs no waker and no entry in the timer's wheels,
//! and everything about a key is under the one lock of its part.
//!
//! ```text
//!   insert --> waiting: in its part's wheel --(stream: advance)--> due: out of the wheel, its name in the queue
//!                |  ^                                                |  |
//!                |  +---------- reset, insert under the key ---------+  +--(stream, remove, drain, ...)--> out
//!                +--(remove, drain, close)--> out
//! ```
//!
//! Invariants:
//!
//! - An item is in its part from its insert until it comes out, due or not. Whoever takes it out does so under the
//!   part's lock, so it comes out once, one way.
//! - The queue holds names of items. A name is good only while its item is due and was not set anew since, which
//!   the number of its setting tells; the stream passes over the others.
//! - No wake-up is lost. `planned` is the tick at which the stream looks next. The stream registers its waker, writes
//!   `planned`, and then reads `earliest` of each part again; who makes something due earlier writes `earliest`, and
//!   then reads `planned` and wakes the stream if need be. All four are sequentially consistent, so one of the two
//!   sees the other. Closing and dropping the last handle likewise write first, then wake.
//! - On the system's clock the alarm may be too early when its item was removed: one empty look. On a clock that can
//!   be paused whoever removes an item puts the alarm off, or the removed item would pull time along. The stream reads
//!   the parts for its plan under the alarm's lock, so a removal comes before that, or finds the alarm set.
//!
//! Locks: the alarm, then a shard of the timer, with no waker in hand; a part, or the waiter, and nothing within. Under a part's lock the only
//! user code is a key's `Eq`, during a look-up that changes nothing. Values, keys and wakers are dropped after all.

mod alarm;
mod inner;
mod part;
mod stream;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::InsertError;
use crate::tick::Moment;
use crate::timer::Timer;
use inner::{Inner, Locked};
pub use stream::{Expirations, Expired};

/// Delayed values by key, which come out of one stream when their delay has passed.
///
/// Any number of clones insert, reset and remove from any task or thread, by `&self`; the one [`Expirations`] is the
/// stream, and its consumer may use the map from its own loop.
///
/// - Never early; late by at most two ticks of the timer, besides tokio's rounding and scheduling.
/// - Each value comes out once, one way: by the stream, [`remove`](DelayMap::remove), [`drain`](DelayMap::drain),
///   [`close`](DelayMap::close), or replaced by an [`insert`](DelayMap::insert). What is due but not yet taken from
///   the stream can still be removed, reset or drained.
/// - Values come out in the order of their deadlines.
/// - The stream ends when the map is closed and empty, or every handle of the map is gone and it is empty, or the
///   timer's runtime has shut down. Dropping the stream closes the map and drops what it holds.
///
/// | call | cost |
/// |---|---|
/// | insert, reset, remove | a hash and the lock of one part of the map |
/// | [`drain`](DelayMap::drain), [`expire_all`](DelayMap::expire_all), [`close`](DelayMap::close) | the locks of all parts at once, and O(keys) under them |
///
/// A key's `Hash` is called with no lock held, its `Eq` under the lock of a part; keys and values are dropped after
/// all locks. If one of them panics, that call panics and no other key is harmed. `Eq` must not call the map.
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
/// sessions.reset(&"bob", Duration::from_secs(90));
///
/// let first = expired.next().await.expect("the map is open");
/// assert_eq!((first.key, first.value), ("alice", 1));
/// assert_eq!(sessions.remove(&"bob"), Some(2));
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
        let inner = Arc::new(Inner::new(timer, max));
        (
            DelayMap {
                inner: inner.clone(),
            },
            Expirations::new(inner),
        )
    }

    /// Puts a value under a key, to come out of the stream when `delay` has passed. A value that was under the key
    /// is replaced and given back, and the delay starts anew.
    ///
    /// # Errors
    ///
    /// Gives the value back: [`InsertError::Closed`] when the map is closed, its stream was dropped, or the timer's
    /// runtime has gone; [`InsertError::AtCapacity`] if the key is new and the map holds as many as it may.
    pub fn insert(&self, key: K, value: V, delay: Duration) -> Result<Option<V>, InsertError<V>> {
        self.insert_due(key, value, |now| now.after(delay.into()))
    }

    /// Puts a value under a key, to come out of the stream at `deadline`; else as [`insert`](DelayMap::insert).
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

    fn insert_due(
        &self,
        key: K,
        value: V,
        deadline: impl FnOnce(Moment) -> Moment,
    ) -> Result<Option<V>, InsertError<V>> {
        let inner = &*self.inner;
        let hash = inner.table.hash(&key);
        let mut locked = inner.lock(hash);
        let part = &mut *locked.part;
        if part.closed || inner.timer.has_ended() {
            return Err(InsertError::Closed(value));
        }
        let found = part.find(hash, &key);
        if found.is_none() && !inner.places.take() {
            return Err(InsertError::AtCapacity(value));
        }
        let due = inner.due_now(deadline);
        let replaced = match found {
            Some(index) => {
                part.set(index, due);
                Some(part.replace_value(index, value))
            }
            None => {
                part.insert(key, hash, value, due);
                None
            }
        };
        inner.plan_again(locked);
        Ok(replaced)
    }

    /// Has the value of a key come out when `delay` has passed from now, earlier or later than before; `false` for a
    /// key that is not there.
    pub fn reset(&self, key: &K, delay: Duration) -> bool {
        self.reset_due(key, |now| now.after(delay.into()))
    }

    /// Has the value of a key come out at `deadline`, earlier or later than before; `false` for a key that is not there.
    pub fn reset_at(&self, key: &K, deadline: Instant) -> bool {
        let deadline = self.inner.clock().moment(deadline);
        self.reset_due(key, |_| deadline)
    }

    fn reset_due(&self, key: &K, deadline: impl FnOnce(Moment) -> Moment) -> bool {
        let inner = &*self.inner;
        let hash = inner.table.hash(key);
        let mut locked = inner.lock(hash);
        let Some(index) = locked.part.find(hash, key) else {
            return false;
        };
        let due = inner.due_now(deadline);
        locked.part.set(index, due);
        inner.plan_again(locked);
        true
    }

    /// Takes the value of a key out; `None` for a key that is not there.
    pub fn remove(&self, key: &K) -> Option<V> {
        let inner = &*self.inner;
        let hash = inner.table.hash(key);
        let mut locked = inner.lock(hash);
        let index = locked.part.find(hash, key)?;
        let item = locked.part.remove(index);
        inner.places.give_back(1);
        inner.plan_again(locked);
        // The item's key is dropped here, after the lock.
        Some(item.value)
    }

    /// Whether a key is there, its value not yet taken out.
    pub fn contains_key(&self, key: &K) -> bool {
        self.deadline(key).is_some()
    }

    /// When the value of a key is to come out; `None` for a key that is not there.
    pub fn deadline(&self, key: &K) -> Option<Instant> {
        let inner = &*self.inner;
        let hash = inner.table.hash(key);
        let Locked { part, .. } = inner.lock(hash);
        let due_at = part.due_at(part.find(hash, key)?);
        drop(part);
        Some(inner.clock().instant(due_at))
    }
}

impl<K, V> DelayMap<K, V> {
    /// How many values are there, due or not.
    pub fn len(&self) -> usize {
        self.inner.places.taken()
    }

    /// Whether no value is there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes everything out, in no order. Atomic: an insert comes wholly before it or wholly after.
    pub fn drain(&self) -> Vec<(K, V)> {
        self.inner.take_all(false)
    }

    /// Has everything come out of the stream now, in the order of the deadlines that it had, and says how many were
    /// pending. Atomic, as [`drain`](DelayMap::drain) is.
    pub fn expire_all(&self) -> usize {
        self.inner.expire_all()
    }

    /// Takes everything out, and the stream ends; every later insert is an error. A second close finds nothing.
    pub fn close(&self) -> Vec<(K, V)> {
        self.inner.take_all(true)
    }
}

impl<K, V> Clone for DelayMap<K, V> {
    fn clone(&self) -> Self {
        self.inner.handles.fetch_add(1, Ordering::Relaxed);
        DelayMap {
            inner: self.inner.clone(),
        }
    }
}

impl<K, V> Drop for DelayMap<K, V> {
    fn drop(&mut self) {
        // The last one lets the stream end once the map is empty.
        if self.inner.handles.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.inner.wake_stream();
        }
    }
}

impl<K, V> fmt::Debug for DelayMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayMap")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
