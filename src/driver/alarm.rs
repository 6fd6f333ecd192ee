//! The protocol of turns: who sets the alarm, who makes a turn, and who finds the end.
//!
//! [`Turns`] holds the alarm behind a lock. [`Hooks`] are what the driver does at the steps: it
//! reads its shards and fires what is due. It takes note of steps under the lock, and acts on them
//! after it. `tests/loom` compiles this file.
//!
//! A thread that arms something earlier takes the lock, compares, and sets the alarm. A turn takes
//! the lock when it begins, and again when it reads the next expiries and sets the alarm. In
//! between the turn has the alarm, and the lock guards none.
//!
//! No thread waits for a thread that sets the alarm. If the lock is taken, a request is noted, also
//! that of an alarm that has fired. The holder reads the next expiries once more after it has
//! released the lock. If something is due already, the holder sets the alarm to fire as soon as it
//! can.
//!
//! ```text
//!   not begun --(begin)--> set --(the alarm fires: T1)--> turning --(it has set the alarm: T3)--> set
//!                          | |                               ^                                   |
//!                          | +--(T1 after a stall: W)--> waiting                                 |
//!                          |                                 |                                   |
//!                          +--(a thread that releases the lock finds it: R)-> ended <------------+
//! ```
//!
//! The steps of the two who set the alarm:
//!
//! ```text
//!   a turn                                        a thread that has armed something earlier
//!   ------                                        -----------------------------------------
//!   T1  take the lock, or note a request (Q)      S1  its expiry is written, and the next check
//!       release it; fire what is due                  comes later (`clock::next_check`)
//!   T2  take the lock again, read the expiries    S2  take the lock, or note a request (Q)
//!       (`NextCheck::begin`)                      S3  read the expiry and the next check again,
//!   T3  set the alarm, and say so                     set the alarm if that is earlier, say so
//!   R   release the lock; close the timer if      R   release the lock; close the timer if its
//!       its runtime has ended                         runtime has ended
//!   Q   look for requests: serve them by          Q   the same
//!       setting the alarm for the earliest
//! ```
//!
//! After a stall the turn waits (W), so that tasks run first: the alarm is set for the tick by
//! which the turn is made, and the driver has a task that makes it sooner. The next check is said
//! to come at once, as in a turn, because the turn reads all expiries. A firing of the alarm in
//! between sets it for that tick again, and makes the turn if that has passed. But if the wait was
//! held up itself, it goes on until a later tick, once.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The alarm fires on two threads.* The second leaves its turn to the first (T1), which reads
//!   the next expiries and sets the alarm after this firing (T2, T3). So no worker waits behind a
//!   slow waker on another worker.
//! - *That second firing is the end of the time driver.* The turn looks for the end as it releases
//!   the lock (R), after it has set the alarm.
//! - *A thread arms something while a turn is made.* It leaves the alarm alone, because the turn
//!   reads the next expiries before it ends (T2). It need not even take the lock: between T1 and T2
//!   the next check is said to come at once.
//! - *The alarm fires on the thread that sets it*, within a call of tokio's. That firing notes a
//!   request too (Q).
//! - *Foreign code runs on the thread that sets the alarm*: a panic hook as the runtime ends, or a
//!   subscriber of tokio's own tracing. It may arm something on this timer, or wait for a thread
//!   that does. Neither waits for the lock.
//! - *A request is noted as the holder releases the lock.* The thread notes it and then tries the
//!   lock again. The holder releases it and then looks (Q). Each has a sequentially consistent
//!   fence in between, so one of the two sees the other.
//! - *The alarm fires while a turn waits, as another thread holds the lock.* The request that it
//!   notes (Q) sets the alarm for the wait's last tick. If that has passed, a task makes the turn.
//! - *The wait's last tick has passed when the alarm is set for it.* The turn is then made at once,
//!   and no task is started. So the stalls are told that none runs, or they would leave what is due
//!   to it for ever.
//! - *The runtime ends, and drops the task to which a turn was left.* The alarm may have fired
//!   already, and have left a request to that task. So whoever leaves a turn to a task lets the
//!   alarm watch the end first, under the lock. It then fires once more, as the time driver ends.
//! - *A task that makes a turn finds the lock taken*, maybe by the thread that has left the turn to
//!   it. The request that it notes leaves another turn to a task. That of the task that ends a wait
//!   finds the wait over.
//! - *The tick has passed when the alarm is set for it.* A turn then begins once more. Any other
//!   thread leaves a turn to the alarm's task. By `note_missed`, each shard knows that what is
//!   armed for that tick or before is due at once. Where the thread's clock is behind tokio's, the
//!   reset to the past itself notes a request, without end; so that thread sets the alarm no more,
//!   and leaves each further request to a task. No check is announced until the task makes the
//!   turn, so whoever arms something for later asks, too, and learns whether that has passed.
//!
//! Invariants:
//!
//! - One turn is made at a time.
//! - No user code but such foreign code runs under the lock. Wakers, events and drops follow it.
//! - Only a turn waits for the lock, at T2. While a turn is made, no other thread that holds the
//!   lock sets the alarm.

use std::task::Waker;
use std::time::Duration;

use crate::clock::next_check::NextCheck;
use crate::clock::tick::{Moment, Tick};
use crate::shard::shard_tick::ShardTick;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, fence, lock, try_lock};

/// Fires when the next turn is due.
pub(crate) trait Alarm: Send {
    /// Sets it for the start of a tick, or unsets it for `NEVER`. If that start has passed already,
    /// the error is the last tick known to have passed, and the caller makes or requests a turn.
    fn set(&mut self, tick: Tick) -> Result<(), Tick>;

    /// It is set for `next`, and may be set for a later turn, too. Nothing depends on that, but it
    /// may spare a wake-up of the time driver.
    fn set_also(&mut self, _next: Tick, _after: Tick) {}

    /// A turn is about to be left to a task, which a runtime that ends drops. From now on the alarm
    /// fires as its time driver ends, also if it has fired before.
    fn watch_end(&mut self) {}

    /// Whether only the alarm's task can set it, and not the calling thread.
    fn needs_task(&self) -> bool {
        false
    }

    /// When the time driver has ended, once the timer is to learn of that.
    fn ended(&mut self) -> Option<Moment> {
        None
    }
}

/// What the driver does at the steps of the protocol.
pub(crate) trait Hooks {
    /// At T2 and S3, under the lock: the earliest expiry of all shards, and a later tick at which
    /// there may be work.
    fn expiries(&self) -> [Tick; 2];

    /// Between T1 and T2, under no lock: fires what is due at `now`. Returns the time at the end.
    /// Where a turn begins once more, `begun` is a tick that has begun meanwhile.
    fn fire(&self, now: Moment, begun: Option<Tick>, wakers: &mut Vec<Waker>) -> Moment;

    /// Under the lock: takes note of a step. Returns how late the driver is found by it.
    fn note(&self, step: Step) -> Option<Late>;

    /// Under no lock: does what follows from a step.
    fn act(&self, act: Act);
}

/// A step of the protocol that the driver takes note of.
pub(crate) enum Step {
    /// T1: a turn has come at this moment. It takes the alarm, unless it is late by a stall: then
    /// it waits until a tick.
    Begins(Moment),
    /// T1: the turn does not wait after all, because that tick has passed.
    WaitFails,
    /// T1: that tick has passed at this moment. The turn waits again, until a later tick, if the
    /// wait was held up.
    WaitElapses(Moment),
    /// T1: a turn that has waited takes the alarm, at this moment.
    WaitEnds(Moment),
    /// T2: a turn that has fired all that is due at `now` has read the expiries. The earliest is
    /// `next`.
    Ends { next: Tick, now: Moment },
    /// S3: the alarm is about to be set for `tick`, without a turn.
    Sets { tick: Tick, now: Moment },
    /// S3: this tick has begun, and it was too late to set the alarm for it.
    Misses(Tick),
    /// S3: this expiry is left to the alarm's task.
    LeavesToTask(Tick),
}

/// What the driver does once the lock is released.
pub(crate) enum Act {
    /// W: reports the stall that was found at this moment, lets tasks run, and then ends the wait
    /// by [`Turns::end_wait`].
    LetTasksRun(Moment, Late),
    /// T1, S3: reports the stall, if one has ended.
    Report(Late),
    /// T3, S3, Q: lets the alarm's task make a turn.
    NotifyTask,
    /// R: closes the timer, because its runtime has ended at this moment. Comes once.
    Close(Moment),
}

/// The driver is late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// The length of the stall that ends with this, if any, which is yet to be reported.
    pub(crate) by: Option<Duration>,
    /// The tick by which the driver comes next.
    pub(crate) until: Tick,
}

/// Which thread makes a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnBy {
    /// That on which the alarm fired.
    Alarm,
    /// That of the alarm's task, which may set any alarm.
    Task,
}

/// The alarm of a driver, and the turns that it causes.
pub(crate) struct Turns {
    /// The alarm, and where its turns stand.
    state: Mutex<State>,
    /// Whether a request was noted at a taken lock (Q).
    is_asked: AtomicBool,
    /// Whether the tasks have run for which a turn waits. Written without the lock by the one that
    /// knows.
    has_waited: AtomicBool,
    /// When the driver reads the next expiries, at the latest. Written under the lock, and once
    /// more after the end.
    next_check: NextCheck,
}

/// Which thread has the alarm.
enum State {
    /// There is no alarm yet.
    NotBegun,
    /// The alarm is set, or unset while nothing is armed.
    Set(Parts),
    /// As `Set`, for a tick by which a turn is made that waits.
    Waiting(Parts, Tick),
    /// A turn has the alarm.
    Turning,
    /// The runtime has ended, and the alarm is dropped.
    Ended,
}

/// What a turn takes along.
struct Parts {
    /// It is set only by a thread that holds the lock, or by the turn that has it.
    alarm: Box<dyn Alarm>,
    /// The buffer for the wakers of a turn, empty outside of one.
    wakers: Vec<Waker>,
}

type Locked<'a> = MutexGuard<'a, State>;

impl Turns {
    pub(crate) fn new() -> Turns {
        Turns {
            state: Mutex::new(State::NotBegun),
            is_asked: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            next_check: NextCheck::new(Tick::NEVER),
        }
    }

    /// The alarm is made under the lock.
    pub(crate) fn begin(&self, make: impl FnOnce() -> Box<dyn Alarm>) {
        let mut locked = lock(&self.state);
        *locked = State::Set(Parts {
            alarm: make(),
            wakers: Vec::new(),
        });
    }

    pub(crate) fn next_check(&self) -> &NextCheck {
        &self.next_check
    }

    /// Makes the turn that waits, in a task, at `now`.
    pub(crate) fn end_wait<H: Hooks>(&self, hooks: &H, now: Moment) {
        // Release: pairs with the Acquire of each look.
        self.has_waited.store(true, Ordering::Release);
        self.turn(hooks, now, TurnBy::Task);
    }

    /// Turns until the alarm is set for a future tick, or left to its task. `now` is read before,
    /// under no lock.
    pub(crate) fn turn<H: Hooks>(&self, hooks: &H, mut now: Moment, by: TurnBy) {
        // T1.
        let Some(mut locked) = self.try_lock() else {
            return;
        };
        let has_waited = self.has_waited.load(Ordering::Acquire);
        match locked.wait(hooks, now, by, has_waited) {
            // W.
            Some(Wait::Begins(late)) => {
                self.has_waited.store(false, Ordering::Relaxed);
                self.next_check.set(Tick::FIRST);
                self.release(hooks, locked);
                hooks.act(Act::LetTasksRun(now, late));
            }
            Some(Wait::BeginsAgain(late)) => {
                self.release(hooks, locked);
                hooks.act(Act::Report(late));
            }
            Some(Wait::GoesOn) => self.release(hooks, locked),
            None => now = self.turn_locked(hooks, now, by, locked),
        }
        if self.is_asked_again() {
            self.set_for_earliest(hooks, now);
        }
    }

    /// Returns the time at the end.
    fn turn_locked<'a, H: Hooks>(
        &'a self,
        hooks: &H,
        mut now: Moment,
        by: TurnBy,
        mut locked: Locked<'a>,
    ) -> Moment {
        let Some(mut parts) = locked.take_to_turn() else {
            self.release(hooks, locked);
            return now;
        };
        let mut begun = None;
        let needs_task = loop {
            // Expiries lowered from now on are read at T2, so their threads need not take the lock.
            self.next_check.set(Tick::FIRST);
            drop(locked);
            now = hooks.fire(now, begun, &mut parts.wakers);
            // T2.
            locked = lock(&self.state);
            let [next, after] = self.next_check.begin(|| hooks.expiries());
            hooks.note(Step::Ends { next, now });
            // T3.
            self.next_check.set(next);
            if by == TurnBy::Alarm && parts.alarm.needs_task() {
                break true;
            }
            if parts.alarm.set(next).is_ok() {
                parts.alarm.set_also(next, after);
                break false;
            }
            begun = Some(next);
        };
        *locked = State::Set(parts);
        self.release(hooks, locked);
        if needs_task {
            hooks.act(Act::NotifyTask);
        }
        now
    }

    /// Sets the alarm for an expiry that was lowered, unless the thread that holds the lock does,
    /// or the next check comes by then. `now` is read before the lock: timers that are due have
    /// waited since then at most.
    pub(crate) fn set_earlier<H: Hooks>(&self, hooks: &H, expiry: &ShardTick, now: Moment) {
        // S2.
        let Some(locked) = self.try_lock() else {
            return;
        };
        let is_left = self.set_locked(hooks, locked, Some(expiry), now);
        if self.is_asked_again() {
            self.serve(hooks, now, is_left);
        }
    }

    /// Sets the alarm for the earliest expiry, unless the thread that holds the lock does. `now` is
    /// as in `set_earlier`.
    pub(crate) fn set_for_earliest<H: Hooks>(&self, hooks: &H, now: Moment) {
        self.serve(hooks, now, false);
    }

    /// Q: serves requests, until there is none. Once a turn is left to a task, so are they, but for
    /// the end: another try to set the alarm might note the next request.
    fn serve<H: Hooks>(&self, hooks: &H, now: Moment, mut is_left: bool) {
        while let Some(locked) = self.try_lock() {
            if is_left {
                self.leave_to_task(hooks, locked);
            } else {
                is_left = self.set_locked(hooks, locked, None, now);
            }
            if !self.is_asked_again() {
                return;
            }
        }
    }

    /// Sets the alarm for an expiry, or for the earliest one, and releases the lock. Returns
    /// whether that was too late, and a turn is left to a task.
    fn set_locked<H: Hooks>(
        &self,
        hooks: &H,
        mut locked: Locked<'_>,
        expiry: Option<&ShardTick>,
        now: Moment,
    ) -> bool {
        let has_waited = self.has_waited.load(Ordering::Acquire);
        let waits_until = match *locked {
            State::Waiting(_, until) => Some(until),
            _ => None,
        };
        let Some(alarm) = locked.living_alarm() else {
            self.release(hooks, locked);
            return false;
        };
        if alarm.needs_task() {
            if let Some(expiry) = expiry {
                hooks.note(Step::LeavesToTask(expiry.get()));
            }
            drop(locked);
            hooks.act(Act::NotifyTask);
            return false;
        }
        if let Some(until) = waits_until {
            let is_over = has_waited || alarm.set(until).is_err();
            if is_over {
                self.leave_to_task(hooks, locked);
            } else {
                self.release(hooks, locked);
            }
            return is_over;
        }
        // S3.
        let tick = match expiry {
            Some(expiry) => expiry.get(),
            None => self.next_check.begin(|| hooks.expiries()[0]),
        };
        // It may be deferred since it was lowered, and would pull virtual time along.
        if expiry.is_some() && tick >= self.next_check.tick() {
            self.release(hooks, locked);
            return false;
        }
        let late = hooks.note(Step::Sets { tick, now });
        self.next_check.set(tick);
        let set = alarm.set(tick);
        if let Err(missed) = set {
            hooks.note(Step::Misses(missed));
            self.next_check.set(Tick::NEVER);
            self.leave_to_task(hooks, locked);
        } else {
            self.release(hooks, locked);
        }
        if let Some(late) = late {
            hooks.act(Act::Report(late));
        }
        set.is_err()
    }

    /// Releases the lock, and leaves a turn to a task.
    fn leave_to_task<H: Hooks>(&self, hooks: &H, mut locked: Locked<'_>) {
        if let Some(alarm) = locked.living_alarm() {
            alarm.watch_end();
        }
        self.release(hooks, locked);
        hooks.act(Act::NotifyTask);
    }

    /// R: releases the lock outside of a turn, and closes the timer if its runtime has ended.
    fn release<H: Hooks>(&self, hooks: &H, mut locked: Locked<'_>) {
        let Some((ended, parts)) = locked.take_to_end() else {
            return;
        };
        drop(locked);
        // No change need be notified any more.
        self.next_check.set(Tick::FIRST);
        hooks.act(Act::Close(ended));
        // Under no lock: the last reference to a runtime drops its remains.
        drop(parts);
    }

    /// Takes the lock. `None` if another thread or this one holds it. The holder will read the next
    /// expiries once more.
    fn try_lock(&self) -> Option<Locked<'_>> {
        if let Some(locked) = try_lock(&self.state) {
            return Some(locked);
        }
        // Q. Relaxed, here and in `is_asked_again`: the fences order it.
        self.is_asked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        try_lock(&self.state)
    }

    /// Whether no thread holds the lock, and no request is left.
    #[cfg(test)]
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.is_asked_again() && try_lock(&self.state).is_some()
    }

    /// Q: returns and clears whether a request was noted. Call this after the lock was released.
    fn is_asked_again(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::Relaxed)
    }
}

/// A turn that waits at W.
enum Wait {
    /// From now on, because the driver comes late by this stall.
    Begins(Late),
    /// It was held up, and is not over.
    BeginsAgain(Late),
    /// It has begun before, and is not over.
    GoesOn,
}

impl State {
    /// Whether the turn waits: one that comes after a stall, or while another one waits, unless
    /// that is over.
    fn wait<H: Hooks>(
        &mut self,
        hooks: &H,
        now: Moment,
        by: TurnBy,
        has_waited: bool,
    ) -> Option<Wait> {
        let alarm = self.living_alarm()?;
        let may_set = by != TurnBy::Alarm || !alarm.needs_task();
        if let State::Waiting(parts, until) = self {
            let is_over = has_waited || !may_set;
            if !is_over {
                if parts.alarm.set(*until).is_ok() {
                    return Some(Wait::GoesOn);
                }
                if let Some(late) = hooks.note(Step::WaitElapses(now)) {
                    *until = late.until;
                    if parts.alarm.set(*until).is_ok() {
                        return Some(Wait::BeginsAgain(late));
                    }
                }
            }
            hooks.note(Step::WaitEnds(now));
            return None;
        }
        if !may_set {
            return None;
        }
        let late = hooks.note(Step::Begins(now))?;
        let parts = self.take_to_turn()?;
        *self = State::Waiting(parts, late.until);
        let is_set = self.living_alarm()?.set(late.until).is_ok();
        if !is_set {
            hooks.note(Step::WaitFails);
        }
        is_set.then_some(Wait::Begins(late))
    }

    /// The alarm, for a turn, unless another turn has it or the runtime has ended.
    fn take_to_turn(&mut self) -> Option<Parts> {
        self.living_alarm()?;
        match std::mem::replace(self, State::Turning) {
            State::Set(parts) | State::Waiting(parts, _) => Some(parts),
            _ => unreachable!("it has the alarm"),
        }
    }

    /// The alarm, unless a turn has it or the runtime has ended.
    fn living_alarm(&mut self) -> Option<&mut Box<dyn Alarm>> {
        let (State::Set(parts) | State::Waiting(parts, _)) = self else {
            return None;
        };
        let has_ended = parts.alarm.ended().is_some();
        (!has_ended).then_some(&mut parts.alarm)
    }

    /// The end, and the alarm to drop, if the runtime has ended and this was not noted before.
    fn take_to_end(&mut self) -> Option<(Moment, Parts)> {
        let (State::Set(parts) | State::Waiting(parts, _)) = self else {
            return None;
        };
        let ended = parts.alarm.ended()?;
        match std::mem::replace(self, State::Ended) {
            State::Set(parts) | State::Waiting(parts, _) => Some((ended, parts)),
            _ => unreachable!("it has the alarm"),
        }
    }
}
