//! One part of a [`DelayMap`](super::DelayMap): its items, their index by key, and the wheel that they wait in.
//!
//! Invariants: an item is in the slab and in the index, or in neither. It is in the wheel exactly while it waits;
//! one that is due has left the wheel but is still here. Whenever an item is set, it takes a new number, which no item
//! of this part had before.

use hashbrown::HashTable;
use slab::Slab;

use crate::shrinking::Shrinking;
use crate::tick::Moment;
use crate::wheel::{Key as TimerKey, Verdict, Wheel};

pub(super) struct Part<K, V> {
    items: Slab<Item<K, V>>,
    /// Indices into `items`, by the hash of the key.
    index: HashTable<usize>,
    wheel: Wheel<usize>,
    shrinking: Shrinking,
    settings: u64,
    pub(super) closed: bool,
}

pub(super) struct Item<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    hash: u64,
    deadline: Moment,
    /// The tick of the deadline.
    tick: u64,
    number: u64,
    /// Its place in the wheel; `None` when it is due.
    waiting: Option<TimerKey>,
    /// When it was made due, if that was before its deadline.
    expired: Option<Moment>,
}

/// How an item is set: its deadline, the tick of that, and the number of the setting if the map counts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) deadline: Moment,
    pub(super) tick: u64,
    pub(super) number: Option<u64>,
}

/// The name of an item that was found due: good until that item is set anew or taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueItem {
    /// First, so that names sort by deadline, and then in the order in which they were set.
    deadline: Moment,
    number: u64,
    pub(super) part: usize,
    index: usize,
    /// The tick of the deadline.
    pub(super) tick: u64,
}

impl<K, V> Item<K, V> {
    /// When it is due, or was made due before that.
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
            shrinking: Shrinking::default(),
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

    pub(super) fn due_at(&self, index: usize) -> Moment {
        self.items[index].due_at()
    }

    /// Puts in the value of a key that is not there.
    pub(super) fn insert(&mut self, key: K, hash: u64, value: V, setting: Setting) {
        let number = self.number_of(setting);
        let place = self.items.vacant_entry();
        let index = place.key();
        let waiting = Some(self.wheel.insert(setting.tick, index));
        place.insert(Item {
            key,
            value,
            hash,
            deadline: setting.deadline,
            tick: setting.tick,
            number,
            waiting,
            expired: None,
        });
        self.index
            .insert_unique(hash, index, |&index| self.items[index].hash);
        self.shrinking.grown(self.items.capacity());
    }

    /// Sets anew when an item is due, whether or not it was due by now.
    pub(super) fn set(&mut self, index: usize, setting: Setting) {
        let number = self.number_of(setting);
        let item = &mut self.items[index];
        (item.deadline, item.tick, item.number) = (setting.deadline, setting.tick, number);
        item.expired = None;
        match item.waiting {
            Some(timer) => drop(self.wheel.reset(timer, setting.tick)),
            None => item.waiting = Some(self.wheel.insert(setting.tick, index)),
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
        if self.shrinking.is_due(self.items.len()) {
            self.shrink();
        }
        item
    }

    /// Moves on towards a tick by at most so many items, and gives the names of those that are due.
    pub(super) fn advance(
        &mut self,
        now: u64,
        budget: usize,
        part: usize,
        mut found: impl FnMut(DueItem),
    ) {
        let items = &mut self.items;
        self.wheel.turn(now, budget, |_, &mut index| {
            let item = &mut items[index];
            item.waiting = None;
            let Item {
                deadline,
                number,
                tick,
                ..
            } = *item;
            found(DueItem {
                deadline,
                number,
                part,
                index,
                tick,
            });
            Verdict::Fire
        });
    }

    /// Takes out an item that was found due, if its name is still good.
    pub(super) fn take_due(&mut self, due: DueItem) -> Option<Item<K, V>> {
        let item = self.items.get(due.index)?;
        (item.number == due.number).then(|| self.remove(due.index))
    }

    /// Makes due what waits, and says how many items were not due at `now`.
    pub(super) fn expire_all(&mut self, now: Moment) -> usize {
        let mut pending = 0;
        for (_, item) in &mut self.items {
            if let Some(timer) = item.waiting {
                // Overdue for certain: found next, in whatever order; names sort by deadline.
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
        self.shrinking = Shrinking::default();
        std::mem::take(&mut self.items)
    }

    /// The tick before which nothing that waits is due.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.wheel.next_turn()
    }

    fn number_of(&mut self, setting: Setting) -> u64 {
        self.settings += 1;
        setting.number.unwrap_or(self.settings)
    }

    #[cold]
    fn shrink(&mut self) {
        if self.items.is_empty() {
            self.items = Slab::new();
        } else {
            self.items.shrink_to_fit();
        }
        self.index.shrink_to(0, |&index| self.items[index].hash);
        self.shrinking
            .shrunk(self.items.len(), self.items.capacity());
    }
}
