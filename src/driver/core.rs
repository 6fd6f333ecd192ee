//! The core of the driver, and the running thread: the thread that does the driver's work at a
//! moment.
//!
//! ```text
//!   submit --(none runs)-----> take the core --> serve the requests --> put the core back --> release
//!                                ^                 turn, or find when the next turn is           |
//!                                |                 set the alarm                                |
//!                                +--------------------(requested meanwhile)---------------------+
//! ```
//!
//! It turns only where tokio would run wakers: within tokio's time driver, or on the alarm's own
//! thread. So a waker that blocks holds up what it would hold up with tokio. Elsewhere it sets the
//! alarm for the next moment. Wakers run outside every lock, and a panic in one stops nothing else.
//!
//! Invariants:
//!
//! - When the running thread stops, the alarm is set for the earliest expiry or before, or the time
//!   driver has ended, and so has this one.
//! - The clock is read before any shard is turned, to the floor of that reading.

use std::sync::{Arc, MutexGuard, Weak};
use std::task::Waker;

use super::Driver;
use super::requests::{Request, Running};
use crate::clock::tick::{Moment, Tick};
use crate::shard::{MissedTick, Shard};
use crate::sync::lock;

/// The state that only the running thread works with.
pub(super) struct Core {
    alarm: Box<dyn Alarm>,
    /// A shard is dropped once no thread can arm on it any more and nothing is armed in it.
    shards: Box<[Weak<Shard>]>,
    /// The turn wakes what is due from here. Outside a turn it is empty.
    wakers: Vec<Waker>,
    /// The tick for which the next turn was set. What is due before that was linked later.
    next_turn: Tick,
}

/// What one run of the driver has learnt so far.
struct Run {
    /// Whether it is made within tokio's time driver, or on the alarm's own thread.
    is_in_time_driver: bool,
    /// The tick at which it began, once that was read.
    began: Option<Tick>,
    /// The tick up to which tokio's time driver has worked already, if the alarm was set for it.
    passed: Option<Tick>,
}

/// What fires when the next turn is due. The running thread alone calls it.
pub(super) trait Alarm: Send {
    /// The tick that it is set for.
    fn at(&self) -> Tick;

    /// Sets it for the beginning of a tick, or unsets it for `NEVER`.
    fn set(&mut self, tick: Tick) -> SetOutcome;

    /// Sets it so that it fires next, where `now` is the present tick. Returns the first tick that
    /// it is in time for too.
    fn set_soon(&mut self, now: Tick) -> (SetOutcome, Tick);

    /// Notes that it has fired.
    fn note_fired(&mut self);

    /// Whether it will never fire again, because its runtime has ended.
    fn has_ended(&mut self) -> bool {
        false
    }
}

/// The result of setting the alarm.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SetOutcome {
    Done,
    /// The time of this tick has passed already.
    Passed(Tick),
    /// Its runtime has ended.
    Ended,
}

impl Driver {
    /// Submits a request, and runs the driver if no other thread does. Returns a tick that had
    /// passed already when the alarm was set for it.
    pub(super) fn run(&self, request: Request) -> Option<MissedTick> {
        let mut run = Run {
            is_in_time_driver: request == Request::FIRED,
            began: None,
            passed: None,
        };
        let mut comes_at = Tick::NEVER;
        self.requests.run(request, |running, requests| {
            let Some(mut core) = self.core().take() else {
                return;
            };
            let set = self.serve(&mut core, running, requests, &mut run);
            if set == SetOutcome::Ended {
                return self.end(core, running);
            }
            comes_at = core.alarm.at();
            *self.core() = Some(core);
            if let SetOutcome::Passed(tick) = set {
                run.passed = run.passed.max(Some(tick));
                // This thread takes it next, because it is still running.
                let _ = self.requests.submit(Request::TURN);
            }
        });
        run.passed.map(|up_to| MissedTick { up_to, comes_at })
    }

    /// Serves the requests, and returns what came of setting the alarm.
    fn serve(
        &self,
        core: &mut Core,
        running: &mut Running<'_>,
        requests: Request,
        run: &mut Run,
    ) -> SetOutcome {
        if core.alarm.has_ended() {
            return SetOutcome::Ended;
        }
        let has_fired = requests.has(Request::FIRED);
        if !has_fired && !requests.has(Request::TURN) {
            let tick = self.earliest_tick(core, running);
            self.note_wait(core, tick, run);
            running.set_for(tick);
            return core.alarm.set(tick);
        }
        let now = self.clock.now();
        let present = self.clock.tick().current(now);
        if has_fired {
            core.alarm.note_fired();
        }
        if !run.is_in_time_driver {
            self.note_wait(core, present, run);
            let (set, tick) = core.alarm.set_soon(present);
            if tick > present {
                run.passed = Some(present);
            }
            running.set_for(tick);
            return set;
        }
        run.began.get_or_insert(present);
        self.note_progress(now);
        let (next, now) = running.read(|| self.fire_due(core, present, now));
        core.next_turn = next;
        self.clock.stalls().turn_ends(next, now);
        running.set_for(next);
        core.alarm.set(next)
    }

    /// No turn happens now, but the alarm is set for `tick`. What is overdue keeps waiting. If that
    /// is gone, nothing shows its lateness later, so it is noted here.
    fn note_wait(&self, core: &mut Core, tick: Tick, run: &mut Run) {
        let now = self.clock.now();
        let present = self.clock.tick().current(now);
        let stalls = self.clock.stalls();
        let is_late = stalls.waits_since() <= present;
        if is_late && tick <= present {
            return;
        }
        if is_late {
            self.note_progress(now);
        }
        // A timer may be linked in the past, and has not waited. But a request may be as old
        // as this run, which may have been held up since.
        core.next_turn = tick.max(*run.began.get_or_insert(present));
        stalls.wait_from(core.next_turn);
    }

    /// The driver goes on at `now`. If it was held up until then, that was a stall.
    fn note_progress(&self, now: Moment) {
        let stalls = self.clock.stalls();
        if let Some(length) = stalls.turn_begins(now, || self.clock.is_virtual()) {
            self.reporter.driver_was_stalled(length);
        }
    }

    /// Fires what is due at `present` in every shard, a batch of each by turns. Returns the
    /// earliest expiry, and when it had done all. Work that was left for a task would wait in a run
    /// queue, behind tasks that are always ready.
    fn fire_due(&self, core: &mut Core, present: Tick, mut now: Moment) -> (Tick, Moment) {
        let waited_since = core.next_turn;
        let Core { shards, wakers, .. } = core;
        loop {
            let mut expiry = Tick::NEVER;
            let mut is_finished = true;
            for shard in shards.iter().filter_map(Weak::upgrade) {
                let next = shard.next_expiry();
                if next > present {
                    expiry = expiry.min(next);
                    continue;
                }
                match shard.fire_batch(present, now, waited_since, wakers) {
                    Some(next) => expiry = expiry.min(next),
                    None => is_finished = false,
                }
                drop(shard);
                self.reporter.wake_all(wakers);
                // A waker may have taken its time.
                now = self.clock.now();
                self.note_progress(now);
            }
            if is_finished {
                return (expiry, now);
            }
        }
    }

    /// The tick that the alarm is to be set for without a turn.
    fn earliest_tick(&self, core: &Core, running: &mut Running<'_>) -> Tick {
        if !self.clock.is_pausable() {
            return core.alarm.at().min(running.take_asked_for());
        }
        // What was asked for does not count here: its timer may be disarmed since, and would pull
        // virtual time along. Where it is not, the next expiries have it.
        running.read(|| {
            let expiries = core.shards().map(|shard| shard.next_expiry());
            expiries.min().unwrap_or(Tick::NEVER)
        })
    }

    fn end(&self, core: Core, running: &mut Running<'_>) {
        // Nothing need be notified any more.
        running.set_for(Tick::FIRST);
        self.close(core.shards());
    }

    /// Closes every shard, for ever.
    pub(super) fn close(&self, shards: impl Iterator<Item = Arc<Shard>>) {
        // First, so a thread that finds a shard closed, under its lock, finds the clock ended.
        self.clock.end();
        // Nothing waits any more.
        self.clock.stalls().wait_from(Tick::NEVER);
        for shard in shards {
            self.reporter.wake_all(&mut shard.close());
        }
        let waits = std::mem::take(&mut *lock(&self.waits));
        self.reporter
            .wake_all(&mut waits.into_iter().map(|(_, waker)| waker).collect());
    }

    /// Nothing panics under this lock.
    pub(super) fn core(&self) -> MutexGuard<'_, Option<Core>> {
        lock(&self.core)
    }
}

impl Core {
    pub(super) fn new(alarm: impl Alarm + 'static, shards: &[Arc<Shard>]) -> Core {
        Core {
            alarm: Box::new(alarm),
            shards: shards.iter().map(Arc::downgrade).collect(),
            wakers: Vec::new(),
            next_turn: Tick::NEVER,
        }
    }

    fn shards(&self) -> impl Iterator<Item = Arc<Shard>> + '_ {
        self.shards.iter().filter_map(Weak::upgrade)
    }
}
