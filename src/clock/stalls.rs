//! Stalls: times in which the driver could not run, and the grace that they give to deadlines.
//!
//! A process may be stopped, a virtual machine migrated, a container throttled, a worker blocked.
//! When it goes on, the heartbeats of live connections lie unread in their sockets, and all their
//! deadlines have passed. A driver that settled them would close every connection. So a deadline
//! whose time passed within a stall stays pending for a grace, and a reset in that time is in time.
//!
//! ```text
//!   the alarm's tick             the driver notices                       the deadline expires
//!         |------------ stall ------------|------------- grace -----------------|
//!                   ^ due: not settled by a poll, by a reset or by the late turn
//! ```
//!
//! - A driver that comes late by more than 50 ms and more than 16 ticks was stalled, from the tick
//!   that its alarm was set for to the moment in which it notices. On a virtual clock nothing is a
//!   stall, since `advance` looks like one.
//! - The grace is as long as the stall, at least 100 ms, and at most the timeout of the deadline.
//! - A deadline that counts its timeout from a reset before the stall has the grace too if it is
//!   due shortly after the stall: its heartbeat lies unread all the same. One that was reset since
//!   then is due no earlier than its timeout after the stall, and so no earlier than its grace
//!   ends. For a due that was set for once, nobody can tell when it was set.
//! - When the grace ends is a function of the due and of the stall that the due fell into. Nothing
//!   is written into the deadline. So a deadline is spared once between two resets, because a reset
//!   gives it another due, and a second stall does not contain the first due.
//! - A stall is forgotten when its longest grace is over. Nobody has a grace by it then.
//!
//! # Since when something waits
//!
//! `waits_since` is the tick from which on what is due waits for the driver. While nothing is late
//! it is the tick of the alarm. When the driver comes, it is the tick of that, and after the turn
//! that of the next one. A call that sets the alarm anew leaves it as it is where the driver is
//! late already. It never lies before the moment in which it is written, since what is linked in
//! the past has waited for nobody.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A thread polls or resets a deadline before the driver has noticed the stall.* Something waits
//!   for longer than a stall. The thread sees that, and leaves the deadline for the driver to
//!   judge.
//! - *The driver notices meanwhile.* It writes the stall down first, and only then that what is due
//!   waits anew. The thread looks in the opposite order: first since when something waits, then at
//!   the stalls. So it finds the one or the other.
//! - *The driver is held up within a turn*, by a waker that blocks or because the process is
//!   stopped there. A timer that is due since the turn began waits for it.
//! - *A call puts the alarm off while the driver is late*, because what was due is gone. Then the
//!   driver does not come for that any more, and the call notes the stall so far.
//! - *A call moves a deadline into a stall that has ended*, by `reset_at` to an instant of the
//!   past. The deadline did not pass while the driver could not run. So a call judges what it has
//!   moved by the clock alone.

use std::time::Duration;

use crate::clock::tick::{Moment, Tick, TickLength};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// The shortest lateness that is a stall, if it is more than `FEWEST_TICKS`.
const SHORTEST_STALL: Duration = Duration::from_millis(50);
const FEWEST_TICKS: u64 = 16;

/// Heartbeats that lie in sockets are read by tasks that have yet to be scheduled.
const SHORTEST_GRACE: Duration = Duration::from_millis(100);

/// The stalls of one driver.
#[derive(Debug)]
pub(crate) struct Stalls {
    tick: TickLength,
    /// Whether a stall gives deadlines a grace.
    has_grace: bool,
    /// Since which tick something that is due waits for the driver. Only the running thread of the
    /// driver writes it.
    waits_since: AtomicU64,
    /// Those whose grace may not be over, in their order.
    recent: Mutex<Vec<Stall>>,
    /// When the longest grace of all ends, as a moment's bits. A timer that is due later has none.
    last_grace_end: AtomicU64,
    count: AtomicU64,
    /// How many ticks all of them took.
    total: AtomicU64,
}

/// A pending deadline whose time has passed, and which a stall may spare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedDeadline {
    pub(crate) due: Moment,
    pub(crate) timeout: Duration,
    /// It does not count its timeout, but was set to this due.
    pub(crate) is_set_once: bool,
}

impl Stalls {
    pub(crate) fn new(tick: TickLength, has_grace: bool) -> Stalls {
        Stalls {
            tick,
            has_grace,
            waits_since: AtomicU64::new(Tick::NEVER.get()),
            recent: Mutex::new(Vec::new()),
            last_grace_end: AtomicU64::new(0),
            count: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    /// The grace that a stall gives to a deadline which has passed at `now`: when it ends. `None`
    /// if the deadline has expired.
    pub(crate) fn grace_at(
        &self,
        deadline: PassedDeadline,
        now: Moment,
        is_virtual: impl FnOnce() -> bool,
    ) -> Option<Moment> {
        // In this order: the head of the file explains why.
        let present = self.present_stall(deadline.due, now);
        let present = present.filter(|_| !is_virtual());
        let end = match present {
            Some(stall) => Some(self.end_of_grace(&stall, deadline.timeout)),
            None => self.grace_end(deadline),
        };
        end.filter(|&end| end > now)
    }

    /// The stall that goes on at `now`, if the driver has not come to anything since `due`.
    fn present_stall(&self, due: Moment, now: Moment) -> Option<Stall> {
        // Acquire: pairs with the Release in `wait_from`. A thread that sees the driver come sees
        // the stall that was noted before.
        let from = Tick::new(self.waits_since.load(Ordering::Acquire));
        let is_stall = self.has_grace
            && from <= self.tick.due(due)
            && self.is_stall(self.tick.current(now).since(from));
        is_stall.then_some(Stall { from, end: now })
    }

    /// Whether so many ticks late is a stall, on the system's clock.
    fn is_stall(&self, late: u64) -> bool {
        late > FEWEST_TICKS && Duration::from(self.tick.span(late)) > SHORTEST_STALL
    }

    fn note_stall(&self, from: Tick, end: Moment) {
        // Relaxed: counts that nothing else hangs on.
        self.count.fetch_add(1, Ordering::Relaxed);
        let ticks = self.tick.current(end).since(from);
        self.total.fetch_add(ticks, Ordering::Relaxed);
        if !self.has_grace {
            return;
        }
        let mut recent = lock(&self.recent);
        recent.retain(|stall| self.longest_grace_end(stall) > end);
        recent.push(Stall { from, end });
        let ends = recent.iter().map(|stall| self.longest_grace_end(stall));
        let last = ends.max().unwrap_or(end).to_bits();
        // Release: pairs with the Acquire in `grace_end`.
        self.last_grace_end.store(last, Ordering::Release);
    }

    /// When the grace ends of a deadline that a stall spares, after its due. `None` if none does,
    /// or if that stall is forgotten.
    pub(crate) fn grace_end(&self, deadline: PassedDeadline) -> Option<Moment> {
        let PassedDeadline {
            due,
            timeout,
            is_set_once,
        } = deadline;
        if due.to_bits() >= self.last_grace_end.load(Ordering::Acquire) {
            return None;
        }
        let tick = self.tick.due(due);
        let recent = lock(&self.recent);
        let has_begun = recent.iter().filter(|stall| stall.from <= tick);
        let spare = has_begun.filter(|stall| due <= stall.end || !is_set_once);
        let ends = spare.map(|stall| self.end_of_grace(stall, timeout));
        ends.max().filter(|&end| end > due)
    }

    /// How many stalls are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        lock(&self.recent).len()
    }

    /// How many stalls there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How long all of them took.
    pub(crate) fn total(&self) -> Duration {
        self.tick.span(self.total.load(Ordering::Relaxed)).into()
    }

    fn end_of_grace(&self, stall: &Stall, timeout: Duration) -> Moment {
        let grace = self.longest_grace(stall).min(timeout);
        stall.end.after(grace.into())
    }

    fn longest_grace(&self, stall: &Stall) -> Duration {
        stall
            .end
            .since(self.tick.start_of(stall.from))
            .max(SHORTEST_GRACE)
    }

    fn longest_grace_end(&self, stall: &Stall) -> Moment {
        stall.end.after(self.longest_grace(stall).into())
    }
}

/// For the running thread of the driver.
impl Stalls {
    /// The driver comes at `now`. Notes the stall that ends with that, if it was one, and only then
    /// that what is due from now on waits anew.
    pub(crate) fn turn_begins(&self, now: Moment, is_virtual: impl FnOnce() -> bool) -> Lateness {
        let late = self.note(now, is_virtual);
        self.wait_from(self.tick.current(now));
        late
    }

    /// Notes the stall that ends at `now`, if it is one. Call this before anything says that the
    /// driver has come.
    pub(crate) fn note(&self, now: Moment, is_virtual: impl FnOnce() -> bool) -> Lateness {
        let since = self.waits_since();
        let ticks = self.tick.current(now).since(since);
        let is_stall = self.is_stall(ticks) && !is_virtual();
        if is_stall {
            self.note_stall(since, now);
        }
        Lateness {
            since,
            ticks,
            is_stall,
        }
    }

    /// From `tick` on, what is due waits for the driver.
    pub(crate) fn wait_from(&self, tick: Tick) {
        // Release: pairs with the Acquire in `present_stall`.
        self.waits_since.store(tick.get(), Ordering::Release);
    }

    /// Since which tick something that is due waits for the driver.
    pub(crate) fn waits_since(&self) -> Tick {
        // Relaxed: only the running thread writes it.
        Tick::new(self.waits_since.load(Ordering::Relaxed))
    }
}

/// How late the driver was when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lateness {
    /// Since which tick something has waited.
    pub(crate) since: Tick,
    pub(crate) ticks: u64,
    pub(crate) is_stall: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stall {
    /// The tick that the alarm was set for.
    from: Tick,
    end: Moment,
}
