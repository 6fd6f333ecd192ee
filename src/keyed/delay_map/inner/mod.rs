//! What the handles of a [`DelayMap`](super::DelayMap) and its stream share.
//!
//! Invariant: `states` say what is in each part whenever its lock is free. So the stream chooses by
//! them which part it locks, and after a change the caller knows by them whether the stream has to
//! look earlier.

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
use crate::driver::Watch;
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
    /// The stream ends with the runtime, though it may wait with nothing armed.
    _watch: Option<Watch>,
    pub(super) table: Table<Part<K, V>>,
    /// How many handles of the map there are.
    handles: AtomicUsize,
    closed: AtomicBool,
    /// The number of the next setting of an item, on a clock that can be paused.
    next_number: AtomicU64,
    states: States,
    lookout: Lookout,
    /// What wakes the stream when it has waited long enough.
    stream_timer: Mutex<StreamTimer>,
}

/// The timer's runtime has gone.
#[derive(Debug)]
pub(super) struct Closed;

/// A locked part, and which it is.
pub(super) struct Locked<'a, K, V> {
    pub(super) part: MutexGuard<'a, Part<K, V>>,
    pub(super) number: usize,
}

/// What the stream finds.
pub(super) enum Found<K, V> {
    Item(Item<K, V>),
    /// Nothing is due.
    Nothing,
    /// It was not found out with the budget.
    Unfinished,
}

impl<K, V> Inner<K, V> {
    pub(super) fn new(timer: &Timer, limit: usize, capacity: usize) -> Inner<K, V> {
        let shard = timer.hold();
        let table = Table::new(shard.clock(), limit, Part::new);
        let inner = Inner {
            timer: timer.clone(),
            _watch: timer.watch(),
            states: States::new(table.parts()),
            stream_timer: Mutex::new(StreamTimer::default()),
            shard,
            table,
            handles: AtomicUsize::new(1),
            closed: AtomicBool::new(false),
            next_number: AtomicU64::new(0),
            lookout: Lookout::new(),
        };
        inner.reserve(capacity);
        inner
    }

    /// Makes room for so many keys.
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

    /// How something is set now that is due at `deadline` of now.
    ///
    /// To be called with the part locked: of two resets of a key, the one that sets it last has
    /// then read the clock last.
    pub(super) fn due_now(&self, deadline: impl FnOnce(Moment) -> Moment) -> Setting {
        let now = self.clock().now();
        let deadline = deadline(now);
        // What is due already waits for no tick to begin.
        let tick = (deadline > now).then(|| self.clock().tick().due(deadline));
        // One count for all keys would be one cache line for all cores. Where there is but one core
        // to use it, it makes ties come out in the order in which they were set.
        let one_count = self.clock().is_pausable();
        let number = one_count.then(|| self.next_number.fetch_add(1, Ordering::Relaxed) + 1);
        Setting {
            deadline,
            tick,
            number,
        }
    }

    pub(super) fn lock(&self, hash: u64) -> Locked<'_, K, V> {
        self.lock_number(self.table.part_of(hash))
    }

    fn lock_number(&self, number: usize) -> Locked<'_, K, V> {
        Locked {
            part: self.table.lock_part(number),
            number,
        }
    }

    /// Each part in turn, locked; those that were never needed are passed over.
    pub(super) fn locked_parts(&self) -> impl Iterator<Item = Locked<'_, K, V>> {
        (0..self.table.parts()).filter_map(|number| {
            let part = self.table.lock_made(number)?;
            Some(Locked { part, number })
        })
    }

    pub(super) fn expire_all(&self) -> usize {
        let mut pending = 0;
        {
            let mut parts = self.table.lock_all();
            // Read with all locked: nothing that was due before this is found after it.
            let now = self.clock().now();
            let ticks = self.clock().tick();
            let (tick, present) = (ticks.due(now), ticks.current(now));
            for (number, part) in parts.iter_mut() {
                pending += part.expire_all(now, tick, present);
                self.states.tell(number, part);
            }
        }
        self.call_stream();
        self.set_stream_timer_anew();
        pending
    }

    /// Takes everything out, each with the time that it had left.
    pub(super) fn take_all(&self, close: bool) -> Vec<(Duration, Item<K, V>)> {
        let mut taken = Vec::with_capacity(self.states.len());
        let now = {
            let mut parts = self.table.lock_all();
            let now = self.clock().now();
            for (number, part) in parts.iter_mut() {
                let (items, marks) = part.take_all();
                // In here, so that nobody sees an empty map that has places taken.
                self.table.give_back(number, items.len());
                taken.push((items, marks));
                self.states.tell(number, part);
            }
            if close {
                parts.close();
                self.closed.store(true, Ordering::SeqCst);
            }
            now
        };
        if close {
            self.call_stream();
        }
        self.set_stream_timer_anew();
        // What was taken is gone through after the locks: there may be millions.
        let told = |(mut items, marks): (Wheel<Item<K, V>>, Marks)| {
            let told = |item: Item<K, V>| (item.told_deadline(&marks).since(now), item);
            items.take_all().map(told).collect::<Vec<_>>()
        };
        taken.into_iter().flat_map(told).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Another handle; `false` if there is none left, and so can be none.
    pub(super) fn add_handle(&self) -> bool {
        let add = |handles| (handles > 0).then_some(handles + 1);
        self.handles
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
            .is_ok()
    }

    /// The last one lets the stream end once the map is empty.
    pub(super) fn drop_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.call_stream();
        }
    }
}

/// For the stream.
impl<K, V> Inner<K, V> {
    /// Takes out the first of what was found, if it was due by that moment. All parts must have
    /// been searched up to that before.
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
            // No later one: somebody may have taken the first out, and another part have the next.
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

    /// Searches all parts up to a tick, looking at so many items at most. Gives whether all that is
    /// due by then was found.
    pub(super) fn find_due(&self, now: u64, mut budget: usize) -> bool {
        for number in 0..self.states.len() {
            // Locked in any case: who sets an item may have read the clock and not told it yet.
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

    /// Whether nothing will come any more. To be asked after `start_waiting`, or a wake-up may be
    /// lost.
    pub(super) fn is_finished(&self) -> bool {
        let nothing_comes = self.is_closed() || self.handles.load(Ordering::SeqCst) == 0;
        // Nothing is put in any more, so a sum of zero is one for good.
        nothing_comes && self.table.taken() == 0
    }
}
