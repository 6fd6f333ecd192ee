//! One part of a [`DelayMap`](super::DelayMap): its items, their index by key, and the wheel that they wait in.
//!
//! Invariants: an item is in the slab and in the index, or in neither. It is in the wheel exactly while it waits;
//! one that is due has left the wheel but is still here. Whenever an item is set, its `setting` becomes a number
//! that no item of this part had before.

use hashbrown::HashTable;
use slab::Slab;

use crate::tick::Moment;
use crate::wheel::{Key as TimerKey, Wheel};

pub(super) struct Part<K, V> {
    items: Slab<Item<K, V>>,
    /// Indices into `items`, by the hash of the key.
    index: HashTable<usize>,
    wheel: Wheel<usize>,
    settings: u64,
    pub(super) closed: bool,
}

pub(super) struct Item<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    hash: u64,
    deadline: Moment,
    /// Its place in the wheel; `None` when it is due.
    waiting: Option<TimerKey>,
    /// When it was made due, if that was before its deadline.
    expired: Option<Moment>,
    setting: u64,
}

/// When an item is due: the moment, and the tick of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) deadline: Moment,
    pub(super) tick: u64,
}

/// The name of an item that was found due: good until that item is set anew or taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueItem {
    /// First, so that names sort by deadline.
    deadline: Moment,
    setting: u64,
    pub(super) part: usize,
    index: usize,
}

impl<K, V> Item<K, V> {
    /// When it was due, or was made due before that.
    pub(super) fn due_at(&self) -> Moment {
        self.expired.unwrap_or(self.deadline)
    }
}

impl<K, V> Part<K, V> {
    pub(super) fn new() -> Part<K, V> {
        Part {
            items: Slab::new(),
            index: HashTable::new(),
            wheel: Wheel::new(),
            settings: 0,
            closed: false,
        }
    }

    /// The item of a key. This is the only function that calls the key's own code.
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<usize>
    where
        K: Eq,
    {
        self.index
            .find(hash, |&index| self.items[index].key == *key)
            .copied()
    }

    pub(super) fn deadline(&self, index: usize) -> Moment {
        self.items[index].deadline
    }

    /// Puts in the value of a key that is not there.
    pub(super) fn insert(&mut self, key: K, hash: u64, value: V, due: Due) {
        let setting = self.next_setting();
        let place = self.items.vacant_entry();
        let index = place.key();
        let waiting = Some(self.wheel.insert(due.tick, index));
        place.insert(Item {
            key,
            value,
            hash,
            deadline: due.deadline,
            waiting,
            expired: None,
            setting,
        });
        self.index
            .insert_unique(hash, index, |&index| self.items[index].hash);
    }

    /// Sets anew when an item is due, whether or not it was due by now.
    pub(super) fn set(&mut self, index: usize, due: Due) {
        let setting = self.next_setting();
        let item = &mut self.items[index];
        item.deadline = due.deadline;
        item.expired = None;
        item.setting = setting;
        match item.waiting {
            Some(timer) => drop(self.wheel.reset(timer, due.tick)),
            None => item.waiting = Some(self.wheel.insert(due.tick, index)),
        }
    }

    pub(super) fn replace_value(&mut self, index: usize, value: V) -> V {
        std::mem::replace(&mut self.items[index].value, value)
    }

    pub(super) fn remove(&mut self, index: usize) -> Item<K, V> {
        let item = self.items.remove(index);
        if let Some(timer) = item.waiting {
            self.wheel.remove(timer);
        }
        if let Ok(entry) = self.index.find_entry(item.hash, |&other| other == index) {
            entry.remove();
        }
        self.shrink_if_empty();
        item
    }

    /// Moves on to a tick, and gives the names of the items that this makes due.
    pub(super) fn advance(&mut self, now: u64, part: usize, due: &mut Vec<DueItem>) {
        for (_, index) in self.wheel.advance(now) {
            let item = &mut self.items[index];
            item.waiting = None;
            due.push(DueItem {
                deadline: item.deadline,
                setting: item.setting,
                part,
                index,
            });
        }
    }

    /// Takes out an item that was found due, if its name is still good.
    pub(super) fn take_due(&mut self, due: DueItem) -> Option<Item<K, V>> {
        let item = self.items.get(due.index)?;
        (item.setting == due.setting).then(|| self.remove(due.index))
    }

    /// Makes due what waits, and says how many items were not due at `now`.
    pub(super) fn expire_all(&mut self, now: Moment) -> usize {
        let mut pending = 0;
        for (_, item) in &mut self.items {
            if let Some(timer) = item.waiting {
                // Overdue for certain: it comes with the next advance, in whatever order; names sort by deadline.
                self.wheel.reset(timer, 0);
                if item.expired.is_none() && item.deadline > now {
                    item.expired = Some(now);
                    pending += 1;
                }
            }
        }
        pending
    }

    /// Takes everything out.
    pub(super) fn take_all(&mut self) -> Slab<Item<K, V>> {
        self.index = HashTable::new();
        self.wheel = Wheel::new();
        std::mem::take(&mut self.items)
    }

    /// The tick before which nothing that waits is due.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.wheel.next_turn()
    }

    fn next_setting(&mut self) -> u64 {
        self.settings += 1;
        self.settings
    }

    /// A part that has been large gives its memory back when it is empty.
    fn shrink_if_empty(&mut self) {
        const KEPT: usize = 1024;
        if self.items.is_empty() && self.items.capacity() > KEPT {
            self.items = Slab::new();
            self.index = HashTable::new();
        }
    }
}
