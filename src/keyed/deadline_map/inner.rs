//! What the handles of a [`DeadlineMap`](super::DeadlineMap) and its [`KeyedDeadline`]s share: the
//! entries.
//!
//! An entry leads from a key to its deadline. A newer insert under the key changes the deadline.
//! The entry is taken out once: by the drop or the removal of its [`KeyedDeadline`], by `drain` or
//! by `close`. A [`KeyedDeadline`] finds its entry by the identity of its word, so an older one
//! never takes out a newer one's entry.
//!
//! Invariants:
//!
//! - A permit is taken under the part's lock right before an entry is inserted, and released right
//!   after one was taken out, with no user code between the two. So no panic costs a permit.
//! - An entry has a `KeyedDeadline` from before it is inserted. If a panic drops that, it takes the
//!   entry out.
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

    /// Locks the part of a hash. `None` if it was not made.
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

    /// Inserts an entry for a deadline, with a key that equals the deadline's own. `replaces` says
    /// whether it replaces the deadline of an entry that is there.
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
            // The key's `Eq` is the only user code under this lock.
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
        // The spare key is dropped here, after all else.
        Ok(())
    }

    /// Returns what `take` makes of the word of a key, under the lock of its part.
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

    /// Takes out the entry of a deadline, if it is still there. The caller drops it under no lock.
    pub(super) fn take_own(&self, word: &Arc<Word>) -> Option<Entry<K>> {
        self.take(word.tag().hash, |entry| Arc::ptr_eq(&entry.word, word))
    }

    /// Takes out the entry for which `is_it` is true. The caller drops it under no lock.
    pub(super) fn take(&self, hash: u32, is_it: impl FnMut(&Entry<K>) -> bool) -> Option<Entry<K>> {
        let mut part = self.lock(hash)?;
        let entry = part.remove(hash, is_it)?;
        part.release(1);
        Some(entry)
    }
}

/// The map's entry for a key. It is small, because a look-up reads it from memory. The look-up
/// reads the word next, so the word keeps the hash and the shard.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) word: Arc<Word>,
}

pub(super) type DeadlinePart<K> = LinearHashTable<Entry<K>>;

impl<K> Hashed for Entry<K> {
    fn hash(&self) -> u32 {
        self.word.tag().hash
    }
}
