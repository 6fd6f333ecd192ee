//! A shard whose lock is held. Calls link and unlink timers only here, which keeps the [next
//! expiry](super::shard_tick) right. A turn and the close of the shard do so in `super`. Work that
//! must follow the lock waits in the [`Locked`] until it is unlocked: notifying the driver, and
//! waking a task.
//!
//! Invariant: no user code runs under the lock. An unlinked entry's waker is dropped or woken after
//! it.

use std::sync::Arc;
use std::task::Waker;

use super::lock::LockHeld;
use super::shard_tick::ExpiryChange;
use super::word::{LockedWord, Word};
use super::{Counts, Shard};
use crate::clock::tick::Tick;
use crate::sync::{MutexGuard, lock};
use crate::wheel::{Key, Wheel};

/// What the lock of a shard guards.
#[derive(Default)]
pub(super) struct ShardState {
    /// All that is armed in the shard.
    pub(super) wheel: Wheel<Entry>,
    /// All counts but those of the wheel.
    pub(super) counts: Counts,
}

/// What the wheel holds of a timer beside its due.
pub(super) struct Entry {
    /// Of the task that polled last. `None` before the first poll of a deadline.
    pub(super) waker: Option<Waker>,
    /// When a deadline, or a sleep that was reset to later, is truly due. Any other timer is due at
    /// the tick of its link.
    pub(super) word: Option<Arc<Word>>,
}

/// A shard with its lock held, and the work that must follow the lock.
pub(super) struct Locked<'a> {
    /// Whose lock it is.
    pub(super) shard: &'a Shard,
    /// The guard, and what it guards.
    pub(super) state: MutexGuard<'a, ShardState>,
    /// What the driver is notified of.
    change: ExpiryChange,
    /// The tick at which a timer was linked. `NEVER` for none.
    linked: Tick,
    /// The waker of the timer that was unlinked or made earlier, if any.
    pub(super) waker: Option<Waker>,
}

/// Half of all calls only arm or disarm a timer. They do without a [`Locked`], which the compiler
/// would keep in memory, because it must be dropped if a panic comes.
impl Shard {
    /// Arms a timer that wakes `waker` at `tick`. `None` if the wheel or tokio's time driver has
    /// come to it, or the runtime has ended.
    pub(crate) fn arm(&self, tick: Tick, waker: Waker) -> Option<Key> {
        let mut state = lock(&self.state);
        // The clock ends before the shard is closed, which takes out timers armed in between.
        if self.clock.has_missed_or_ended(tick) || tick.get() <= state.wheel.now() {
            drop(state);
            drop(waker);
            return None;
        }
        let key = link(&mut state.wheel, tick, None, Some(waker));
        let change = self.lower_for(&state, tick);
        drop(state);
        if self.notify_driver(change, tick) {
            self.disarm(key);
            return None;
        }
        Some(key)
    }

    #[inline(never)] // Its callers are short, and the compiler inlines what has one caller.
    pub(crate) fn disarm(&self, key: Key) {
        let mut state = lock(&self.state);
        let Some(waker) = state.wheel.disarm(key, Entry::empty) else {
            return;
        };
        let change = self.read_again(&state);
        drop(state);
        self.notify_driver(change, Tick::NEVER);
        drop(waker);
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            shard: self,
            state: lock(&self.state),
            change: ExpiryChange::None,
            linked: Tick::NEVER,
            waker: None,
        }
    }

    /// On a clock that can be paused, reads the next expiry again after a timer was unlinked.
    /// Otherwise virtual time would run to the old one.
    #[inline]
    fn read_again(&self, state: &MutexGuard<'_, ShardState>) -> ExpiryChange {
        if self.clock.is_pausable() {
            let earliest = self.earliest_in(&state.wheel);
            self.next_expiry.defer_to(earliest, LockHeld::by(state))
        } else {
            ExpiryChange::None
        }
    }

    /// Lowers the next expiry for a timer linked at `tick`, to an earlier tick if a slot is
    /// crowded. Virtual time stops at no such tick, where tokio's would not.
    #[inline]
    fn lower_for(&self, state: &MutexGuard<'_, ShardState>, tick: Tick) -> ExpiryChange {
        let turn = if self.clock.is_pausable() {
            tick
        } else {
            Tick::new(state.wheel.turn_for(tick.get()))
        };
        self.next_expiry.lower_to(turn, LockHeld::by(state))
    }

    pub(super) fn earliest_in(&self, wheel: &Wheel<Entry>) -> Tick {
        let earliest = if self.clock.is_pausable() {
            wheel.next_due()
        } else {
            wheel.next_turn()
        };
        earliest.map_or(Tick::NEVER, Tick::new)
    }
}

impl Locked<'_> {
    /// Releases the lock, notifies the driver, and drops the waker of the unlinked timer. Returns
    /// `true` if tokio's time driver has already worked up to the tick of the linked one.
    #[inline(always)]
    pub(super) fn unlock(self) -> bool {
        drop(self.state);
        // If the alarm was missed before, it comes within the tick, and nothing has changed.
        self.shard.notify_driver(self.change, self.linked)
            || self.shard.clock.has_missed(self.linked)
    }

    /// Releases the lock, notifies the driver, and wakes the task whose waker was taken.
    pub(super) fn unlock_and_wake(self) {
        drop(self.state);
        self.shard.notify_driver(self.change, self.linked);
        if let Some(waker) = self.waker {
            self.shard.driver.wake(waker);
        }
    }

    #[inline]
    pub(super) fn word<'b>(&'b self, word: &'b Word) -> LockedWord<'b> {
        word.locked(LockHeld::by(&self.state))
    }

    #[inline]
    pub(super) fn link(&mut self, tick: Tick, word: &Arc<Word>) -> Key {
        let key = link(&mut self.state.wheel, tick, Some(word.clone()), None);
        self.change = self.shard.lower_for(&self.state, tick);
        self.linked = tick;
        key
    }

    /// Links a timer at another tick. `false` if it has fired.
    pub(super) fn relink(&mut self, key: Key, tick: Tick) -> bool {
        if !self.state.wheel.reset(key, tick.get()) {
            return false;
        }
        // The driver must learn of an earlier expiry, whatever else changed.
        self.change = match self.shard.lower_for(&self.state, tick) {
            ExpiryChange::None => self.shard.read_again(&self.state),
            lowered => lowered,
        };
        self.linked = tick;
        true
    }

    /// Removes a timer, at most one for each hold of the lock. `false` if it has fired.
    #[inline(never)] // `disarm` is the hot one.
    pub(super) fn unlink(&mut self, key: Key) -> bool {
        let Some(waker) = self.state.wheel.disarm(key, Entry::empty) else {
            return false;
        };
        debug_assert!(self.waker.is_none(), "it would be dropped under the lock");
        self.waker = waker;
        self.change = self.shard.read_again(&self.state);
        true
    }
}

impl Entry {
    /// It needs no drop.
    const BLANK: Entry = Entry {
        waker: None,
        word: None,
    };

    #[inline]
    fn empty(&mut self) -> Option<Waker> {
        // The word has other owners, so this frees nothing under the lock.
        self.word = None;
        self.waker.take()
    }
}

#[inline(always)]
fn link(
    wheel: &mut Wheel<Entry>,
    tick: Tick,
    word: Option<Arc<Word>>,
    waker: Option<Waker>,
) -> Key {
    // A blank entry is a constant. Its fields are written later, in place.
    let (key, entry) = wheel.arm(tick.get(), || Entry::BLANK);
    std::mem::forget(std::mem::replace(&mut entry.word, word));
    std::mem::forget(std::mem::replace(&mut entry.waker, waker));
    key
}
