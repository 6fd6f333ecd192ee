//! One part of a [`DelayMap`](super::DelayMap): its items in a wheel, until they come out, and
//! their index by key.
//!
//! Invariants: an item is in both the wheel and the index, or in neither. It is due at the tick of
//! its deadline. If that had passed when the item was set or made due, it is due at the tick of
//! that call.

use std::borrow::Borrow;

use crate::clock::tick::{Moment, Tick};
use crate::keyed::linear_hash_table::{Hashed, LinearHashTable};
use crate::wheel::Wheel;

/// What an insert and a removal write comes first, on the line of the lock before it.
#[repr(C)]
pub(super) struct DelayPart<K, V> {
    index: LinearHashTable<Indexed>,
    pub(super) items: Wheel<Item<K, V>>,
    /// How many inserts were in place of a value.
    pub(super) replaced: u64,
    pub(super) expired: u64,
}

/// The place of a key's item. With the hash, so that only a look-up visits the item.
struct Indexed {
    hash: u32,
    index: u32,
}

impl Hashed for Indexed {
    fn hash(&self) -> u32 {
        self.hash
    }
}

pub(super) struct Item<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    pub(super) deadline: Moment,
    /// The end of its time to live, which no deadline of it exceeds.
    pub(super) end: Moment,
    hash: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) deadline: Moment,
    pub(super) tick: Tick,
}

impl<K, V> DelayPart<K, V> {
    pub(super) fn new() -> DelayPart<K, V> {
        DelayPart {
            index: LinearHashTable::new(),
            items: Wheel::new(),
            replaced: 0,
            expired: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// How many values were inserted, those included that replaced another one.
    pub(super) fn inserted(&self) -> u64 {
        self.items.inserted() + self.replaced
    }

    /// The index of a key's item. No other function runs the key's own code.
    #[inline]
    pub(super) fn find<Q: Eq + ?Sized>(&self, hash: u32, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let is_it =
            |entry: &Indexed| entry.hash == hash && self.items.at(entry.index).key.borrow() == key;
        Some(self.index.find(hash, is_it)?.index)
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.index.iter().map(|entry| entry.index)
    }

    /// The tick before which nothing is due, `NEVER` in an empty part.
    pub(super) fn earliest(&self) -> Tick {
        self.items.next_turn().map_or(Tick::NEVER, Tick::new)
    }

    /// When the stream has to come for an item that was set for this tick.
    pub(super) fn turn_for(&self, tick: Tick) -> Tick {
        Tick::new(self.items.turn_for(tick.get()))
    }

    #[inline]
    pub(super) fn insert(&mut self, key: K, hash: u32, value: V, setting: Setting, end: Moment) {
        let item = Item {
            key,
            value,
            deadline: setting.deadline,
            end,
            hash,
        };
        let index = self.items.insert(setting.tick.get(), item).index();
        self.index.insert(Indexed { hash, index });
    }

    pub(super) fn set(&mut self, index: u32, setting: Setting) {
        self.items.at_mut(index).deadline = setting.deadline;
        self.items.relink_at(index, setting.tick.get());
    }

    /// Makes an item due by a setting of now. Returns whether it was pending.
    pub(super) fn make_due(&mut self, index: u32, now: Setting) -> bool {
        let is_pending = self.items.at(index).is_pending(now.deadline);
        if is_pending {
            self.set(index, now);
        } else if self.items.due_at(index) > now.tick.get() {
            // Its deadline has passed, and its tick has not begun.
            self.items.relink_at(index, now.tick.get());
        }
        is_pending
    }

    pub(super) fn make_all_due(&mut self, now: Setting) -> usize {
        let mut pending = 0;
        let mut from = 0;
        while let Some(index) = self.items.next_index(from) {
            pending += usize::from(self.make_due(index, now));
            from = index + 1;
        }
        pending
    }

    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> Item<K, V> {
        let item = self.items.remove_at(index);
        self.index.remove(item.hash, |entry| entry.index == index);
        item
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Item<K, V>> + use<K, V> {
        self.index = LinearHashTable::new();
        self.items.take_all()
    }
}

impl<K, V> Item<K, V> {
    /// Whether it is pending at `now`. From its due on it belongs to the stream.
    pub(super) fn is_pending(&self, now: Moment) -> bool {
        self.deadline > now
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::keyed::table::BEFORE_CONTENTS;
    use crate::lines::LINE;
    use crate::wheel::WRITTEN;

    type Part = DelayPart<u64, u64>;

    /// The line of the lock, on which the table of the index lies too.
    #[test]
    fn an_insert_writes_one_line_of_a_part_that_is_small() {
        assert_eq!(offset_of!(Part, index), 0);
        assert_eq!(
            size_of::<LinearHashTable<Indexed>>(),
            offset_of!(Part, items)
        );
        // With no byte to spare on 64 bits.
        assert!(BEFORE_CONTENTS + offset_of!(Part, items) + WRITTEN <= LINE);
    }
}
