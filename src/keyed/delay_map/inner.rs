//! The state that the handles of a [`DelayMap`](super::DelayMap) and its stream share.
//!
//! Each change of the map makes the stream check in time: `stream_waker.rs` has the steps. With a
//! part locked, the map takes no lock but those of all other parts.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::earliest::First;
use super::expiry::Expiry;
use super::part::{DelayPart, Item, Schedule};
use super::stream_waker::StreamWaker;
use crate::clock::Clock;
use crate::clock::tick::{Moment, Tick};
use crate::driver::Watch;
use crate::error::{Cancelled, InsertError};
use crate::keyed::table::{PartGuard, Table};
use crate::shard::word::{EXPIRED, MapTag, Outcome, Word};
use crate::shard::{DeadlineRef, Shard};
use crate::timer::Timer;
use crate::wheel::Found;

/// On cache lines of its own, apart from the count of the map's clones. All calls read it, and the
/// two flags are seldom written.
#[repr(align(128))]
pub(super) struct Inner<K, V> {
    pub(super) timer: Timer,
    /// The shard of the stream's timer; its clock is the map's.
    shard: Arc<Shard>,
    pub(super) table: Table<DelayPart<K, V>>,
    has_handles: AtomicBool,
    /// The thread that sets it may make a stream.
    has_stream: AtomicBool,
    pub(super) waker: StreamWaker,
    stream_timer: Arc<Word>,
}

/// What the handles of a map share. After the last one the stream ends once the map is empty.
pub(super) struct Handles<K, V>(pub(super) Arc<Inner<K, V>>);

impl<K, V> Drop for Handles<K, V> {
    fn drop(&mut self) {
        // Release: pairs with the load in `is_finished`, and carries the handles' work. The lock of
        // the waker orders it with S3.
        self.0.has_handles.store(false, Ordering::Release);
        self.0.wake(self.0.waker.may_have_ended());
    }
}

/// What a stream remembers between its polls: the last reading of the clock, and the first part.
pub(super) struct Search {
    pub(super) present: Tick,
    pub(super) first: Option<First>,
}

impl Search {
    pub(super) const NEW: Search = Search {
        present: Tick::FIRST,
        first: None,
    };
}

/// What a call finds for a key: the locked part of its hash, and the index of its item, if any.
pub(super) struct Lookup<'a, K, V> {
    pub(super) part: LockedPart<'a, K, V>,
    pub(super) hash: u32,
    pub(super) found: Option<u32>,
}

impl<K, V> Lookup<'_, K, V> {
    /// Runs a closure between `admit` and the insert. If it panics, unlocks the part and returns
    /// the permit before the panic goes on, so that the caller's values are dropped under no lock.
    pub(super) fn call<R>(mut self, closure: impl FnOnce() -> R) -> (R, Self) {
        match catch_unwind(AssertUnwindSafe(closure)) {
            Ok(result) => (result, self),
            Err(panic) => {
                self.part.release(usize::from(self.found.is_none()));
                drop(self);
                resume_unwind(panic)
            }
        }
    }
}

/// The most steps of one search. Then other tasks run.
const BATCH: usize = 512;

/// The most values taken under one lock of a part.
const AT_ONCE: usize = 64;

pub(super) type LockedPart<'a, K, V> = PartGuard<'a, DelayPart<K, V>>;

impl<K, V> Inner<K, V> {
    pub(super) fn new(timer: &Timer, capacity: usize) -> Inner<K, V> {
        let shard = timer.shard().clone();
        let table = Table::new(capacity, (), DelayPart::new);
        let inner = Inner {
            stream_timer: Arc::new(Word::new(Tick::FIRST, Duration::ZERO, MapTag::default())),
            timer: timer.clone(),
            shard,
            has_handles: AtomicBool::new(true),
            has_stream: AtomicBool::new(false),
            waker: StreamWaker::new(table.parts()),
            table,
        };
        inner.stream_timer().cancel_unawaited();
        inner
    }

    fn stream_timer(&self) -> DeadlineRef<'_> {
        DeadlineRef {
            shard: &self.shard,
            word: &self.stream_timer,
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.shard.clock()
    }

    /// Call this with the part locked, so that the last of two resets also reads the clock last.
    pub(super) fn now(&self) -> Moment {
        self.clock().now()
    }

    pub(super) fn schedule_for(&self, now: Moment, deadline: Moment) -> Schedule {
        let ticks = self.clock().tick();
        // A due item waits for no tick to begin.
        let tick = if deadline > now {
            ticks.due(deadline)
        } else {
            ticks.current(now)
        };
        Schedule { deadline, tick }
    }

    /// Whether time may jump, and each thread may read another clock: if the clock can be paused.
    fn may_jump(&self) -> bool {
        self.clock().is_pausable()
    }

    /// C1 to C3, after an item was set to a tick, or items were taken out. Unlocks the part.
    #[inline]
    pub(super) fn finish(&self, part: LockedPart<'_, K, V>, set_to: Option<Tick>) {
        let index = part.index();
        let woken = if self.may_jump() {
            let earliest = part.earliest();
            let take_timer_away = || self.stream_timer().cancel_unawaited();
            self.waker.replace(index, earliest, part, take_timer_away)
        } else if let Some(tick) = set_to {
            let turn = part.turn_for(tick);
            self.waker.lower(index, turn, part)
        } else {
            return;
        };
        self.wake(woken);
    }

    /// C3: wakes the task that waits for the stream, if any. Call this under no lock.
    fn wake(&self, woken: Option<Waker>) {
        if let Some(waker) = woken {
            self.timer.reporter().wake(waker);
        }
    }

    /// Takes the permit of a new key. An error returns what was not inserted.
    pub(super) fn admit<T>(
        &self,
        lookup: &mut Lookup<'_, K, V>,
        inserted: T,
    ) -> Result<T, InsertError<T>> {
        let error = if self.is_closed() {
            InsertError::Closed
        } else if lookup.found.is_none() && !lookup.part.try_acquire() {
            InsertError::AtCapacity
        } else {
            return Ok(inserted);
        };
        self.timer.reporter().count_rejected_insert();
        Err(error(inserted))
    }

    /// Inserts a value by a look at `now`, in place of the one found under its key, which it
    /// returns. Call this after `admit`. Unlocks the part.
    #[inline]
    pub(super) fn insert(
        &self,
        lookup: Lookup<'_, K, V>,
        key: K,
        value: V,
        expiry: Expiry,
        now: Moment,
    ) -> Option<V> {
        let Lookup {
            mut part,
            hash,
            found,
        } = lookup;
        let latest_due = expiry.latest_due(now);
        let schedule = self.schedule_for(now, expiry.due(self.clock(), now).min(latest_due));
        let Some(index) = found else {
            part.insert(key, hash, value, schedule, latest_due);
            self.finish(part, Some(schedule.tick));
            return None;
        };
        part.replaced += 1;
        part.set(index, schedule);
        let item = part.items.at_mut(index);
        item.latest_due = latest_due;
        let replaced = mem::replace(&mut item.value, value);
        self.finish(part, Some(schedule.tick));
        drop(key);
        Some(replaced)
    }

    pub(super) fn take_all(&self, close: bool) -> Vec<(K, V, Duration)> {
        let mut is_changed = false;
        let taken = self.table.take_all(close, |part| {
            // With all parts locked, so that no thread sees an empty map whose permits are taken.
            part.release(part.len());
            is_changed |= self.waker.earliest.write(part.index(), Tick::NEVER) != Tick::NEVER;
            part.take_all()
        });
        let now = self.now();
        if is_changed {
            let take_timer_away = || self.stream_timer().cancel_unawaited();
            self.wake(self.waker.all_are_gone(take_timer_away));
        }
        if close {
            self.wake(self.waker.may_have_ended());
        }
        // After the locks, because there may be millions.
        let items = taken.into_iter().flatten();
        let with_time_left = |item: Item<K, V>| (item.key, item.value, item.deadline.since(now));
        items.map(with_time_left).collect()
    }

    /// Whether inserts are rejected. For a close the answer is exact while a part is locked,
    /// because a close locks all parts.
    pub(super) fn is_closed(&self) -> bool {
        self.table.is_closed() || self.timer.has_ended()
    }

    pub(super) fn try_acquire_stream(&self) -> bool {
        // Acquire: pairs with `release_stream`, and shows the state that its stream has left.
        !self.has_stream.swap(true, Ordering::AcqRel)
    }
}

impl<K, V> Inner<K, V> {
    /// Begins a poll, which may read another clock than the last one.
    pub(super) fn begin_search(&self, search: &mut Search) {
        if self.may_jump() {
            *search = Search::NEW;
        }
    }

    /// S2: takes out the first due item and the others of its tick in its part, at most `most` in
    /// all, and at most 64. It finds the first in at most [`BATCH`] steps. The clock is read only
    /// once nothing is left that was due before.
    pub(super) fn take_due(
        &self,
        search: &mut Search,
        most: usize,
        mut take: impl FnMut(Item<K, V>),
    ) -> Found<usize> {
        // Here, because no part is locked where nothing is due.
        self.table.check_reentry();
        let (most, mut budget, mut is_present) = (most.min(AT_ONCE), BATCH, false);
        loop {
            let found = self.take_due_by_search(search, most, &mut budget, &mut take);
            if is_present || found != Found::Nothing {
                return found;
            }
            (search.present, is_present) = (self.clock().current_tick(), true);
        }
    }

    /// Takes what is due by the search's reading of the clock. No part is searched beyond the
    /// earliest tick of another one.
    #[inline]
    fn take_due_by_search(
        &self,
        search: &mut Search,
        most: usize,
        budget: &mut usize,
        take: &mut impl FnMut(Item<K, V>),
    ) -> Found<usize> {
        loop {
            search.first = self.waker.earliest.first(search.present, search.first);
            let Some(First { part, up_to }) = search.first else {
                return Found::Nothing;
            };
            let Some(mut part) = self.table.lock_made(part) else {
                return Found::Nothing;
            };
            let (found, is_rest_of_tick) = part.take_due(up_to, most, budget, take);
            if let Found::Due(taken) = found {
                part.release(taken);
            }
            // With a rest of the tick, the written tick is at most too early, and finding the
            // earliest again costs more.
            if !is_rest_of_tick {
                search.first = None;
                if !self.may_jump() {
                    self.waker.earliest.write(part.index(), part.earliest());
                }
            }
            self.finish(part, None);
            if found != Found::Nothing {
                return found;
            }
        }
    }

    /// Whether the stream has ended. Register the waker first, or a wake-up may be lost.
    pub(super) fn is_finished(&self) -> bool {
        // Acquire: pairs with the drop of the last handle as `is_closed` does with a close, so that
        // the map below has every insert and removal of each handle.
        let nothing_comes = self.table.is_closed() || !self.has_handles.load(Ordering::Acquire);
        // No value is inserted any more, so an empty map stays empty.
        nothing_comes && self.table.is_empty()
    }

    /// S3 to S5: begins a check and sets the stream's timer. Ready with the tick that has come, if
    /// something may be due now, or `None` at the end of the runtime. Call this after the waker was
    /// registered.
    pub(super) fn poll_stream_timer(
        &self,
        watch: &mut Option<Watch>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Tick>> {
        let set = self.waker.wait(|earliest| {
            // Read after the ticks, so this is no earlier than the reading of a call that has set
            // one. The driver may be ahead where its clock is paused and this thread reads the
            // system's.
            let present = self.clock().current_tick().max(self.shard.turned_to());
            if earliest <= present {
                return Poll::Ready((earliest, EXPIRED));
            }
            self.set_stream_timer(earliest, watch, cx.waker())
                .map(|ended| (earliest, ended))
        });
        set.map(|(earliest, ended)| match ended {
            Ok(()) => Some(earliest),
            Err(Cancelled::SHUTDOWN) => None,
            // The timer was taken away.
            Err(_) => Some(Tick::FIRST),
        })
    }

    /// Sets the stream's timer to a tick that lies ahead. At the tick that never comes, the stream
    /// waits for the end of the runtime alone.
    fn set_stream_timer(
        &self,
        tick: Tick,
        watch: &mut Option<Watch>,
        waker: &Waker,
    ) -> Poll<Outcome> {
        let timer = self.stream_timer();
        if tick != Tick::NEVER {
            return timer.wait_until(tick, waker);
        }
        timer.cancel_unawaited();
        let watch = watch.get_or_insert_with(|| self.timer.watch());
        let end = watch.poll_end(waker);
        end.map(|()| Err(Cancelled::SHUTDOWN))
    }

    /// The stream has ended. Returns its waker, for the caller to drop.
    pub(super) fn stop_stream(&self) -> Option<Waker> {
        self.stream_timer().cancel_unawaited();
        self.waker.stop()
    }

    /// The stream goes. Call this last: from now on there may be another one.
    pub(super) fn release_stream(&self) {
        // No call wakes a stream that is gone.
        self.waker.stop_waiting();
        let waker = self.stop_stream();
        self.has_stream.store(false, Ordering::Release);
        // Last, because this is user code.
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::super::DelayMap;
    use super::*;
    use crate::lines::LINE;

    #[test]
    fn the_count_of_a_maps_clones_lies_on_no_line_that_a_call_reads() {
        assert!(align_of::<Inner<u64, u64>>() >= 2 * LINE);
    }

    /// Otherwise the stream would first search at their due, and move all at once.
    #[test]
    fn a_slot_that_values_crowd_wakes_the_stream_before_its_time() {
        const MS: Duration = Duration::from_millis(1);
        let runtime = crate::runtime::workers(1);
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, _stream) = DelayMap::new(&timer);
        for key in 0..20_000 {
            assert_eq!(map.insert(key, (), (30_000 + key % 1_000) * MS), Ok(None));
        }
        let earliest = map.inner.waker.earliest.of_all();
        assert!(earliest <= Tick::new(29_000), "{earliest:?}");
    }
}
