//! The memory of a part: what is made ahead, and when it is given back.
//!
//! Invariant: memory follows the number of items, at an amortised constant cost for each removal.
//! After a compaction the items have other indices, and everything that holds an index follows.

use hashbrown::HashTable;

use super::{Part, hash_of};
use crate::keyed::delay_map::due_queue::{DueQueue, Named};
use crate::wheel::Wheel;

/// A store with no more places than this is not worth the trouble.
const KEPT_PLACES: usize = 1024;

impl<K, V> Part<K, V> {
    /// Makes room for this many items, in an empty part.
    pub(in crate::keyed::delay_map) fn reserve(&mut self, capacity: usize) {
        self.items = Wheel::with_capacity(capacity);
        self.index = HashTable::with_capacity(capacity);
        self.shrinking.grown(self.index.capacity());
    }

    /// Gives memory back if it is time. After it, items may have other indices.
    pub(in crate::keyed::delay_map) fn shrink_if_due(&mut self) {
        if self.shrinking.is_due(self.index.len()) {
            self.shrink_index();
        }
        self.compact_if_due();
    }

    /// The items' store shrinks by itself once its last places are free. An item that stays in them
    /// is moved, but only after enough removals to pay for the move.
    fn compact_if_due(&mut self) {
        let places = self.items.capacity();
        if places <= KEPT_PLACES || self.index.len() >= places / 8 {
            self.taken_while_sparse = 0;
            return;
        }
        self.taken_while_sparse += 1;
        if self.taken_while_sparse > places / 8 {
            self.compact();
        }
    }

    #[cold]
    fn shrink_index(&mut self) {
        let items = &self.items;
        self.index
            .shrink_to(0, |&index| hash_of(items.at(index).hash));
        self.shrinking
            .shrunk(self.index.len(), self.index.capacity());
    }

    /// Moves all items together, into stores that are as large as they need.
    #[cold]
    fn compact(&mut self) {
        let left = self.index.len();
        let wheel = Wheel::with_capacity(left).starting_at(self.items.now());
        let mut all = std::mem::replace(&mut self.items, wheel);
        self.index = HashTable::with_capacity(left);
        self.due = DueQueue::new();
        let begun = self.due.begin_search();
        for old in 0..all.end_of_indices() {
            let Some(tick) = all.tick_at(old) else {
                continue;
            };
            let is_due = all.is_detached(old);
            let item = all.remove_at(old);
            let (name, hash) = (item.name(), item.hash);
            let index = if is_due {
                let index = self.items.insert_detached(item);
                self.due.add_found(Named { name, index });
                index
            } else {
                self.items.insert(tick, item).into_halves().0
            };
            let items = &self.items;
            self.index
                .insert_unique(hash_of(hash), index, |&index| hash_of(items.at(index).hash));
        }
        self.due.end_search(begun);
        self.marks.begin_round();
        self.taken_while_sparse = 0;
        self.shrinking.shrunk(left, self.index.capacity());
    }
}
