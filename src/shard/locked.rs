//! A shard whose lock is held: the only way to its wheel.
//!
//! All code that changes the wheel goes through here, and so through the plan. It takes four steps,
//! which are written once: lock, change, [`unlock`](Locked::unlock), and then what is left to do
//! [after](After) the lock. The last step tells the driver and wakes. It does nothing under the
//! lock.
//!
//! Invariants:
//!
//! - Each function here that links or unlinks a timer keeps the [plan](super::plan) right.
//! - No user code runs before `unlock`. The waker of an unlinked entry lies in the `After`, and is
//!   dropped or woken from there.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;

use super::locked_word::{LockHeld, LockedWord};
use super::plan::{Change, LAST_TICK};
use super::word::Word;
use super::{Counts, Shard};
use crate::time::due::{Due, Stamp};
use crate::time::tick::{Moment, NEVER, TickLength};
use crate::waking::wake;
use crate::wheel::{Key, SlotCounts, Unlinked, Verdict, Wheel};

/// What the lock of a shard guards.
pub(super) struct Guarded {
    wheel: Wheel<Entry>,
    /// When the runtime shut down. Since then the wheel is empty, and nothing is armed.
    closed: Option<Moment>,
    fired: u64,
    /// Deadlines that a stall gave a grace.
    spared: u64,
}

/// What a timer needs when its slot comes.
pub(super) struct Entry {
    pub(super) waker: Option<Waker>,
    pub(super) due: TrueDue,
}

/// What says when a timer is truly due.
pub(super) enum TrueDue {
    /// The tick at which it is linked.
    Linked,
    /// The tick at which it is linked, and by how much the window of this stamp ended late.
    Stamped(Stamp),
    /// The word of its deadline.
    Word(Arc<Word>),
}

/// A shard whose lock is held.
pub(super) struct Locked<'a> {
    shard: &'a Shard,
    state: MutexGuard<'a, Guarded>,
    held: LockHeld,
    after: After<'a>,
}

/// What is left to do once the lock is let go.
#[must_use = "the driver may have to be told, and somebody may be waiting to be woken"]
pub(super) struct After<'a> {
    shard: &'a Shard,
    change: Change,
    /// The waker of what was unlinked, if anything.
    waker: Option<Waker>,
}

impl Shard {
    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            shard: self,
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner),
            held: LockHeld::by_lock_of_shard(),
            after: After {
                shard: self,
                change: Change::None,
                waker: None,
            },
        }
    }
}

impl<'a> Locked<'a> {
    /// Lets the lock go, and gives what is left to do.
    #[inline(always)]
    pub(super) fn unlock(self) -> After<'a> {
        self.after
    }

    /// When the runtime shut down, if it has.
    #[inline]
    pub(super) fn closed(&self) -> Option<Moment> {
        self.state.closed
    }

    #[inline]
    pub(super) fn tick(&self) -> TickLength {
        self.shard.clock.tick()
    }

    /// The tick up to which the wheel was turned.
    #[inline]
    pub(super) fn turned_to(&self) -> u64 {
        self.state.wheel.now()
    }

    /// The entry of a timer that has not fired.
    #[inline]
    pub(super) fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.state.wheel.get_mut(key)
    }

    /// A deadline's word, for what needs the lock.
    #[inline]
    pub(super) fn word<'b>(&'b self, word: &'b Word) -> LockedWord<'b> {
        word.locked(&self.held)
    }

    /// Links a new timer.
    #[inline]
    pub(super) fn link(&mut self, tick: u64, due: TrueDue, waker: Option<Waker>) -> Key {
        // A blank entry is a constant. What it gets after that is written to where it stays.
        let (key, entry) = self.state.wheel.insert_mut(tick, Entry::BLANK);
        std::mem::forget(std::mem::replace(entry, Entry { waker, due }));
        self.after.change = self.shard.plan.lower_to(tick, &self.held);
        key
    }

    /// Links a timer at another tick; `false` if it has fired.
    pub(super) fn relink(&mut self, key: Key, tick: u64) -> bool {
        let Some(unlinked) = self.state.wheel.relink(key, tick) else {
            return false;
        };
        let lowered = self.shard.plan.lower_to(tick, &self.held);
        // An earlier plan must be told, whatever else changed.
        if lowered == Change::None {
            self.plan_without(unlinked);
        } else {
            self.after.change = lowered;
        }
        true
    }

    /// Takes a timer out, at most one for each hold of the lock. `false` if it has fired.
    #[inline(always)] // Into `disarm`, which is half of arming and disarming.
    pub(super) fn unlink(&mut self, key: Key) -> bool {
        let wheel = &mut self.state.wheel;
        let Some((entry, unlinked)) = wheel.remove_with(key, Entry::take) else {
            return false;
        };
        debug_assert!(
            self.after.waker.is_none(),
            "it would be dropped under the lock"
        );
        // The word has other owners, so this frees nothing under the lock.
        drop(entry.due);
        self.after.waker = entry.waker;
        self.plan_without(unlinked);
        true
    }

    /// Counts a timer that was taken out as one that has fired.
    #[inline]
    pub(super) fn count_fired(&mut self) {
        self.state.fired += 1;
    }

    /// Counts deadlines that a stall gave a grace.
    pub(super) fn count_spared(&mut self, spared: u64) {
        self.state.spared += spared;
    }

    /// The tick at which a timer is linked that has not fired.
    pub(super) fn linked_at(&self, key: Key) -> Option<u64> {
        self.state.wheel.due(key)
    }

    /// Turns the wheel up to `now`, and fires at most `batch` timers. `judge` decides on each timer
    /// whose slot has come. `false` if there may be more.
    pub(super) fn turn(
        &mut self,
        now: u64,
        batch: usize,
        mut judge: impl FnMut(u64, &mut Entry, &LockHeld) -> Verdict,
    ) -> bool {
        let Locked {
            shard, state, held, ..
        } = self;
        let Guarded { wheel, fired, .. } = &mut **state;
        let is_finished = wheel.turn(now, batch, |linked, entry| {
            let verdict = judge(linked, entry, held);
            *fired += u64::from(matches!(verdict, Verdict::Fire));
            verdict
        });
        if is_finished {
            shard.plan.set(next_plan(wheel), held);
        }
        is_finished
    }

    /// Closes the shard for ever, from the moment `at`. Calls `settle` for each pending entry, and
    /// then gives all of them. The caller drops them after the lock.
    pub(super) fn close(
        mut self,
        at: Moment,
        mut settle: impl FnMut(&Entry, &LockHeld),
    ) -> impl Iterator<Item = Entry> {
        self.state.closed = Some(at);
        for entry in self.state.wheel.values_mut() {
            settle(entry, &self.held);
        }
        self.state.wheel.take_all()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            pending: self.state.wheel.len(),
            armed: self.state.wheel.inserted(),
            fired: self.state.fired,
            spared: self.state.spared,
        }
    }

    pub(super) fn slot_counts(&self) -> SlotCounts {
        self.state.wheel.slot_counts()
    }

    /// Puts off a plan for an earlier tick than this. The alarm is set for it already.
    pub(super) fn plan_no_earlier_than(&self, tick: u64) {
        let _ = self.shard.plan.put_off(&self.held, |_| Some(tick));
    }

    /// Plans anew after a timer was unlinked from its slot. On the system's clock a plan that is
    /// too early costs one empty turn. On a clock that can be paused it would pull virtual time
    /// along.
    #[inline]
    fn plan_without(&mut self, unlinked: Unlinked) {
        if self.shard.clock.is_pausable() {
            let wheel = &self.state.wheel;
            let put_off = self.shard.plan.put_off(&self.held, |plan| {
                unlinked.may_change(plan).then(|| next_plan(wheel))
            });
            if put_off != Change::None {
                self.after.change = put_off;
            }
        }
    }
}

impl<'a> After<'a> {
    /// Tells the driver, and drops what was unlinked, so that nobody is woken. `true` if the plan
    /// was lowered to a tick up to which tokio's time driver has already worked.
    #[inline(always)]
    pub(super) fn tell(self) -> bool {
        self.shard.tell(self.change)
    }

    /// Tells the driver, and wakes the task that waited for what was unlinked.
    pub(super) fn wake(self) {
        self.shard.tell(self.change);
        if let Some(waker) = self.waker {
            wake(waker);
        }
    }
}

impl Entry {
    /// It needs no drop.
    const BLANK: Entry = Entry {
        waker: None,
        due: TrueDue::Linked,
    };

    #[inline]
    fn take(&mut self) -> Entry {
        std::mem::replace(self, Entry::BLANK)
    }
}

impl Guarded {
    pub(super) fn with_slots(slots: usize) -> Guarded {
        Guarded {
            wheel: Wheel::with_slots(slots),
            closed: None,
            fired: 0,
            spared: 0,
        }
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

/// The tick at which something may be due next.
fn next_plan(wheel: &Wheel<Entry>) -> u64 {
    // The wheel may name the start of a coarse slot. A timer that is linked at `NEVER` lies in a
    // slot of its own, which no moment comes near.
    wheel
        .next_turn()
        .filter(|&tick| tick <= LAST_TICK)
        .unwrap_or(NEVER)
}
