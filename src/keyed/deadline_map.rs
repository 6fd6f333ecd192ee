//! The [`DeadlineMap`]: one awaited deadline for each key.
//!
//! The map takes no lock of a shard inside one of its own. Only a closure of `for_each` may,
//! through the handle. A reset acts on the key's word under the lock of its part, unless it needs
//! the lock of the shard. Every other call finds the word there, unlocks the part, and then acts.
//! `drain` and `close` lock every part, take the tables out and unlock, as fast for a million keys
//! as for none.
//!
//! Invariants:
//!
//! - An entry is taken out once, under the lock of its part. Its deadline ends, and its key
//!   is dropped, under no lock of the map.
//! - A [`KeyedDeadline`] finds its entry by the identity of its word, so an older one never takes
//!   out a newer one's entry.
//! - No user code runs under the part's lock between a permit and its entry. A `KeyedDeadline` is
//!   made before its entry is inserted. If a panic drops it, its drop takes the entry out. So no
//!   panic costs a permit.
//! - A key's own code runs under a part's lock only in a look-up, which changes nothing.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A newer deadline replaces a word that a call has found.* The call finds that the word has
//!   ended, and looks the key up again. If it acts in time, it came before the insert.
//! - *A word leaves the map, and its owner restarts it, before a call acts.* The call acts on the
//!   deadline that was the key's when it looked it up.
//! - *Drain against expiry, cancel, reset, restart.* Each ends or moves the word, one after the
//!   other. A drain returns the deadlines that it ended itself.
//! - *An insert beside a close.* The insert asks under the lock of its part whether the map is
//!   closed, and a close writes that with all parts locked. So the close takes the key out, or the
//!   insert is an error.
//! - *A walk from part to part, against inserts and drops.* A key never changes its part, so it is
//!   seen once.

mod inner;

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::ResetHandle;
use crate::deadline::warn_before::WarnBefore;
use crate::error::{Cancelled, InsertError, InsertIfAbsentError};
use crate::keyed::linear_hash_table::LinearHashTable;
use crate::keyed::table::{DefaultHashBuilder, hash_of};
use crate::shard::DeadlineRef;
use crate::shard::word::{EXPIRED, MapTag, Word};
use crate::timer::Timer;
use inner::{Entry, Inner, Insertion, KeyPart};

/// One awaited deadline for each key. Any task resets, cancels or expires it by the key alone.
///
/// ```
/// # tokio_test::block_on(async { tokio::time::pause();
/// use tickwheel::{DeadlineMap, Duration, Timer};
///
/// let minute = Duration::from_secs(60);
/// let connections = DeadlineMap::new(&Timer::current());
/// let connection = connections.insert("alice".to_owned(), minute)?;
/// assert!(connections.reset("alice"), "a request of hers, in time");
///
/// let newer = connections.insert("alice".to_owned(), minute)?;
/// assert!(connection.await.unwrap_err().is_replaced());
/// let operator = connections.handle("alice").expect("it is in the map");
/// assert!(operator.extend(10 * minute));
/// newer.await?;
/// assert!(connections.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Usage
///
/// [`insert`](DeadlineMap::insert) returns a [`KeyedDeadline`] to be awaited, which behaves like a
/// [`Deadline`](crate::Deadline). A key stays in the map while its deadline lives, expired or not,
/// unless a call removes it. So the deadline can be restarted, and reset by key. Dropping it
/// removes the key. Clones of the map are handles of one. A pending deadline fires even if all of
/// them are dropped. For values that no task awaits, use a [`DelayMap`](crate::DelayMap).
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | [`reset`](DeadlineMap::reset) | a hash and the lock of one part of the map; before the deadline, its own reset takes no lock |
/// | [`insert`](DeadlineMap::insert), [`expire`](DeadlineMap::expire), [`remove`](DeadlineMap::remove) | the same, and the lock of a shard; an insert that replaces takes a second one |
/// | [`drain`](DeadlineMap::drain), [`close`](DeadlineMap::close) | the locks of all parts at once, for a moment; then O(keys) and no lock of the map |
/// | [`expire_all`](DeadlineMap::expire_all), [`for_each`](DeadlineMap::for_each) | O(keys), under the lock of one part at a time: a map has at least four for each core, and at most 256 |
///
/// A new map takes some hundred bytes, with very many cores some thousand, and each of its parts
/// some hundred more once it has held a key. The map frees memory as keys go, in any order. No call
/// moves more than two thousand keys.
///
/// # Panics
///
/// The map stores a clone of each key. A key's `Hash`, its `Drop`, and its `Clone` in an insert run
/// with no lock held. If one of them panics, that call panics, no other key is harmed, and no
/// capacity is lost. If the `Drop` of both clones panics at once, the process aborts.
///
/// # Closures
///
/// The closure given to [`for_each`](DeadlineMap::for_each) runs under the lock of one part, as do
/// a key's `Eq` and `Borrow`. They must not call the map, nor drop a [`KeyedDeadline`] of it, nor
/// wait for a task that does: the call may never return. In debug builds it panics. They may format
/// the map by `{map:?}` and ask for its `len`, which take no lock. They may call another map,
/// unless a closure of that map calls this one.
#[derive(Clone)]
pub struct DeadlineMap<K, S = DefaultHashBuilder> {
    inner: Arc<Inner<K>>,
    hash_builder: S,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> DeadlineMap<K> {
    /// Makes an empty map whose deadlines are on `timer`.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use tickwheel::{DeadlineMap, Duration, Timer};
    ///
    /// # tokio_test::block_on(async {
    /// // Each task of a server has a clone, and all of them are one map.
    /// let connections: DeadlineMap<SocketAddr> = DeadlineMap::new(&Timer::current());
    /// let peer = "10.0.0.7:4711".parse()?;
    /// let _idle = connections.clone().insert(peer, Duration::from_secs(60))?;
    /// assert!(connections.reset(&peer));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn new(timer: &Timer) -> Self {
        Self::with_limit(timer, usize::MAX)
    }

    /// Makes an empty map that holds at most `capacity` keys, expired or not.
    ///
    /// It is for keys that outsiders choose, which would otherwise fill the memory.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer, error::InsertError};
    /// # tokio_test::block_on(async {
    /// let minute = Duration::from_secs(60);
    /// let clients = DeadlineMap::with_limit(&Timer::current(), 1);
    /// let first = clients.insert("first", minute)?;
    /// let rejected = clients.insert("second", minute).unwrap_err();
    /// assert_eq!(rejected, InsertError::AtCapacity("second"));
    ///
    /// let again = clients.insert("first", minute)?; // this one replaces its older deadline
    /// drop((first, again)); // its key goes with it
    /// let _second = clients.insert("second", minute)?;
    /// # Ok::<(), InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn with_limit(timer: &Timer, capacity: usize) -> Self {
        Self::with_limit_and_hasher(timer, capacity, DefaultHashBuilder::of(timer))
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, S: BuildHasher> DeadlineMap<K, S> {
    /// Like [`with_limit`](DeadlineMap::with_limit), with a hasher of your own. A capacity of
    /// `usize::MAX` bounds nothing.
    ///
    /// The default hasher withstands keys that were chosen to collide. A faster one is fine for
    /// keys that no outsider can choose.
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    /// use tickwheel::{DeadlineMap, Duration, Timer};
    ///
    /// # tokio_test::block_on(async {
    /// // In its place, for example, the hasher of `rustc-hash` or `ahash`.
    /// let hasher = BuildHasherDefault::<DefaultHasher>::default();
    /// let requests = DeadlineMap::with_limit_and_hasher(&Timer::current(), usize::MAX, hasher);
    /// let _timeout = requests.insert(1_u64, Duration::from_secs(5))?; // we number them ourselves
    /// assert!(requests.contains_key(&1));
    /// # Ok::<(), tickwheel::error::InsertError<u64>>(()) }).unwrap();
    /// ```
    pub fn with_limit_and_hasher(timer: &Timer, capacity: usize, hash_builder: S) -> Self {
        DeadlineMap {
            inner: Arc::new(Inner::new(timer, capacity)),
            hash_builder,
        }
    }

    /// Arms a deadline under a key. If an older one under that key is pending, it resolves to
    /// `Err(Cancelled)`, replaced.
    ///
    /// # Errors
    ///
    /// Both return the key. [`InsertError::Closed`] after [`close`](DeadlineMap::close).
    /// [`InsertError::AtCapacity`] if the key is new and the map is full.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let idle = connections.insert("10.0.0.7:4711", Duration::from_secs(60))?;
    /// tokio::select! {
    ///     end = idle => assert_eq!(end, Ok(()), "nothing came for a minute"),
    ///     () = serve() => {}
    /// }
    /// assert!(connections.is_empty(), "the key goes with its deadline");
    /// # async fn serve() { std::future::pending().await }
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn insert(&self, key: K, timeout: Duration) -> Result<KeyedDeadline<K>, InsertError<K>> {
        self.put(self.hash(&key), key, timeout, Entry::replace)
    }

    /// Like [`insert`](DeadlineMap::insert), but only under a key that is not in the map. Of
    /// several calls that race for one key, exactly one gets a deadline.
    ///
    /// # Errors
    ///
    /// All return the key. [`Occupied`](InsertIfAbsentError::Occupied) if the key is in the map,
    /// its deadline pending or not; that deadline does not change. The others are those of an
    /// insert. A closed map always returns [`Closed`](InsertIfAbsentError::Closed).
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer, error::InsertIfAbsentError};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// // One connection for each user at a time.
    /// let (users, idle) = (DeadlineMap::new(&Timer::current()), Duration::from_secs(30));
    /// let first = users.insert_if_absent("alice", idle)?;
    /// let second = users.insert_if_absent("alice", idle);
    /// assert_eq!(second.unwrap_err(), InsertIfAbsentError::Occupied("alice"));
    ///
    /// drop(first); // that connection is closed
    /// let _second = users.insert_if_absent("alice", idle)?;
    /// # Ok::<(), InsertIfAbsentError<&str>>(()) }).unwrap();
    /// ```
    pub fn insert_if_absent(
        &self,
        key: K,
        timeout: Duration,
    ) -> Result<KeyedDeadline<K>, InsertIfAbsentError<K>> {
        let hash = self.hash(&key);
        if !self.inner.table.is_closed() && self.inner.find(hash, &key, |_| ()).is_some() {
            return Err(InsertIfAbsentError::Occupied(key));
        }
        self.put(hash, key, timeout, |_, newer| {
            Insertion::Refused(InsertIfAbsentError::Occupied(newer.key))
        })
    }

    /// Arms a deadline, and inserts an entry for it. `if_present` decides what becomes of the new
    /// entry if the key has one.
    fn put<E: From<InsertError<K>>>(
        &self,
        hash: u32,
        key: K,
        timeout: Duration,
        if_present: impl FnOnce(&mut Entry<K>, Entry<K>) -> Insertion<K, E>,
    ) -> Result<KeyedDeadline<K>, E> {
        let inner = &self.inner;
        // Before anything is armed, because dropping that would call the map again.
        inner.table.check_reentry();
        let entry_key = key.clone();
        let shard = inner.timer.shard();
        let now = shard.clock().now();
        let tag = MapTag {
            hash,
            shard: shard.index() as u32,
        };
        let keyed = KeyedDeadline {
            word: shard.arm_deadline(now, timeout, tag),
            key,
            part: inner.part_of(hash).clone(),
        };
        let entry = Entry {
            key: entry_key,
            word: keyed.word.clone(),
        };
        match inner.insert(&keyed.part, hash, entry, if_present) {
            Insertion::New => Ok(keyed),
            Insertion::Replaced { older, unused_key } => {
                inner.deadline(&older).end(Err(Cancelled::REPLACED));
                // While `keyed` can still be dropped, because this is user code and may panic.
                drop(unused_key);
                Ok(keyed)
            }
            Insertion::Refused(error) => {
                // Before the result is made, which a panic of this user code would leak.
                drop(keyed);
                Err(error)
            }
        }
    }

    /// Removes a key and cancels its deadline, if pending. Returns `false` if the key is not in the
    /// map.
    ///
    /// It removes whatever deadline has the key now. A task that ends its own deadline drops the
    /// [`KeyedDeadline`], which leaves a newer one in the map. [`ResetHandle::cancel`] keeps the
    /// key, for a deadline that is to be restarted under it.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let alice = connections.insert("alice".to_owned(), Duration::from_secs(60))?;
    /// assert!(connections.remove("alice"), "she closes it");
    /// assert!(alice.await.is_err(), "her task learns of it");
    /// assert!(!connections.remove("alice"));
    /// # Ok::<(), tickwheel::error::InsertError<String>>(()) }).unwrap();
    /// ```
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let is_it = |entry: &Entry<K>| entry.key.borrow() == key;
        let Some(entry) = self.inner.take(self.hash(key), is_it) else {
            return false;
        };
        let deadline = self.inner.deadline(&entry.word);
        deadline.end(Err(Cancelled::BY_HANDLE));
        true
    }

    /// Pushes the deadline of a key to now plus its timeout, like [`ResetHandle::reset`]. Returns
    /// `false` if that is too late, or if the key is not in the map.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let alice = connections.insert("alice".to_owned(), Duration::from_secs(60))?;
    /// for _request in 0..3 {
    ///     sleep(Duration::from_secs(50)).await;
    ///     assert!(connections.reset("alice"), "in time, so she stays connected");
    /// }
    /// sleep(Duration::from_secs(61)).await;
    /// assert!(!connections.reset("alice"), "too late");
    /// assert_eq!(alice.await, Ok(()));
    /// # Ok::<(), tickwheel::error::InsertError<String>>(()) }).unwrap();
    /// ```
    pub fn reset<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let now = self.inner.timer.clock().now();
        let try_reset = |deadline: DeadlineRef<'_>| deadline.try_reset(now, None);
        self.act(key, try_reset, |deadline| deadline.reset(now, None))
    }

    /// Like [`reset`](DeadlineMap::reset), counted from an instant: [`ResetHandle::reset_from`].
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Instant, Timer, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let start = Instant::now();
    /// let idle = connections.insert("10.0.0.7:4711", Duration::from_secs(60))?;
    ///
    /// // A datagram that another thread received at 20 s, and hands over at 30 s.
    /// let received = start + Duration::from_secs(20);
    /// sleep(Duration::from_secs(30)).await;
    /// assert!(connections.reset_from("10.0.0.7:4711", received));
    /// idle.await?;
    /// assert_eq!(start.elapsed().as_secs(), 80);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn reset_from<Q: Hash + Eq + ?Sized>(&self, key: &Q, since: Instant) -> bool
    where
        K: Borrow<Q>,
    {
        let clock = self.inner.timer.shard().clock();
        let (now, since) = (clock.now(), Some(clock.moment(since)));
        let try_reset = |deadline: DeadlineRef<'_>| deadline.try_reset(now, since);
        self.act(key, try_reset, |deadline| deadline.reset(now, since))
    }

    /// Expires the deadline of a key now, like [`ResetHandle::expire`]. Returns `false` if it has
    /// already ended, or if the key is not in the map.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let batches = DeadlineMap::new(&Timer::current());
    /// let batch = batches.insert("metrics", Duration::from_secs(10))?;
    /// assert!(batches.expire("metrics"), "it is full, and need not wait");
    /// assert_eq!(batch.await, Ok(()), "as if its time had passed");
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn expire<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let expire = |deadline: DeadlineRef<'_>| deadline.end(EXPIRED).is_some();
        self.act(key, |_| false, expire)
    }

    /// Returns the handle of the deadline that is now the key's, or `None` if the key is not in the
    /// map.
    ///
    /// It is for all other calls, or to reset the deadline often without a look-up.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let _idle = connections.insert("10.0.0.7:4711", Duration::from_secs(60))?;
    ///
    /// // The peer and the server agree on another keepalive.
    /// let handle = connections.handle("10.0.0.7:4711").expect("it is connected");
    /// assert!(handle.set_timeout(Duration::from_secs(20)));
    /// assert_eq!(handle.timeout(), Duration::from_secs(20));
    /// assert!(connections.handle("10.0.0.8:4711").is_none());
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn handle<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<ResetHandle>
    where
        K: Borrow<Q>,
    {
        let handle = |word: &Arc<Word>| ResetHandle::of(self.inner.deadline(word));
        self.inner.find(self.hash(key), key, handle)
    }

    /// Returns whether a key is in the map, its deadline pending or not.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let alice = connections.insert("alice", Duration::from_secs(60))?;
    /// connections.expire("alice");
    /// assert!(connections.contains_key("alice"), "while its deadline lives");
    /// drop(alice);
    /// assert!(!connections.contains_key("alice"));
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.inner.find(self.hash(key), key, |_| ()).is_some()
    }

    /// Calls `begin` under the lock of the part, where nearly every reset ends, and then `act`.
    /// `false` if both return that for the last deadline of the key, or the key is missing.
    #[inline]
    fn act<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        begin: impl FnOnce(DeadlineRef<'_>) -> bool,
        act: impl Fn(DeadlineRef<'_>) -> bool,
    ) -> bool
    where
        K: Borrow<Q>,
    {
        let inner = &*self.inner;
        let hash = self.hash(key);
        let begin = |word: &Arc<Word>| (!begin(inner.deadline(word))).then(|| word.clone());
        let mut word = match inner.find(hash, key, begin) {
            None => return false,
            Some(None) => return true,
            Some(Some(word)) => word,
        };
        while !act(inner.deadline(&word)) {
            match inner.find(hash, key, Arc::clone) {
                Some(present) if !Arc::ptr_eq(&present, &word) => word = present,
                _ => return false,
            }
        }
        true
    }

    #[inline]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        hash_of(&self.hash_builder, key)
    }

    /// Removes every key and cancels the pending deadlines,
    /// [drained](crate::error::Cancelled::is_drained). Returns their keys, each with the time left.
    ///
    /// It is atomic: an insert comes wholly before or wholly after it. A deadline that ends in any
    /// other way at that moment is not returned. Other calls wait only while it removes the keys,
    /// not while it cancels.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let alice = connections.insert("alice", Duration::from_secs(60))?;
    /// sleep(Duration::from_secs(45)).await;
    ///
    /// // The keys have changed, so all are logged out, and may log in again.
    /// let drained = connections.drain();
    /// let (name, left) = drained[0];
    /// assert_eq!(name, "alice");
    /// assert!(left <= Duration::from_secs(15), "of her minute");
    /// assert!(alice.await.unwrap_err().is_drained());
    /// let _alice = connections.insert("alice", Duration::from_secs(60))?;
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn drain(&self) -> Vec<(K, Duration)> {
        self.take_all(false)
    }

    /// Drains the map, and makes every later insert an error. Both are one step: no key stays
    /// behind.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer, error::InsertError};
    /// # tokio_test::block_on(async {
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let task = tokio::spawn(connections.insert("10.0.0.7:4711", Duration::from_secs(60))?);
    ///
    /// // The server shuts down. Each task that awaits a deadline ends.
    /// assert_eq!(connections.close().len(), 1);
    /// assert!(task.await.unwrap().unwrap_err().is_drained());
    /// let late = connections.insert("10.0.0.8:4711", Duration::from_secs(60));
    /// assert_eq!(late.unwrap_err(), InsertError::Closed("10.0.0.8:4711"));
    /// # Ok::<(), InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn close(&self) -> Vec<(K, Duration)> {
        self.take_all(true)
    }

    fn take_all(&self, close: bool) -> Vec<(K, Duration)> {
        let inner = &*self.inner;
        let parts = inner.table.take_all(close, |part| {
            part.release(part.len());
            std::mem::replace(&mut **part, LinearHashTable::new())
        });
        let mut drained = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        let mut ended = Vec::new();
        for entry in parts.into_iter().flat_map(LinearHashTable::into_entries) {
            let deadline = inner.deadline(&entry.word);
            match deadline.end(Err(Cancelled::DRAINED)) {
                Some(due) => drained.push((entry.key, deadline.left(due))),
                None => ended.push(entry.key),
            }
        }
        // User code, so it runs after every deadline has ended.
        drop(ended);
        drained
    }

    /// Expires every pending deadline, and returns how many. The keys stay.
    ///
    /// It is atomic only for each key: a key replaced meanwhile may keep its newer deadline.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let batches = DeadlineMap::new(&Timer::current());
    /// let [logs, metrics] =
    ///     ["logs", "metrics"].map(|key| batches.insert(key, Duration::from_secs(10)).unwrap());
    /// // Each task flushes its batch now, and restarts its deadline.
    /// assert_eq!(batches.expire_all(), 2);
    /// assert_eq!((logs.await, metrics.await), (Ok(()), Ok(())));
    /// # });
    /// ```
    pub fn expire_all(&self) -> usize {
        let inner = &*self.inner;
        let (mut words, mut expired) = (Vec::new(), 0);
        for part in inner.table.lock_each() {
            words.extend(part.iter().map(|entry| entry.word.clone()));
            drop(part);
            for word in words.drain(..) {
                let due = inner.deadline(&word).end(EXPIRED);
                expired += usize::from(due.is_some());
            }
        }
        expired
    }

    /// Calls `f` with each key and the handle of its deadline, pending or not, in no order. It
    /// visits a key that stays in the map exactly once, and may miss one that comes or goes.
    ///
    /// `f` may use the handle, whose wake-up also runs under the lock, but must not call the map
    /// (see [Closures](DeadlineMap#closures)).
    ///
    /// # Panics
    ///
    /// In debug builds, if `f` calls the map. In a release build that call may never return.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let _old = connections.insert("10.0.0.7:4711", Duration::from_secs(60))?;
    /// sleep(Duration::from_secs(50)).await;
    /// let _new = connections.insert("10.0.0.8:4711", Duration::from_secs(60))?;
    ///
    /// // A page for an operator: who will be closed within 20 s?
    /// let mut soon = Vec::new();
    /// connections.for_each(|peer, handle| {
    ///     if handle.remaining().is_some_and(|left| left.as_secs() < 20) {
    ///         soon.push(*peer);
    ///     }
    /// });
    /// assert_eq!(soon, ["10.0.0.7:4711"]);
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn for_each(&self, mut f: impl FnMut(&K, &ResetHandle)) {
        let inner = &*self.inner;
        for part in inner.table.lock_each() {
            for entry in part.iter() {
                f(&entry.key, &ResetHandle::of(inner.deadline(&entry.word)));
            }
        }
    }
}

impl<K, S> DeadlineMap<K, S> {
    /// Returns how many keys are in the map, their deadlines pending or not. It takes no lock, so
    /// the sum may mix moments.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Returns whether no key is in the map, at one moment of the call. It takes no lock unless the
    /// map seems empty, and then locks all parts.
    pub fn is_empty(&self) -> bool {
        self.inner.table.is_empty()
    }
}

impl<K, S> fmt::Debug for DeadlineMap<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineMap")
            .field("len", &self.inner.table.len())
            .finish_non_exhaustive()
    }
}

/// A [`Deadline`](crate::Deadline) in a [`DeadlineMap`](crate::DeadlineMap). Dropping it removes
/// its key from the map, unless a newer one has the key. Without a key it can still be restarted.
///
/// ```
/// # use tickwheel::{DeadlineMap, Duration, Timer};
/// # tokio_test::block_on(async {
/// let clients = DeadlineMap::new(&Timer::current());
/// let older = clients.insert("client 1", Duration::from_secs(60))?;
/// let newer = clients.insert("client 1", Duration::from_secs(60))?; // it has connected again
///
/// drop(older); // the task of the older connection ends
/// assert!(clients.contains_key("client 1"), "the newer one has the key");
/// drop(newer);
/// assert!(clients.is_empty());
/// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
/// ```
///
/// # Cancel safety
///
/// Await `&mut deadline` in a `select!`: then a branch that loses leaves the deadline as it is.
/// Awaited by value, it is dropped with the branch, and its key goes.
#[must_use = "a deadline is cancelled and its key taken out when it is dropped; `.await` it"]
pub struct KeyedDeadline<K> {
    word: Arc<Word>,
    key: K,
    part: Arc<KeyPart<K>>,
}

impl<K> KeyedDeadline<K> {
    /// Returns the key under which it was inserted.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns a handle that resets, cancels or expires this deadline from anywhere, like
    /// [`Deadline::handle`](crate::Deadline::handle).
    ///
    /// Unlike a call of the map it acts on this deadline alone, even if the key has a newer one.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let clients = DeadlineMap::new(&Timer::current());
    /// let older = clients.insert("client 1", Duration::from_secs(60))?;
    /// let handle = older.handle(); // for the task that reads, which needs no look-up
    /// assert!(handle.reset());
    ///
    /// let _newer = clients.insert("client 1", Duration::from_secs(60))?;
    /// assert!(!handle.reset(), "its own deadline was replaced");
    /// assert!(clients.reset("client 1"));
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn handle(&self) -> ResetHandle {
        ResetHandle::of(self.deadline_ref())
    }

    /// Like [`Deadline::warn_before`](crate::Deadline::warn_before).
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer, warn_before::Stage};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let connections = DeadlineMap::new(&Timer::current());
    /// let connection = connections.insert("alice", Duration::from_secs(60)).unwrap();
    /// let mut connection = connection.warn_before(Duration::from_secs(10));
    /// assert_eq!(connection.wait().await?, Stage::Warning); // after 50 seconds
    /// assert!(connections.reset("alice"), "she is still there");
    /// assert_eq!(*connection.as_ref().key(), "alice");
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    pub fn warn_before(self, notice: Duration) -> WarnBefore<KeyedDeadline<K>> {
        let handle = self.handle();
        WarnBefore::new(self, KeyedDeadline::restart, handle, notice)
    }

    /// Makes the deadline pending again, after any outcome, like
    /// [`Deadline::restart`](crate::Deadline::restart).
    ///
    /// Once the key was replaced or removed, this restarts the deadline but not the key.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let peers = DeadlineMap::new(&Timer::current());
    /// let mut silent = peers.insert("peer 1", Duration::from_secs(5))?;
    /// for ping in 1.. {
    ///     (&mut silent).await?;
    ///     if ping == 3 {
    ///         break; // it has answered none of them
    ///     }
    ///     silent.restart();
    ///     assert!(peers.reset("peer 1"), "it is in the map, and pending");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn restart(&mut self) {
        self.deadline_ref().restart();
    }

    fn deadline_ref(&self) -> DeadlineRef<'_> {
        self.part.deadline(&self.word)
    }
}

/// The key is never pinned.
impl<K> Unpin for KeyedDeadline<K> {}

impl<K> Future for KeyedDeadline<K> {
    type Output = Result<(), Cancelled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.deadline_ref().poll(cx)
    }
}

impl<K> Drop for KeyedDeadline<K> {
    fn drop(&mut self) {
        // Dropped by a panic in a closure. Locking would panic again, so the entry stays, ended.
        let is_in_closure = self.part.is_held() && std::thread::panicking();
        let own = (!is_in_closure).then(|| self.part.take_own(&self.word));
        self.deadline_ref().cancel_unawaited();
        drop(own);
    }
}

impl<K: fmt::Debug> fmt::Debug for KeyedDeadline<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedDeadline")
            .field("key", &self.key)
            .field("timeout", &self.word.timeout())
            .field("outcome", &self.word.outcome())
            .finish_non_exhaustive()
    }
}
