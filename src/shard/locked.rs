//! A shard whose lock is held: the only way to its wheel.
//!
//! All code that changes the wheel goes through here, and so through the next expiry. It takes four
//! steps, which are written once: lock, change, [`unlock`](Locked::unlock), and then what is left
//! to do [after](Deferred) the lock. The last step notifies the driver and wakes. It does nothing
//! under the lock.
//!
//! Invariants:
//!
//! - Each function here that links or unlinks a timer keeps the [next expiry](super::next_expiry)
//!   right.
//! - No user code runs before `unlock`. The waker of an unlinked entry lies in the `Deferred`, and
//!   is dropped or woken from there.

use std::sync::Arc;
use std::task::Waker;

use super::lock::{LockHeld, ShardGuard};
use super::next_expiry::{ExpiryChange, LAST_TICK};
use super::word::{LockedWord, Word};
use super::{Counts, NotArmed, Shard};
use crate::clock::Clock;
use crate::clock::tick::{Tick, TickLength};
use crate::wheel::{Decision, Key, SlotCounts, Unlinked, Wheel};

/// The state that the lock of a shard guards.
pub(super) struct ShardState {
    wheel: Wheel<Entry>,
    /// All but what the wheel counts.
    counts: Counts,
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
    shard: &'a Shard,
    state: ShardGuard<'a, ShardState>,
    after: Deferred<'a>,
}

/// The work that is left once the lock is let go.
#[must_use = "the driver may have to be notified, and a task may wait to be woken"]
pub(super) struct Deferred<'a> {
    shard: &'a Shard,
    change: ExpiryChange,
    /// The waker of what was unlinked, if anything.
    waker: Option<Waker>,
}

impl Shard {
    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            shard: self,
            state: self.state.lock(),
            after: Deferred {
                shard: self,
                change: ExpiryChange::None,
                waker: None,
            },
        }
    }
}

/// Half of all calls arm or disarm a timer and do nothing else. These two do what a [`Locked`]
/// would do for them, each in one piece: a `Locked` has something to drop if a panic comes, so the
/// compiler keeps it in memory.
impl Shard {
    /// Locks, links a new timer, and lets the lock go. Not if the shard is closed, or if the wheel
    /// was turned to that tick already.
    #[inline(always)]
    pub(super) fn link_alone(
        &self,
        tick: Tick,
        waker: Waker,
    ) -> Result<(Key, ExpiryChange), NotArmed> {
        let mut state = self.state.lock();
        let is_closed = self.clock.ended().is_some();
        if is_closed || tick.get() <= state.wheel.now() {
            drop(state);
            // The waker was made before the lock, and is dropped here, after it.
            drop(waker);
            return Err(if is_closed {
                NotArmed::Closed
            } else {
                NotArmed::Fired
            });
        }
        let key = link(&mut state.wheel, tick, None, Some(waker));
        Ok((key, self.next_expiry.lower_to(tick, state.held())))
    }

    /// Locks, takes a timer out if it has not fired, and lets the lock go. Returns its waker.
    #[inline(always)]
    pub(super) fn unlink_alone(&self, key: Key) -> Option<(Option<Waker>, ExpiryChange)> {
        let mut state = self.state.lock();
        let (waker, unlinked) = state.wheel.disarm(key, Entry::empty)?;
        let change = self.defer_without(&state.wheel, unlinked, state.held());
        Some((waker, change))
    }

    /// Looks for the next expiry anew after a timer was unlinked from its slot. On the system's
    /// clock a next expiry that is too early costs one empty turn. On a clock that can be paused it
    /// would pull virtual time along.
    #[inline]
    fn defer_without(
        &self,
        wheel: &Wheel<Entry>,
        unlinked: Unlinked,
        held: LockHeld<'_>,
    ) -> ExpiryChange {
        if self.clock.is_pausable() {
            self.defer_on_pausable(wheel, unlinked, held)
        } else {
            ExpiryChange::None
        }
    }

    #[inline(never)]
    fn defer_on_pausable(
        &self,
        wheel: &Wheel<Entry>,
        unlinked: Unlinked,
        held: LockHeld<'_>,
    ) -> ExpiryChange {
        self.next_expiry.defer(held, |expiry| {
            wheel
                .may_change(unlinked, expiry.get())
                .then(|| earliest_in(wheel, &self.clock))
        })
    }
}

impl<'a> Locked<'a> {
    /// Lets the lock go, and returns what is left to do.
    #[inline(always)]
    pub(super) fn unlock(self) -> Deferred<'a> {
        self.after
    }

    /// Whether nothing can be armed any more. The clock says so before the shard is closed: what is
    /// armed meanwhile is taken out by that.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.shard.clock.ended().is_some()
    }

    #[inline]
    pub(super) fn tick(&self) -> TickLength {
        self.shard.clock.tick()
    }

    /// The tick up to which the wheel was turned.
    #[inline]
    pub(super) fn turned_to(&self) -> Tick {
        Tick::new(self.state.wheel.now())
    }

    /// The tick at which the driver comes next.
    pub(super) fn next_expiry(&self) -> Tick {
        self.shard.next_expiry.tick_about()
    }

    /// The entry of a timer that has not fired.
    #[inline]
    pub(super) fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.state.wheel.get_mut(key)
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
        self.after.change = self.shard.next_expiry.lower_to(tick, self.state.held());
        key
    }

    /// Links a timer at another tick; `false` if it has fired.
    pub(super) fn relink(&mut self, key: Key, tick: Tick) -> bool {
        let Some(unlinked) = self.state.wheel.relink(key, tick.get()) else {
            return false;
        };
        let lowered = self.shard.next_expiry.lower_to(tick, self.state.held());
        // The driver must learn of an earlier expiry, whatever else changed.
        if lowered == ExpiryChange::None {
            self.defer_without(unlinked);
        } else {
            self.after.change = lowered;
        }
        true
    }

    /// Takes a timer out, at most one for each hold of the lock. `false` if it has fired.
    #[inline(never)] // `unlink_alone` is the hot one.
    pub(super) fn unlink(&mut self, key: Key) -> bool {
        debug_assert!(
            self.after.waker.is_none(),
            "it would be dropped under the lock"
        );
        let Some((waker, unlinked)) = self.state.wheel.disarm(key, Entry::empty) else {
            return false;
        };
        self.after.waker = waker;
        self.defer_without(unlinked);
        true
    }

    /// All counts but what the wheel counts.
    pub(super) fn counts_mut(&mut self) -> &mut Counts {
        &mut self.state.counts
    }

    /// The tick at which a timer is linked that has not fired.
    pub(super) fn linked_at(&self, key: Key) -> Option<Tick> {
        self.state.wheel.due(key).map(Tick::new)
    }

    /// Says that the shard is turned to `now`. Call this before the wheel is.
    pub(super) fn note_turn(&self, now: Tick) {
        self.shard.turned_to.set(now, self.state.held());
    }

    /// Turns the wheel up to `now`, and fires at most `batch` timers. `judge` decides on each timer
    /// whose slot has come. `false` if there may be more.
    pub(super) fn advance(
        &mut self,
        now: Tick,
        batch: usize,
        mut judge: impl FnMut(Tick, &mut Entry, LockHeld<'_>, &mut Counts) -> Decision,
    ) -> bool {
        let (ShardState { wheel, counts }, held) = self.state.split();
        let is_finished = wheel.turn(now.get(), batch, |linked, entry| {
            judge(Tick::new(linked), entry, held, counts)
        });
        if is_finished {
            self.shard
                .next_expiry
                .set(earliest_in(wheel, &self.shard.clock), held);
        }
        is_finished
    }

    /// Closes the shard for ever. Calls `settle` for each pending entry, and then returns all of
    /// them. The caller drops them after the lock.
    pub(super) fn close(
        mut self,
        mut settle: impl FnMut(&Entry, LockHeld<'_>),
    ) -> impl Iterator<Item = Entry> {
        let (state, held) = self.state.split();
        self.shard.turned_to.close(held);
        for entry in state.wheel.values_mut() {
            settle(entry, held);
        }
        self.state.wheel.take_all()
    }

    pub(super) fn counts(&self) -> Counts {
        let ShardState { wheel, counts } = &*self.state;
        Counts {
            pending: wheel.len(),
            armed: wheel.inserted(),
            ..*counts
        }
    }

    /// Counts the timers of each slot into counts that have room.
    pub(super) fn count_slots(&self, counts: &mut SlotCounts) {
        self.state.wheel.count_slots(counts);
    }

    /// Defers the next expiry for an earlier tick than this. The alarm is set for it already.
    pub(super) fn defer_to(&self, tick: Tick) {
        let _ = self
            .shard
            .next_expiry
            .defer(self.state.held(), |_| Some(tick));
    }

    #[inline]
    fn defer_without(&mut self, unlinked: Unlinked) {
        let wheel = &self.state.wheel;
        let deferred = self.shard.defer_without(wheel, unlinked, self.state.held());
        if deferred != ExpiryChange::None {
            self.after.change = deferred;
        }
    }
}

impl Deferred<'_> {
    /// Notifies the driver, and drops what was unlinked, so that no task is woken. `true` if the
    /// next expiry was lowered to a tick up to which tokio's time driver has already worked.
    #[inline(always)]
    pub(super) fn notify_driver(self) -> bool {
        self.shard.notify_driver(self.change)
    }

    /// Notifies the driver, and wakes the task that waited for what was unlinked.
    pub(super) fn wake(self) {
        self.shard.notify_driver(self.change);
        if let Some(waker) = self.waker {
            self.shard.driver.wake(waker);
        }
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

impl ShardState {
    pub(super) fn new() -> ShardState {
        ShardState {
            wheel: Wheel::new(),
            counts: Counts::default(),
        }
    }
}

/// The tick at which the driver is to come next.
fn earliest_in(wheel: &Wheel<Entry>, clock: &Clock) -> Tick {
    // The wheel may name a tick at which timers cascade ahead of their time. On a clock that can be
    // paused that would pull virtual time along. The wheel may also name the start of a coarse
    // slot. A timer that is linked at `NEVER` lies in a slot of its own, which no moment comes near.
    let earliest = if clock.is_pausable() {
        wheel.next_due()
    } else {
        wheel.next_turn()
    };
    earliest
        .map(Tick::new)
        .filter(|&tick| tick <= LAST_TICK)
        .unwrap_or(Tick::NEVER)
}
