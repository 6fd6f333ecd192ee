//! The alarm of a runtime's timer: its driver's tokio timer.
//!
//! The alarm is a [`tokio::time::Sleep`] in no task. Its waker makes the turn where tokio's own
//! timers fire. A thread that arms something earlier resets it.
//!
//! ```text
//!   unset: not among tokio's timers --(set)--> set: among them --(its time, or the time driver's end)--> fired
//!     ^                                          |    ^                                                   |
//!     +---------------(unset)--------------------+    +-------------------(set)---------------------------+
//! ```
//!
//! The alarm is *attached* while the time driver would wake its waker. Firing detaches it. So does
//! every reset, because tokio may wake the waker within the reset, on the thread that holds the
//! alarm's lock, and such a wake is ignored. A poll attaches it again, and is repeated if it wakes
//! its own thread.
//!
//! # The end
//!
//! A sleep of a living runtime never elapses before its instant. So if the alarm has elapsed while
//! the instant of its last reset lies ahead, the time driver has ended. No other reading shows the
//! end. The check asks whether the sleep has elapsed, and then reads the clock, in this order.
//! Every thread that takes the alarm's lock checks first, a turn included.
//!
//! ```text
//!   alive --(the alarm or the end sleep has elapsed ahead of its time, ---> time driver ended --(`Linger`)--> ended
//!            or a reset or a poll has panicked)                             nothing of tokio's is touched any more
//! ```
//!
//! The alarm has often elapsed on time, and it is unset while nothing is armed. So a second tokio
//! sleep, the *end sleep*, lies at the end of time from the start, and is never reset. A time
//! driver that ends fires all its timers, and so wakes at least one of the two wakers.
//!
//! A clock that can be paused would run to the end of time. There the alarm's task stands in for
//! the end sleep: when it is dropped, it sets the alarm for the end of time. A runtime that shuts
//! down drops its tasks first, and its clock no longer runs. Before that the alarm shows nothing,
//! because a thread outside of the runtime reads another clock. The drop alone does not wake the
//! waits, because other tasks may be dropped after it.
//!
//! A reset or a poll may panic at the moment at which the time driver ends. Such a panic is caught,
//! and counts as the end. A panic hook sees it, and `panic = "abort"` leaves nothing to catch:
//! tokio has no other report of the end. After a reset only a pending alarm is polled.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The time driver ends while a thread resets the alarm.* The reset elapses at once, or panics.
//!   Or the alarm was set before the end, and fires with it.
//! - *The alarm's time comes at the moment of the end.* Then it shows nothing. The end sleep does,
//!   or the next reset, which elapses at once.
//! - *The runtime has ended before the timer is built.* The end sleep elapses in its first reset.
//!   Elsewhere, and on tokio's alternative timer, the runtime refuses a task: see `end`.
//! - *tokio's alternative timer* ends with each worker. It fires that worker's timers before tasks
//!   are dropped, and loses a timer that a worker sets at its last moment. The end sleep was set
//!   long before. See also `end`.
//!
//! # The alarm's task
//!
//! Threads that cannot set the alarm wake a task of the runtime, which reads the expiries and sets
//! it.
//!
//! - *On a clock that can be paused* virtual time must not run to a disarmed timer. It runs only
//!   while no task is ready. So a disarm that defers an expiry wakes the task, which sets the alarm
//!   once for all disarms so far. A thread whose clock is behind the runtime's wakes the task too,
//!   because it cannot tell when the time driver comes round next.
//! - *On tokio's alternative timer* each reset makes a new timer. That panics on a worker that
//!   shuts down, as where a task arms something in its `Drop`, and on a thread that has entered the
//!   runtime while running a current-thread one. Threads cannot find this out. So a thread in the
//!   context of the runtime wakes the task. A worker that has just learnt of the end may still run
//!   the task, which then panics, as a task's own tokio sleep does at that moment.
//!
//! Invariant: only a thread that holds the alarm's lock sets, unsets and polls it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::alarm::{Alarm, Place, SetOutcome};
use super::end::Linger;
use super::{Driver, Request};
use crate::clock::Clock;
use crate::clock::tick::{Moment, Tick};
use crate::runtime::coop::unconstrained;
use crate::runtime::{Handle, Id, JoinHandle, try_id};

pub(super) struct TokioAlarm {
    sleep: Pin<Box<Sleep>>,
    instant: Instant,
    /// `None` on a clock that can be paused.
    end_sleep: Option<Pin<Box<Sleep>>>,
    clock: Arc<Clock>,
    alarm_waker: Arc<AlarmWaker>,
    waker: Waker,
    /// Its wakes are never muted.
    end_waker: Waker,
    /// The tick that it is set for; `NEVER` if it is unset, or if its firing was noted.
    at: Tick,
    is_attached: bool,
    time_driver_ended: Option<Moment>,
    linger: Linger,
    /// On a clock that can be paused, and on tokio's alternative timer.
    task: Option<AlarmTask>,
}

impl TokioAlarm {
    /// A new alarm, unset. Call this in its runtime's context. `None` if that has ended.
    pub(super) fn new(
        clock: Arc<Clock>,
        driver: Weak<Driver>,
        runtime: &Handle,
    ) -> Option<TokioAlarm> {
        let mut alarm = TokioAlarm::unset(clock, driver.clone());
        if alarm.clock.is_pausable() {
            let task = AlarmTask::spawn(runtime, &alarm.alarm_waker);
            if task.task.is_finished() {
                // The runtime may be dropping the task that asks for the timer.
                let TokioAlarm { clock, .. } = alarm;
                return try_id().map(|_| TokioAlarm::of_ending(clock, driver));
            }
            alarm.task = Some(task);
            return Some(alarm);
        }
        let clock = &alarm.clock;
        let (end_of_time, past) = (clock.start_of(clock.last_tick()), clock.long_ago());
        let mut sleep = Box::pin(sleep_until(end_of_time));
        alarm.linger = catch(|| Linger::of(runtime, sleep.as_mut(), past))?;
        reset(sleep.as_mut(), end_of_time)?;
        if poll(sleep.as_mut(), &alarm.end_waker)?.is_ready() {
            return None;
        }
        alarm.end_sleep = Some(sleep);
        if let Linger::Later = alarm.linger {
            alarm.task = Some(AlarmTask::spawn(runtime, &alarm.alarm_waker));
        }
        Some(alarm)
    }

    /// Like `new`, where the time driver may have ended and must not be touched.
    pub(super) fn of_ending(clock: Arc<Clock>, driver: Weak<Driver>) -> TokioAlarm {
        let now = clock.now();
        TokioAlarm {
            time_driver_ended: Some(now),
            linger: Linger::Later,
            ..TokioAlarm::unset(clock, driver)
        }
    }

    fn unset(clock: Arc<Clock>, driver: Weak<Driver>) -> TokioAlarm {
        let end_waker = Waker::from(AlarmWaker::new(driver.clone()));
        let alarm_waker = AlarmWaker::new(driver);
        let now = Instant::now();
        TokioAlarm {
            // Not among tokio's timers before it is set.
            sleep: Box::pin(sleep_until(now)),
            instant: now,
            end_sleep: None,
            clock,
            waker: Waker::from(alarm_waker.clone()),
            end_waker,
            alarm_waker,
            at: Tick::NEVER,
            is_attached: false,
            time_driver_ended: None,
            linger: Linger::Not,
            task: None,
        }
    }
}

impl Alarm for TokioAlarm {
    fn at(&self) -> Tick {
        self.at
    }

    fn has_ended(&mut self) -> bool {
        let has_elapsed = |sleep: &Pin<Box<Sleep>>| sleep.is_elapsed();
        if !self.has_time_driver_ended()
            && (self.end_sleep.as_ref().is_some_and(has_elapsed)
                || has_elapsed(&self.sleep) && self.is_ahead(self.instant))
        {
            self.time_driver_ended = Some(self.clock.now());
        }
        self.has_time_driver_ended() && self.linger.is_over(&self.end_waker)
    }

    fn time_driver_ended(&self) -> Option<Moment> {
        self.time_driver_ended
    }

    fn note_fired(&mut self) -> Moment {
        self.is_attached = false;
        self.at = Tick::NEVER;
        if self.clock.is_pausable() && self.sleep.is_elapsed() {
            // A sleep of a living runtime never elapses before its instant.
            self.clock.moment(self.instant)
        } else {
            Moment::EPOCH
        }
    }

    fn set(&mut self, tick: Tick, place: Place) -> SetOutcome {
        if self.are_tasks_dropped() {
            return self.set_to(self.clock.last_tick());
        }
        if place == Place::Any && self.is_alternative_entered_here() {
            self.at = tick;
            self.is_attached = false;
            return SetOutcome::NeedsTask;
        }
        if tick == Tick::NEVER {
            return self.detach();
        }
        let before = self.at;
        if self.is_attached && tick == before && !self.sleep.is_elapsed() {
            return SetOutcome::Done;
        }
        let was_set = self.clock.is_pausable() && self.is_attached && tick < before;
        let set = self.set_to(tick.min(self.clock.last_tick()));
        if !was_set || !matches!(set, SetOutcome::Passed(_)) {
            return set;
        }
        // Keep the former tick. On a stopped clock it may be overdue, yet before the next
        // millisecond.
        match self.set_to(before) {
            SetOutcome::Done => set,
            other => other,
        }
    }

    /// Sets the alarm to fire when the time driver comes round next.
    ///
    /// If the present tick began after the millisecond up to which the time driver has worked, the
    /// alarm is set for that tick, and no time need pass. Otherwise it is set for the next
    /// millisecond, and timers armed for the present tick fire at once, as tokio's do.
    fn set_next_round(&mut self, now: Tick) -> (SetOutcome, Tick) {
        if self.is_attached && self.at <= now && !self.sleep.is_elapsed() {
            return (SetOutcome::Done, self.at);
        }
        let set = self.set_to(now);
        if !matches!(set, SetOutcome::Passed(_)) {
            return (set, now);
        }
        let mut set_after = |least| {
            let soon = self.clock.now_instant() + least;
            self.arm_at(soon, now.next())
        };
        let next_round = match set_after(Duration::from_nanos(1)) {
            // The time driver ran in the meantime, or ends. An instant further ahead tells which.
            SetOutcome::Passed(_) => set_after(Duration::from_millis(1)),
            other => other,
        };
        match next_round {
            // This thread reads a clock that is behind the runtime's.
            SetOutcome::Passed(_) if self.clock.is_pausable() => {
                (SetOutcome::NeedsTask, now.next())
            }
            SetOutcome::Passed(_) => (set, now.next()),
            other => (other, now.next()),
        }
    }
}

impl TokioAlarm {
    /// Whether the calling thread is in the context of a runtime with tokio's alternative timer.
    fn is_alternative_entered_here(&self) -> bool {
        let is_entered = |task: &AlarmTask| {
            Handle::try_current().is_ok_and(|current| current.id() == task.runtime)
        };
        !matches!(self.linger, Linger::Not)
            && !self.has_time_driver_ended()
            && self.task.as_ref().is_some_and(is_entered)
    }

    fn has_time_driver_ended(&self) -> bool {
        self.time_driver_ended.is_some()
    }

    fn detach(&mut self) -> SetOutcome {
        if self.at != Tick::NEVER && !self.has_time_driver_ended() {
            // An instant in the past elapses at once, so tokio drops the sleep from its timers.
            self.at = Tick::NEVER;
            self.is_attached = false;
            self.instant = self.clock.long_ago();
            if self.reset().is_none() {
                return self.end();
            }
        }
        SetOutcome::Done
    }

    fn set_to(&mut self, tick: Tick) -> SetOutcome {
        self.arm_at(self.clock.start_of(tick), tick)
    }

    /// Resets tokio's sleep to an instant of this tick, and attaches it.
    fn arm_at(&mut self, instant: Instant, tick: Tick) -> SetOutcome {
        self.at = tick;
        if self.has_time_driver_ended() {
            return SetOutcome::Done;
        }
        self.instant = instant;
        let reset = self.reset();
        let polled = reset.and_then(|()| self.attach());
        self.is_attached = polled == Some(Poll::Pending);
        match polled {
            Some(Poll::Pending) => SetOutcome::Done,
            None => self.end(),
            Some(Poll::Ready(())) if self.is_ahead(instant) => self.end(),
            // Nothing comes after the end of time.
            Some(Poll::Ready(())) if tick >= self.clock.last_tick() => SetOutcome::Done,
            Some(Poll::Ready(())) => SetOutcome::Passed(tick),
        }
    }

    /// Resets tokio's sleep to `instant`. An instant in the past elapses at once, and wakes the
    /// waker on this thread, which `attach` detects.
    fn reset(&mut self) -> Option<()> {
        reset(self.sleep.as_mut(), self.instant)
    }

    /// Polls tokio's sleep, and again if that has woken this thread.
    fn attach(&mut self) -> Option<Poll<()>> {
        loop {
            // Relaxed: this thread writes it.
            self.alarm_waker
                .was_woken_here
                .store(false, Ordering::Relaxed);
            let polled = poll(self.sleep.as_mut(), &self.waker)?;
            if polled.is_ready() || !self.alarm_waker.was_woken_here.load(Ordering::Relaxed) {
                return Some(polled);
            }
        }
    }

    fn end(&mut self) -> SetOutcome {
        let now = self.clock.now();
        self.time_driver_ended.get_or_insert(now);
        if self.has_ended() {
            SetOutcome::Ended
        } else {
            SetOutcome::Done
        }
    }

    /// Whether an instant lies ahead, for a sleep found elapsed before this call.
    fn is_ahead(&self, instant: Instant) -> bool {
        // Until the runtime drops its tasks, its clock may be ahead of the calling thread's.
        let may_be_over = !self.clock.is_pausable() || self.are_tasks_dropped();
        may_be_over && self.clock.now_instant() < instant
    }

    fn are_tasks_dropped(&self) -> bool {
        // Acquire: pairs with the Release in the drop of `WithTasks`.
        self.clock.is_pausable() && self.alarm_waker.are_tasks_dropped.load(Ordering::Acquire)
    }
}

/// Resets a sleep. `None` if that panics, because the time driver ends at this moment.
fn reset(sleep: Pin<&mut Sleep>, instant: Instant) -> Option<()> {
    catch(|| sleep.reset(instant))
}

/// Polls a reset sleep, unless it has elapsed. `None` as in `reset`.
fn poll(sleep: Pin<&mut Sleep>, waker: &Waker) -> Option<Poll<()>> {
    if sleep.is_elapsed() {
        return Some(Poll::Ready(()));
    }
    // Without spending the budget of the task that this may run in.
    let mut sleep = unconstrained(sleep);
    let mut context = Context::from_waker(waker);
    catch(|| Pin::new(&mut sleep).poll(&mut context))
}

fn catch<R>(touch: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(touch)).ok()
}

/// A task of the runtime that never ends by itself. Whenever it is woken, it reads the expiries and
/// sets the alarm, in the runtime and by its clock. Dropping this aborts it.
struct AlarmTask {
    task: JoinHandle<()>,
    runtime: Id,
}

impl AlarmTask {
    fn spawn(runtime: &Handle, alarm_waker: &Arc<AlarmWaker>) -> AlarmTask {
        let with_tasks = WithTasks(alarm_waker.clone());
        let task = runtime.spawn(poll_fn(move |cx| {
            if let Some(driver) = with_tasks.0.driver.upgrade() {
                driver.note_alarm_task(cx.waker());
                driver.set_alarm(Request::Changed(Place::Runtime));
            }
            Poll::Pending
        }));
        let runtime = runtime.id();
        AlarmTask { task, runtime }
    }
}

impl Drop for AlarmTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct WithTasks(Arc<AlarmWaker>);

impl Drop for WithTasks {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `are_tasks_dropped`.
        self.0.are_tasks_dropped.store(true, Ordering::Release);
        if let Some(driver) = self.0.driver.upgrade() {
            driver.set_alarm(Request::Changed(Place::Any));
        }
    }
}

struct AlarmWaker {
    driver: Weak<Driver>,
    was_woken_here: AtomicBool,
    are_tasks_dropped: AtomicBool,
}

impl AlarmWaker {
    fn new(driver: Weak<Driver>) -> Arc<AlarmWaker> {
        Arc::new(AlarmWaker {
            driver,
            was_woken_here: AtomicBool::new(false),
            are_tasks_dropped: AtomicBool::new(false),
        })
    }
}

impl Wake for AlarmWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Any thread but the holder of the alarm's lock is within tokio's time driver.
    fn wake_by_ref(self: &Arc<Self>) {
        match self.driver.upgrade() {
            Some(driver) if driver.alarm.is_held_here() => {
                self.was_woken_here.store(true, Ordering::Relaxed);
            }
            Some(driver) => driver.handle_alarm(),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};

    use super::{Alarm, Place, SetOutcome, TokioAlarm};
    use crate::Timer;
    use crate::clock::Clock;
    use crate::clock::tick::{Tick, TickLength};

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn alarm(runtime: &Runtime) -> Option<TokioAlarm> {
        let _context = runtime.enter();
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Arc::new(Clock::of_system(tick, true));
        TokioAlarm::new(clock, Weak::new(), runtime.handle())
    }

    /// Whatever it was last set for. An instant that the clock has reached shows nothing.
    #[test]
    fn an_alarm_learns_of_its_runtimes_end_without_a_reset() {
        let sets: [fn(&mut TokioAlarm); 4] = [
            |_| {},
            |alarm| {
                alarm.set(Tick::new(1_000_000), Place::Any);
            },
            |alarm| {
                alarm.set_next_round(alarm.clock.current_tick());
            },
            |alarm| {
                alarm.set(Tick::new(1_000_000), Place::Any);
                alarm.set(Tick::NEVER, Place::Any);
            },
        ];
        for (number, set) in sets.iter().enumerate() {
            let runtime = runtime();
            let mut alarm = alarm(&runtime).unwrap();
            set(&mut alarm);
            assert!(!alarm.has_ended(), "{number}");
            drop(runtime);
            assert!(alarm.has_ended(), "{number}");
        }
    }

    #[test]
    fn the_next_round_does_not_wait_for_what_the_alarm_was_set_for() {
        let runtime = runtime();
        let mut alarm = alarm(&runtime).unwrap();
        let now = alarm.clock.current_tick();
        let later = Tick::new(now.get() + 1_000);
        assert_eq!(alarm.set(later, Place::Any), SetOutcome::Done);
        assert!(alarm.set_next_round(now).1 <= now.next());
        assert!(alarm.at() <= now.next());
    }

    /// Otherwise each thread that remembers the timer keeps the runtime's resources.
    #[test]
    fn an_idle_timer_learns_of_its_runtimes_end() {
        for is_used in [false, true] {
            let workers = Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let timer = workers.block_on(async {
                let timer = Timer::builder().build().unwrap();
                if is_used {
                    timer.sleep(Duration::from_millis(1)).await;
                }
                timer
            });
            assert!(!timer.has_ended());
            drop(workers);
            assert!(timer.has_ended(), "used: {is_used}");
        }
    }
}
