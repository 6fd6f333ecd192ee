//! What the handles of a [`DelayMap`](super::DelayMap) and its stream share.
//!
//! The ground rules of locks, and of who may touch what, are at the head of [`handshake`]. `G` and
//! a number is a rule there, and `C` or `S` and a number is a step.
//!
//! Invariant: whenever the lock of a part is free, `states` say what is in that part. By them the
//! stream chooses which part it locks. By them a caller knows after a change whether the stream has
//! to look earlier.

mod handshake;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::lookout::Lookout;
use super::marks::Marks;
use super::merge::{First, Merge};
use super::part::{Item, Part, Setting};
use super::states::States;
use super::stream_timer::StreamTimer;
use crate::keyed::table::Table;
use crate::shard::Hold;
use crate::time::clock::Clock;
use crate::time::tick::Moment;
use crate::timer::Timer;
use crate::wheel::Wheel;

pub(super) struct Inner<K, V> {
    pub(super) timer: Timer,
    /// The shard of the stream's timer; its clock is the map's.
    shard: Hold,
    pub(super) table: Table<Part<K, V>>,
    /// How many handles of the map there are.
    handles: AtomicUsize,
    /// Set with all parts locked, never cleared.
    closed: AtomicBool,
    /// How often an item was set in any part, on a clock that can be paused.
    settings: AtomicU64,
    states: States,
    lookout: Lookout,
    /// What wakes the stream when it has waited long enough.
    stream_timer: Mutex<StreamTimer>,
}

/// The timer's runtime has shut down.
#[derive(Debug)]
pub(super) struct Closed;

/// A locked part, and its number.
pub(super) struct LockedPart<'a, K, V> {
    pub(super) part: MutexGuard<'a, Part<K, V>>,
    pub(super) number: usize,
}

/// What the stream finds.
pub(super) enum Found<K, V> {
    Item(Item<K, V>),
    /// Nothing is due.
    Nothing,
    /// The budget was spent before the search had an end.
    Unfinished,
}

impl<K, V> Inner<K, V> {
    pub(super) fn new(timer: &Timer, limit: usize, capacity: usize) -> Inner<K, V> {
        let shard = timer.hold();
        let table = Table::new(shard.clock(), limit, Part::new);
        let inner = Inner {
            timer: timer.clone(),
            states: States::new(table.parts()),
            stream_timer: Mutex::new(StreamTimer::default()),
            shard,
            table,
            handles: AtomicUsize::new(1),
            closed: AtomicBool::new(false),
            settings: AtomicU64::new(0),
            lookout: Lookout::new(),
        };
        inner.reserve(capacity);
        inner
    }

    /// Makes room for this many keys.
    fn reserve(&self, capacity: usize) {
        let parts = if capacity > 0 { self.table.parts() } else { 0 };
        for number in 0..parts {
            let each = capacity.div_ceil(parts);
            self.table.lock_part(number).reserve(each);
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.shard.clock()
    }

    /// The setting of an item that is set now, and is due at `deadline` of now.
    ///
    /// To be called with the part locked. Then, of two resets of a key, the one that sets it last
    /// has also read the clock last.
    pub(super) fn due_now(&self, deadline: impl FnOnce(Moment) -> Moment) -> Setting {
        let now = self.clock().now();
        let deadline = deadline(now);
        // What is due already waits for no tick to begin.
        let tick = (deadline > now).then(|| self.clock().tick().due(deadline));
        // One count for all keys would be one cache line for all cores. A clock that can be paused
        // is that of a runtime with one thread. There the count makes ties come out in the order in
        // which they were set.
        let is_counted = self.clock().is_pausable();
        // Relaxed: nothing else hangs on the count.
        let number = is_counted.then(|| self.settings.fetch_add(1, Ordering::Relaxed) + 1);
        Setting {
            deadline,
            tick,
            number,
        }
    }

    pub(super) fn lock(&self, hash: u64) -> LockedPart<'_, K, V> {
        self.lock_number(self.table.part_of(hash))
    }

    fn lock_number(&self, number: usize) -> LockedPart<'_, K, V> {
        LockedPart {
            part: self.table.lock_part(number),
            number,
        }
    }

    /// The parts in their order, one locked at a time. Those that were never needed are left out.
    pub(super) fn locked_parts(&self) -> impl Iterator<Item = LockedPart<'_, K, V>> {
        (0..self.table.parts()).filter_map(|number| {
            let part = self.table.lock_made(number)?;
            Some(LockedPart { part, number })
        })
    }

    pub(super) fn expire_all(&self) -> usize {
        let mut pending = 0;
        {
            let mut parts = self.table.lock_all();
            // Read with all parts locked, so nothing that was due before this is found after it.
            let now = self.clock().now();
            let ticks = self.clock().tick();
            let (tick, present) = (ticks.due(now), ticks.current(now));
            for (number, part) in parts.iter_mut() {
                pending += part.expire_all(now, tick, present);
                self.states.tell(number, part);
            }
        }
        // With no part locked (G8).
        self.call_stream();
        self.set_stream_timer_anew();
        pending
    }

    /// Takes everything out, each item with the time that it had left.
    pub(super) fn take_all(&self, close: bool) -> Vec<(Duration, Item<K, V>)> {
        let mut taken = Vec::with_capacity(self.states.len());
        let now = {
            let mut parts = self.table.lock_all();
            let now = self.clock().now();
            for (number, part) in parts.iter_mut() {
                let (items, marks) = part.take_all();
                // With all parts locked, so that nobody sees an empty map that has places taken.
                self.table.give_back(number, items.len());
                taken.push((items, marks));
                self.states.tell(number, part);
            }
            if close {
                parts.close();
                // At least Release: pairs with the load in `is_closed`, and carries the places that
                // were given back above. The lock of the lookout orders it with S3 and S4.
                self.closed.store(true, Ordering::SeqCst);
            }
            now
        };
        if close {
            self.call_stream();
        }
        self.set_stream_timer_anew();
        // The items are gone through after the locks, because there may be millions.
        let told = |(mut items, marks): (Wheel<Item<K, V>>, Marks)| {
            let told = |item: Item<K, V>| (item.told_deadline(&marks).since(now), item);
            items.take_all().map(told).collect::<Vec<_>>()
        };
        taken.into_iter().flat_map(told).collect()
    }

    /// The stream has ended with its runtime, and nothing more would come out of it. What is in the
    /// map stays there to be drained.
    pub(super) fn refuse_inserts(&self) {
        self.table.lock_all().close();
    }

    pub(super) fn is_closed(&self) -> bool {
        // At least Acquire: pairs with the store in `take_all`.
        self.closed.load(Ordering::SeqCst)
    }

    /// Counts another handle. `false` if no handle is left, because then there can be none again.
    pub(super) fn add_handle(&self) -> bool {
        let add = |handles| (handles > 0).then_some(handles + 1);
        // Only the count decides here. What the handles did is carried by `drop_handle`.
        self.handles
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
            .is_ok()
    }

    /// Counts a handle off. After the last one the stream ends as soon as the map is empty.
    pub(super) fn drop_handle(&self) {
        // At least Release: pairs with the load in `is_finished`, and carries what was done through
        // the handle. The lock of the lookout orders it with S3 and S4.
        if self.handles.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.call_stream();
        }
    }
}

/// For the stream.
impl<K, V> Inner<K, V> {
    /// Takes out the first of what was found, if it was due by that moment. Before that, all parts
    /// must have been searched up to that moment.
    pub(super) fn take_found(&self, merge: &mut Merge, by: Moment) -> Option<Item<K, V>> {
        loop {
            merge.refresh(&self.states);
            let First { due, part, is_tied } = merge.first_by(by)?;
            let part = if is_tied {
                let ask = |part| self.lock_number(part).part.first_name();
                merge.first_of_ties(due, ask).unwrap_or(part)
            } else {
                part
            };
            let mut locked = self.lock_number(part);
            // No later one: a call may have taken the first out, and another part may have the
            // next.
            let taken = locked.part.take_first_by(Moment::from_bits(due));
            self.table.give_back(part, usize::from(taken.is_some()));
            self.states.tell_due(part, &locked.part);
            let first = locked.part.first_name();
            drop(locked);
            merge.set(part, first);
            if taken.is_some() {
                self.set_stream_timer_anew();
                return taken;
            }
        }
    }

    /// Searches all parts up to a tick, and looks at no more items than the budget allows. Gives
    /// whether all that is due by then was found.
    pub(super) fn find_due(&self, now: u64, mut budget: usize) -> bool {
        for number in 0..self.states.len() {
            // Locked in any case: a call that sets an item here may have read the clock, and not
            // told the state yet.
            let Some(mut part) = self.table.lock_made(number) else {
                continue;
            };
            if self.states.earliest(number) <= now {
                let is_finished = part.advance(now, &mut budget);
                self.states.tell(number, &part);
                if !is_finished {
                    return false;
                }
            }
        }
        true
    }

    /// S4: whether nothing will come any more. To be asked after `start_waiting`, or a wake-up may
    /// be lost.
    pub(super) fn is_finished(&self) -> bool {
        // At least Acquire: pairs with `drop_handle`, so that the sum below counts what each handle
        // put in and took out.
        let nothing_comes = self.is_closed() || self.handles.load(Ordering::SeqCst) == 0;
        // Nothing is put in any more, so a sum of zero stays zero.
        nothing_comes && self.table.taken() == 0
    }
}
