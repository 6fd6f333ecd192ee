//! A shard whose lock is held. What links or unlinks a timer goes through here, and so keeps the
//! [next expiry](super::next_expiry) right. What must follow the lock waits in the [`Locked`] until
//! that is unlocked: the driver is notified, and a task is woken.
//!
//! Invariant: no user code runs before that. The waker of an unlinked entry is dropped or woken
//! after the lock.

use std::sync::Arc;
use std::task::Waker;

use super::lock::{LockHeld, ShardGuard};
use super::next_expiry::{ExpiryChange, LAST_TICK};
use super::word::{LockedWord, Word};
use super::{Counts, NotArmed, Shard};
use crate::clock::tick::Tick;
use crate::wheel::{Key, Wheel};

/// The state that the lock of a shard guards.
#[derive(Default)]
pub(super) struct ShardState {
    pub(super) wheel: Wheel<Entry>,
    /// All but what the wheel counts.
    pub(super) counts: Counts,
}

/// The entry of a timer, as its slot needs it.
pub(super) struct Entry {
    pub(super) waker: Option<Waker>,
    /// Says when a deadline's timer is truly due. Any other is due at the tick at which it is
    /// linked.
    pub(super) word: Option<Arc<Word>>,
}

/// A shard whose lock is held.
pub(super) struct Locked<'a> {
    pub(super) shard: &'a Shard,
    pub(super) state: ShardGuard<'a, ShardState>,
    change: ExpiryChange,
    /// The tick of the timer that was linked, if any.
    linked: Tick,
    /// The waker of what was unlinked, if anything.
    waker: Option<Waker>,
}

/// Half of all calls arm or disarm a timer and do nothing else. They go without a [`Locked`], which
/// the compiler would keep in memory, because it has something to drop if a panic comes.
impl Shard {
    /// Arms a timer that wakes `waker` at `tick`. If that has passed for the wheel or for tokio's
    /// time driver, the timer has fired, and nothing is armed.
    pub(crate) fn arm(&self, tick: Tick, waker: Waker) -> Result<Key, NotArmed> {
        let mut state = self.state.lock();
        // The clock says so before the shard is closed: what is armed meanwhile is taken out by
        // that.
        let is_closed = self.clock.has_ended();
        if is_closed || tick.get() <= state.wheel.now() {
            drop(state);
            drop(waker);
            return Err(if is_closed {
                NotArmed::Closed
            } else {
                NotArmed::Fired
            });
        }
        let key = link(&mut state.wheel, tick, None, Some(waker));
        let turn = turn_for(&state.wheel, tick);
        let change = self.next_expiry.lower_to(turn, state.held());
        drop(state);
        if self.notify_driver(change, tick) {
            self.disarm(key);
            return Err(NotArmed::Fired);
        }
        Ok(key)
    }

    /// Takes a timer out if it has not fired.
    #[inline(never)] // Its callers are short, and the compiler inlines what has one caller.
    pub(crate) fn disarm(&self, key: Key) {
        let mut state = self.state.lock();
        let Some(waker) = state.wheel.disarm(key, Entry::empty) else {
            return;
        };
        let change = self.read_again(&state.wheel, state.held());
        drop(state);
        self.notify_driver(change, Tick::NEVER);
        drop(waker);
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            shard: self,
            state: self.state.lock(),
            change: ExpiryChange::None,
            linked: Tick::NEVER,
            waker: None,
        }
    }

    /// Reads the next expiry again after a timer was unlinked. On the system's clock it may stay
    /// too early, for one empty turn. Virtual time would run to that turn.
    #[inline]
    fn read_again(&self, wheel: &Wheel<Entry>, held: LockHeld<'_>) -> ExpiryChange {
        if self.clock.is_pausable() {
            self.next_expiry.defer_to(earliest_in(wheel), held)
        } else {
            ExpiryChange::None
        }
    }
}

/// The tick by which the driver is to come for a timer that was linked at `tick`: before that if a
/// slot has become crowded.
#[inline]
fn turn_for(wheel: &Wheel<Entry>, tick: Tick) -> Tick {
    Tick::new(wheel.turn_for(tick.get()))
}

/// The tick at which the driver is to come next.
pub(super) fn earliest_in(wheel: &Wheel<Entry>) -> Tick {
    // A timer that is linked at `NEVER` lies in a slot of its own, which no moment comes near.
    let earliest = wheel.next_turn().map(Tick::new);
    let earliest = earliest.filter(|&tick| tick <= LAST_TICK);
    earliest.unwrap_or(Tick::NEVER)
}

impl Locked<'_> {
    /// Lets the lock go, notifies the driver, and drops the waker of what was unlinked. `true` if
    /// tokio's time driver has already worked up to the tick of what was linked.
    #[inline(always)]
    pub(super) fn unlock(self) -> bool {
        drop(self.state);
        self.shard.notify_driver(self.change, self.linked)
    }

    /// Lets the lock go, notifies the driver, and wakes the task that waited for what was unlinked.
    pub(super) fn unlock_and_wake(self) {
        drop(self.state);
        self.shard.notify_driver(self.change, self.linked);
        if let Some(waker) = self.waker {
            self.shard.driver.wake(waker);
        }
    }

    /// A deadline's word, for what needs the lock.
    #[inline]
    pub(super) fn word<'b>(&'b self, word: &'b Word) -> LockedWord<'b> {
        word.locked(self.state.held())
    }

    /// Links a new timer of a deadline.
    #[inline]
    pub(super) fn link(&mut self, tick: Tick, word: &Arc<Word>) -> Key {
        let key = link(&mut self.state.wheel, tick, Some(word.clone()), None);
        let turn = turn_for(&self.state.wheel, tick);
        self.change = self.shard.next_expiry.lower_to(turn, self.state.held());
        self.linked = tick;
        key
    }

    /// Links a timer at another tick; `false` if it has fired.
    pub(super) fn relink(&mut self, key: Key, tick: Tick) -> bool {
        if !self.state.wheel.relink(key, tick.get()) {
            return false;
        }
        let (shard, held) = (self.shard, self.state.held());
        let turn = turn_for(&self.state.wheel, tick);
        let lowered = shard.next_expiry.lower_to(turn, held);
        // The driver must learn of an earlier expiry, whatever else changed.
        self.change = match lowered {
            ExpiryChange::None => shard.read_again(&self.state.wheel, held),
            _ => lowered,
        };
        self.linked = tick;
        true
    }

    /// Takes a timer out, at most one for each hold of the lock. `false` if it has fired.
    #[inline(never)] // `disarm` is the hot one.
    pub(super) fn unlink(&mut self, key: Key) -> bool {
        let Some(waker) = self.state.wheel.disarm(key, Entry::empty) else {
            return false;
        };
        debug_assert!(self.waker.is_none(), "it would be dropped under the lock");
        self.waker = waker;
        let state = &self.state;
        self.change = self.shard.read_again(&state.wheel, state.held());
        true
    }
}

impl Entry {
    /// It needs no drop.
    const BLANK: Entry = Entry {
        waker: None,
        word: None,
    };

    /// Leaves nothing in the entry, and returns its waker.
    #[inline]
    fn empty(&mut self) -> Option<Waker> {
        // The word has other owners, so this frees nothing under the lock.
        self.word = None;
        self.waker.take()
    }
}

/// Links a new timer.
#[inline(always)]
fn link(
    wheel: &mut Wheel<Entry>,
    tick: Tick,
    word: Option<Arc<Word>>,
    waker: Option<Waker>,
) -> Key {
    // A blank entry is a constant. Its fields are written later, where it stays.
    let (key, entry) = wheel.arm(tick.get(), || Entry::BLANK);
    std::mem::forget(std::mem::replace(&mut entry.word, word));
    std::mem::forget(std::mem::replace(&mut entry.waker, waker));
    key
}
