//! One shard of a timer: a wheel behind a lock, and the driver's plan for it.
//!
//! States of a timer's entry and who moves it, always under the shard's lock:
//!
//! ```text
//!   arm ------> armed --(driver: due)--> fired: entry gone, key stale, waker to be woken outside the lock
//!                 |  \--(future: polled after its deadline, dropped, reset)--> entry gone or linked elsewhere
//!                 \---(runtime gone: close)--> entry gone, waker woken; the shard is closed for ever
//! ```
//!
//! Invariants:
//!
//! - No user code runs under the lock. A waker is cloned before it is taken, and woken or dropped
//!   after it was let go; a key of a map never comes here. Hence a poisoned lock tells nothing, and
//!   poison is ignored.
//! - Whoever changes the wheel keeps the plan right (see `plan`).

pub(crate) mod deadline_state;
mod deadlines;
mod plan;
mod readings;
mod spare;
mod starts;
mod turn;
pub(crate) mod word;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::runtime;

use crate::driver::Driver;
use crate::shard::word::Word;
use crate::time::clock::Clock;
use crate::time::due::Due;
use crate::time::tick::Moment;
use crate::waking::wake;
use crate::wheel::{Key, SlotCounts, Wheel};

pub(crate) use deadlines::{Afterwards, Told};
use plan::Change;
pub(crate) use plan::NEVER;
pub(crate) use readings::Readings;
pub(crate) use spare::{Hold, TimerNumber, of_this_thread};
pub(crate) use turn::{BATCH, ShardTurned};

/// On cache lines of its own: each worker writes its own shard all the time.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
    plan: AtomicU64,
    clock: Arc<Clock>,
    driver: Arc<Driver>,
    readings: Readings,
    place: Place,
    /// No `Timer` leads to the shard any more, or its driver has ended. So no thread keeps it to
    /// lend it.
    retired: AtomicBool,
}

/// Which shard a shard is, and whose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) timer: TimerNumber,
    pub(crate) number: usize,
    /// How many shards the timer has, a power of two.
    pub(crate) of: usize,
    /// The runtime whose own timer that is.
    pub(crate) own_timer_of: Option<runtime::Id>,
}

impl Place {
    /// Whether a thread of that number keeps to the shard at this place.
    #[inline]
    fn is_of(self, thread: usize) -> bool {
        thread & (self.of - 1) == self.number
    }
}

struct State {
    wheel: Wheel<Entry>,
    /// When the runtime went. Since then the wheel is empty and nothing is armed.
    closed: Option<Moment>,
    fired: u64,
}

/// What a timer needs when its slot comes.
struct Entry {
    waker: Option<Waker>,
    due: TrueDue,
}

impl Entry {
    const BLANK: Entry = Entry {
        waker: None,
        due: TrueDue::Linked,
    };
}

/// What says when a timer is truly due.
enum TrueDue {
    /// The tick that it is linked at.
    Linked,
    /// That, and by how much the window of this stamp ended late.
    Stamped(u64),
    /// The word of its deadline.
    Word(Arc<Word>),
}

/// Why a timer was not armed.
#[derive(Debug)]
pub(crate) enum NotArmed {
    /// The runtime that drives the shard has gone.
    Closed,
    /// The tick that it is due at was turned already.
    Fired,
}

/// What came of moving an armed timer.
#[derive(Debug)]
pub(crate) enum Moved {
    /// It is still armed.
    Pending,
    /// It had fired before.
    HadFired,
    /// It has fired now.
    Fires,
}

/// What a poll finds of an armed timer.
#[derive(Debug)]
pub(crate) enum Polled {
    Fired,
    Pending,
    Closed,
}

/// What a shard has done so far and holds now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pending: usize,
    pub(crate) armed: u64,
    pub(crate) fired: u64,
}

impl Shard {
    pub(crate) fn new(
        slots: usize,
        clock: Arc<Clock>,
        driver: Arc<Driver>,
        readings: Readings,
        place: Place,
    ) -> Shard {
        let state = State {
            wheel: Wheel::with_slots(slots),
            closed: None,
            fired: 0,
        };
        Shard {
            state: Mutex::new(state),
            plan: AtomicU64::new(NEVER),
            clock,
            driver,
            readings,
            place,
            retired: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Which of its timer's shards it is.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.place.number
    }

    /// Has no thread keep or lend the shard as its spare any more.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Arms a timer that wakes `waker` when it is due. One whose tick was turned already, or up to
    /// which tokio's time driver has worked, has fired: then nothing is armed. (What counts from a
    /// stamp may be due later than it is placed: a turn judges it.)
    pub(crate) fn arm(&self, due: Due, waker: Waker) -> Result<Key, NotArmed> {
        self.insert(due.placed(self.clock.tick()), TrueDue::from(due), waker)
    }

    /// Arms a timer that wakes `waker` only when the shard closes, unless it is moved.
    pub(crate) fn arm_for_never(&self, waker: Waker) -> Result<Key, NotArmed> {
        self.insert(NEVER, TrueDue::Linked, waker)
    }

    fn insert(&self, tick: u64, due: TrueDue, waker: Waker) -> Result<Key, NotArmed> {
        let is_exact = matches!(due, TrueDue::Linked);
        let mut state = self.lock();
        if state.closed.is_some() || is_exact && tick <= state.wheel.now() {
            let is_closed = state.closed.is_some();
            // The waker was made before the lock and must go after it.
            drop(state);
            drop(waker);
            return Err(if is_closed {
                NotArmed::Closed
            } else {
                NotArmed::Fired
            });
        }
        let key = state.link(tick, due, Some(waker));
        let change = self.plan_for(tick);
        drop(state);
        if self.tell(change) && is_exact {
            self.disarm(key);
            return Err(NotArmed::Fired);
        }
        Ok(key)
    }

    /// Takes a timer out if it has not fired.
    pub(crate) fn disarm(&self, key: Key) {
        let mut entry = Entry::BLANK;
        self.take_out(key, false, &mut entry);
        // The waker is dropped here, after the lock.
    }

    /// Moves an armed timer; its waker stays. One that is moved to a tick that was turned already,
    /// or up to which tokio's time driver has worked, fires here and now, as tokio's do.
    pub(crate) fn move_to(&self, key: Key, due: Due) -> Moved {
        let tick = due.placed(self.clock.tick());
        let is_exact = matches!(due, Due::At(_));
        let state = self.lock();
        if is_exact && tick <= state.wheel.now() {
            drop(state);
            return self.fire(key);
        }
        match self.relink_as(state, key, tick, TrueDue::from(due)) {
            None => Moved::HadFired,
            Some(change) if self.tell(change) && is_exact => self.fire(key),
            Some(_) => Moved::Pending,
        }
    }

    /// Moves an armed timer to a tick, in the past too. `false` if it has fired.
    pub(crate) fn move_to_tick(&self, key: Key, tick: u64) -> bool {
        let change = self.relink_as(self.lock(), key, tick, TrueDue::Linked);
        change.map(|change| self.tell(change)).is_some()
    }

    fn relink_as(
        &self,
        mut state: MutexGuard<'_, State>,
        key: Key,
        tick: u64,
        due: TrueDue,
    ) -> Option<Change> {
        state.wheel.get_mut(key)?.due = due;
        Some(self.relink(&mut state, key, tick))
    }

    /// Takes a timer out as one that has fired, and wakes its waker.
    fn fire(&self, key: Key) -> Moved {
        let mut entry = Entry::BLANK;
        if !self.take_out(key, true, &mut entry) {
            return Moved::HadFired;
        }
        if let Some(waker) = entry.waker {
            wake(waker);
        }
        Moved::Fires
    }

    /// Takes a timer out, if it is still there, and gives what was in it in place of a blank entry:
    /// to be dropped after the lock.
    #[inline(always)] // Into its two callers: one of them is half of arming and disarming.
    fn take_out(&self, key: Key, as_fired: bool, entry: &mut Entry) -> bool {
        let mut state = self.lock();
        let left = state.wheel.swap_out(key, entry);
        let Some(left) = left else { return false };
        state.fired += u64::from(as_fired);
        let change = self.plan_without(&state, left);
        drop(state);
        self.tell(change);
        true
    }

    /// Whether an armed timer has fired.
    pub(crate) fn has_fired(&self, key: Key) -> bool {
        let mut state = self.lock();
        state.closed.is_none() && state.wheel.get_mut(key).is_none()
    }

    /// Whether `due` lies before the plan: then nobody has come by for it.
    #[inline]
    pub(crate) fn is_unplanned(&self, due: Due) -> bool {
        due.placed(self.clock.tick()) < self.plan.load(Ordering::Relaxed)
    }

    /// Whether a timer that was armed for `due` has fired, as far as that can be told without the
    /// lock: nothing that is due before the plan is in the wheel. One that counts from a stamp may
    /// be linked later than it was placed.
    pub(crate) fn has_surely_fired(&self, due: Due) -> bool {
        let is_exact = matches!(due, Due::At(_));
        is_exact && due.placed(self.clock.tick()) < self.plan.load(Ordering::SeqCst)
    }

    /// Has a timer that was armed for `due` wake `waker` from now on, if it is still armed.
    pub(crate) fn poll_armed(&self, key: Key, due: Due, waker: &Waker) -> Polled {
        let registered = self.register(waker, |state| match state.closed {
            Some(at) if !self.clock.has_passed(due, at) => Err(Polled::Closed),
            _ => state.wheel.get_mut(key).ok_or(Polled::Fired),
        });
        registered.err().unwrap_or(Polled::Pending)
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = self.lock();
        Counts {
            pending: state.wheel.len(),
            armed: state.wheel.inserted(),
            fired: state.fired,
        }
    }

    pub(crate) fn slot_counts(&self) -> SlotCounts {
        self.lock().wheel.slot_counts()
    }
}

impl Shard {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the entry that `find` finds under the lock wake `waker`. What `find` gives in place of
    /// an entry is dropped or used after the lock.
    fn register<R>(
        &self,
        waker: &Waker,
        find: impl for<'a> Fn(&'a mut State) -> Result<&'a mut Entry, R>,
    ) -> Result<(), R> {
        let mut clone = None;
        loop {
            let mut state = self.lock();
            let entry = match find(&mut state) {
                Ok(entry) => entry,
                Err(instead) => {
                    drop(state);
                    return Err(instead);
                }
            };
            if entry
                .waker
                .as_ref()
                .is_some_and(|current| current.will_wake(waker))
            {
                return Ok(());
            }
            if let Some(clone) = clone.take() {
                let old = entry.waker.replace(clone);
                drop(state);
                drop(old);
                return Ok(());
            }
            // Another task polls than before. That is rare, so it goes round once more to clone
            // outside the lock.
            drop(state);
            clone = Some(waker.clone());
        }
    }

    /// Links a timer at another due.
    fn relink(&self, state: &mut State, key: Key, due: u64) -> Change {
        match state.wheel.relink(key, due) {
            Some(left) => self.plan_for(due).or(self.plan_without(state, left)),
            None => Change::None,
        }
    }
}

impl State {
    /// Puts a timer into the wheel.
    #[inline]
    fn link(&mut self, tick: u64, due: TrueDue, waker: Option<Waker>) -> Key {
        // A blank entry is a constant, and what it gets then is written to where it stays.
        let (key, entry) = self.wheel.insert_mut(tick, Entry::BLANK);
        *entry = Entry { waker, due };
        key
    }
}

impl From<Due> for TrueDue {
    fn from(due: Due) -> TrueDue {
        match due {
            Due::At(_) => TrueDue::Linked,
            Due::Stamped(due) => TrueDue::Stamped(due.stamp),
        }
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { pending, .. } = self.counts();
        f.debug_struct("Shard")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}
