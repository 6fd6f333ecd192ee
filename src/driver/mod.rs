//! The driver: what turns every wheel of a timer, in time.
//!
//! ```text
//!   a thread arms earlier than the alarm is set for                      the alarm fires, in tokio's time driver
//!             |                                                                  |
//!             v                                                                  v
//!   set the alarm for that tick   <--- the earliest expiry of all shards ---   turn (see `turner`)
//!                                      or, while ticking, the next tick
//! ```
//!
//! There is no driver task. The waker of one tokio timer, the [alarm](alarm), makes the turn and
//! sets it again. It runs where tokio wakes its own timers. So nothing stands between a due
//! and its timer: no task to schedule, no queue of tasks, no waker that must wait for a task. A
//! turn fires all that is due, as a pass of tokio's time driver does. The [requests] settle which
//! thread does this work at a moment. That thread is the [running thread](self::core).
//!
//! The process's timer has no runtime. Its alarm is a thread, and all else is the
//! same.
//!
//! Invariants:
//!
//! - One turn is made at a time, by the running thread. It holds no lock meanwhile: it alone has
//!   the core, which holds what it works with.
//! - A thread that arms never turns. Wakers are user code, and run only where tokio would run them,
//!   but for those that are woken when a thread finds that the runtime has ended.
//! - While something is armed, the alarm is set for the earliest expiry or before, or a turn is
//!   being made or requested. While nothing is armed it wakes nobody. On a clock that can be paused
//!   there is then no tokio timer at all. So whoever waits with nothing armed takes a [`Watch`].
//! - The driver holds its shards weakly, and its waker holds the driver weakly. Whoever can still
//!   arm a timer, or has one pending, holds a shard, and each shard holds the driver. When the last
//!   of them has let go, all of it is dropped.
//! - The shards are closed when the runtime's time driver has ended. The waker that the time driver
//!   then fires closes them, after every task was dropped. Or the running thread closes them that
//!   finds the time driver ended when it sets the alarm (see `alarm`).

mod alarm;
mod core;
mod lateness;
mod mode;
pub(crate) mod requests;
#[cfg(test)]
mod requests_tests;
mod stalls;
#[cfg(test)]
mod stalls_tests;
mod turner;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::runtime::Handle;

pub(crate) use self::core::Passed;
use self::core::{Alarm, Core};
use crate::shard::Shard;
use crate::time::clock::Clock;
use crate::time::tick::{Moment, NEVER};
use crate::waking::Reporter;
pub(crate) use alarm::Watch;
use alarm::{AlarmWaker, RuntimeAlarm, ThreadAlarm};
use lateness::WorstLateness;
pub(crate) use lateness::{Fired, LatenessRecord};
pub use lateness::{Lateness, LatenessBuckets};
use mode::Mode;
use requests::{Request, Requests};
pub(crate) use stalls::Spared;
use stalls::Stalls;
use turner::Turner;

/// What turns the wheels of one timer.
pub(crate) struct Driver {
    requests: Requests,
    clock: Arc<Clock>,
    /// What the running thread works with. It is here while no thread runs the driver. Once the
    /// driver has ended, it never is.
    core: Mutex<Option<Core>>,
    /// Whether it may ever be better to tick.
    may_tick: bool,
    wake_ups: AtomicU64,
    lateness: WorstLateness,
    /// How late timers fired.
    fired_late: LatenessRecord,
    reporter: Reporter,
    stalls: Stalls,
    /// Since which tick what is due waits for the driver, if that tick has come. Only the running
    /// thread writes it; `stalls` explains what it is for.
    waits_since: AtomicU64,
    /// Set before the shards are closed, never cleared.
    ended: AtomicBool,
    /// The runtime that drives this; `None` for the process's timer, and once the driver has ended.
    runtime: Mutex<Option<Handle>>,
}

/// Where the running thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Within tokio's time driver, where it fires its timers; or on the alarm's own thread.
    TimeDriver,
    /// Anywhere: in a call of the user's.
    Caller,
}

impl Driver {
    /// A driver that does nothing before it [begins](Driver::begin). If stalls are counted, they
    /// give deadlines no grace.
    pub(crate) fn new(clock: Arc<Clock>, are_stalls_counted: bool, reporter: Reporter) -> Driver {
        Driver {
            stalls: Stalls::new(clock.tick(), are_stalls_counted),
            may_tick: mode::may_tick(clock.tick()) && !are_stalls_counted,
            requests: Requests::new(),
            clock,
            core: Mutex::new(None),
            wake_ups: AtomicU64::new(0),
            lateness: WorstLateness::default(),
            fired_late: LatenessRecord::default(),
            reporter,
            waits_since: AtomicU64::new(NEVER),
            ended: AtomicBool::new(false),
            runtime: Mutex::new(None),
        }
    }

    /// Begins to drive these shards on the runtime of `handle`. Call this in the context of that
    /// runtime.
    pub(crate) fn begin(self: &Arc<Self>, shards: &[Arc<Shard>], handle: &Handle) {
        let alarm = RuntimeAlarm::new(self.clock.clone(), AlarmWaker::new(self));
        *self.runtime() = Some(handle.clone());
        self.begin_with(Alarm::Runtimes(alarm), shards);
    }

    /// Begins to drive these shards, on a thread of that name which this starts.
    pub(crate) fn begin_on_thread(
        self: &Arc<Self>,
        shards: &[Arc<Shard>],
        name: &str,
    ) -> io::Result<()> {
        let alarm = ThreadAlarm::start(self, name)?;
        self.begin_with(Alarm::Threads(alarm), shards);
        Ok(())
    }

    fn begin_with(self: &Arc<Self>, alarm: Alarm, shards: &[Arc<Shard>]) {
        let mode = if self.stalls.give_grace() {
            Mode::new(self.clock.tick())
        } else {
            // A reset by a stamp would not see that its lease is over.
            Mode::resting()
        };
        let always_ticks = mode.always_ticks();
        let turner = Turner::new(shards, self.clock.clone(), mode);
        *self.core() = Some(Core::new(alarm, turner));
        if always_ticks && !self.clock.is_virtual() {
            self.come_by(self.clock.current_tick() + 1);
        }
    }

    /// Makes the driver turn at `tick` at the latest. Call this after an expiry was lowered to
    /// that tick, under no lock. Returns whether that has passed already.
    #[inline]
    pub(crate) fn come_by(self: &Arc<Self>, tick: u64) -> Option<Passed> {
        if self.requests.is_set_by(tick) {
            return None;
        }
        self.come_earlier(tick)
    }

    #[cold]
    fn come_earlier(self: &Arc<Self>, tick: u64) -> Option<Passed> {
        self.requests.ask_for(tick);
        self.run(Request::SetAlarm, Whereabouts::Caller)
    }

    /// Puts the alarm off too, if it is set for `tick`, from which an expiry was deferred. Under no
    /// lock.
    pub(crate) fn need_not_come_at(self: &Arc<Self>, tick: u64) -> Option<Passed> {
        if self.is_set_before(tick) {
            return None;
        }
        self.run(Request::SetAlarm, Whereabouts::Caller)
    }

    fn is_set_before(&self, tick: u64) -> bool {
        tick.checked_sub(1)
            .is_some_and(|before| self.requests.is_set_by(before))
    }

    /// Whether callers are to count their readings of the clock, because it may be better to tick.
    #[inline]
    pub(crate) fn may_tick(&self) -> bool {
        self.may_tick && !self.clock.was_virtual()
    }

    /// Makes the driver tick from now on, if that is better. Call this after
    /// `Clock::want_ticking`, under no lock.
    #[cold]
    pub(crate) fn begin_to_tick(self: &Arc<Self>) {
        self.run(Request::Tick, Whereabouts::Caller);
    }

    /// Whether the runtime has shut down, as far as anybody has noticed.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        // Acquire: pairs with the Release in `end`. A thread that sees the end sees each turn
        // before it.
        self.ended.load(Ordering::Acquire)
    }

    /// How late the driver came to a turn of the last seconds at the most.
    pub(crate) fn lateness(&self) -> Duration {
        let worst = self.lateness.worst(self.clock.now());
        self.clock.tick().span(worst).into()
    }

    /// How late timers fired.
    pub(crate) fn fired_late(&self) -> &LatenessRecord {
        &self.fired_late
    }

    #[inline]
    pub(crate) fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// How often the driver was stalled, and for how long in all.
    pub(crate) fn stalls(&self) -> (u64, Duration) {
        (self.stalls.number(), self.stalls.total())
    }

    /// Whether a deadline that has passed at `now` stays pending, because of a stall.
    pub(crate) fn spares(&self, deadline: Spared, now: Moment) -> bool {
        // In this order: `stalls` explains why.
        self.is_stalled_since(deadline.due, now)
            || self.grace_end(deadline).is_some_and(|end| end > now)
    }

    /// When the grace ends of a deadline that a stall spares which has ended.
    pub(crate) fn grace_end(&self, deadline: Spared) -> Option<Moment> {
        self.stalls.grace_end(deadline)
    }

    /// Whether the driver is stalled at `now`, and has not come to anything since `due`.
    fn is_stalled_since(&self, due: Moment, now: Moment) -> bool {
        let tick = self.clock.tick();
        // Acquire: pairs with the Release in `wait_since`. A thread that sees the driver come sees
        // the stall that was noted before.
        let since = self.waits_since.load(Ordering::Acquire);
        self.stalls.give_grace()
            && since <= tick.due(due)
            && self
                .stalls
                .is_stall(tick.current(now).saturating_sub(since))
            && !self.clock.is_virtual()
    }

    /// How often the alarm has fired.
    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// Nothing panics under this lock.
    fn runtime(&self) -> MutexGuard<'_, Option<Handle>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The alarm has fired, within tokio's time driver or on the alarm's own thread.
    fn alarm_has_fired(self: &Arc<Self>) {
        // Relaxed: a count that nothing else hangs on.
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
        self.run(Request::Fired, Whereabouts::TimeDriver);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("requests", &self.requests)
            .field("stalls", &self.stalls.number())
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}
