//! The attendant: the thread that does the driver's work at a moment.
//!
//! ```text
//!   ring --(nobody attends)--> take the desk --> serve the requests --> put the desk back --> leave
//!                                ^                 turn, or see which turn is the next          |
//!                                |                 set the alarm                                |
//!                                |                 send an errand                               |
//!                                +--------------------(requested meanwhile)---------------------+
//! ```
//!
//! It turns only where tokio would run wakers: within tokio's time driver, in an errand, or on the
//! alarm's own thread. Elsewhere it sets the alarm for the next moment, or sends an errand.
//!
//! Invariant: when the attendant leaves, the alarm is set for the earliest plan or before, or an
//! errand is on its way that turns. Once the runtime takes no task any more, the alarm tells its
//! end, or a thread looks for it. An attendant that finds the time driver ended ends the driver.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::alarm::{RuntimeAlarm, Set};
use super::bell::{Request, Requests};
use super::ending::Stage;
use super::errand::look_for_the_end;
use super::lateness::FiredAlarm;
use super::thread_alarm::{AT_ONCE, ThreadAlarm};
use super::turner::{CameTo, Turner};
use super::{Driver, Whereabouts};
use crate::events;
use crate::time::tick::NEVER;

/// What the attendant works with.
pub(super) struct Desk {
    alarm: Alarm,
    turner: Turner,
    fired_alarm: FiredAlarm,
}

/// What fires when the next turn is due.
pub(super) enum Alarm {
    /// One of a runtime's timers.
    Runtimes(RuntimeAlarm),
    /// A thread, for the process's timer.
    Threads(ThreadAlarm),
}

/// What came of attending.
#[derive(Debug, Default)]
pub(super) struct Attended {
    /// A turn has to go on.
    pub(super) is_unfinished: bool,
    /// tokio's time driver had worked up to this tick when the alarm was set for it.
    pub(super) passed: Option<u64>,
}

/// What comes next.
struct Next {
    /// The tick to set the alarm for.
    tick: u64,
    /// An errand is to turn before that.
    by_errand: bool,
}

impl Driver {
    /// Requests something, and attends if nobody does.
    pub(super) fn attend(self: &Arc<Self>, request: Request, whereabouts: Whereabouts) -> Attended {
        let mut attended = Attended::default();
        if !self.bell.ring(request) {
            return attended;
        }
        loop {
            let requests = self.bell.take_requests();
            let desk = self.desk().take();
            if let Some(mut desk) = desk {
                if self.serve(&mut desk, requests, whereabouts, &mut attended) {
                    *self.desk() = Some(desk);
                } else {
                    self.end(desk);
                }
            }
            if self.bell.leave() {
                return attended;
            }
        }
    }

    /// Serves the requests; `false` if the runtime's time driver has ended.
    fn serve(
        self: &Arc<Self>,
        desk: &mut Desk,
        requests: Requests,
        whereabouts: Whereabouts,
        attended: &mut Attended,
    ) -> bool {
        if requests.has(Request::Fired) {
            desk.alarm_has_fired();
        }
        let turn_is_wanted = requests.has(Request::Fired) || requests.has(Request::Turn);
        let next = match whereabouts {
            _ if !turn_is_wanted => Next::at(self.earliest_tick(desk, requests)),
            Whereabouts::TimeDriver | Whereabouts::Errand => self.turn(desk),
            Whereabouts::Caller => self.turn_elsewhere(),
        };
        attended.is_unfinished = next.by_errand;
        let tick = self.at_the_latest(next.tick);
        let alarm = match &mut desk.alarm {
            Alarm::Runtimes(alarm) => alarm,
            Alarm::Threads(alarm) => {
                // The thread has nothing else to do than to go on.
                let tick = if next.by_errand { AT_ONCE } else { tick };
                self.bell.set_for(tick);
                alarm.set(tick);
                return true;
            }
        };
        self.bell.set_for(tick);
        match alarm.set(tick, whereabouts) {
            Set::Done => {}
            // Nothing comes after the end of time.
            Set::Passed if tick >= self.clock.last_tick() => return true,
            Set::Passed => {
                attended.passed = Some(tick);
                // The attendant finds it next.
                let _ = self.bell.ring(Request::Turn);
                return true;
            }
            Set::Ended => return false,
        }
        if alarm.must_be_attached() {
            self.attach_elsewhere(alarm);
        } else if next.by_errand && whereabouts != Whereabouts::Errand {
            self.send_errand(alarm);
        }
        true
    }

    /// Turns, and says what comes next.
    fn turn(&self, desk: &mut Desk) -> Next {
        self.bell.begin_to_read_plans();
        let turned = desk.turner.turn();
        if let Some(lateness) = desk.fired_alarm.answered(turned.began) {
            self.lateness.set(lateness);
            let late = self.clock.tick().span(lateness.ticks).into();
            events::driver_was_late(lateness.ticks, late, || self.clock.is_virtual());
        }
        match turned.came_to {
            CameTo::Until(tick) => Next::at(tick),
            // If the errand that goes on has to wait, the time driver goes on.
            CameTo::Unfinished => Next {
                tick: self.clock.current_tick() + 1,
                by_errand: true,
            },
        }
    }

    /// A turn is wanted, and not to be made here.
    fn turn_elsewhere(&self) -> Next {
        if self.clock.is_pausable() {
            // Virtual time must not pass for it.
            return Next {
                tick: NEVER,
                by_errand: true,
            };
        }
        // The time driver makes it when it comes round next.
        Next::at(self.clock.current_tick() + 1)
    }

    /// The tick that the alarm is to be set for without a turn.
    fn earliest_tick(&self, desk: &mut Desk, requests: Requests) -> u64 {
        let next_tick = if requests.has(Request::Tick) {
            desk.turner.begin_to_tick().unwrap_or(NEVER)
        } else {
            NEVER
        };
        if !self.clock.is_pausable() {
            let asked_for = self.bell.take_asked_for();
            return desk.alarm.at().min(asked_for).min(next_tick);
        }
        // Not earlier than it must be. Otherwise a timer that was disarmed would pull virtual time
        // along. So what was asked for does not count here: the plan that it was asked for may have
        // been put off since, by another thread. Where it was not, the plans have it.
        self.bell.begin_to_read_plans();
        let plan = desk.turner.earliest_plan().min(next_tick);
        if self.clock.stamp().is_some() {
            plan.min(desk.alarm.at())
        } else {
            plan
        }
    }

    /// The tick to set the alarm for, so that it tells the end of the runtime where it has to.
    fn at_the_latest(&self, tick: u64) -> u64 {
        match self.ending.stage() {
            Stage::Running => tick,
            Stage::Expected => tick.min(self.clock.last_tick()),
            // Nothing fires any more before the end.
            Stage::Refusing | Stage::LookedFor => self.clock.last_tick(),
        }
    }

    /// Lets an errand attach the alarm. If the runtime takes no task any more, a thread looks for
    /// its end instead.
    fn attach_elsewhere(self: &Arc<Self>, alarm: &RuntimeAlarm) {
        if self.ending.stage() < Stage::Refusing {
            self.send_errand(alarm);
        } else if self.ending.begin_to_look() {
            look_for_the_end(self);
        }
    }

    /// Closes every shard, for ever.
    fn end(&self, desk: Desk) {
        // Release: pairs with the Acquire in `has_ended`. It comes before the shards are closed, so
        // a thread that finds one closed, under its lock, finds the driver ended.
        self.ended.store(true, Ordering::Release);
        // Nobody needs to ring any more.
        self.bell.set_for(0);
        let runtime = self.watchers().end();
        // Under no lock: the last reference to a runtime drops what it still has.
        drop(runtime);
        desk.turner.close();
    }

    /// Nothing panics under this lock.
    pub(super) fn desk(&self) -> MutexGuard<'_, Option<Desk>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    pub(super) fn new(alarm: Alarm, turner: Turner) -> Desk {
        Desk {
            alarm,
            turner,
            fired_alarm: FiredAlarm::default(),
        }
    }

    fn alarm_has_fired(&mut self) {
        let tick = match &mut self.alarm {
            Alarm::Runtimes(alarm) => Some(alarm.fired()),
            Alarm::Threads(alarm) => alarm.fired(),
        };
        if let Some(tick) = tick {
            self.fired_alarm.fired(tick);
        }
    }

    /// Whether the alarm is set, and nobody would be woken by it.
    pub(super) fn alarm_must_be_attached(&self) -> bool {
        matches!(&self.alarm, Alarm::Runtimes(alarm) if alarm.must_be_attached())
    }
}

impl Alarm {
    /// The tick that it is set for.
    fn at(&self) -> u64 {
        match self {
            Alarm::Runtimes(alarm) => alarm.at(),
            Alarm::Threads(alarm) => alarm.at(),
        }
    }
}

impl Next {
    fn at(tick: u64) -> Next {
        Next {
            tick,
            by_errand: false,
        }
    }
}
