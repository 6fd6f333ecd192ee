//! A shard whose lock is held: the only way to its wheel.
//!
//! All code that changes the wheel goes through here, and so through the next expiry. It takes four
//! steps, which are written once: lock, change, [`unlock`](Locked::unlock), and then what is left
//! to do [after](Deferred) the lock. The last step tells the driver and wakes. It does nothing
//! under the lock.
//!
//! Invariants:
//!
//! - Each function here that links or unlinks a timer keeps the [next expiry](super::next_expiry)
//!   right.
//! - No user code runs before `unlock`. The waker of an unlinked entry lies in the `Deferred`, and
//!   is dropped or woken from there.

use std::cell::Cell;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;

use super::deadlines::spared_by;
use super::locked_word::{LockHeld, LockedWord};
use super::next_expiry::{Change, LAST_TICK};
use super::word::{Expiry, Outcome, Word};
use super::{Counts, Shard};
use crate::driver::Fired;
use crate::time::stamp::{Due, Stamp, StampedDue};
use crate::time::tick::{Moment, NEVER, TickLength};
use crate::wheel::{Decision, Key, SlotCounter, Unlinked, Wheel};

/// What the lock of a shard guards.
pub(super) struct ShardState {
    wheel: Wheel<Entry>,
    /// When the runtime shut down. Since then the wheel is empty, and nothing is armed.
    closed: Option<Moment>,
    fired: u64,
    /// Deadlines that a stall gave a grace.
    spared: u64,
    /// Deadlines that were reset when their time came.
    put_off: u64,
}

/// What a timer needs when its slot comes.
pub(super) struct Entry {
    pub(super) waker: Option<Waker>,
    pub(super) due: DueSource,
}

/// What says when a timer is truly due.
pub(super) enum DueSource {
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
    state: MutexGuard<'a, ShardState>,
    held: LockHeld,
    after: Deferred<'a>,
}

/// What is left to do once the lock is let go.
#[must_use = "the driver may have to be told, and somebody may be waiting to be woken"]
pub(super) struct Deferred<'a> {
    shard: &'a Shard,
    change: Change,
    /// The waker of what was unlinked or moved, if anything.
    waker: Option<Waker>,
}

impl Shard {
    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            shard: self,
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner),
            held: LockHeld::by_lock_of_shard(),
            after: Deferred {
                shard: self,
                change: Change::None,
                waker: None,
            },
        }
    }
}

impl<'a> Locked<'a> {
    /// Lets the lock go, and returns what is left to do.
    #[inline(always)]
    pub(super) fn unlock(self) -> Deferred<'a> {
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
    pub(super) fn link(&mut self, tick: u64, due: DueSource, waker: Option<Waker>) -> Key {
        // A blank entry is a constant. What it gets after that is written to where it stays.
        let (key, entry) = self.state.wheel.insert_mut(tick, Entry::BLANK);
        std::mem::forget(std::mem::replace(entry, Entry { waker, due }));
        self.after.change = self.shard.next_expiry.lower_to(tick, &self.held);
        key
    }

    /// Links a timer at another tick; `false` if it has fired.
    pub(super) fn relink(&mut self, key: Key, tick: u64) -> bool {
        let Some(unlinked) = self.state.wheel.relink(key, tick) else {
            return false;
        };
        let lowered = self.shard.next_expiry.lower_to(tick, &self.held);
        // An earlier expiry must be told, whatever else changed.
        if lowered == Change::None {
            self.defer_without(unlinked);
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
        self.defer_without(unlinked);
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

    /// Counts deadlines that were reset when their time came.
    pub(super) fn count_put_off(&mut self, put_off: u64) {
        self.state.put_off += put_off;
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
        mut judge: impl FnMut(u64, &mut Entry, &LockHeld) -> Decision,
    ) -> bool {
        let Locked {
            shard, state, held, ..
        } = self;
        let ShardState { wheel, fired, .. } = &mut **state;
        let is_finished = wheel.turn(now, batch, |linked, entry| {
            let decision = judge(linked, entry, held);
            *fired += u64::from(matches!(decision, Decision::Fire));
            decision
        });
        if is_finished {
            shard.next_expiry.set(earliest_in(wheel), held);
        }
        is_finished
    }

    /// Closes the shard for ever, from the moment `at`. Calls `settle` for each pending entry, and
    /// then returns all of them. The caller drops them after the lock.
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
            put_off: self.state.put_off,
        }
    }

    /// Wakes a task once the lock is let go.
    pub(super) fn wake_later(&mut self, waker: Option<Waker>) {
        self.after.waker = waker.or(self.after.waker.take());
    }

    /// Sees where the next of the timers lie. `true` if these were all.
    pub(super) fn look(&self, counter: &mut SlotCounter) -> bool {
        self.state.wheel.look(counter)
    }

    /// Defers the next expiry for an earlier tick than this. The alarm is set for it already.
    pub(super) fn defer_to(&self, tick: u64) {
        let _ = self.shard.next_expiry.defer(&self.held, |_| Some(tick));
    }

    /// Looks for the next expiry anew after a timer was unlinked from its slot. On the system's
    /// clock a next expiry that is too early costs one empty turn. On a clock that can be paused it
    /// would pull virtual time along.
    #[inline]
    fn defer_without(&mut self, unlinked: Unlinked) {
        if self.shard.clock.is_pausable() {
            let wheel = &self.state.wheel;
            let defer = self.shard.next_expiry.defer(&self.held, |expiry| {
                unlinked.may_change(expiry).then(|| earliest_in(wheel))
            });
            if defer != Change::None {
                self.after.change = defer;
            }
        }
    }
}

impl<'a> Deferred<'a> {
    /// Tells the driver, and drops what was unlinked, so that nobody is woken. `true` if the next
    /// expiry was lowered to a tick up to which tokio's time driver has already worked.
    #[inline(always)]
    pub(super) fn tell(self) -> bool {
        self.shard.tell(self.change)
    }

    /// Tells the driver, and wakes the task that waited for what was unlinked.
    pub(super) fn wake(self) {
        self.shard.tell(self.change);
        if let Some(waker) = self.waker {
            self.shard.driver.reporter().wake(waker);
        }
    }
}

impl Entry {
    /// It needs no drop.
    const BLANK: Entry = Entry {
        waker: None,
        due: DueSource::Linked,
    };

    #[inline]
    fn take(&mut self) -> Entry {
        std::mem::replace(self, Entry::BLANK)
    }
}

impl ShardState {
    pub(super) fn with_slots(slots: usize) -> ShardState {
        ShardState {
            wheel: Wheel::with_slots(slots),
            closed: None,
            fired: 0,
            spared: 0,
            put_off: 0,
        }
    }
}

impl From<Due> for DueSource {
    fn from(due: Due) -> DueSource {
        match due {
            Due::At(_) => DueSource::Linked,
            Due::Stamped(due) => DueSource::Stamped(due.stamp),
        }
    }
}

/// The tick at which something may be due next.
fn earliest_in(wheel: &Wheel<Entry>) -> u64 {
    // The wheel may name the start of a coarse slot. A timer that is linked at `NEVER` lies in a
    // slot of its own, which no moment comes near.
    wheel
        .next_turn()
        .filter(|&tick| tick <= LAST_TICK)
        .unwrap_or(NEVER)
}

// What a shard does for sleeps: timers that a future arms, moves, polls and disarms.
//
// Invariant: a key is good as long as its timer has neither fired nor been disarmed. A stale key
// finds no timer, never another one.

/// Why a timer was not armed.
#[derive(Debug)]
pub(crate) enum NotArmed {
    /// The runtime that drives the shard has shut down.
    Closed,
    /// The wheel was turned past its tick already.
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

impl Shard {
    /// Arms a timer that wakes `waker` when it is due.
    ///
    /// `tick` is where its due is scheduled. The wheel may have been turned to that tick already,
    /// or tokio's time driver may have worked up to it. Then the timer has fired, and nothing is
    /// armed. A timer that counts from a stamp may be due later than it is scheduled. So a turn
    /// judges it.
    pub(crate) fn arm(&self, due: Due, tick: u64, waker: Waker) -> Result<Key, NotArmed> {
        let is_exact = matches!(due, Due::At(_));
        let mut locked = self.lock();
        let is_closed = locked.closed().is_some();
        if is_closed || is_exact && tick <= locked.turned_to() {
            let _ = locked.unlock().tell();
            // The waker was made before the lock, and is dropped here, after it.
            drop(waker);
            return Err(if is_closed {
                NotArmed::Closed
            } else {
                NotArmed::Fired
            });
        }
        let key = locked.link(tick, DueSource::from(due), Some(waker));
        if locked.unlock().tell() && is_exact {
            self.disarm(key);
            return Err(NotArmed::Fired);
        }
        Ok(key)
    }

    /// Takes a timer out if it has not fired.
    pub(crate) fn disarm(&self, key: Key) {
        let mut locked = self.lock();
        locked.unlink(key);
        // The waker is dropped here, after the lock.
        locked.unlock().tell();
    }

    /// Moves an armed timer, whose waker stays. The wheel may have been turned to the new tick
    /// already, or tokio's time driver may have worked up to it. Then the timer fires here and now,
    /// as tokio's do.
    pub(crate) fn move_to(&self, key: Key, due: Due) -> Moved {
        let tick = due.scheduled_tick(self.clock.tick());
        let is_exact = matches!(due, Due::At(_));
        let mut locked = self.lock();
        if is_exact && tick <= locked.turned_to() {
            return fire(locked, key);
        }
        if !locked.move_as(key, tick, DueSource::from(due)) {
            return Moved::HadFired;
        }
        if locked.unlock().tell() && is_exact {
            return fire(self.lock(), key);
        }
        Moved::Pending
    }

    /// Whether an armed timer has fired.
    pub(crate) fn has_fired(&self, key: Key) -> bool {
        let mut locked = self.lock();
        locked.closed().is_none() && locked.entry(key).is_none()
    }

    /// The tick at which a timer with this due is scheduled.
    #[inline]
    pub(crate) fn scheduled_tick(&self, due: Due) -> u64 {
        due.scheduled_tick(self.clock.tick())
    }

    /// Whether a tick lies before the next expiry. Then no turn is to come that would fire what is
    /// scheduled there.
    #[inline]
    pub(crate) fn is_missed(&self, tick: u64) -> bool {
        tick < self.next_expiry.tick_about()
    }

    /// Whether a timer that was armed for `due` has fired, as far as that can be told without the
    /// lock. No timer in the wheel is due before the next expiry. But a timer that counts from a
    /// stamp may be linked later than it was scheduled.
    pub(crate) fn has_surely_fired(&self, due: Due) -> bool {
        let is_exact = matches!(due, Due::At(_));
        is_exact && due.scheduled_tick(self.clock.tick()) < self.next_expiry.tick()
    }

    /// From now on a timer that was armed for `due` wakes `waker`, if it is still armed.
    pub(crate) fn poll_armed(&self, key: Key, due: Due, waker: &Waker) -> Polled {
        let registered = self.register(waker, |locked| match locked.closed() {
            Some(at) if !self.clock.has_passed(due, at) => Err(Polled::Closed),
            _ => locked.entry(key).ok_or(Polled::Fired),
        });
        registered.err().unwrap_or(Polled::Pending)
    }

    /// From now on the entry that `find` finds under the lock wakes `waker`. If `find` finds none,
    /// this lets the lock go and returns what `find` says instead.
    pub(super) fn register<R>(
        &self,
        waker: &Waker,
        find: impl for<'a> Fn(&'a mut Locked<'_>) -> Result<&'a mut Entry, R>,
    ) -> Result<(), R> {
        let mut clone = None;
        loop {
            let mut locked = self.lock();
            let entry = match find(&mut locked) {
                Ok(entry) => entry,
                Err(instead) => {
                    // The waker of a timer that was taken out is not woken, because its task is the
                    // one that polls.
                    locked.unlock().tell();
                    return Err(instead);
                }
            };
            let current = entry.waker.as_ref();
            if current.is_some_and(|current| current.will_wake(waker)) {
                return Ok(());
            }
            if let Some(clone) = clone.take() {
                let old = entry.waker.replace(clone);
                drop(locked.unlock());
                drop(old);
                return Ok(());
            }
            // A task polls that has not polled last. That is rare, so the loop goes round once more
            // to clone outside the lock.
            drop(locked.unlock());
            clone = Some(waker.clone());
        }
    }
}

/// Takes a timer out as one that has fired, and wakes its waker.
fn fire(mut locked: Locked<'_>, key: Key) -> Moved {
    if !locked.unlink(key) {
        return Moved::HadFired;
    }
    locked.count_fired();
    locked.unlock().wake();
    Moved::Fires
}

impl Locked<'_> {
    /// Moves a timer, and sets anew what says when it is truly due.
    fn move_as(&mut self, key: Key, tick: u64, due: DueSource) -> bool {
        match self.entry(key) {
            Some(entry) => entry.due = due,
            None => return false,
        }
        self.relink(key, tick)
    }
}

// What a shard does for the driver: it turns the wheel, and closes for ever.
//
// Invariant: a timer fires only if its true due has come. The true due may be later than the slot,
// because the deadline was reset or the window of the stamp ended late. Then the timer is linked
// again. A timer that fired is out of the wheel when the lock is let go. The caller has its waker,
// and wakes it after the lock.

/// A turn fires or cascades at most this many timers for one hold of the lock. That is some
/// microseconds of work.
pub(crate) const BATCH: usize = 128;

/// What the driver learns of a shard's turn.
#[derive(Debug)]
pub(crate) enum ShardTurned {
    /// All that was due is dealt with. Nothing is due before this tick.
    Until(u64),
    /// The batch is full, and there may be more.
    BatchFull,
}

impl Shard {
    /// Fires at most a batch of what is due at tick `now`, and puts its wakers into `wakers`.
    /// What fires is counted in `fired`.
    pub(crate) fn turn(
        &self,
        now: u64,
        wakers: &mut Vec<Waker>,
        fired: &mut Fired<'_>,
    ) -> ShardTurned {
        let expiry = self.next_expiry.tick();
        if expiry > now {
            return ShardTurned::Until(expiry);
        }
        let tick = self.clock.tick();
        let mut locked = self.lock();
        let log = self.clock.log();
        let true_due = |due| match due {
            Due::At(moment) => tick.due(moment),
            // If the window is open, the timers of its stamp are scheduled later than this turn.
            Due::Stamped(due) => log.true_due(due).unwrap_or(due.scheduled_tick.max(now + 1)),
        };
        let grace_end = |due, word: &Word| {
            let due = match due {
                Due::At(moment) => moment,
                Due::Stamped(_) => tick.start_of(true_due(due)),
            };
            let end = self.driver.grace_end(spared_by(word, due)?)?;
            Some(tick.due(end)).filter(|&end| end > now)
        };
        let (mut spared, mut put_off) = (0, 0);
        let is_finished = locked.turn(now, BATCH, |linked, entry, held| {
            // The tick at which it was due.
            let passed = Cell::new(linked);
            let due = match &entry.due {
                DueSource::Linked => linked,
                DueSource::Stamped(stamp) => {
                    let due = true_due(Due::Stamped(StampedDue {
                        stamp: *stamp,
                        scheduled_tick: linked,
                    }));
                    entry.due = DueSource::Linked;
                    passed.set(due);
                    due
                }
                DueSource::Word(word) => {
                    let has_passed = |due| {
                        passed.set(true_due(due));
                        passed.get() <= now && grace_end(due, word).is_none()
                    };
                    match word.locked(held).expire_if(has_passed) {
                        Expiry::Later(due) if true_due(due) <= now => {
                            spared += 1;
                            grace_end(due, word).unwrap_or(now + 1)
                        }
                        Expiry::Later(due) => {
                            put_off += 1;
                            true_due(due)
                        }
                        Expiry::Expired | Expiry::Settled(_) => now,
                    }
                }
            };
            if due > now {
                return Decision::Reschedule(due);
            }
            fired.count(passed.get());
            wakers.extend(entry.waker.take());
            Decision::Fire
        });
        locked.count_spared(spared);
        locked.count_put_off(put_off);
        if is_finished {
            ShardTurned::Until(self.next_expiry.tick_about())
        } else {
            ShardTurned::BatchFull
        }
    }

    /// Closes the shard for ever, from the moment at which the runtime has shut down, and returns
    /// the wakers of all that is pending.
    pub(crate) fn close(&self, now: Moment) -> Vec<Waker> {
        let entries = self.lock().close(now, |entry, held| {
            let DueSource::Word(word) = &entry.due else {
                return;
            };
            let word = word.locked(held);
            // A deadline that has passed has expired, though the driver did not come to it in time.
            if let Expiry::Later(_) = word.expire_if(|due| self.clock.has_passed(due, now)) {
                word.settle(Outcome::ShutDown);
            }
        });
        entries.filter_map(|entry| entry.waker).collect()
    }
}
