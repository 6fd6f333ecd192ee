//! What a [`DeadlineMap`] does to all of its keys. `drain` and `close` lock every part, take the
//! tables out, and unlock, as fast for a million keys as for none. The others have one part locked
//! at a time.
//!
//! Invariant: every entry that a call takes out or sees is taken out or seen under the lock of its
//! part. Its deadline is settled, and its key is dropped, under no lock of the map.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *Drain or close against insert.* All parts are locked while their tables are taken, so an
//!   insert comes wholly before it or wholly after.
//! - *Drain against expiry, cancel, reset, restart.* Each of them settles or moves the deadline's
//!   word, one after the other. The result of a drain has what the drain settled, and nothing else.
//! - *Drain against a `KeyedDeadline` that is dropped.* An entry leaves its table once, and the
//!   call that takes it out gives its permit back. One of the two settles the word.
//! - *What goes from part to part, against inserts and drops.* A key is in one part for ever. So it
//!   is seen once if it is there from the beginning to the end.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::DeadlineMap;
use crate::deadline::ResetHandle;
use crate::error::Cancelled;
use crate::keyed::linear_hash_table::LinearHashTable;
use crate::shard::word::EXPIRED;

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
