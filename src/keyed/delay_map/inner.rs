//! What the handles of a [`DelayMap`](super::DelayMap) and its stream share.
//!
//! Invariant: `states` say what is in each part whenever its lock is free. So the stream chooses by
//! them which part it locks, and after a change the caller knows by them whether the stream has to
//! look earlier.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::lookout::Lookout;
use super::marks::Marks;
use super::merge::{First, Merge};
use super::part::{Item, Part, Setting};
use super::states::States;
use super::stream_timer::StreamTimer;
use crate::driver::Watch;
use crate::keyed::table::Table;
use crate::shard::{Hold, NotArmed, Polled};
use crate::time::clock::Clock;
use crate::time::due::Due;
use crate::time::tick::{Moment, NEVER};
use crate::timer::Timer;
use crate::waking::wake;
use crate::wheel::{Key, Wheel};

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

    /// To be called after something was set: lets the part go, and has the stream look in time.
    pub(super) fn plan_for(&self, locked: Locked<'_, K, V>, setting: Setting) {
        if self.clock().is_pausable() {
            return self.plan_again(locked);
        }
        let Locked { part, number } = locked;
        let mut is_earlier = self.states.tell_due(number, &part);
        if let Some(tick) = setting.tick {
            is_earlier |= self.states.tell_waiting(number, tick);
        }
        drop(part);
        // If it is not, whoever told what stands there calls the stream in time, after its own
        // lock: also for this.
        if is_earlier {
            self.call_for(setting.tick.unwrap_or(0));
        }
    }

    /// To be called after something was taken out: lets the part go.
    pub(super) fn plan_without(&self, locked: Locked<'_, K, V>) {
        if self.clock().is_pausable() {
            return self.plan_again(locked);
        }
        self.states.tell_due(locked.number, &locked.part);
    }

    /// To be called after a part was changed in whatever way: lets the part go, has the stream look
    /// in time, and on a clock that can be paused not too early.
    pub(super) fn plan_again(&self, Locked { part, number }: Locked<'_, K, V>) {
        self.states.tell(number, &part);
        let (first, earliest) = (self.states.first_due(number), part.earliest());
        drop(part);
        // Something may be due now; whether it is the stream finds out.
        let tick = if first == NEVER {
            earliest.unwrap_or(NEVER)
        } else {
            0
        };
        self.call_for(tick);
        self.set_stream_timer_anew();
    }

    fn call_for(&self, tick: u64) {
        if self.lookout.is_called_for(tick) {
            self.call_stream();
        }
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

    /// Has whoever waits for the stream poll it.
    pub(super) fn call_stream(&self) {
        if let Some(waker) = self.lookout.call() {
            wake(waker);
        }
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

    /// On a clock that can be paused: sets the stream's timer to the earliest, or it would pull
    /// virtual time along. While something is due it is set for no time at all, and the stream is
    /// called: what was found before its deadline may have passed that since, and the stream's
    /// timer was to tell it. Whether or not anybody polls the stream now, so it is not left to the
    /// stream. On the system's clock one look too early is cheaper.
    fn set_stream_timer_anew(&self) {
        if !self.clock().is_pausable() {
            return;
        }
        let mut stream_timer = self.stream_timer();
        let waits = self.lookout.is_put_off();
        let looked_for = self.looked_for();
        let earliest = match looked_for {
            0 => NEVER,
            tick => tick,
        };
        stream_timer.set_if_armed(&self.shard, earliest);
        if waits {
            self.lookout.waits_on_until(earliest);
        }
        drop(stream_timer);
        if waits && looked_for == 0 {
            self.call_stream();
        }
    }

    /// The tick at which there is something to look for; zero if there is now.
    fn looked_for(&self) -> u64 {
        let earliest = self.states.earliest_of_all();
        let first = self.states.first_dues().min().unwrap_or(NEVER);
        if first == NEVER {
            return earliest;
        }
        // What was found may lie ahead by a part of a tick. The clock is read after what was told.
        let first = Moment::from_bits(first);
        if first <= self.clock().now() {
            0
        } else {
            earliest.min(self.clock().tick().due(first))
        }
    }

    fn stream_timer(&self) -> MutexGuard<'_, StreamTimer> {
        self.stream_timer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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

    /// The stream is polled: nobody needs to call it.
    pub(super) fn stop_waiting(&self) {
        self.lookout.stops_waiting();
    }

    /// The stream is going to wait, with this waker.
    pub(super) fn start_waiting(&self, waker: &Waker) {
        if !self.lookout.has(waker) {
            // Wakers are cloned and dropped under no lock.
            let replaced = self.lookout.leave(waker.clone());
            drop(replaced);
        }
        self.lookout.begins_to_wait();
    }

    /// Sets the stream's timer to the earliest and polls it; ready if that has come. To be called
    /// after `start_waiting`.
    pub(super) fn poll_stream_timer(&self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        loop {
            let Some(key) = self.set_stream_timer_to_earliest() else {
                // Armed for no time at first, so that a removal which comes before it is set is not
                // overlooked.
                match self.shard.arm_for_never(cx.waker().clone()) {
                    Ok(key) => self.stream_timer().armed(key, NEVER),
                    Err(NotArmed::Fired) => {}
                    Err(NotArmed::Closed) => return Poll::Ready(Err(Closed)),
                }
                continue;
            };
            // The stream's timer's lock is let go: a waker is cloned and dropped here.
            return match self.shard.poll_armed(key, Due::At(Moment::MAX), cx.waker()) {
                Polled::Pending => Poll::Pending,
                Polled::Closed => Poll::Ready(Err(Closed)),
                Polled::Fired => {
                    self.stream_timer().take();
                    Poll::Ready(Ok(()))
                }
            };
        }
    }

    fn set_stream_timer_to_earliest(&self) -> Option<Key> {
        let mut stream_timer = self.stream_timer();
        self.lookout.begins_to_wait();
        let earliest = self.looked_for();
        let key = stream_timer.move_to(&self.shard, earliest);
        self.lookout.waits_until(earliest);
        key
    }

    /// Whether there is something to look for now. To be asked after `start_waiting`.
    pub(super) fn is_looked_for_now(&self) -> bool {
        self.looked_for() <= self.clock().current_tick()
    }

    /// The stream has ended: nothing of it stays armed.
    pub(super) fn stop_stream_timer(&self) {
        let armed = self.stream_timer().take();
        if let Some(key) = armed {
            self.shard.disarm(key);
        }
        drop(self.lookout.call());
    }

    /// Whether nothing will come any more. To be asked after `start_waiting`, or a wake-up may be
    /// lost.
    pub(super) fn is_finished(&self) -> bool {
        let nothing_comes = self.is_closed() || self.handles.load(Ordering::SeqCst) == 0;
        // Nothing is put in any more, so a sum of zero is one for good.
        nothing_comes && self.table.taken() == 0
    }
}
