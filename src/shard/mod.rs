//! One shard of a timer: a wheel behind a lock, and the tick at which the driver next comes to it.
//! The states of a timer's entry, which change under the lock:
//!
//! ```text
//!   arm --> armed --(the driver finds it due)-------------> fired: the entry is gone, the key is
//!             |                                             stale, the waker is woken after the lock
//!             +-----(the future is dropped, is reset, ----> the entry is gone, or linked elsewhere
//!             |      or is polled after its deadline)
//!             +-----(the runtime has ended: close)--------> the entry is gone, its waker is woken;
//!                                                           the shard is closed for ever
//! ```
//!
//! Which thread may touch which field of a shard:
//!
//! | field | rule |
//! |---|---|
//! | `state`: the wheel and its counts | only with the lock |
//! | `next_expiry`, `after_next`, `turned_to` | any thread reads them; only a thread with the lock writes them ([`shard_tick`], [`turned_to`]) |
//! | a deadline's [`word`] | reads, resets and moves to later need no lock; all else does |
//! | `clock`, `driver`, `index` | never written |
//!
//! Invariants:
//!
//! - No user code runs under the lock. Wakers are cloned, woken and dropped outside it, and no key
//!   of a map comes here. So poison is ignored.
//! - A timer fires only once its due has come, and has left the wheel when the lock is released.
//! - The key of a timer that has fired or was disarmed finds no timer, never another one.

mod deadlines;
pub(crate) mod decision;
mod lateness;
mod lock;
mod locked;
pub(crate) mod shard_tick;
#[cfg(test)]
mod tests;
pub(crate) mod turned_to;
pub(crate) mod word;

use std::panic::RefUnwindSafe;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::clock::Clock;
use crate::clock::tick::{Moment, Tick};
use crate::error::Cancelled;
use crate::sync::{Mutex, lock};
use crate::wheel::{Found, Key, SlotCounts};
pub(crate) use deadlines::DeadlineRef;
pub(crate) use decision::Change;
use decision::Decision;
use lateness::FiredCounts;
use lock::LockHeld;
use locked::{Entry, Locked, ShardState};
pub(crate) use shard_tick::{ExpiryChange, ShardTick};
use turned_to::WakerId;
use word::{MapTag, Word};

/// On cache lines of its own, because each worker writes its own shard all the time.
#[repr(align(128))]
pub(crate) struct Shard {
    /// The wheel, and counts.
    state: Mutex<ShardState>,
    /// No timer of the wheel is due before this tick ([`shard_tick`]).
    next_expiry: ShardTick,
    /// How far the last turn came ([`turned_to`]).
    turned_to: ShardTick,
    /// As the last turn ended, the tick at which the wheel had work after the next expiry. A hint.
    after_next: ShardTick,
    /// The timer's, which its shards share.
    clock: Arc<Clock>,
    /// The timer's, which holds the shard weakly.
    driver: Arc<dyn TurnRequests>,
    /// Which of the timer's shards it is.
    index: usize,
}

/// The requests of a shard to its driver, made after the shard's lock.
pub(crate) trait TurnRequests: Send + Sync + RefUnwindSafe {
    /// Requests a turn for a lowered expiry, or a new alarm for a deferred one, after the change.
    /// `expiry` is the shard's, and may have changed once more.
    fn request_turn(&self, change: ExpiryChange, expiry: &ShardTick);

    fn wake(&self, waker: Waker);
}

/// Counts of a shard: totals, and the pending timers now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Timers that are armed now, from the wheel.
    pub(crate) pending: usize,
    /// Timers that were ever armed, from the wheel.
    pub(crate) armed: u64,
    /// Timers that fired, and how late.
    pub(crate) fired: FiredCounts,
    /// Deadlines that a stall gave a grace.
    pub(crate) spared: u64,
    /// Deadlines and sleeps that had been reset when their slot came.
    pub(crate) rescheduled: u64,
}

impl Shard {
    pub(crate) fn new(clock: Arc<Clock>, driver: Arc<dyn TurnRequests>, index: usize) -> Shard {
        Shard {
            state: Mutex::default(),
            next_expiry: ShardTick::new(Tick::NEVER),
            turned_to: ShardTick::new(Tick::FIRST),
            after_next: ShardTick::new(Tick::NEVER),
            clock,
            driver,
            index,
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Moves an armed timer, and keeps its waker. `false` if it has fired. If the wheel is
    /// past the new tick, it fires at once, where a timer of tokio's does.
    pub(crate) fn move_to(&self, key: Key, tick: Tick) -> bool {
        let mut locked = self.lock();
        if tick.get() > locked.state.wheel.now() {
            if !locked.relink(key, tick) {
                return false;
            }
            let (ShardState { wheel, .. }, held) = LockHeld::split(&mut locked.state);
            let entry = wheel.get_mut(key);
            if let Some(word) = entry.and_then(|entry| entry.word.as_ref()) {
                word.locked(held).set_due(|_| tick);
            }
            if !locked.unlock() {
                return true;
            }
            locked = self.lock();
        }
        if locked.unlink(key) {
            locked.state.counts.fired.count(Duration::ZERO);
            locked.unlock_and_wake();
        }
        false
    }

    /// Gives an armed timer a word with a later due, at which the turn will link it. `None` if it
    /// has fired.
    pub(crate) fn defer(&self, key: Key, due: Tick) -> Option<Arc<Word>> {
        // Made before the lock, and dropped after it if the timer is gone.
        let word = Arc::new(Word::new(due, Duration::ZERO, MapTag::default()));
        lock(&self.state).wheel.get_mut(key)?.word = Some(word.clone());
        Some(word)
    }

    /// The tick up to which the shard was turned, `Tick::NEVER` once it is closed. Timers armed for
    /// that tick or earlier have fired, or fire in the present turn.
    #[inline]
    pub(crate) fn turned_to(&self) -> Tick {
        self.turned_to.get()
    }

    /// Whether the driver has turned the shard to `tick`, which has begun then. `false` once the
    /// shard is closed.
    #[inline]
    pub(crate) fn has_turned_to(&self, tick: Tick) -> bool {
        let turned_to = self.turned_to();
        turned_to >= tick && turned_to != Tick::NEVER
    }

    /// Makes `waker` that of an armed timer, and returns its identity. `None` if it is not armed.
    pub(crate) fn register_waker(&self, key: Key, waker: &Waker) -> Option<WakerId> {
        self.register(waker, |locked| locked.state.wheel.get_mut(key))
    }

    /// Like `register_waker`, for the entry that `find` returns under the lock.
    fn register(
        &self,
        waker: &Waker,
        find: impl for<'a> Fn(&'a mut Locked<'_>) -> Option<&'a mut Entry>,
    ) -> Option<WakerId> {
        let mut clone = None;
        loop {
            let mut locked = self.lock();
            let Some(entry) = find(&mut locked) else {
                // If a timer was taken out, the task that polls is its own.
                locked.unlock();
                return None;
            };
            let current = entry.waker.as_ref();
            if current.is_some_and(|current| current.will_wake(waker)) {
                return Some(WakerId::of(waker));
            }
            if let Some(clone) = clone.take() {
                let registered = WakerId::of(&clone);
                let old = entry.waker.replace(clone);
                drop(locked);
                drop(old);
                return Some(registered);
            }
            // A deadline's first poll, or one by another task than before. Clone outside the lock,
            // and retry.
            drop(locked);
            clone = Some(waker.clone());
        }
    }

    pub(crate) fn wake(&self, waker: Waker) {
        self.driver.wake(waker);
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = lock(&self.state);
        Counts {
            pending: state.wheel.len(),
            armed: state.wheel.inserted(),
            ..state.counts
        }
    }

    pub(crate) fn slot_counts(&self) -> SlotCounts {
        let mut counts = SlotCounts::with_room();
        lock(&self.state).wheel.count_slots(&mut counts);
        counts
    }

    /// Notifies the driver of a change of the next expiry, under no lock. Returns `true` if tokio's
    /// time driver has already worked up to the tick of a timer that was linked.
    #[inline(always)] // Most often nothing has changed.
    fn notify_driver(&self, change: ExpiryChange, linked: Tick) -> bool {
        change != ExpiryChange::None && {
            self.driver.request_turn(change, &self.next_expiry);
            self.clock.has_missed(linked)
        }
    }
}

/// The most timers that a turn fires or cascades under one hold of the lock: some microseconds.
const BATCH: usize = 128;

/// For the driver.
impl Shard {
    pub(crate) fn next_expiry(&self) -> Tick {
        self.next_expiry.get()
    }

    /// A tick after the next expiry at which the driver may have work, too.
    pub(crate) fn after_next(&self) -> Tick {
        self.after_next.get()
    }

    /// How many timers are truly due by a tick. `None` if there are very many to look at.
    pub(crate) fn count_due(&self, tick: Tick) -> Option<usize> {
        /// Looking at as many takes some hundred microseconds.
        const MANY: usize = 8192;
        let state = lock(&self.state);
        let is_due = |due: u64, entry: &Entry| {
            let due = entry
                .word
                .as_ref()
                .map_or(Some(Tick::new(due)), |word| word.due());
            due.is_some_and(|due| due <= tick)
        };
        let (mut looked_at, mut count) = (0, 0);
        for (due, entry) in state.wheel.begun_by(tick.get()).take(MANY + 1) {
            looked_at += 1;
            count += usize::from(is_due(due, entry));
        }
        (looked_at <= MANY).then_some(count)
    }

    /// Fires at most a batch of the timers due at tick `now`, and pushes their wakers to `wakers`,
    /// to be woken at `wakes_at`. Returns `false` if there may be more to fire. A timer due before
    /// `late_since` was armed later, and is late since then at most.
    pub(crate) fn fire_batch(
        &self,
        now: Tick,
        wakes_at: Moment,
        late_since: Tick,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        wakers.reserve(BATCH);
        let tick = self.clock.tick();
        let mut state = lock(&self.state);
        let (ShardState { wheel, counts }, held) = LockHeld::split(&mut state);
        // Before a timer is taken out, as in `close`.
        self.turned_to.set(now, held);
        let mut budget = BATCH;
        let is_finished = loop {
            let index = match wheel.find_due(now.get(), &mut budget) {
                Found::Due(index) => index,
                found => break found == Found::Nothing,
            };
            let linked = Tick::new(wheel.due_at(index));
            // Decided in place, so nothing is copied for a timer that is truly due later.
            let entry = wheel.at_mut(index);
            let due = match &entry.word {
                None => linked,
                Some(word) => match self.decide(word.locked(held), wakes_at) {
                    Some(decision @ (Decision::Spare(later) | Decision::Reschedule(later))) => {
                        match decision {
                            Decision::Spare(_) => counts.spared += 1,
                            _ => counts.rescheduled += 1,
                        }
                        // Always later than this turn, or the turn would not end.
                        let later = later.get().max(wheel.now().saturating_add(1));
                        wheel.relink_at(index, later);
                        continue;
                    }
                    // A spared deadline is linked at the end of its grace.
                    Some(Decision::Fire(due)) => due.max(linked),
                    None => linked,
                },
            };
            let due = due.max(late_since);
            counts.fired.count(wakes_at.since(tick.start_of(due)));
            wakers.extend(entry.waker.take());
            drop(wheel.remove_at(index));
        };
        if is_finished {
            let next = self.earliest_in(wheel);
            let after = wheel.occupied_after(next.get());
            self.after_next
                .set(after.map_or(Tick::NEVER, Tick::new), held);
            self.next_expiry.set(next, held);
        }
        is_finished
    }

    /// Closes the shard for ever, after its runtime's end. Returns the wakers of pending timers.
    pub(crate) fn close(&self) -> Vec<Waker> {
        let end = self.clock.ended().unwrap_or(Moment::EPOCH);
        // A deadline that is due has expired, even if the driver did not come to it in time.
        let is_due = |due| due <= self.clock.tick().current(end);
        let mut state = lock(&self.state);
        let (ShardState { wheel, .. }, held) = LockHeld::split(&mut state);
        self.turned_to.set(Tick::NEVER, held);
        for word in wheel.values_mut().filter_map(|entry| entry.word.as_ref()) {
            let word = word.locked(held);
            if let Some(Decision::Reschedule(_)) = word.expire_if(is_due) {
                word.cancel(Cancelled::SHUTDOWN);
            }
        }
        let entries = wheel.take_all();
        drop(state);
        entries.filter_map(|entry| entry.waker).collect()
    }
}
