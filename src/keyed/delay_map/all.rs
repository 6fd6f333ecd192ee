//! What a [`DelayMap`] does to all of its keys.
//!
//! Invariant: `drain`, `take_all`, `close` and `expire_all` lock all parts at once; the others lock
//! one part at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use tokio::time::Instant;

use super::DelayMap;
use super::inner::LockedPart;
use super::part::Item;

impl<K, V> DelayMap<K, V> {
    /// How many values are in the map, due or not.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether no value is in the map.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys, in no order. Each was in the map at some moment of the call.
    ///
    /// The key's `Clone` is called under the lock of a part, so it must not call the map.
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        let mut keys = Vec::with_capacity(self.len());
        for LockedPart { part, .. } in self.inner.locked_parts() {
            let indices = part.indices().into_iter();
            keys.extend(indices.map(|index| part.item(index).key.clone()));
        }
        keys
    }

    /// Calls `act` with each key and the instant at which its value is to come out, in no order.
    /// Each key was in the map at some moment of the call. No lock is held while `act` runs, so it
    /// may use the map.
    pub fn for_each(&self, mut act: impl FnMut(&K, Instant))
    where
        K: Clone,
    {
        for LockedPart { part, .. } in self.inner.locked_parts() {
            let indices = part.indices().into_iter();
            let keys: Vec<_> = indices
                .map(|index| (part.item(index).key.clone(), part.due_at(index)))
                .collect();
            drop(part);
            for (key, at) in keys {
                act(&key, self.inner.clock().instant(at));
            }
        }
    }

    /// Keeps the values for which `keep` says so, due or not, and drops the rest. The delays go on.
    ///
    /// `keep` is called under the lock of a part, so it must not call the map. If it panics, no
    /// further value is dropped.
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for mut locked in self.inner.locked_parts() {
            let mut removed = Vec::new();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                for index in locked.part.indices() {
                    let (key, value) = locked.part.entry_mut(index);
                    if !keep(key, value) {
                        removed.push(locked.part.remove(index));
                        self.inner.table.give_back(locked.number, 1);
                    }
                }
            }));
            locked.part.shrink_if_due();
            self.inner.plan_without(locked);
            // After the lock, because these drops are user code.
            drop(removed);
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
        }
    }

    /// Takes everything out, in no order. It is atomic: an insert comes wholly before it or wholly
    /// after it.
    pub fn drain(&self) -> Vec<(K, V)> {
        let items = self.inner.take_all(false).into_iter();
        items.map(|(_, item)| item.into_pair()).collect()
    }

    /// As [`drain`](DelayMap::drain), each value with the time that it had left, zero for what was
    /// due.
    pub fn take_all(&self) -> Vec<(K, V, Duration)> {
        let with_time_left = |(left, item): (Duration, Item<K, V>)| {
            let (key, value) = item.into_pair();
            (key, value, left)
        };
        let items = self.inner.take_all(false).into_iter();
        items.map(with_time_left).collect()
    }

    /// Makes everything come out of the stream now, in the order of the deadlines that it had.
    /// Gives how many values were pending. It is atomic, like [`drain`](DelayMap::drain).
    pub fn expire_all(&self) -> usize {
        self.inner.expire_all()
    }

    /// Takes everything out, and ends the stream. Every later insert is an error. A second close
    /// finds nothing.
    pub fn close(&self) -> Vec<(K, V)> {
        let items = self.inner.take_all(true).into_iter();
        items.map(|(_, item)| item.into_pair()).collect()
    }
}
