//! The [`DeadlineMap`]: one awaited deadline for each key.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the map, and the future of one key |
//! | `inner` | the parts and their entries, and how these are put in and taken out |
//!
//! The map takes no lock inside another. A call finds the key's word under the lock of its part,
//! lets that lock go, and then acts on the word. A reset that needs no lock of a shard is made at
//! once.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *Two inserts under one key.* The part's lock orders them. The later one makes the entry reach
//!   its own deadline, and then settles the deadline of the earlier one.
//! - *A call finds a word, and a newer deadline takes its place before the call acts.* The call
//!   finds the word at its end, and finds the key's word again. It answers `false` only if that one
//!   has come to its end, or if the key is gone. If it acts on the older deadline in time, it came
//!   before the insert, which settles that deadline before it returns.
//! - *A word leaves the map, and its owner restarts it before the call acts.* The call acts on it
//!   all the same: it acts on the deadline that was the key's when it found it.
//! - *Find, then insert.* `insert_if_absent` searches before it arms a deadline. When it puts that
//!   in, it searches again, under the lock of the part.

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

use crate::clock::tick::Moment;
use crate::deadline::ResetHandle;
use crate::deadline::warn_before::WarnBefore;
use crate::error::{Cancelled, InsertError, InsertIfAbsentError};
use crate::keyed::linear_hash_table::LinearHashTable;
use crate::keyed::not_occupied;
use crate::keyed::table::{DefaultHashBuilder, Reentry, hash_of};
use crate::shard::word::{EXPIRED, MapTag, Word};
use crate::shard::{Change, DeadlineRef, Shard};
use crate::timer::Timer;
use inner::{Entry, Inner};

/// One awaited deadline for each key. Any task resets, cancels or expires it by the key alone.
///
/// [`insert`](DeadlineMap::insert) gives a [`KeyedDeadline`] to be awaited. A key stays in the map
/// while its `KeyedDeadline` lives, expired or not. So the deadline can be restarted, and be reset
/// by its key. Dropping the `KeyedDeadline` takes the key out.
///
/// The deadlines behave as [`Deadline`](crate::Deadline) does: a stall does not count against them.
///
/// Clones are handles of the same map, and all may be dropped: a pending deadline lives on and
/// fires.
///
/// | call | cost |
/// |---|---|
/// | [`reset`](DeadlineMap::reset) | a hash and the lock of one part of the map; the deadline's own reset takes no lock |
/// | other calls by key | the same, and the lock of a shard |
/// | [`drain`](DeadlineMap::drain), [`close`](DeadlineMap::close) | the locks of all parts at once, but for a moment only; then O(keys) and no lock of the map |
/// | [`expire_all`](DeadlineMap::expire_all), [`keys`](DeadlineMap::keys), [`for_each`](DeadlineMap::for_each) | O(keys), under the lock of one part at a time: a map has four for each core |
///
/// A call by key acts on the deadline that is the key's when the call looks it up. If it finds that
/// one at its end, it looks again, because a newer one may be under the key. What else a
/// deadline can do goes through its [`handle`](DeadlineMap::handle). To reset one key often, take
/// the handle once: a reset by it needs no look-up and no lock.
///
/// A new map takes some hundred bytes, so a program may have many of them. Its parts, four for each
/// core, are made when keys come that need them. Each stays, and takes some hundred bytes. The map
/// gives memory back as keys go, in whatever order. No call moves more than two thousand keys.
///
/// A key's `Hash` is called with no lock held, its `Eq` and `Borrow` under the lock of a part, its
/// `Drop` after all locks. An insert calls its `Clone` with no lock held, and `keys` under the lock
/// of a part. If one of them panics, that call panics, no other key is harmed, and no place of a
/// limit is lost. The map has a copy of each key, and a `Drop` that panics for both copies at once
/// aborts the process, as any panic in a panic.
///
/// # Closures
///
/// The closure given to [`for_each`](DeadlineMap::for_each) runs under the lock of one part. So do
/// a key's `Eq` and `Borrow`, and its `Clone` in [`keys`](DeadlineMap::keys). They must not call
/// the map, nor drop a [`KeyedDeadline`] of it, nor wait for somebody who does: they would wait for
/// ever. In debug builds such a call panics and says so. They may show the map by `{map:?}`, which
/// takes no lock, and call other maps, unless the closures of those call this one.
///
/// # Example
///
/// ```
/// # tokio_test::block_on(async { tokio::time::pause();
/// use tickwheel::{DeadlineMap, Duration, Timer};
///
/// let minute = Duration::from_secs(60);
/// let sessions = DeadlineMap::new(&Timer::current());
/// let session = sessions.insert("alice".to_owned(), minute)?;
/// assert!(sessions.reset("alice"), "a request of hers, in time");
/// assert!(!sessions.reset("bob"), "he has no session");
/// assert!(sessions.insert_if_absent("alice".to_owned(), minute).is_err(), "it is there");
///
/// let newer = sessions.insert("alice".to_owned(), minute)?;
/// assert!(session.await.unwrap_err().is_replaced());
/// let operator = sessions.handle("alice").expect("it is in the map");
/// assert!(operator.extend(10 * minute));
/// assert_eq!(sessions.remaining("alice"), Some(11 * minute));
/// newer.await?;
/// assert!(sessions.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub struct DeadlineMap<K, S = DefaultHashBuilder> {
    inner: Arc<Inner<K>>,
    hash_builder: S,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, S: BuildHasher> DeadlineMap<K, S> {
    /// An empty map that hashes its keys with what `hash_builder` makes.
    ///
    /// The default withstands keys that somebody has chosen to collide. A hasher that does not is
    /// faster, and good for keys that nobody can choose, such as the program's own numbers.
    pub fn with_hasher(timer: &Timer, hash_builder: S) -> Self {
        Self::with_limit_and_hasher(timer, usize::MAX, hash_builder)
    }

    /// As [`with_limit`](DeadlineMap::with_limit), with a hasher.
    pub fn with_limit_and_hasher(timer: &Timer, max: usize, hash_builder: S) -> Self {
        DeadlineMap {
            inner: Arc::new(Inner::new(timer, max)),
            hash_builder,
        }
    }

    /// Arms a deadline under a key. An older one under that key resolves to `Err(Cancelled)`,
    /// replaced.
    ///
    /// # Errors
    ///
    /// Both give the key back. [`InsertError::Closed`] after [`close`](DeadlineMap::close).
    /// [`InsertError::AtCapacity`] if the key is new and the map holds as many keys as it may.
    pub fn insert(&self, key: K, timeout: Duration) -> Result<KeyedDeadline<K>, InsertError<K>> {
        let hash = self.hash(&key);
        let put = self.put(hash, key, |_, _| timeout, true);
        put.map_err(not_occupied)
    }

    /// As [`insert`](DeadlineMap::insert), but the deadline expires at an instant, or at once if
    /// that has passed. Its timeout, which a later reset counts, is the time from now to then.
    pub fn insert_at(&self, key: K, deadline: Instant) -> Result<KeyedDeadline<K>, InsertError<K>> {
        let hash = self.hash(&key);
        let timeout = |shard: &Shard, now| shard.clock().moment(deadline).since(now);
        self.put(hash, key, timeout, true).map_err(not_occupied)
    }

    /// As [`insert`](DeadlineMap::insert), but only under a key that is not in the map.
    ///
    /// Of several calls that race for one key, exactly one gets a deadline.
    ///
    /// # Errors
    ///
    /// All give the key back. [`Occupied`](InsertIfAbsentError::Occupied) for a key that is in the
    /// map, its deadline pending or not: that deadline stays as it is. The others are those of an
    /// insert. A closed map answers [`Closed`](InsertIfAbsentError::Closed) in any case.
    pub fn insert_if_absent(
        &self,
        key: K,
        timeout: Duration,
    ) -> Result<KeyedDeadline<K>, InsertIfAbsentError<K>> {
        let hash = self.hash(&key);
        if !self.inner.table.is_closed() && self.inner.find(hash, &key, |_| ()).is_some() {
            // Found before a deadline was armed for it.
            return Err(InsertIfAbsentError::Occupied(key));
        }
        self.put(hash, key, |_, _| timeout, false)
    }

    fn put(
        &self,
        hash: u32,
        key: K,
        timeout: impl FnOnce(&Shard, Moment) -> Duration,
        replaces: bool,
    ) -> Result<KeyedDeadline<K>, InsertIfAbsentError<K>> {
        let inner = &self.inner;
        // Before anything is armed, because the drop of that would call the map again.
        Reentry::check(&inner.table);
        let entry_key = key.clone();
        let shard = inner.timer.shard();
        let now = shard.clock().now();
        let tag = MapTag {
            hash,
            shard: shard.index() as u32,
        };
        let keyed = KeyedDeadline {
            word: shard.arm_deadline(now, timeout(shard, now), tag),
            key,
            inner: inner.clone(),
        };
        inner.put(&keyed, entry_key, replaces)?;
        Ok(keyed)
    }

    /// Takes a key out and cancels its deadline, if that is pending. `false` for a key that is not
    /// in the map.
    ///
    /// [`cancel`](DeadlineMap::cancel) leaves the key in the map, so that its deadline can be
    /// restarted and be reset by key again.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let is_it = |entry: &Entry<K>| entry.key.borrow() == key;
        self.settle_taken(self.inner.take(self.hash(key), is_it))
    }

    /// Takes a deadline's key out and cancels the deadline, if it is the one under its key. `false`
    /// if it was replaced or taken out before, or is of another map. Then nothing is done.
    ///
    /// So a task that ends its deadline never ends a newer one that another task has put under the
    /// key.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let sessions = DeadlineMap::new(&Timer::current());
    /// let older = sessions.insert("alice", Duration::from_secs(60))?;
    /// let newer = sessions.insert("alice", Duration::from_secs(60))?;
    /// assert!(!sessions.compare_and_remove(&older));
    /// assert!(sessions.compare_and_remove(&newer));
    /// # Ok::<(), tickwheel::error::InsertError<&str>>(()) }).unwrap();
    /// ```
    pub fn compare_and_remove(&self, deadline: &KeyedDeadline<K>) -> bool {
        self.settle_taken(self.inner.take_own(&deadline.word))
    }

    /// Cancels the deadline of an entry that was taken out. `false` if there was none.
    fn settle_taken(&self, taken: Option<Entry<K>>) -> bool {
        // The entry's key is dropped after the locks.
        taken.is_some_and(|own| {
            self.inner
                .deadline(&own.word)
                .settle(Err(Cancelled::BY_HANDLE));
            true
        })
    }

    /// Pushes the deadline of a key to now plus its timeout, as [`ResetHandle::reset`]. `false` for
    /// a key that is not in the map.
    pub fn reset<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let now = self.inner.now();
        // Nearly every reset ends under the lock of the part.
        let start = |word: &Arc<Word>| {
            let is_reset = self.inner.deadline(word).try_reset(now);
            (!is_reset).then(|| word.clone())
        };
        let reset = |deadline: DeadlineRef<'_>| deadline.reset(now).then_some(());
        let hash = self.hash(key);
        let found = self.inner.find(hash, key, start);
        found.is_some_and(|word| {
            word.is_none_or(|word| self.act_from(word, hash, key, reset).is_some())
        })
    }

    /// Changes the timeout, as [`ResetHandle::set_timeout`]. `false` for a key that is not in the
    /// map.
    pub fn set_timeout<Q: Hash + Eq + ?Sized>(&self, key: &Q, timeout: Duration) -> bool
    where
        K: Borrow<Q>,
    {
        self.attempt(key, |deadline| deadline.change(Change::SetTimeout(timeout)))
    }

    /// Cancels the deadline of a key, as [`ResetHandle::cancel`]. `false` for a key that is not in
    /// the map.
    pub fn cancel<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let cancelled = Err(Cancelled::BY_HANDLE);
        self.act(key, |deadline| deadline.settle(cancelled))
            .is_some()
    }

    /// Expires the deadline of a key now, as [`ResetHandle::expire`]. `false` for a key that is not
    /// in the map.
    pub fn expire<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.act(key, |deadline| deadline.settle(EXPIRED)).is_some()
    }

    /// When the deadline of a key expires, as [`ResetHandle::deadline`]. `None` if it is not
    /// pending, and for a key that is not in the map.
    pub fn deadline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        self.act(key, |deadline| deadline.deadline())
    }

    /// The time that the deadline of a key has left, as [`ResetHandle::remaining`]. `None` if it is
    /// not pending, and for a key that is not in the map.
    pub fn remaining<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
    {
        self.act(key, |deadline| deadline.remaining())
    }

    /// The handle of a key's deadline. It does all that has no call by key, without a look-up.
    pub fn handle<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<ResetHandle>
    where
        K: Borrow<Q>,
    {
        let handle = |word: &Arc<Word>| ResetHandle::of(self.inner.deadline(word));
        self.inner.find(self.hash(key), key, handle)
    }

    /// Whether a key is in the map, its deadline pending or not.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.inner.find(self.hash(key), key, |_| ()).is_some()
    }

    fn attempt<Q: Hash + Eq + ?Sized>(&self, key: &Q, act: impl Fn(DeadlineRef<'_>) -> bool) -> bool
    where
        K: Borrow<Q>,
    {
        let act = |deadline: DeadlineRef<'_>| act(deadline).then_some(());
        self.act(key, act).is_some()
    }

    /// Acts on the deadline of a key, under no lock of the map.
    fn act<Q, R>(&self, key: &Q, act: impl Fn(DeadlineRef<'_>) -> Option<R>) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let word = self.inner.find(hash, key, Arc::clone)?;
        self.act_from(word, hash, key, act)
    }

    fn act_from<Q, R>(
        &self,
        mut word: Arc<Word>,
        hash: u32,
        key: &Q,
        act: impl Fn(DeadlineRef<'_>) -> Option<R>,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        loop {
            if let Some(done) = act(self.inner.deadline(&word)) {
                return Some(done);
            }
            let present = self.inner.find(hash, key, Arc::clone)?;
            if Arc::ptr_eq(&present, &word) {
                return None;
            }
            word = present;
        }
    }

    #[inline]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        hash_of(&self.hash_builder, key)
    }
}

/// On all keys.
impl<K: Hash + Eq + Clone + Send + Sync + 'static, S: BuildHasher> DeadlineMap<K, S> {
    /// Takes every key out and cancels what is pending,
    /// [drained](crate::error::Cancelled::is_drained). Returns the keys of what was pending, each
    /// with the time that it had left.
    ///
    /// It is atomic against all keys: an insert comes wholly before it or wholly after it. Each
    /// deadline that was pending comes out once, here or by expiring, unless its own
    /// [`KeyedDeadline`](crate::KeyedDeadline) or handle ends it meanwhile, or an insert that is
    /// replacing it at that moment. Other calls wait only while it takes the keys out. Then it
    /// cancels their deadlines one by one, while the map is in use again.
    pub fn drain(&self) -> Vec<(K, Duration)> {
        self.take_all(false)
    }

    /// Drains the map, and makes every later insert an error. A second close finds nothing to
    /// drain.
    pub fn close(&self) -> Vec<(K, Duration)> {
        self.take_all(true)
    }

    fn take_all(&self, close: bool) -> Vec<(K, Duration)> {
        let inner = &*self.inner;
        let mut parts = Vec::new();
        {
            let mut all = inner.table.lock_all();
            if close {
                all.close();
            }
            parts.extend(all.iter_mut().map(|part| {
                let taken = std::mem::replace(&mut **part, LinearHashTable::new());
                part.release(taken.len());
                taken
            }));
        }
        let mut drained = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        // The keys of deadlines that were settled before.
        let mut over = Vec::new();
        for entry in parts.into_iter().flatten() {
            let deadline = inner.deadline(&entry.word);
            match deadline.settle(Err(Cancelled::DRAINED)) {
                Some(left) => drained.push((entry.key, left)),
                None => over.push(entry.key),
            }
        }
        // Last, because this is user code. By now every deadline is settled.
        drop(over);
        drained
    }

    /// Expires every deadline that is pending, and returns how many it expired. Their keys stay
    /// while the deadlines live.
    ///
    /// It is atomic for each key, and not against all of them. It reaches every deadline that is in
    /// the map from the beginning of the call to its end. A key that is replaced meanwhile may keep
    /// its newer deadline.
    pub fn expire_all(&self) -> usize {
        let inner = &*self.inner;
        let (mut words, mut expired) = (Vec::new(), 0);
        for part in inner.table.lock_each() {
            words.extend(part.iter().map(|entry| entry.word.clone()));
            drop(part);
            for word in words.drain(..) {
                let left = inner.deadline(&word).settle(EXPIRED);
                expired += usize::from(left.is_some());
            }
        }
        expired
    }

    /// The keys of the map, their deadlines pending or not, in no order.
    ///
    /// The result has every key that is in the map from the beginning of the call to its end. It
    /// may have one that comes or goes meanwhile. The keys of one part at a time are cloned under
    /// its lock, so a `Clone` of a key must not call the map.
    pub fn keys(&self) -> Vec<K> {
        let mut keys = Vec::with_capacity(self.inner.table.len());
        for part in self.inner.table.lock_each() {
            keys.extend(part.iter().map(|entry| entry.key.clone()));
        }
        keys
    }

    /// Calls `f` with each key of the map, its deadline pending or not, and with that deadline's
    /// handle, in no order.
    ///
    /// It goes from part to part, under the lock of one at a time. A key that is in the map from
    /// the beginning of the call to its end is shown exactly once. One that comes or goes meanwhile
    /// may be shown or not.
    ///
    /// `f` must not call the map: [the rule](DeadlineMap#closures). It may use the handle. Where
    /// that ends a deadline, the waker of the task that awaits it runs under the lock too: to wake
    /// a task of tokio's calls no map. If `f` panics, nothing is changed.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Timer};
    /// # tokio_test::block_on(async {
    /// let sessions = DeadlineMap::<u64>::new(&Timer::current());
    /// sessions.for_each(|user, session| println!("{user}: {:?} left", session.remaining()));
    /// # });
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
    /// How many keys are in the map, their deadlines pending or not. It takes no lock, and reads
    /// one count for each part. While other threads change the map, the sum may be of no one
    /// moment.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether no key is in the map, at one moment of the call. It takes no lock unless the map
    /// seems empty, and then those of all parts.
    pub fn is_empty(&self) -> bool {
        self.inner.table.is_empty()
    }

    /// Whether the map was [closed](DeadlineMap::close), so that every insert is refused. It takes
    /// no lock.
    pub fn is_closed(&self) -> bool {
        self.inner.table.is_closed()
    }

    /// How many keys the map may hold. `None` if it has no limit.
    pub fn limit(&self) -> Option<usize> {
        self.inner.table.limit()
    }

    /// The timer that the map is on.
    pub fn timer(&self) -> &Timer {
        &self.inner.timer
    }
}

#[cfg(test)]
impl<K, S> DeadlineMap<K, S> {
    /// Locks all parts, runs `act`, and closes the map.
    pub(super) fn close_after(&self, act: impl FnOnce()) {
        let mut all = self.inner.table.lock_all();
        act();
        all.close();
    }
}

impl<K, S: Clone> Clone for DeadlineMap<K, S> {
    fn clone(&self) -> Self {
        DeadlineMap {
            inner: self.inner.clone(),
            hash_builder: self.hash_builder.clone(),
        }
    }
}

impl<K, S> fmt::Debug for DeadlineMap<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineMap")
            .field("len", &self.inner.table.len())
            .finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> DeadlineMap<K> {
    /// An empty map whose deadlines are on `timer`.
    pub fn new(timer: &Timer) -> Self {
        Self::with_limit(timer, usize::MAX)
    }

    /// An empty map that holds at most `max` keys.
    ///
    /// A key has its place while its [`KeyedDeadline`] lives, expired or not. So a map may be full
    /// of keys that have expired: drop a `KeyedDeadline` that is not to be restarted.
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let second = Duration::from_secs(1);
    /// let sessions = DeadlineMap::with_limit(&Timer::current(), 1);
    /// let mut alice = sessions.insert("alice", second).unwrap();
    /// assert_eq!((&mut alice).await, Ok(()));
    /// assert!(sessions.insert("bob", second).is_err(), "alice has expired, and is in the map");
    /// drop(alice);
    /// assert!(sessions.insert("bob", second).is_ok());
    /// # });
    /// ```
    pub fn with_limit(timer: &Timer, max: usize) -> Self {
        Self::with_limit_and_hasher(timer, max, DefaultHashBuilder::of(timer))
    }
}

/// A [`Deadline`](crate::Deadline) that is in a [`DeadlineMap`](crate::DeadlineMap) under a key.
///
/// It is the same future, with the same guarantees. Dropping it takes its key out of the map,
/// unless a newer one is under the key by now. After it was replaced, removed or drained it can
/// still be restarted, as a deadline to which no key leads.
#[must_use = "a deadline is cancelled and its key taken out when it is dropped; `.await` it"]
pub struct KeyedDeadline<K> {
    word: Arc<Word>,
    key: K,
    inner: Arc<Inner<K>>,
}

impl<K> KeyedDeadline<K> {
    /// The key under which it was put into the map.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// As [`Deadline::handle`](crate::Deadline::handle).
    pub fn handle(&self) -> ResetHandle {
        ResetHandle::of(self.deadline_ref())
    }

    /// As [`Deadline::deadline`](crate::Deadline::deadline).
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline_ref().deadline()
    }

    /// As [`Deadline::remaining`](crate::Deadline::remaining).
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline_ref().remaining()
    }

    /// As [`Deadline::warn_before`](crate::Deadline::warn_before). Resets by key count as any
    /// others.
    pub fn warn_before(self, notice: Duration) -> WarnBefore<KeyedDeadline<K>> {
        let handle = self.handle();
        WarnBefore::new(self, handle, notice)
    }

    /// As [`Deadline::restart`](crate::Deadline::restart).
    pub fn restart(&mut self) {
        self.deadline_ref().restart();
    }

    fn deadline_ref(&self) -> DeadlineRef<'_> {
        self.inner.deadline(&self.word)
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
        // A panic of a closure may drop it there. A second panic would end the process, so the
        // entry stays, with a deadline that has ended.
        let is_in_closure = Reentry::is_held(&self.inner.table) && std::thread::panicking();
        let own = if is_in_closure {
            None
        } else {
            self.inner.take_own(&self.word)
        };
        self.deadline_ref().cancel_unawaited();
        // The key of the entry is dropped here, after the locks. The key of `self` is dropped next.
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
