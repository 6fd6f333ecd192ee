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
//! - No user code runs under the lock. A waker is cloned before it is taken, and woken or dropped after it was let
//!   go; a key of a map never comes here. Hence a poisoned lock tells nothing, and poison is ignored.
//! - Whoever changes the wheel keeps the plan right (see `plan`).

mod deadlines;
mod hold;
mod plan;
mod readings;
mod starts;
mod turn;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::runtime;

use crate::clock::Clock;
use crate::due::Due;
use crate::signal::Signal;
use crate::tick::Moment;
use crate::wheel::{Key, SlotCounts, Wheel};
use crate::word::Word;

pub(crate) use deadlines::Afterwards;
pub(crate) use hold::{Hold, of_this_thread, retire};
pub(crate) use plan::NEVER;
pub(crate) use readings::Readings;
pub(crate) use turn::{BATCH, ShardTurned};

/// On cache lines of its own: each worker writes its own shard all the time.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
    plan: AtomicU64,
    clock: Arc<Clock>,
    signal: Arc<Signal>,
    readings: Readings,
    place: Place,
    /// No `Timer` leads to the shard any more, or its driver has ended.
    retired: AtomicBool,
}

/// Which shard a shard is, and whose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
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

/// The runtime that drives the shard has gone.
#[derive(Debug)]
pub(crate) struct Closed;

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
        signal: Arc<Signal>,
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
            signal,
            readings,
            place,
            retired: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether the shard is not needed any more: no timer is armed, and nobody is left who could arm one.
    pub(crate) fn is_abandoned(self: &Arc<Self>) -> bool {
        // What came before the retiring, all lending above all, comes before what is read then.
        self.retired.load(Ordering::Acquire) && hold::is_abandoned(self)
    }

    /// Has no thread keep or lend the shard as its spare any more.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    #[inline]
    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Arms a timer that wakes `waker` when it is due.
    pub(crate) fn arm(&self, due: Due, waker: Waker) -> Result<Key, Closed> {
        self.insert(due.placed(self.clock.tick()), TrueDue::from(due), waker)
    }

    /// Arms a timer that wakes `waker` at a tick; at `NEVER`, only when the shard closes.
    pub(crate) fn arm_at(&self, tick: u64, waker: Waker) -> Result<Key, Closed> {
        self.insert(tick, TrueDue::Linked, waker)
    }

    fn insert(&self, tick: u64, due: TrueDue, waker: Waker) -> Result<Key, Closed> {
        let mut state = self.lock();
        if state.closed.is_some() {
            // The waker was made before the lock and must go after it.
            drop(state);
            drop(waker);
            return Err(Closed);
        }
        let key = state.link(tick, due, Some(waker));
        let earlier = self.plan_for(tick);
        drop(state);
        if earlier {
            self.wake_resting_driver();
        }
        Ok(key)
    }

    /// Takes a timer out if it has not fired.
    pub(crate) fn disarm(&self, key: Key) {
        let mut state = self.lock();
        let mut entry = Entry::BLANK;
        let left = state.wheel.swap_out(key, &mut entry);
        let stale = left.is_some_and(|left| self.plan_without(&state, left));
        drop(state);
        if stale {
            self.wake_resting_driver();
        }
        // The waker is dropped after the lock.
        drop(entry);
    }

    /// Moves an armed timer; its waker stays. `false` if it has fired.
    pub(crate) fn move_to(&self, key: Key, due: Due) -> bool {
        self.relink_as(key, due.placed(self.clock.tick()), TrueDue::from(due))
    }

    /// Moves an armed timer to a tick, as `move_to`.
    pub(crate) fn move_to_tick(&self, key: Key, tick: u64) -> bool {
        self.relink_as(key, tick, TrueDue::Linked)
    }

    fn relink_as(&self, key: Key, tick: u64, due: TrueDue) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.wheel.get_mut(key) else {
            return false;
        };
        entry.due = due;
        let changed = self.relink(&mut state, key, tick);
        drop(state);
        if changed {
            self.wake_resting_driver();
        }
        true
    }

    /// Whether a timer that was armed for `due` has fired, as far as that can be told without the lock: nothing that is due
    /// before the plan is in the wheel. One that counts from a stamp may be linked later than it was placed.
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

    /// Has the entry that `find` finds under the lock wake `waker`. What `find` gives in place of an entry is
    /// dropped or used after the lock.
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
            // Another task polls than before. That is rare, so it goes round once more to clone outside the lock.
            drop(state);
            clone = Some(waker.clone());
        }
    }

    /// Links a timer at another due; says whether the driver must be woken.
    fn relink(&self, state: &mut State, key: Key, due: u64) -> bool {
        let Some(left) = state.wheel.relink(key, due) else {
            return false;
        };
        self.plan_for(due) || self.plan_without(state, left)
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

impl Drop for Shard {
    /// No timer and no future holds the shard any more: the driver has one thing less to drive.
    fn drop(&mut self) {
        self.signal.wake_driver();
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
