//! What the handles of a [`DeadlineMap`](super::DeadlineMap) and its [`KeyedDeadline`]s share: the
//! entries.
//!
//! An entry reaches the deadline of its key. It is taken out once, by what comes first: the drop or
//! the removal of its [`KeyedDeadline`], `drain` or `close`. A newer insert under the key makes the
//! entry reach the newer deadline. A [`KeyedDeadline`] finds its entry by the identity of its
//! deadline, so an older one never takes out the entry of a newer one.
//!
//! Invariants:
//!
//! - A permit is taken under the part's lock right before an entry is put in, and given back right
//!   after one was taken out. Within each of these pairs there is no user code, so no panic in user
//!   code costs a permit.
//! - An entry has a `KeyedDeadline` from before it is put in. If a panic drops the `KeyedDeadline`,
//!   that takes the entry out.
//! - Memory follows the number of entries, at an amortised constant cost.
//! - The only code of a key that runs under a part's lock here is in a look-up, which changes
//!   nothing.

use std::borrow::Borrow;
use std::sync::Arc;

use super::KeyedDeadline;
use crate::clock::tick::Moment;
use crate::error::Cancelled;
use crate::error::InsertIfAbsentError;
use crate::keyed::linear_hash_table::{Hashed, LinearHashTable};
use crate::keyed::table::{PartGuard, Table};
use crate::shard::DeadlineRef;
use crate::shard::word::Word;
use crate::timer::Timer;

pub(super) struct Inner<K> {
    pub(super) timer: Timer,
    pub(super) table: Table<DeadlinePart<K>>,
}

impl<K> Inner<K> {
    pub(super) fn new(timer: &Timer, limit: usize) -> Inner<K> {
        Inner {
            timer: timer.clone(),
            table: Table::new(limit, LinearHashTable::new),
        }
    }

    /// Locks the part that holds what has this hash. `None` if nothing can have it.
    #[inline]
    pub(super) fn lock(&self, hash: u32) -> Option<PartGuard<'_, DeadlinePart<K>>> {
        self.table.lock_made(self.table.part_of(hash))
    }

    #[inline]
    pub(super) fn deadline<'a>(&'a self, word: &'a Arc<Word>) -> DeadlineRef<'a> {
        let shard = self.timer.shard_of_number(word.tag().shard as usize);
        DeadlineRef { shard, word }
    }

    pub(super) fn now(&self) -> Moment {
        self.timer.shard().clock().now()
    }

    /// Puts an entry in for a deadline, with a key that equals the deadline's own. If there is an
    /// entry under that key, `replaces` says whether its deadline is replaced. An error gives the
    /// key back.
    pub(super) fn put(
        &self,
        keyed: &KeyedDeadline<K>,
        key: K,
        replaces: bool,
    ) -> Result<(), InsertIfAbsentError<K>>
    where
        K: Eq,
    {
        let hash = keyed.word.tag().hash;
        let older = {
            // While the part is locked, the key's `Eq` is the only user code.
            let mut part = self.table.lock_part(self.table.part_of(hash));
            if self.table.is_closed() {
                self.timer.reporter().count_rejected_insert();
                return Err(InsertIfAbsentError::Closed(key));
            }
            let word = keyed.word.clone();
            if let Some(entry) = part.find_mut(hash, |entry| entry.key == key) {
                if !replaces {
                    return Err(InsertIfAbsentError::Occupied(key));
                }
                std::mem::replace(&mut entry.word, word)
            } else if part.try_acquire() {
                part.insert(Entry { key, word });
                return Ok(());
            } else {
                self.timer.reporter().count_rejected_insert();
                return Err(InsertIfAbsentError::AtCapacity(key));
            }
        };
        self.deadline(&older).settle(Err(Cancelled::REPLACED));
        // The key that is not needed is dropped here, after all else.
        Ok(())
    }

    /// What `take` takes of the word of a key, under the lock of its part. `None` for a key that is
    /// not in the map.
    #[inline]
    pub(super) fn find<Q, R>(
        &self,
        hash: u32,
        key: &Q,
        take: impl FnOnce(&Arc<Word>) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let part = self.lock(hash)?;
        let entry = part.find(hash, |entry| entry.key.borrow() == key)?;
        Some(take(&entry.word))
    }

    /// Takes the entry of a deadline out, if it is still there. The caller drops it under no lock.
    pub(super) fn take_own(&self, word: &Arc<Word>) -> Option<Entry<K>> {
        self.take(word.tag().hash, |entry| Arc::ptr_eq(&entry.word, word))
    }

    /// Takes the entry out that has this hash and is meant. The caller drops it under no lock.
    pub(super) fn take(&self, hash: u32, is_it: impl FnMut(&Entry<K>) -> bool) -> Option<Entry<K>> {
        let mut part = self.lock(hash)?;
        let entry = part.remove(hash, is_it)?;
        part.release(1);
        Some(entry)
    }
}

/// The map's entry for a key. It is as small as it can be, because a look-up reads it from
/// memory. A look-up goes on to the word, so the word keeps the hash and the shard.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) word: Arc<Word>,
}

/// The entries of some keys.
pub(super) type DeadlinePart<K> = LinearHashTable<Entry<K>>;

impl<K> Hashed for Entry<K> {
    fn hash(&self) -> u32 {
        self.word.tag().hash
    }
}
