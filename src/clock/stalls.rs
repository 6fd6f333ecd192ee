//! Stalls: times in which the driver could not run, and the grace that they give to deadlines.
//!
//! A process may be stopped, a virtual machine migrated, a container throttled, a worker blocked.
//! Afterwards the heartbeats of live connections lie unread in their sockets, and all their
//! deadlines are due. Expiring them would close every connection. So a deadline that fell due
//! within a stall stays pending for a grace, in which it can still be reset.
//!
//! ```text
//!   waits_since         the driver goes on        + 100 ms              + its length
//!        |------- stall --------|----------------------|---------------------|
//!           ^ due ------ moved by the stall's length ------> expires
//! ```
//!
//! - The driver is stalled if it makes no progress for more than 50 ms and one tick while something
//!   is due. A virtual clock has no stalls, since `advance` looks like one.
//! - A turn makes progress with each batch, so the driver's own work is no part of a stall. A waker
//!   that blocks, or a process stopped within a batch, causes one.
//! - A deadline that is due within the stall, or in the 100 ms after it, ends later by the stall's
//!   length, at least 100 ms and at most its timeout after the stall. So deadlines keep their
//!   distances, except those due in the first 100 ms of the stall.
//! - A due that a call sets into those 100 ms may be moved too, because nothing records when it was
//!   set. A reset after the stall sets a due after these 100 ms. If the timeout is shorter, the
//!   grace would end before the due, so there is none.
//! - The end of a grace is a function of the due, the timeout and the stall. So the deadline need
//!   not store it. A deadline is spared at most once per reset, unless another stall begins within
//!   100 ms after the first: no later one contains its due.
//! - After its time a grace goes on while the tasks that have something to read have yet to run, by
//!   some milliseconds each time it is looked at, and at most to the timeout after the stall. So it
//!   does not depend on how fast the machine is (see `driver::rounds`).
//! - When a stall is noted, an earlier one is forgotten if every deadline that it moved has ended.
//!
//! # Since when something waits
//!
//! `waits_since` is the tick since which due timers have waited for the driver: the tick of the
//! alarm while nothing is late, and in a turn the tick of the last progress. It never lies before
//! the moment at which it is written: a timer linked in the past has not waited, and one that
//! passed during the driver's own work was late before any stall.
//!
//! `late_since` is the tick from which on a turn counts how late its timers are. It is the same,
//! except after a turn that took until after the tick of the next one: what fell due while the
//! driver worked, or a waker blocked it, has been late since its due.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A thread polls or resets a deadline before the driver has noticed the stall.* The thread sees
//!   that something has waited for longer than a stall, and leaves the deadline to the driver.
//! - *The driver notices meanwhile.* It notes the stall first, and then writes `waits_since`. The
//!   thread reads in the opposite order, and so finds one or the other.
//! - *A call defers the alarm while the driver is late*, because the timer that was due is gone. No
//!   turn comes for it any more, so the call notes the stall so far.
//! - *A call moves a deadline into a stall that has ended*, by `reset_at` to a past instant. The
//!   deadline did not pass within the stall, so it expires at once.

use std::time::Duration;

use crate::clock::tick::{AtomicTick, Moment, Tick, TickLength, to_nanos};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// A stall is longer than this and a tick, because the last progress of a turn is known to a tick.
const SHORTEST_STALL: Duration = Duration::from_millis(50);

/// Time for the tasks that read the heartbeats in the sockets, and have yet to be scheduled.
const SHORTEST_GRACE: Duration = Duration::from_millis(100);

/// When a deadline whose grace has ended is looked at again, while tasks have yet to run.
const NEXT_LOOK: Duration = Duration::from_millis(10);

/// The stalls of one driver.
#[derive(Debug)]
pub(crate) struct Stalls {
    /// How long a tick is.
    tick: TickLength,
    /// Whether a stall gives deadlines a grace, as `Builder::stall_grace` says.
    has_grace: bool,
    /// The tick since which due timers have waited for the driver. Written only by a turn, by a
    /// thread that holds the alarm's lock without a turn, or by the one that closes the timer.
    waits_since: AtomicTick,
    /// The tick from which on a turn counts how late its timers are. Written as `waits_since` is.
    late_since: AtomicTick,
    /// Stalls that have moved a deadline that may still be pending, in their order.
    pub(super) recent: Mutex<Vec<Stall>>,
    /// When the last stall that gave a grace ended, as bits of a [`Moment`].
    last_end: AtomicU64,
    /// Whether the driver may let tasks run before the first turn after a stall.
    lets_tasks_run: AtomicBool,
    /// Whether tasks run that have something to read after a stall. Until they have, no timer of
    /// that stall fires unless a turn has waited for as long as one may (`driver::rounds`).
    tasks_run: AtomicBool,
    /// How many stalls there were.
    count: AtomicU64,
    /// Their total length, in nanoseconds.
    total: AtomicU64,
}

impl Stalls {
    pub(crate) fn new(tick: TickLength, has_grace: bool) -> Stalls {
        Stalls {
            tick,
            has_grace,
            waits_since: AtomicTick::new(Tick::NEVER),
            late_since: AtomicTick::new(Tick::NEVER),
            recent: Mutex::new(Vec::new()),
            last_end: AtomicU64::new(Moment::EPOCH.to_bits()),
            lets_tasks_run: AtomicBool::new(false),
            tasks_run: AtomicBool::new(false),
            count: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    /// When the grace of a pending deadline ends. `None` if it has none at `now`.
    pub(crate) fn grace_end(
        &self,
        due: Tick,
        timeout: Duration,
        now: Moment,
        is_virtual: impl FnOnce() -> bool,
    ) -> Option<Tick> {
        // A sleep has no timeout, and no grace.
        if !self.has_grace || timeout.is_zero() {
            return None;
        }
        // In this order; see the head of the file. Acquire: pairs with the Release of each write of
        // it. A thread that sees the driver's progress sees the stall that was noted before.
        let from = self.waits_since.get();
        let present = self.stall_between(from, now);
        let present = present.filter(|stall| stall.from <= due && !is_virtual());
        if let Some(stall) = present {
            let end = stall.grace_end(due, timeout, self.tick);
            return end.filter(|&end| end > self.tick.current(now));
        }
        let recent = lock(&self.recent);
        let ends = recent.iter();
        let end = ends
            .filter_map(|stall| stall.grace_end(due, timeout, self.tick))
            .max()?;
        if end > self.tick.current(now) {
            return Some(end);
        }
        // The tasks have yet to read what came within the stall.
        let latest = recent.last()?.end.after(timeout);
        let is_awaited = self.tasks_run.load(Ordering::Acquire) && now < latest;
        is_awaited.then(|| self.tick.due(now.after(NEXT_LOOK).min(latest)))
    }

    /// Whether what is due at `now` is left to the driver, which is late by a stall, or lets tasks
    /// run first.
    #[inline]
    pub(crate) fn is_left_to_driver(&self, now: Moment) -> bool {
        self.tasks_run.load(Ordering::Acquire) || self.may_let_tasks_run(now)
    }

    /// Whether the driver is late by a stall at `now`, and may let tasks run before its turn.
    #[inline]
    pub(crate) fn may_let_tasks_run(&self, now: Moment) -> bool {
        let from = self.waits_since.get();
        // Most often nothing is late, and then the length of a stall need not be computed.
        self.tick.start_of(from) < now && self.may_let_tasks_run_after(from, now)
    }

    #[cold]
    fn may_let_tasks_run_after(&self, from: Tick, now: Moment) -> bool {
        // Relaxed: it is set before anything is armed.
        self.stall_between(from, now).is_some()
            && self.lets_tasks_run.load(Ordering::Relaxed)
            && !self.tasks_run.load(Ordering::Acquire)
    }

    /// The stall of a driver without progress between the two, if that is long enough.
    fn stall_between(&self, from: Tick, end: Moment) -> Option<Stall> {
        let length = end.since(self.tick.start_of(from));
        let is_stall = length > SHORTEST_STALL + self.tick.as_duration();
        is_stall.then_some(Stall { from, end, length })
    }

    fn note(&self, stall: Stall) {
        // Relaxed: counts on which nothing depends.
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total
            .fetch_add(to_nanos(stall.length), Ordering::Relaxed);
        if !self.has_grace {
            return;
        }
        let mut recent = lock(&self.recent);
        let present = self.tick.current(stall.end);
        let last_grace_end = |of: &Stall| of.end.after(SHORTEST_GRACE + of.length);
        recent.retain(|earlier| self.tick.due(last_grace_end(earlier)) > present);
        recent.push(stall);
        // Release: pairs with `last_end`, so that a reset that sees a turn sees its stall.
        self.last_end.store(stall.end.to_bits(), Ordering::Release);
    }

    /// When the last stall ended. A timeout that counts from then or later ends after any grace.
    #[inline]
    pub(crate) fn last_end(&self) -> Moment {
        Moment::from_bits(self.last_end.load(Ordering::Acquire))
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.total.load(Ordering::Relaxed))
    }
}

/// For the driver.
impl Stalls {
    /// A turn begins at `now`, or continues after a batch. Notes the stall that thereby ends, if
    /// any, and only then writes since when the rest waits. Returns the stall's length.
    pub(crate) fn turn_begins(
        &self,
        now: Moment,
        is_virtual: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        let from = self.waits_since();
        let stall = self.stall_between(from, now).filter(|_| !is_virtual());
        if let Some(stall) = stall {
            self.note(stall);
        }
        self.waits_since.set(from.max(self.tick.current(now)));
        stall.map(|stall| stall.length)
    }

    /// A turn has ended at `now`; the next one is at `next`.
    pub(crate) fn turn_ends(&self, next: Tick, now: Moment) {
        self.waits_since.set(next.max(self.tick.current(now)));
        self.late_since.set(next);
    }

    /// From `tick` on, due timers wait for the driver.
    pub(crate) fn wait_from(&self, tick: Tick) {
        self.waits_since.set(tick);
        self.late_since.set(tick);
    }

    /// From `tick` on, if that is earlier than before, due timers wait for the driver.
    pub(crate) fn wait_from_earlier(&self, tick: Tick) {
        self.waits_since.set(tick.min(self.waits_since()));
        self.late_since.set(tick.min(self.late_since()));
    }

    /// From now on tasks run before the first turn after a stall, unless deadlines have no grace.
    pub(crate) fn let_tasks_run(&self) {
        self.lets_tasks_run.store(self.has_grace, Ordering::Relaxed);
    }

    /// Lets tasks run, and leaves timers to a turn by `until`. The next stall begins with that.
    pub(crate) fn tasks_run_until(&self, until: Tick) {
        self.tasks_run.store(true, Ordering::Release);
        self.waits_since.set(until);
    }

    pub(crate) fn tasks_have_run(&self) {
        self.tasks_run.store(false, Ordering::Release);
    }

    pub(crate) fn waits_since(&self) -> Tick {
        self.waits_since.get_relaxed()
    }

    pub(crate) fn late_since(&self) -> Tick {
        self.late_since.get_relaxed()
    }
}

/// A time in which the driver made no progress, though something was due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    /// Since when something waited. A timer linked at an earlier tick was due before.
    from: Tick,
    /// When the driver went on.
    end: Moment,
    /// From the start of `from` to `end`.
    length: Duration,
}

impl Stall {
    /// When the grace of a deadline ends. `None` if this stall gives none.
    fn grace_end(&self, due: Tick, timeout: Duration, tick: TickLength) -> Option<Tick> {
        let due_at = tick.start_of(due);
        let earliest = self.end.after(SHORTEST_GRACE);
        let is_within = self.from <= due && due_at <= earliest;
        let end = due_at.after(self.length).max(earliest);
        let end = tick.due(end.min(self.end.after(timeout)));
        (is_within && end > due).then_some(end)
    }
}
