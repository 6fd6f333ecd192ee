//! The driver: what turns every wheel of a timer, in time.
//!
//! ```text
//!   somebody arms earlier than the alarm is set for                      the alarm fires, in tokio's time driver
//!             |                                                                  |
//!             v                                                                  v
//!   set the alarm for that tick   <--- the earliest plan of all shards ---   turn (see `turner`)
//!                                      or, while ticking, the next tick          |
//!                                                                                +-- too long for one stretch: an errand goes on
//! ```
//!
//! There is no driver task. The turn is made in the waker of one tokio timer, the [alarm](alarm),
//! where tokio's own timers wake theirs; and the next is planned right there. So nothing stands
//! between a due and its timer: no task that must be scheduled, no slot that it could be pushed out
//! of, and no waker that must wait for a task. Who does it is settled by a [bell](bell), and is
//! called the attendant.
//!
//! The process's timer has no runtime. Its alarm is a [thread](thread_alarm), and all else is the
//! same.
//!
//! Invariants:
//!
//! - One turn is made at a time, by the attendant. It holds no lock over it: it has the only key to
//!   what it works with.
//! - Threads that arm never turn: wakers are user code, and theirs to run only where tokio would
//!   run them.
//! - While something is armed, the alarm is set for the earliest plan or before, or a turn is being
//!   made or asked for. While nothing is armed it wakes nobody, and on a clock that can be paused
//!   there is no tokio timer at all.
//! - The driver holds its shards weakly, and its waker holds the driver weakly. Who can still arm a
//!   timer, or has one pending, holds a shard, and each shard holds the driver; when the last has
//!   let go, all of it is dropped.
//! - The shards are closed when the runtime's time driver has ended: by the waker that it then
//!   fires, after every task was dropped, or by who finds it ended when it sets the alarm (see
//!   `alarm`).

mod alarm;
pub(crate) mod bell;
mod ending;
mod errand;
mod mode;
mod thread_alarm;
mod turner;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Wake;

use tokio::runtime::{Handle, worker_index};

use crate::shard::Shard;
use crate::time::clock::Clock;
use crate::time::tick::NEVER;
use alarm::{RuntimeAlarm, Set};
use bell::{Bell, Request, Requests};
use ending::{Ending, Stage};
pub(crate) use errand::Watch;
use errand::{Errand, Watchers, look_for_the_end};
use mode::Mode;
use thread_alarm::ThreadAlarm;
use turner::{Turned, Turner};

/// What turns the wheels of one timer.
pub(crate) struct Driver {
    bell: Bell,
    clock: Arc<Clock>,
    /// What the attendant works with. It is here while nobody attends; never, once the driver has
    /// ended.
    desk: Mutex<Option<Desk>>,
    /// Whether it may ever be better to tick.
    may_tick: bool,
    wake_ups: AtomicU64,
    /// Set before the shards are closed, never cleared.
    ended: AtomicBool,
    errand_is_sent: AtomicBool,
    /// It is on its way to the runtime, which may refuse it.
    errand_is_being_sent: AtomicBool,
    ending: Ending,
    watchers: Mutex<Watchers>,
}

/// What the attendant works with.
struct Desk {
    alarm: Alarm,
    turner: Turner,
}

/// What fires when the next turn is due.
enum Alarm {
    /// One of a runtime's timers.
    Runtimes(RuntimeAlarm),
    /// A thread, for the process's timer.
    Threads(ThreadAlarm),
}

/// Where the attendant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Within tokio's time driver, where it fires its timers; or on the alarm's own thread.
    TimeDriver,
    /// In a task of the runtime that was sent by the driver, or where the runtime drops it.
    Errand,
    /// Anywhere: in a call of the user's.
    Caller,
}

impl Driver {
    /// A driver that does nothing before it [begins](Driver::begin).
    pub(crate) fn new(clock: Arc<Clock>) -> Driver {
        Driver {
            may_tick: mode::may_tick(clock.tick()),
            bell: Bell::new(),
            clock,
            desk: Mutex::new(None),
            wake_ups: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            errand_is_sent: AtomicBool::new(false),
            errand_is_being_sent: AtomicBool::new(false),
            ending: Ending::far(),
            watchers: Mutex::default(),
        }
    }

    /// Begins to drive these shards, on the runtime of `handle`, in whose context this is to be
    /// called.
    pub(crate) fn begin(self: &Arc<Self>, shards: &[Arc<Shard>], handle: &Handle) {
        let ring = Ring {
            driver: Arc::downgrade(self),
            is_muted: AtomicBool::new(false),
        };
        let alarm = RuntimeAlarm::new(handle, self.clock.clone(), ring);
        self.watchers().runtime = Some(handle.clone());
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
        let mode = Mode::new(self.clock.tick());
        let always_ticks = mode.always_ticks();
        *self.desk() = Some(Desk {
            alarm,
            turner: Turner::new(shards, self.clock.clone(), mode),
        });
        if always_ticks && !self.clock.is_virtual() {
            self.come_by(self.clock.current_tick() + 1);
        }
    }

    /// Has the driver turn at `tick` at the latest; the plan was lowered to that. Under no lock.
    /// `true` if tokio's time driver has worked up to that tick already.
    #[inline]
    pub(crate) fn come_by(self: &Arc<Self>, tick: u64) -> bool {
        !self.bell.is_set_by(tick) && self.come_earlier(tick)
    }

    #[cold]
    fn come_earlier(self: &Arc<Self>, tick: u64) -> bool {
        self.bell.ask_for(tick);
        let attended = self.attend(Request::Plan, Whereabouts::Caller);
        attended.passed.is_some_and(|passed| passed >= tick)
    }

    /// A plan was put off from `tick`: has the alarm put off too, if it is set for that. Under no
    /// lock.
    pub(crate) fn need_not_come_at(self: &Arc<Self>, tick: u64) {
        if !self.is_set_before(tick) {
            self.attend(Request::Plan, Whereabouts::Caller);
        }
    }

    fn is_set_before(&self, tick: u64) -> bool {
        tick.checked_sub(1)
            .is_some_and(|before| self.bell.is_set_by(before))
    }

    /// Whether readings of the clock are to be counted, as it may be better to tick.
    #[inline]
    pub(crate) fn may_tick(&self) -> bool {
        self.may_tick && !self.clock.was_virtual()
    }

    /// Has the driver tick from now on, if that is better; `Clock::want_ticking` was called. Under
    /// no lock.
    #[cold]
    pub(crate) fn begin_to_tick(self: &Arc<Self>) {
        self.attend(Request::Tick, Whereabouts::Caller);
    }

    /// Whether the runtime has gone, as far as anybody has noticed.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How often the alarm has fired.
    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// Requests something, and attends if nobody does.
    fn attend(self: &Arc<Self>, request: Request, whereabouts: Whereabouts) -> Attended {
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
        if let (true, Alarm::Runtimes(alarm)) = (requests.has(Request::Fired), &mut desk.alarm) {
            alarm.fired();
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
                let tick = if next.by_errand { 0 } else { tick };
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
            self.have_it_attached(alarm);
        } else if next.by_errand && whereabouts != Whereabouts::Errand {
            self.send_errand(alarm);
        }
        true
    }

    /// Turns, and says what comes next.
    fn turn(&self, desk: &mut Desk) -> Next {
        self.bell.begin_to_read_plans();
        match desk.turner.turn() {
            Turned::Until(tick) => Next::at(tick),
            // Should the errand that goes on be kept waiting, the time driver goes on.
            Turned::Unfinished => Next {
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
        // As soon as the time driver comes round.
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
        // Not earlier than need be, or a timer that was disarmed would pull virtual time along.
        let asked_for = self.bell.take_asked_for();
        self.bell.begin_to_read_plans();
        let plan = desk.turner.earliest_plan().min(asked_for).min(next_tick);
        if self.clock.stamp().is_some() {
            plan.min(desk.alarm.at())
        } else {
            plan
        }
    }

    /// The tick to set the alarm for, if the end of the runtime is to be told.
    fn at_the_latest(&self, tick: u64) -> u64 {
        match self.ending.stage() {
            Stage::Running => tick,
            Stage::Expected => tick.min(self.clock.last_tick()),
            // Nothing fires any more before the end.
            Stage::Refusing | Stage::LookedFor => self.clock.last_tick(),
        }
    }

    fn have_it_attached(self: &Arc<Self>, alarm: &RuntimeAlarm) {
        if self.ending.stage() < Stage::Refusing {
            self.send_errand(alarm);
        } else if self.ending.begin_to_look() {
            look_for_the_end(self);
        }
    }

    /// Sends an errand, unless one is on the way. A runtime that shuts down drops it at once.
    fn send_errand(self: &Arc<Self>, alarm: &RuntimeAlarm) {
        if self.errand_is_sent.swap(true, Ordering::AcqRel) {
            return;
        }
        let (driver, runtime) = (self.clone(), alarm.handle().clone());
        let send = move || {
            driver.errand_is_being_sent.store(true, Ordering::Release);
            drop(runtime.spawn(Errand::new(&driver)));
            driver.errand_is_being_sent.store(false, Ordering::Release);
        };
        let may_be_own_worker = worker_index().is_some() && !self.clock.is_pausable();
        if may_be_own_worker && !alarm.is_attached() {
            // What one of many workers spawns lies in a place of its alone, and this one may block
            // next.
            errand::send_from_elsewhere(send);
        } else {
            send();
        }
    }

    /// Closes every shard, for ever.
    fn end(&self, desk: Desk) {
        self.ended.store(true, Ordering::Release);
        // Nobody needs to ring any more.
        self.bell.set_for(0);
        drop(self.watchers().runtime.take());
        desk.turner.close();
    }

    /// Nothing panics under this lock.
    fn desk(&self) -> MutexGuard<'_, Option<Desk>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether it is set, and nobody would be woken by it.
    fn must_be_attached(&self) -> bool {
        matches!(self, Alarm::Runtimes(alarm) if alarm.must_be_attached())
    }
}

/// For errands.
impl Driver {
    fn errand_has_come(&self) {
        self.errand_is_sent.store(false, Ordering::Release);
    }

    /// The runtime takes no tasks any more. If it drops them now, its time driver ends after that.
    fn errand_was_dropped(self: &Arc<Self>) {
        let was_refused = self.errand_is_being_sent.load(Ordering::Acquire);
        self.errand_is_sent.store(false, Ordering::Release);
        self.ending.tasks_are_refused();
        let whereabouts = if was_refused {
            Whereabouts::Caller
        } else {
            Whereabouts::Errand
        };
        self.attend(Request::Plan, whereabouts);
    }

    /// The runtime drops its tasks, and somebody waits for its end.
    fn expect_the_end(self: &Arc<Self>, whereabouts: Whereabouts) {
        self.ending.is_expected();
        self.attend(Request::Plan, whereabouts);
    }

    /// Looks whether the time driver has ended; `false` if nobody has to look again.
    fn look_for_the_end(self: &Arc<Self>) -> bool {
        self.attend(Request::Plan, Whereabouts::Caller);
        match &*self.desk() {
            Some(desk) if desk.alarm.must_be_attached() => true,
            Some(_) => {
                self.ending.stop_looking();
                false
            }
            // It has ended, or somebody attends.
            None => !self.has_ended(),
        }
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of attending.
#[derive(Debug, Default)]
struct Attended {
    /// A turn has to go on.
    is_unfinished: bool,
    /// tokio's time driver had worked up to this tick when the alarm was set for it.
    passed: Option<u64>,
}

/// What comes next.
struct Next {
    /// The tick to set the alarm for.
    tick: u64,
    /// An errand is to turn before that.
    by_errand: bool,
}

impl Next {
    fn at(tick: u64) -> Next {
        Next {
            tick,
            by_errand: false,
        }
    }
}

/// What the alarm wakes.
struct Ring {
    driver: Weak<Driver>,
    /// The alarm is being unset, and so elapses for nobody.
    is_muted: AtomicBool,
}

impl Ring {
    fn while_muted(&self, act: impl FnOnce()) {
        self.is_muted.store(true, Ordering::Relaxed);
        act();
        self.is_muted.store(false, Ordering::Relaxed);
    }
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// While the alarm is being set somebody attends already. So who attends from here is within
    /// tokio's time driver.
    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_muted.load(Ordering::Relaxed) {
            return;
        }
        if let Some(driver) = self.driver.upgrade() {
            driver.wake_ups.fetch_add(1, Ordering::Relaxed);
            driver.attend(Request::Fired, Whereabouts::TimeDriver);
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("bell", &self.bell)
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}
