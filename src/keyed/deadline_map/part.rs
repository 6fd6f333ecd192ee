//! One part of a [`DeadlineMap`](super::DeadlineMap): the entries of some of its keys.
//!
//! There are many parts, so each is small: a table that grows moves what one part holds, and a walk
//! copies a whole part under one lock.
//!
//! Invariants:
//!
//! - Memory follows the number of entries, at an amortised constant cost. But what was reserved
//!   stays until everything is taken out.
//! - The only code of a key that runs here is in `is`, during a look-up that changes nothing.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::shard::word::Word;

/// What the map holds for a key. It is as small as it can be, because there is one for each key,
/// and a look-up reads it from memory. A look-up goes on to the word, so the word keeps the hash
/// and the shard.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) word: Arc<Word>,
}

pub(super) struct Part<K> {
    entries: HashTable<Entry<K>>,
    /// For how many entries room was asked for when the map was made.
    reserved: usize,
}

/// A table with no more places than this is not worth shrinking.
const KEPT: usize = 3;

impl<K> Part<K> {
    pub(super) fn new() -> Part<K> {
        Part {
            entries: HashTable::new(),
            reserved: 0,
        }
    }

    /// Makes room for this many entries.
    pub(super) fn reserve(&mut self, entries: usize) {
        self.reserved = entries;
        self.entries.reserve(entries, hash_of);
    }

    #[inline]
    pub(super) fn find(&self, hash: u32, is: impl FnMut(&Entry<K>) -> bool) -> Option<&Entry<K>> {
        self.entries.find(spread(hash), is)
    }

    pub(super) fn find_mut(
        &mut self,
        hash: u32,
        is: impl FnMut(&Entry<K>) -> bool,
    ) -> Option<&mut Entry<K>> {
        self.entries.find_mut(spread(hash), is)
    }

    /// Puts in the entry of a key that is not in the part.
    pub(super) fn insert(&mut self, entry: Entry<K>) {
        self.entries.insert_unique(hash_of(&entry), entry, hash_of);
    }

    /// Takes out the entry that is meant.
    pub(super) fn remove(
        &mut self,
        hash: u32,
        is: impl FnMut(&Entry<K>) -> bool,
    ) -> Option<Entry<K>> {
        let found = self.entries.find_entry(spread(hash), is);
        let (entry, _) = found.ok()?.remove();
        let (left, capacity) = (self.entries.len(), self.entries.capacity());
        if capacity > KEPT.max(self.reserved) && left < capacity / 4 {
            // With room for half as many again, so that it does not grow at the next insert.
            let kept = (left + left / 2).max(self.reserved);
            self.entries.shrink_to(kept, hash_of);
        }
        Some(entry)
    }

    /// Takes everything out. Nothing that was reserved stays.
    pub(super) fn take(&mut self) -> HashTable<Entry<K>> {
        std::mem::replace(self, Part::new()).entries
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<K>> {
        self.entries.iter()
    }
}

fn hash_of<K>(entry: &Entry<K>) -> u64 {
    spread(entry.word.mark().hash)
}

/// The hash that the part's table uses. The first bits of `hash` choose the part, so they are the
/// same for all entries here.
#[inline]
fn spread(hash: u32) -> u64 {
    // The golden ratio's bits. The product's upper half depends on all bits of the hash.
    (u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(32)
}
