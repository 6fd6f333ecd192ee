//! What the handles of a map share: its timer, and the table of its entries. And what a deadline
//! holds of it: the part of its key, which knows the timer too.
//!
//! Invariant: an entry is taken out together with its permit, under the lock of its part.

use std::borrow::Borrow;
use std::mem;
use std::sync::Arc;

use crate::error::InsertError;
use crate::keyed::linear_hash_table::{Hashed, LinearHashTable};
use crate::keyed::table::{Part, Table};
use crate::shard::DeadlineRef;
use crate::shard::word::Word;
use crate::timer::Timer;

/// On cache lines of its own, apart from the count of the map's clones.
#[repr(align(128))]
pub(super) struct Inner<K> {
    pub(super) timer: Timer,
    pub(super) table: Table<DeadlinePart<K>, Timer>,
}

impl<K> Inner<K> {
    pub(super) fn new(timer: &Timer, capacity: usize) -> Inner<K> {
        Inner {
            timer: timer.clone(),
            table: Table::new(capacity, timer.clone(), LinearHashTable::new),
        }
    }

    #[inline]
    pub(super) fn part_of(&self, hash: u32) -> &Arc<KeyPart<K>> {
        self.table.part(self.table.part_of(hash))
    }

    #[inline]
    pub(super) fn deadline<'a>(&'a self, word: &'a Arc<Word>) -> DeadlineRef<'a> {
        deadline_on(&self.timer, word)
    }

    /// Inserts an entry into the part of its key, unless the map is closed or full, or the key has
    /// one: then `if_present` decides. The caller acts on the result under no lock.
    #[inline]
    pub(super) fn insert<E: From<InsertError<K>>>(
        &self,
        part: &KeyPart<K>,
        hash: u32,
        entry: Entry<K>,
        if_present: impl FnOnce(&mut Entry<K>, Entry<K>) -> Insertion<K, E>,
    ) -> Insertion<K, E>
    where
        K: Eq,
    {
        let mut part = part.lock();
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
        Insertion::New
    }

    fn reject<E: From<InsertError<K>>>(&self, error: InsertError<K>) -> Insertion<K, E> {
        self.timer.reporter().count_rejected_insert();
        Insertion::Refused(error.into())
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
        let part = self.table.lock_made(self.table.part_of(hash))?;
        let entry = part.find(hash, |entry| entry.key.borrow() == key)?;
        Some(take(&entry.word))
    }

    /// Takes out the entry for which `is_it` is true. The caller drops it under no lock.
    pub(super) fn take(&self, hash: u32, is_it: impl FnMut(&Entry<K>) -> bool) -> Option<Entry<K>> {
        let part = self.table.made(self.table.part_of(hash))?;
        part.take(hash, is_it)
    }
}

/// A part of the table. A deadline holds that of its key, and not the map, because each insert and
/// each drop of a deadline writes the count of what it holds.
pub(super) type KeyPart<K> = Part<DeadlinePart<K>, Timer>;

impl<K> KeyPart<K> {
    #[inline]
    pub(super) fn deadline<'a>(&'a self, word: &'a Arc<Word>) -> DeadlineRef<'a> {
        deadline_on(self.own(), word)
    }

    /// Takes out the entry of a deadline, if it is still there. The caller drops it under no lock.
    pub(super) fn take_own(&self, word: &Arc<Word>) -> Option<Entry<K>> {
        self.take(word.tag().hash, |entry| Arc::ptr_eq(&entry.word, word))
    }

    fn take(&self, hash: u32, is_it: impl FnMut(&Entry<K>) -> bool) -> Option<Entry<K>> {
        let mut part = self.lock();
        let entry = part.remove(hash, is_it)?;
        part.release(1);
        Some(entry)
    }
}

#[inline]
fn deadline_on<'a>(timer: &'a Timer, word: &'a Arc<Word>) -> DeadlineRef<'a> {
    let shard = timer.shard_of_number(word.tag().shard as usize);
    DeadlineRef { shard, word }
}

/// Small, because a look-up reads it from memory, and a table has room for two to three a key.
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
    pub(super) fn replace<E>(&mut self, newer: Entry<K>) -> Insertion<K, E> {
        Insertion::Replaced {
            older: mem::replace(&mut self.word, newer.word),
            unused_key: newer.key,
        }
    }
}

/// What came of an entry, as it was decided under the lock of its part.
pub(super) enum Insertion<K, E> {
    New,
    /// The key's entry has its deadline now, in place of the older one.
    Replaced {
        older: Arc<Word>,
        unused_key: K,
    },
    Refused(E),
}

pub(super) type DeadlinePart<K> = LinearHashTable<Entry<K>>;

impl<K> Hashed for Entry<K> {
    fn hash(&self) -> u32 {
        self.word.tag().hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{LINE, lines};

    #[test]
    fn the_count_of_a_maps_clones_lies_on_no_line_that_a_call_reads() {
        assert!(align_of::<Inner<u64>>() >= 2 * LINE);
        assert_eq!(lines!(Inner<u64>: timer), [("timer", [0, 0])]);
    }

    /// The table's own fields, and no key, lie beside the lock.
    #[test]
    fn a_part_of_a_map_is_as_small_for_large_keys() {
        assert_eq!(size_of::<KeyPart<[u64; 100]>>(), 2 * LINE);
    }
}
