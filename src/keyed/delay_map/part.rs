//! One part of a [`DelayMap`](super::DelayMap): its items in a wheel, until they come out, and
//! their index by key.
//!
//! Invariants:
//!
//! - The index has the one item of each key that calls find. The wheel has these, and each item
//!   that was due when a newer one took its key. Such an item is left to the stream: a drain or a
//!   close still takes it out, and no call by key finds it.
//! - An item is due at the tick of its deadline. If its deadline had come when the item was set or
//!   made due, it is due at the tick of that call.

use std::borrow::Borrow;

use crate::clock::tick::{Moment, Tick};
use crate::keyed::linear_hash_table::{Hashed, LinearHashTable};
use crate::wheel::{Found, Wheel};

/// What an insert and a removal write comes first, on the line of the lock before it.
#[repr(C)]
pub(super) struct DelayPart<K, V> {
    index: LinearHashTable<Indexed>,
    pub(super) items: Wheel<Item<K, V>>,
    /// How many inserts were in place of a value.
    pub(super) replaced: u64,
    pub(super) expired: u64,
}

/// Where a key's item lies. With the hash, so that only a look-up visits the item.
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
    /// When its longest life ends: no deadline of it is later. `MAX` without one.
    pub(super) latest_due: Moment,
    hash: u32,
}

/// When an item is due: its deadline, and the tick at which the wheel has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
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

    /// How many items it has, those included that are left to the stream.
    pub(super) fn len(&self) -> usize {
        self.items.len()
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
    pub(super) fn insert(
        &mut self,
        key: K,
        hash: u32,
        value: V,
        schedule: Schedule,
        latest_due: Moment,
    ) {
        let item = Item {
            key,
            value,
            deadline: schedule.deadline,
            latest_due,
            hash,
        };
        let index = self.items.insert(schedule.tick.get(), item).index();
        self.index.insert(Indexed { hash, index });
    }

    pub(super) fn set(&mut self, index: u32, schedule: Schedule) {
        self.items.at_mut(index).deadline = schedule.deadline;
        self.items.relink_at(index, schedule.tick.get());
    }

    /// Makes an item due by a schedule of now. Returns whether it was pending.
    pub(super) fn make_due(&mut self, index: u32, now: Schedule) -> bool {
        let is_pending = self.items.at(index).is_pending(now.deadline);
        if is_pending {
            self.set(index, now);
        } else if self.items.due_at(index) > now.tick.get() {
            // Its deadline has come, and its tick has not begun.
            self.items.relink_at(index, now.tick.get());
        }
        is_pending
    }

    pub(super) fn make_all_due(&mut self, now: Schedule) -> usize {
        let mut pending = 0;
        let mut from = 0;
        while let Some(index) = self.items.next_index(from) {
            pending += usize::from(self.make_due(index, now));
            from = index + 1;
        }
        pending
    }

    /// Takes an item that is due out of the index, for a newer one of its key. It stays in the
    /// wheel, for the stream.
    #[cold]
    pub(super) fn leave_to_stream(&mut self, index: u32) {
        let hash = self.items.at(index).hash;
        self.index.remove(hash, |entry| entry.index == index);
    }

    /// Takes out the first item that is due by a tick, and the others of its tick, at most `most`.
    /// Returns their number, and whether the part has more of that tick.
    #[inline]
    pub(super) fn take_due(
        &mut self,
        by: Tick,
        most: usize,
        budget: &mut usize,
        take: &mut impl FnMut(Item<K, V>),
    ) -> (Found<usize>, bool) {
        let (mut taken, mut is_rest_of_tick) = (0, false);
        let ended = loop {
            let found = self.items.find_due(by.get(), budget);
            let Found::Due(index) = found else {
                break found;
            };
            is_rest_of_tick = !self.items.is_last_at(index);
            take(self.remove(index));
            taken += 1;
            if taken == most || !is_rest_of_tick {
                break found;
            }
        };
        self.expired += taken as u64;
        let found = match ended {
            _ if taken > 0 => Found::Due(taken),
            Found::Unfinished => Found::Unfinished,
            Found::Due(_) | Found::Nothing => Found::Nothing,
        };
        (found, is_rest_of_tick)
    }

    /// Takes an item out of the wheel, and out of the index if it has its key.
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
