//! One part of a [`DelayMap`](super::DelayMap): its items, their index by key, and those that are
//! due.
//!
//! ```text
//!   waiting: in a slot of the wheel --(its tick has come, or it is expired)--> due: detached, and named in `due`
//!        ^                                                                      |
//!        +---------------------------(set anew)---------------------------------+        out: in none of them
//! ```
//!
//! Invariants:
//!
//! - An item is in the wheel's storage and in the index, or in neither. It is detached there
//!   exactly while `due` names it.
//! - `due` has a good name for each item that is due, and its first name is a good one. The names
//!   are in the order in which the items come out. The first thing that counts is the moment at
//!   which they were due. Then the deadlines that they had count, and then the order in which they
//!   were set. The last two decide about items that were made due at one moment.
//! - Items that [`expire_all`](Part::expire_all) has made due wait on until
//!   [`find_expired`](Part::find_expired) comes by them, so that no call takes long. `marks` knows
//!   them by their numbers.
//!
//! | file | what |
//! |---|---|
//! | `mod` | putting an item in, setting it anew, making it due, taking it out |
//! | `search` | how the part finds what is due, and makes all of it due |
//! | `memory` | when the part gives memory back |

mod memory;
mod search;

use std::borrow::Borrow;

use hashbrown::HashTable;

use crate::keyed::delay_map::due_queue::{DueQueue, Name, Named};
use crate::keyed::delay_map::marks::Marks;
use crate::shrinking::Shrinking;
use crate::time::tick::Moment;
use crate::wheel::Wheel;

pub(super) struct Part<K, V> {
    items: Wheel<Item<K, V>>,
    /// Indices of items, by the hash of the key.
    index: HashTable<u32>,
    shrinking: Shrinking,
    /// How many items were taken out since most of the items' store has been free.
    taken_while_sparse: usize,
    due: DueQueue,
    marks: Marks,
    /// How often an item was set.
    settings: u64,
}

pub(super) struct Item<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    deadline: Moment,
    /// The end of its life: no deadline of it lies beyond this.
    end: Moment,
    /// When it was due, while it is due.
    due_at: Moment,
    number: u64,
    /// Half of the key's hash, which is enough to find the item in the index again.
    hash: u32,
}

/// The deadline that an item is set to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) deadline: Moment,
    /// The tick of the deadline, or `None` if that has passed already.
    pub(super) tick: Option<u64>,
    /// The number of the setting, if the map counts them all together.
    pub(super) number: Option<u64>,
}

impl<K, V> Item<K, V> {
    /// When it was due. Only for an item that has come out.
    pub(super) fn was_due_at(&self) -> Moment {
        self.due_at
    }

    /// When it was due, or would have been due, in a part with those marks.
    pub(super) fn told_deadline(&self, marks: &Marks) -> Moment {
        let told = self.due_at.min(self.deadline);
        marks.at(self.number).map_or(told, |at| told.min(at))
    }

    pub(super) fn into_pair(self) -> (K, V) {
        (self.key, self.value)
    }

    fn name(&self) -> Name {
        Name {
            due_at: self.due_at,
            deadline: self.deadline,
            number: self.number,
        }
    }
}

impl<K, V> Part<K, V> {
    pub(super) fn new() -> Part<K, V> {
        Part {
            items: Wheel::new(),
            index: HashTable::new(),
            shrinking: Shrinking::default(),
            taken_while_sparse: 0,
            due: DueQueue::new(),
            marks: Marks::default(),
            settings: 0,
        }
    }

    /// The index of a key's item. This is the only function that calls the key's own code.
    pub(super) fn find<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let is_it = |&index: &u32| self.items.at(index).key.borrow() == key;
        self.index.find(hash_of(half(hash)), is_it).copied()
    }

    pub(super) fn item(&self, index: u32) -> &Item<K, V> {
        self.items.at(index)
    }

    pub(super) fn value_mut(&mut self, index: u32) -> &mut V {
        &mut self.items.at_mut(index).value
    }

    pub(super) fn entry_mut(&mut self, index: u32) -> (&K, &mut V) {
        let item = self.items.at_mut(index);
        (&item.key, &mut item.value)
    }

    /// When an item is due, or since when it has been due.
    pub(super) fn due_at(&self, index: u32) -> Moment {
        let item = self.items.at(index);
        if self.items.is_detached(index) {
            item.due_at
        } else {
            item.told_deadline(&self.marks)
        }
    }

    /// The end of an item's life.
    pub(super) fn end_of(&self, index: u32) -> Moment {
        self.items.at(index).end
    }

    /// Puts in the value of a key that is not in the part.
    pub(super) fn insert(&mut self, key: K, hash: u64, value: V, setting: Setting, end: Moment) {
        let number = self.number_of(setting);
        let hash = half(hash);
        let item = Item {
            key,
            value,
            deadline: setting.deadline,
            end,
            due_at: setting.deadline,
            number,
            hash,
        };
        let index = match setting.tick {
            Some(tick) => self.items.insert(tick, item).into_halves().0,
            None => {
                let name = item.name();
                let index = self.items.insert_detached(item);
                self.due.push(Named { name, index });
                index
            }
        };
        let (items, before) = (&self.items, self.index.capacity());
        self.index
            .insert_unique(hash_of(hash), index, |&index| hash_of(items.at(index).hash));
        if self.index.capacity() != before {
            self.shrinking.grown(self.index.capacity());
        }
    }

    /// Sets anew when an item is due, whether or not it is due already.
    pub(super) fn set(&mut self, index: u32, setting: Setting) {
        self.forget_due(index);
        let number = self.number_of(setting);
        let item = self.items.at_mut(index);
        (item.deadline, item.due_at, item.number) = (setting.deadline, setting.deadline, number);
        match setting.tick {
            Some(tick) => self.items.attach(index, tick),
            None => self.name_as_due(index, setting.deadline),
        }
        self.uncover();
    }

    /// Makes an item due, unless it is due already. Gives whether it was not.
    pub(super) fn expire(&mut self, index: u32, now: Moment) -> bool {
        let is_pending = self.due_at(index) > now;
        if is_pending {
            self.make_due(index, now);
            self.uncover();
        }
        is_pending
    }

    pub(super) fn set_end(&mut self, index: u32, end: Moment) {
        self.items.at_mut(index).end = end;
    }

    pub(super) fn replace_value(&mut self, index: u32, value: V) -> V {
        std::mem::replace(&mut self.items.at_mut(index).value, value)
    }

    /// Takes an item out. To be followed by `shrink_if_due`, as soon as the caller holds no other
    /// index.
    pub(super) fn remove(&mut self, index: u32) -> Item<K, V> {
        self.forget_due(index);
        let item = self.take_out(index);
        self.uncover();
        item
    }

    fn take_out(&mut self, index: u32) -> Item<K, V> {
        let item = self.items.remove_at(index);
        if let Ok(entry) = self
            .index
            .find_entry(hash_of(item.hash), |&other| other == index)
        {
            entry.remove();
        }
        item
    }

    /// The indices of all items.
    pub(super) fn indices(&self) -> Vec<u32> {
        self.index.iter().copied().collect()
    }

    /// When the first of what is due was due.
    pub(super) fn first_due(&self) -> Option<Moment> {
        self.first_name().map(|name| name.due_at)
    }

    /// The name of the first of what is due.
    pub(super) fn first_name(&self) -> Option<Name> {
        self.due.first().map(|named| named.name)
    }

    /// Takes out the first of what is due, if it was due by that moment.
    pub(super) fn take_first_by(&mut self, by: Moment) -> Option<Item<K, V>> {
        self.first_due().filter(|&due_at| due_at <= by)?;
        let Named { index, .. } = self.due.take_first()?;
        let item = self.take_out(index);
        self.uncover();
        self.shrink_if_due();
        Some(item)
    }

    /// Takes everything out, and gives it with the marks that some of it may have.
    pub(super) fn take_all(&mut self) -> (Wheel<Item<K, V>>, Marks) {
        let emptied = Part {
            settings: self.settings,
            ..Part::new()
        };
        let taken = std::mem::replace(self, emptied);
        (taken.items, taken.marks)
    }

    /// The tick before which nothing that waits is due.
    pub(super) fn earliest(&self) -> Option<u64> {
        let marked = self.marks.earliest();
        let waiting = self.items.next_turn();
        marked.into_iter().chain(waiting).min()
    }

    /// Puts an item that waits among those that are due.
    fn make_due(&mut self, index: u32, at: Moment) {
        self.forget_due(index);
        self.name_as_due(index, at);
    }

    fn name_as_due(&mut self, index: u32, at: Moment) {
        if !self.items.is_detached(index) {
            self.items.detach(index);
        }
        let item = self.items.at_mut(index);
        // An item that has passed its deadline was due then, though its tick has not begun.
        item.due_at = at.min(item.deadline);
        let name = item.name();
        self.due.push(Named { name, index });
    }

    /// Makes sure that the first name of what is due is a good one.
    fn uncover(&mut self) {
        let items = &self.items;
        self.due.uncover(|named| is_good(items, named));
    }

    /// An item is not due any more, neither by its name nor by a mark. To be followed by `uncover`,
    /// once the item is changed.
    fn forget_due(&mut self, index: u32) {
        if self.items.is_detached(index) {
            self.due.note_stale();
        } else {
            self.marks.forget(self.items.at(index).number);
        }
    }

    fn number_of(&mut self, setting: Setting) -> u64 {
        self.settings += 1;
        match setting.number {
            Some(number) => {
                self.settings = self.settings.max(number);
                number
            }
            None => self.settings,
        }
    }
}

/// Whether a name is good: its item is due, and was not set anew since.
fn is_good<K, V>(items: &Wheel<Item<K, V>>, named: &Named) -> bool {
    items.is_detached_as(named.index, |item| item.name() == named.name)
}

/// The half of a hash that items keep. A part is chosen by other bits.
fn half(hash: u64) -> u32 {
    hash as u32
}

/// A whole hash, made of a half. A table uses the lowest bits and the highest ones.
fn hash_of(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}
