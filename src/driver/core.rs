//! The core of the driver, and the running thread: the thread that does the driver's work at a
//! moment.
//!
//! ```text
//!   submit --(nobody runs)--> take the core --> serve the requests --> put the core back --> release
//!                                ^                 turn, or see which turn is the next          |
//!                                |                 set the alarm                                |
//!                                +--------------------(requested meanwhile)---------------------+
//! ```
//!
//! It turns only where tokio would run wakers: within tokio's time driver, or on the alarm's own
//! thread. Elsewhere it sets the alarm for the next moment.
//!
//! Invariant: when the running thread stops, the alarm is set for the earliest expiry or before. If
//! it finds the time driver ended, it ends the driver.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::alarm::{RuntimeAlarm, Set, ThreadAlarm};
use super::requests::{Request, Submitted};
use super::turner::Turner;
use super::{Driver, Whereabouts};
use crate::time::tick::{Moment, NEVER};

/// What the running thread works with.
pub(super) struct Core {
    alarm: Alarm,
    turner: Turner,
}

/// What a thread finds out while it runs.
#[derive(Default)]
struct Run {
    /// The tick at which it began, once that was read.
    began: Option<u64>,
    /// The tick up to which tokio's time driver has worked already, if the alarm was set for it.
    passed: Option<u64>,
    /// The tick that the alarm is set for then.
    comes_at: u64,
}

/// The alarm was set for a tick that had passed already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// The tick up to which tokio's time driver has worked.
    pub(crate) up_to: u64,
    /// The first tick for which the driver comes in time.
    pub(crate) comes_from: u64,
}

/// What fires when the next turn is due.
pub(super) enum Alarm {
    /// One of a runtime's timers.
    Runtimes(RuntimeAlarm),
    /// A thread, for the process's timer.
    Threads(ThreadAlarm),
}

impl Driver {
    /// Submits a request, and runs the driver if no other thread does. Returns what it found of a
    /// tick that had passed already when the alarm was set for it.
    pub(super) fn run(
        self: &Arc<Self>,
        request: Request,
        whereabouts: Whereabouts,
    ) -> Option<Passed> {
        if !self.requests.submit(request) {
            return None;
        }
        let mut run = Run::default();
        loop {
            let requests = self.requests.take_submitted();
            let core = self.core().take();
            if let Some(mut core) = core {
                match self.serve(&mut core, requests, whereabouts, &mut run) {
                    Set::Done => {
                        run.comes_at = core.alarm.at();
                        *self.core() = Some(core);
                    }
                    Set::Passed(tick) => {
                        run.passed = run.passed.max(Some(tick));
                        *self.core() = Some(core);
                        // The running thread finds it next.
                        let _ = self.requests.submit(Request::Turn);
                    }
                    Set::Ended => self.end(core),
                }
            }
            if self.requests.release() {
                return run.passed.map(|up_to| Passed {
                    up_to,
                    comes_from: self.clock.first_tick_with(run.comes_at),
                });
            }
        }
    }

    /// Serves the requests, and returns what came of setting the alarm.
    fn serve(
        &self,
        core: &mut Core,
        requests: Submitted,
        whereabouts: Whereabouts,
        run: &mut Run,
    ) -> Set {
        let has_fired = requests.has(Request::Fired);
        if !has_fired && !requests.has(Request::Turn) {
            let tick = self.earliest_tick(core, requests);
            self.wait_for(tick, run);
            self.requests.set_for(tick);
            return core.alarm.set(tick);
        }
        let now = self.clock.now();
        let present = self.clock.tick().current(now);
        if has_fired {
            core.alarm.has_fired(present);
        }
        // A call that sets the alarm to the past lets it fire too, and is no time driver.
        if whereabouts != Whereabouts::TimeDriver {
            self.wait_for(present, run);
            let (set, tick) = core.alarm.set_soon(present);
            if tick > present {
                run.passed = Some(present);
            }
            self.requests.set_for(tick);
            return set;
        }
        // The driver comes, and what is due from now on waits for it anew.
        run.began.get_or_insert(present);
        self.note_lateness(now);
        self.wait_since(present);
        let tick = self.turn(core, now);
        self.requests.set_for(tick);
        core.alarm.set(tick)
    }

    /// The alarm is going to be set for `tick`, and the driver does not come now. What it is late
    /// for already goes on to wait. If that is deferred, nothing shows it later.
    fn wait_for(&self, tick: u64, run: &mut Run) {
        let now = self.clock.now();
        let present = self.clock.tick().current(now);
        let is_late = self.waits_since.load(Ordering::Relaxed) <= present;
        if is_late && tick <= present {
            return;
        }
        if is_late {
            self.note_lateness(now);
        }
        // A timer may be linked in the past, and has waited for nobody. But a request may be as old
        // as this run, which may have been held up since.
        self.wait_since(tick.max(*run.began.get_or_insert(present)));
    }

    fn wait_since(&self, tick: u64) {
        // Release: pairs with the Acquire in `is_stalled_since`.
        self.waits_since.store(tick, Ordering::Release);
    }

    /// Notes how late the driver is at `now`, before anything says that it has come.
    fn note_lateness(&self, now: Moment) {
        // Relaxed: only the running thread writes it.
        let since = self.waits_since.load(Ordering::Relaxed);
        let ticks = self.clock.tick().current(now).saturating_sub(since);
        self.lateness.note(now, ticks);
        if self.stalls.is_stall(ticks) && !self.clock.is_virtual() {
            self.stalls.note(since, now);
            let late = self.clock.tick().span(ticks).into();
            self.reporter.driver_was_stalled(late);
        }
    }

    /// Turns up to the tick of `now`, and returns the tick of the next turn.
    fn turn(&self, core: &mut Core, now: Moment) -> u64 {
        let present = self.clock.tick().current(now);
        self.requests.begin_to_read();
        let turned = core.turner.turn(now, self);
        if turned.is_long {
            // The last of what it fired came so much later than the first.
            let now = self.clock.now();
            let late = self.clock.tick().current(now).saturating_sub(present);
            self.lateness.note(now, late);
        }
        // What the turn has left in the past was linked there meanwhile.
        self.wait_since(turned.next.max(present));
        turned.next
    }

    /// The tick that the alarm is to be set for without a turn.
    fn earliest_tick(&self, core: &mut Core, requests: Submitted) -> u64 {
        // A driver that is late does not tick: it is stalled, and a stamp would be late by the rest
        // of that. Then the turn that comes begins to tick.
        // Relaxed: only the running thread writes it.
        let is_in_time = || self.waits_since.load(Ordering::Relaxed) > self.clock.current_tick();
        let next_tick = if requests.has(Request::Tick) && is_in_time() {
            core.turner.begin_to_tick().unwrap_or(NEVER)
        } else {
            NEVER
        };
        if !self.clock.is_pausable() {
            let asked_for = self.requests.take_asked_for();
            return core.alarm.at().min(asked_for).min(next_tick);
        }
        // Not earlier than it must be. Otherwise a timer that was disarmed would pull virtual time
        // along. So what was asked for does not count here: the next expiry that it was asked for
        // may have been deferred since, by another thread. Where it was not, the next expiries have
        // it.
        self.requests.begin_to_read();
        let expiry = core.turner.earliest_expiry().min(next_tick);
        if self.clock.stamp().is_some() {
            expiry.min(core.alarm.at())
        } else {
            expiry
        }
    }

    /// Closes every shard, for ever.
    fn end(&self, core: Core) {
        // Release: pairs with the Acquire in `has_ended`. It comes before the shards are closed, so
        // a thread that finds one closed, under its lock, finds the driver ended.
        self.ended.store(true, Ordering::Release);
        // Nobody needs to ring any more, and nothing waits.
        self.requests.set_for(0);
        self.wait_since(NEVER);
        let runtime = self.runtime().take();
        // Under no lock: the last reference to a runtime drops what it still has.
        drop(runtime);
        core.turner.close(&self.reporter);
    }

    /// Nothing panics under this lock.
    pub(super) fn core(&self) -> MutexGuard<'_, Option<Core>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    pub(super) fn new(alarm: Alarm, turner: Turner) -> Core {
        Core { alarm, turner }
    }
}

impl Alarm {
    /// Notes that it has fired, at the present tick.
    fn has_fired(&mut self, present: u64) {
        match self {
            Alarm::Runtimes(alarm) => alarm.has_fired(present),
            Alarm::Threads(_) => {}
        }
    }

    fn set(&mut self, tick: u64) -> Set {
        match self {
            Alarm::Runtimes(alarm) => alarm.set(tick),
            Alarm::Threads(alarm) => {
                alarm.set(tick);
                Set::Done
            }
        }
    }

    /// Sets it so that it fires next, where `now` is the present tick. Returns the first tick that
    /// it is in time for too.
    fn set_soon(&mut self, now: u64) -> (Set, u64) {
        match self {
            Alarm::Runtimes(alarm) => alarm.set_soon(now),
            Alarm::Threads(alarm) => {
                alarm.set(now);
                (Set::Done, now)
            }
        }
    }

    /// The tick that it is set for.
    fn at(&self) -> u64 {
        match self {
            Alarm::Runtimes(alarm) => alarm.at(),
            Alarm::Threads(alarm) => alarm.at(),
        }
    }
}
