//! What the handles and the deadlines of a map share: its timer, and the table of its entries.
//!
//! Invariant: an entry is taken out together with its permit, under the lock of its part.

use std::borrow::Borrow;
use std::mem;
use std::sync::Arc;

use crate::error::InsertError;
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

    #[inline]
    fn lock(&self, hash: u32) -> Option<PartGuard<'_, DeadlinePart<K>>> {
        self.table.lock_made(self.table.part_of(hash))
    }

    #[inline]
    pub(super) fn deadline<'a>(&'a self, word: &'a Arc<Word>) -> DeadlineRef<'a> {
        let shard = self.timer.shard_of_number(word.tag().shard as usize);
        DeadlineRef { shard, word }
    }

    /// Inserts an entry, unless the map is closed or full, or the key has one: then `if_present`
    /// decides. The caller acts on the result under no lock.
    #[inline]
    pub(super) fn place<E: From<InsertError<K>>>(
        &self,
        hash: u32,
        entry: Entry<K>,
        if_present: impl FnOnce(&mut Entry<K>, Entry<K>) -> Placed<K, E>,
    ) -> Placed<K, E>
    where
        K: Eq,
    {
        let mut part = self.table.lock_part(self.table.part_of(hash));
        // Under the lock, or the key could stay behind in a map that is closed meanwhile.
        if self.table.is_closed() {
            return self.reject(InsertError::Closed(entry.key));
        }
        // The key's `Eq` is the only user code under this lock.
        if let Some(present) = part.find_mut(hash, |present| present.key == entry.key) {
            return if_present(present, entry);
        }
        if !part.try_acquire() {
            return self.reject(InsertError::AtCapacity(entry.key));
        }
        part.insert(entry);
        Placed::New
    }

    fn reject<E: From<InsertError<K>>>(&self, error: InsertError<K>) -> Placed<K, E> {
        self.timer.reporter().count_rejected_insert();
        Placed::Refused(error.into())
    }

    /// Applies `take` to the word of a key, under the lock of its part.
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

/// Small, because a look-up reads it from memory, and a table has two to three places for each key.
/// The look-up reads the word next, which has the hash and the shard. With a `ResetHandle` and the
/// hash here, the words need no tag and a reset takes 3 % fewer instructions, but a key of 8 bytes
/// takes 233 bytes in place of 186 in all.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) word: Arc<Word>,
}

impl<K> Entry<K> {
    /// Gives this entry the deadline of `newer`, which has an equal key.
    #[inline]
    pub(super) fn replace<E>(&mut self, newer: Entry<K>) -> Placed<K, E> {
        Placed::Replaced {
            older: mem::replace(&mut self.word, newer.word),
            unused_key: newer.key,
        }
    }
}

/// What came of an entry, as it was decided under the lock of its part.
pub(super) enum Placed<K, E> {
    New,
    /// The key's entry has its deadline now, in place of the older one.
    Replaced {
        older: Arc<Word>,
        unused_key: K,
    },
    Refused(E),
}

type DeadlinePart<K> = LinearHashTable<Entry<K>>;

impl<K> Hashed for Entry<K> {
    fn hash(&self) -> u32 {
        self.word.tag().hash
    }
}
