//! The [`DeadlineMap`]: one awaited deadline for each key.
//!
//! A key's entry holds the reset handle of its deadline. The entry is put in by `insert` and taken out, once, by
//! whichever comes first: its [`KeyedDeadline`] being dropped, a newer insert under the key, `drain` or `close`.
//! Who takes an entry out knows it by its deadline's identity and not by the key alone, so an older deadline never
//! takes out a newer one's.
//!
//! Locks: a part of the table, then a shard of the timer. A handle is used under the part's lock, so that it is that of
//! the key's deadline in that moment. What it leaves to do, waking whoever awaits the deadline above all, is done
//! after both locks, and so are keys dropped.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *Drain or close against insert.* They lock every part, and settle what they find before they let go. An insert
//!   comes wholly before or wholly after.
//! - *Drain against expiry.* Both settle the deadline's word, once; only what drain settled is in its result.
//! - *Two inserts under one key.* The part's lock orders them. The later one replaces the earlier one's entry and
//!   then cancels that deadline.
//! - *The limit.* A place is taken before an entry is put in and given back after it was taken out.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hashbrown::HashTable;
use tokio::time::Instant;

use super::{Deadline, ResetHandle};
use crate::error::{Cancelled, InsertError};
use crate::places::Places;
use crate::shard::Afterwards;
use crate::shrinking::Shrinking;
use crate::table::Table;
use crate::tick::Moment;
use crate::timer::Timer;
use crate::word::Outcome;

/// One awaited deadline for each key; any task resets, cancels or expires it by the key alone.
///
/// [`insert`](DeadlineMap::insert) gives a [`KeyedDeadline`] to be awaited. A key stays in the map while its
/// `KeyedDeadline` lives, expired or not, so that it can be restarted and reset by its key; dropping that takes the
/// key out.
///
/// Clones are handles of the same map, and all may be dropped: what is pending lives on and fires.
///
/// | call | cost |
/// |---|---|
/// | [`reset`](DeadlineMap::reset) | a hash and the lock of one part of the map; the deadline's own reset takes none |
/// | other calls by key | the same, and the lock of a shard |
/// | [`drain`](DeadlineMap::drain), [`expire_all`](DeadlineMap::expire_all), [`close`](DeadlineMap::close) | the locks of all parts at once, and O(keys) under them |
///
/// To reset one key often, take its [`handle`](DeadlineMap::handle) once: that needs no look-up and no lock.
///
/// A key's `Hash` and `Clone` are called with no lock held, its `Eq` under the lock of a part, its `Drop` after all
/// locks. If one of them panics, that call panics and no other key is harmed. `Eq` must not call the map.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tickwheel::{DeadlineMap, Duration, Timer};
///
/// let sessions = DeadlineMap::new(&Timer::current());
/// let session = sessions.insert("alice", Duration::from_secs(60))?;
/// assert!(sessions.reset(&"alice"), "a request of hers, in time");
/// assert!(!sessions.reset(&"bob"), "he has no session");
///
/// let newer = sessions.insert("alice", Duration::from_secs(60))?;
/// assert!(session.await.unwrap_err().is_replaced());
/// newer.await?;
/// assert!(sessions.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct DeadlineMap<K> {
    inner: Arc<Inner<K>>,
}

/// A [`Deadline`] that is in a [`DeadlineMap`] under a key.
///
/// It is the same future, with the same guarantees. Dropping it takes its key out of the map, unless a newer one is
/// under the key by now.
///
/// One that was replaced, drained or closed is in the map no more. It can still be restarted, as a deadline that no
/// key leads to.
#[must_use = "a deadline is cancelled and its key taken out when it is dropped; `.await` it"]
pub struct KeyedDeadline<K> {
    deadline: Deadline,
    key: K,
    hash: u64,
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    timer: Timer,
    table: Table<Part<K>>,
    places: Places,
}

struct Part<K> {
    entries: HashTable<Entry<K>>,
    shrinking: Shrinking,
    closed: bool,
}

struct Entry<K> {
    hash: u64,
    key: K,
    handle: ResetHandle,
}

impl<K> DeadlineMap<K>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    /// An empty map whose deadlines are on `timer`.
    pub fn new(timer: &Timer) -> Self {
        Self::with_limit(timer, usize::MAX)
    }

    /// An empty map that holds at most `max` keys.
    pub fn with_limit(timer: &Timer, max: usize) -> Self {
        let table = Table::new(timer.shard().clock(), || Part {
            entries: HashTable::new(),
            shrinking: Shrinking::default(),
            closed: false,
        });
        DeadlineMap {
            inner: Arc::new(Inner {
                timer: timer.clone(),
                table,
                places: Places::new(max),
            }),
        }
    }

    /// Arms a deadline under a key. An older one under that key resolves to `Err(Cancelled)`, replaced.
    ///
    /// # Errors
    ///
    /// [`InsertError::Closed`] after [`close`](DeadlineMap::close); [`InsertError::AtCapacity`] if the key is new
    /// and the map holds as many as it may.
    pub fn insert(&self, key: K, timeout: Duration) -> Result<KeyedDeadline<K>, InsertError> {
        let inner = &self.inner;
        let hash = inner.table.hash(&key);
        let entry_key = key.clone();
        let deadline = inner.timer.deadline(timeout);
        let handle = deadline.handle();
        // From here to the end of the block the key's `Eq` is all there is of user code.
        let replaced = {
            let mut part = inner.table.lock(hash);
            if part.closed {
                return Err(InsertError::Closed(()));
            }
            match part.entries.find_mut(hash, |entry| entry.key == key) {
                Some(entry) => Some(std::mem::replace(&mut entry.handle, handle)),
                None if !inner.places.take() => return Err(InsertError::AtCapacity(())),
                None => {
                    let entry = Entry {
                        hash,
                        key: entry_key,
                        handle,
                    };
                    part.entries.insert_unique(hash, entry, |entry| entry.hash);
                    None
                }
            }
        };
        if let Some(older) = replaced {
            older.settle_unwoken(Outcome::Replaced).1.wake();
        }
        Ok(KeyedDeadline {
            deadline,
            key,
            hash,
            inner: inner.clone(),
        })
    }

    /// Pushes the deadline of a key to now plus its timeout, as [`ResetHandle::reset`]; `false` for a key that is not
    /// there.
    pub fn reset(&self, key: &K) -> bool {
        // Taken before the lock; it may wake the driver.
        let start = self.inner.timer.shard().start_of_any();
        self.act(key, |handle| handle.reset_unwoken(start))
    }

    /// As [`ResetHandle::reset_after`]; `false` for a key that is not there.
    pub fn reset_after(&self, key: &K, delay: Duration) -> bool {
        self.act(key, |handle| handle.reset_after_unwoken(delay))
    }

    /// As [`ResetHandle::reset_at`]; `false` for a key that is not there.
    pub fn reset_at(&self, key: &K, deadline: Instant) -> bool {
        self.act(key, |handle| handle.reset_at_unwoken(deadline))
    }

    /// Cancels the deadline of a key, as [`ResetHandle::cancel`]; `false` for a key that is not there.
    pub fn cancel(&self, key: &K) -> bool {
        self.act(key, |handle| handle.settle_unwoken(Outcome::Cancelled))
    }

    /// Expires the deadline of a key now, as [`ResetHandle::expire`]; `false` for a key that is not there.
    pub fn expire(&self, key: &K) -> bool {
        self.act(key, |handle| handle.settle_unwoken(Outcome::Expired))
    }

    /// The reset handle of a key's deadline, for use without a look-up.
    pub fn handle(&self, key: &K) -> Option<ResetHandle> {
        self.find(key, ResetHandle::clone)
    }

    /// Whether a key is there, its deadline pending or not.
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key, |_| ()).is_some()
    }

    /// Takes every key out and cancels what is pending. Gives those keys, each with the time that it had left.
    ///
    /// Atomic: an insert comes wholly before it or wholly after, and each deadline that was pending comes out once,
    /// here or by expiring.
    pub fn drain(&self) -> Vec<(K, Duration)> {
        self.take_all(false)
    }

    /// Expires every deadline that is pending, and says how many were. Their keys stay while the deadlines live.
    ///
    /// Atomic, as [`drain`](DeadlineMap::drain) is.
    pub fn expire_all(&self) -> usize {
        let now = self.inner.now();
        let mut expired = 0;
        let mut afterwards = Vec::new();
        {
            let parts = self.inner.table.lock_all();
            for entry in parts.iter().flat_map(|part| &part.entries) {
                let (left, after) = entry.handle.settle_at(now, Outcome::Expired);
                expired += usize::from(left.is_some());
                afterwards.push(after);
            }
        }
        afterwards.into_iter().for_each(Afterwards::wake);
        expired
    }

    /// Drains the map, and every later insert is an error. A second close finds nothing to drain.
    pub fn close(&self) -> Vec<(K, Duration)> {
        self.take_all(true)
    }

    fn take_all(&self, close: bool) -> Vec<(K, Duration)> {
        let now = self.inner.now();
        let mut taken = Vec::new();
        let mut afterwards = Vec::new();
        {
            let mut parts = self.inner.table.lock_all();
            for part in &mut parts {
                part.closed |= close;
                let entries = std::mem::take(&mut part.entries);
                self.inner.places.give_back(entries.len());
                taken.extend(entries.into_iter().map(|entry| {
                    let (left, after) = entry.handle.settle_at(now, Outcome::Cancelled);
                    afterwards.push(after);
                    (entry, left)
                }));
            }
        }
        afterwards.into_iter().for_each(Afterwards::wake);
        // The handles, and keys whose deadline had come to its end before, are dropped here, after the locks.
        taken
            .into_iter()
            .filter_map(|(entry, left)| Some((entry.key, left?)))
            .collect()
    }

    fn act(&self, key: &K, act: impl FnOnce(&ResetHandle) -> (bool, Afterwards)) -> bool {
        let Some((answer, afterwards)) = self.find(key, act) else {
            return false;
        };
        afterwards.wake();
        answer
    }

    fn find<R>(&self, key: &K, take: impl FnOnce(&ResetHandle) -> R) -> Option<R> {
        let hash = self.inner.table.hash(key);
        let part = self.inner.table.lock(hash);
        part.entries
            .find(hash, |entry| entry.key == *key)
            .map(|entry| take(&entry.handle))
    }
}

impl<K> Part<K> {
    /// Gives memory back when most entries are gone.
    fn shrink(&mut self) {
        if self.shrinking.is_due(self.entries.len()) {
            let entries = &mut self.entries;
            entries.shrink_to(0, |entry| entry.hash);
            self.shrinking.shrunk(entries.len(), entries.capacity());
        }
    }
}

impl<K> Inner<K> {
    fn now(&self) -> Moment {
        self.timer.shard().clock().now()
    }
}

impl<K> DeadlineMap<K> {
    /// How many keys are there, their deadlines pending or not.
    pub fn len(&self) -> usize {
        self.inner.places.taken()
    }

    /// Whether no key is there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K> Clone for DeadlineMap<K> {
    fn clone(&self) -> Self {
        DeadlineMap {
            inner: self.inner.clone(),
        }
    }
}

impl<K> fmt::Debug for DeadlineMap<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineMap")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<K> KeyedDeadline<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// As [`Deadline::handle`].
    pub fn handle(&self) -> ResetHandle {
        self.deadline.handle()
    }

    /// As [`Deadline::restart`].
    pub fn restart(&mut self) {
        self.deadline.restart();
    }
}

/// The key is never pinned.
impl<K> Unpin for KeyedDeadline<K> {}

impl<K> Future for KeyedDeadline<K> {
    type Output = Result<(), Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.deadline).poll(cx)
    }
}

impl<K> Drop for KeyedDeadline<K> {
    fn drop(&mut self) {
        let own = {
            let mut part = self.inner.table.lock(self.hash);
            // Known by its identity: no code of the key's is needed, and a newer entry is not touched.
            let found = part
                .entries
                .find_entry(self.hash, |entry| entry.handle.is_of(&self.deadline));
            let own = found.ok().map(|found| found.remove().0);
            part.shrink();
            own
        };
        if own.is_some() {
            self.inner.places.give_back(1);
        }
        // The entry's key is dropped here, after the lock.
        drop(own);
    }
}

impl<K: fmt::Debug> fmt::Debug for KeyedDeadline<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedDeadline")
            .field("key", &self.key)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
