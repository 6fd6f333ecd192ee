//! The state that the handles of a [`DelayMap`](super::DelayMap) and its stream share, and their
//! handshake: how a change of the map makes the stream check in time.
//!
//! ```text
//!   a call that makes a change                  the stream
//!   --------------------------                  ----------
//!   C1  with the part locked: change the part   S1  stop waiting
//!       and write its earliest tick             S2  take the first of what is due (`take_due`)
//!   C2  with the part unlocked: ask whether     S3  register its waker, begin a check, read the
//!       the stream has to be woken                  earliest ticks: nothing is due, no end
//!   C3  wake it, under no lock                  S4  set its timer to the earliest tick, and say so
//!                                               S5  wait
//! ```
//!
//! Invariant: no wake-up is lost. Whenever the stream waits, and no call is between C1 and its last
//! step, the timer is set for the earliest tick or before, or the stream was woken.
//!
//! Where time may jump, the timer must not pull it along to an item that is gone. So there each
//! change writes the exact earliest tick of its part. If that is another tick than before, C2 takes
//! the timer away, and C3 lets the stream set it again, unless it waits for an earlier tick.
//!
//! No other lock is taken with a part locked.
//!
//! # Orders that could go wrong, and why they do not
//!
//! - *A change comes as the stream begins to wait.* C1 and C2 are the two steps of a change, and S3
//!   has those of a check. `clock::next_check` proves that one of the two sees the other.
//! - *A change finds that another one has written an earlier tick.* The earlier change wakes the
//!   stream for both.
//! - *The timer is taken away as the stream sets it.* The call finds that the stream does not check
//!   by itself, and wakes it.
//! - *The map is closed, or loses its last handle, as the stream begins to wait.* The call sets the
//!   state and then takes the waker. The stream registers its waker and then reads the state (S3).
//!   The waker's lock orders the two, so the stream sees the state or is woken.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::earliest::{Earliest, First};
use super::expiry::Expiry;
use super::part::{DelayPart, Item, Setting};
use super::stream_waker::StreamWaker;
use crate::clock::Clock;
use crate::clock::tick::{Moment, Tick};
use crate::driver::Watch;
use crate::error::{Cancelled, InsertError};
use crate::keyed::table::{PartGuard, Reentry, Table};
use crate::shard::word::{EXPIRED, MapTag, Word};
use crate::shard::{DeadlineRef, Shard};
use crate::timer::Timer;
use crate::wheel::Found;

pub(super) struct Inner<K, V> {
    pub(super) timer: Timer,
    /// The shard of the stream's timer; its clock is the map's.
    shard: Arc<Shard>,
    pub(super) table: Table<DelayPart<K, V>>,
    earliest: Earliest,
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
        self.0.wake_stream();
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

/// The locked part of a key's hash, and the index of its item there, if any.
pub(super) struct Place<'a, K, V> {
    pub(super) part: LockedPart<'a, K, V>,
    pub(super) hash: u32,
    pub(super) found: Option<u32>,
}

impl<K, V> Place<'_, K, V> {
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
    pub(super) fn new(timer: &Timer, limit: usize) -> Inner<K, V> {
        let shard = timer.shard().clone();
        let table = Table::new(limit, DelayPart::new);
        let inner = Inner {
            stream_timer: Arc::new(Word::new(Tick::FIRST, Duration::ZERO, MapTag::default())),
            timer: timer.clone(),
            earliest: Earliest::new(table.parts()),
            shard,
            table,
            has_handles: AtomicBool::new(true),
            has_stream: AtomicBool::new(false),
            waker: StreamWaker::new(),
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

    pub(super) fn setting(&self, now: Moment, deadline: Moment) -> Setting {
        let ticks = self.clock().tick();
        // A due item waits for no tick to begin.
        let tick = if deadline > now {
            ticks.due(deadline)
        } else {
            ticks.current(now)
        };
        Setting { deadline, tick }
    }

    /// Whether time may jump, and each thread may read another clock: if the clock can be paused.
    fn may_jump(&self) -> bool {
        self.clock().is_pausable()
    }

    /// The end of C1, and C2 and C3, after an item was set to a tick, or items were taken out.
    /// Unlocks the part.
    pub(super) fn finish(&self, part: LockedPart<'_, K, V>, set_to: Option<Tick>) {
        if self.may_jump() {
            let earliest = part.earliest();
            let before = self.earliest.write(part.index(), earliest);
            drop(part);
            let needs_wake_for = |tick| self.waker.is_needed_for(tick);
            let sooner = earliest.min(before).before().unwrap_or(Tick::FIRST);
            let waits_for_other = !needs_wake_for(sooner) && needs_wake_for(Tick::FIRST);
            if earliest != before && !waits_for_other {
                self.stream_timer().cancel_unawaited();
                // A stream that checks by itself sets another one, or needs none.
                self.wake_stream_for(Tick::FIRST);
            }
            return;
        }
        // An earlier tick may have been too early, and stays. That costs one check; finding the
        // earliest again would cost more each time.
        let Some(tick) = set_to else {
            return;
        };
        let turn = part.turn_for(tick);
        let is_earlier = self.earliest.lower(part.index(), turn);
        drop(part);
        // If it is not earlier, the call that wrote the earlier one wakes the stream, for both.
        if is_earlier {
            self.wake_stream_for(turn);
        }
    }

    /// C2 and C3: wakes the stream if it waits beyond this tick.
    fn wake_stream_for(&self, tick: Tick) {
        if self.waker.is_needed_for(tick) {
            self.wake_stream();
        }
    }

    /// C3: wakes the task that waits for the stream, if any. Call this under no lock.
    fn wake_stream(&self) {
        if let Some(waker) = self.waker.take() {
            self.timer.reporter().wake(waker);
        }
    }

    /// Takes the permit of a new key. An error returns what was not inserted.
    pub(super) fn admit<T>(
        &self,
        place: &mut Place<'_, K, V>,
        inserted: T,
    ) -> Result<T, InsertError<T>> {
        let error = if self.is_closed() {
            InsertError::Closed
        } else if place.found.is_none() && !place.part.try_acquire() {
            InsertError::AtCapacity
        } else {
            return Ok(inserted);
        };
        self.timer.reporter().count_rejected_insert();
        Err(error(inserted))
    }

    /// Inserts a value by a look at `now`, in place of the one found under its key, which it
    /// returns. Call this after `admit`. Unlocks the part.
    pub(super) fn insert(
        &self,
        place: Place<'_, K, V>,
        key: K,
        value: V,
        expiry: Expiry,
        now: Moment,
    ) -> Option<V> {
        let Place {
            mut part,
            hash,
            found,
        } = place;
        let end = expiry.end_of_life(now);
        let setting = self.setting(now, expiry.due(self.clock(), now).min(end));
        part.inserted += 1;
        let Some(index) = found else {
            part.insert(key, hash, value, setting, end);
            self.finish(part, Some(setting.tick));
            return None;
        };
        part.set(index, setting);
        let item = part.items.at_mut(index);
        item.end = end;
        let replaced = mem::replace(&mut item.value, value);
        self.finish(part, Some(setting.tick));
        drop(key);
        Some(replaced)
    }

    pub(super) fn take_all(&self, close: bool) -> Vec<(K, V, Duration)> {
        let mut is_changed = false;
        let taken = self.table.take_all(close, |part| {
            // With all parts locked, so that no thread sees an empty map whose permits are taken.
            part.release(part.len());
            is_changed |= self.earliest.write(part.index(), Tick::NEVER) != Tick::NEVER;
            part.take_all()
        });
        let now = self.now();
        if is_changed {
            self.stream_timer().cancel_unawaited();
        }
        if close || is_changed && self.waker.is_needed_for(Tick::FIRST) {
            self.wake_stream();
        }
        // After the locks, because there may be millions.
        let items = taken.into_iter().flatten();
        let with_time_left = |item: Item<K, V>| (item.key, item.value, item.deadline.since(now));
        items.map(with_time_left).collect()
    }

    /// Whether inserts are rejected. Exact while a part is locked, because a close locks all parts.
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

    /// S2: takes out the first due item, and the due ones after it in its part, at most `most` in
    /// all. It finds the first in at most [`BATCH`] steps. No part is searched beyond the earliest
    /// tick of another one. The clock is read only once nothing is left that was due before.
    pub(super) fn take_due(
        &self,
        search: &mut Search,
        most: usize,
        mut take: impl FnMut(Item<K, V>),
    ) -> Found<usize> {
        // Here, because no part is locked where nothing is due.
        Reentry::check(&self.table);
        let (mut budget, mut is_present) = (BATCH, false);
        loop {
            search.first = self.earliest.first(search.present, search.first);
            let Some(First { part, limit }) = search.first else {
                if is_present {
                    return Found::Nothing;
                }
                (search.present, is_present) = (self.clock().current_tick(), true);
                continue;
            };
            let Some(mut part) = self.table.lock_made(part) else {
                return Found::Nothing;
            };
            let mut taken = 0;
            // Whether the part has another item of the tick of the last one taken. Then the written
            // tick is at most too early, and finding the earliest again costs more.
            let mut has_more = false;
            let found = loop {
                let found = part.items.find_due(limit.get(), &mut budget);
                let Found::Due(index) = found else {
                    break found;
                };
                has_more = !part.items.is_last_at(index);
                take(part.remove(index));
                taken += 1;
                if taken == most.min(AT_ONCE) || !has_more {
                    break found;
                }
            };
            part.release(taken);
            part.expired += taken as u64;
            if !has_more {
                search.first = None;
                if !self.may_jump() {
                    self.earliest.write(part.index(), part.earliest());
                }
            }
            self.finish(part, None);
            if taken > 0 {
                return Found::Due(taken);
            }
            if found == Found::Unfinished {
                return Found::Unfinished;
            }
        }
    }

    /// Whether no value will come any more. To lose no wake-up, register the waker first.
    #[allow(clippy::len_zero)] // `is_empty` locks all parts.
    pub(super) fn is_finished(&self) -> bool {
        // Acquire: pairs with the drop of the last handle as `is_closed` does with a close, so that
        // the sum below counts every insert and removal of each handle.
        let nothing_comes = self.table.is_closed() || !self.has_handles.load(Ordering::Acquire);
        // No value is inserted any more, so a sum of zero stays zero.
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
        let earliest = self.waker.next_check.begin(|| self.earliest.of_all());
        // Read after the ticks, so this is no earlier than the reading of a call that has set one.
        // The driver may be ahead where its clock is paused and this thread reads the system's.
        let present = self.clock().current_tick().max(self.shard.turned_to());
        let timer = self.stream_timer();
        let set = if earliest <= present {
            Poll::Ready(EXPIRED)
        } else if earliest != Tick::NEVER {
            timer.wait_until(earliest, cx.waker())
        } else {
            timer.cancel_unawaited();
            let watch = watch.get_or_insert_with(|| self.timer.watch());
            let end = watch.poll_end(cx.waker());
            end.map(|()| Err(Cancelled::SHUTDOWN))
        };
        if set.is_pending() {
            self.waker.next_check.at(earliest);
        }
        set.map(|ended| match ended {
            Ok(()) => Some(earliest),
            Err(Cancelled::SHUTDOWN) => None,
            // The timer was taken away.
            Err(_) => Some(Tick::FIRST),
        })
    }

    /// The stream has ended. Returns its waker, for the caller to drop.
    pub(super) fn stop_stream(&self) -> Option<Waker> {
        self.stream_timer().cancel_unawaited();
        self.waker.take()
    }

    /// The stream goes. Call this last: from now on there may be another one.
    pub(super) fn release_stream(&self) {
        // No call wakes a stream that is gone.
        self.waker.next_check.at(Tick::FIRST);
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
        let earliest = map.inner.earliest.of_all();
        assert!(earliest <= Tick::new(29_000), "{earliest:?}");
    }
}
