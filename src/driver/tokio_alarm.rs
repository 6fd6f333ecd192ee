//! The alarm of a runtime's timer: the one timer of tokio's that its driver has.
//!
//! It is a [`tokio::time::Sleep`] in no task. Its waker makes the turn where tokio's own timers
//! fire. A thread that arms something earlier than the alarm is set for resets it.
//!
//! ```text
//!   unset: not among tokio's timers --(set)--> set: among them --(its time, or the time driver's end)--> fired
//!     ^                                          |    ^                                                   |
//!     +---------------(unset)--------------------+    +-------------------(set)---------------------------+
//! ```
//!
//! The alarm is *attached* while the time driver would wake its waker. Firing it detaches it, and
//! so does every reset, because a reset is muted and may swallow a firing. A poll attaches it
//! again.
//!
//! Neither a reset nor a poll needs a runtime's context. But a poll panics once the runtime's time
//! driver has ended. So each sleep here is polled only right after a reset that has shown the time
//! driver alive. If the runtime ends between the two, the panic is caught, and counts as the end. A
//! panic hook sees it, and `panic = "abort"` leaves nothing to catch: tokio offers no poll that
//! reports the end in another way.
//!
//! The time driver fires all of its timers when it ends, after the last task was dropped. So an
//! alarm that is set learns of the end by its waker. From then on, each sleep that is reset has
//! elapsed at once. So an alarm that has elapsed, while the instant that it was reset to lies
//! ahead, shows the end for certain, on any thread.
//!
//! While nothing is armed, the alarm is unset. A clock that can be paused would run to it. On the
//! system's clock a second sleep of tokio's lies at the end of time from the start, and reports the
//! runtime's end. To set the alarm itself there each time that it fires would cost a system call.
//!
//! Invariant: only the running thread sets, unsets and polls it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::Driver;
use super::core::{Alarm, SetOutcome};
use crate::clock::Clock;
use crate::clock::tick::Tick;
use crate::runtime::coop::unconstrained;

pub(super) struct TokioAlarm {
    sleep: Pin<Box<Sleep>>,
    clock: Arc<Clock>,
    alarm_waker: Arc<AlarmWaker>,
    waker: Waker,
    /// The tick that it is set for; `NEVER` if it is unset, or if its firing was noted.
    at: Tick,
    is_attached: bool,
    /// It fired before its time, or while it was unset. This is how the time driver ends.
    fired_early: bool,
    /// Fires when the time driver ends, and never else. On a clock that can be paused there is
    /// none.
    _end: Option<Pin<Box<Sleep>>>,
}

impl TokioAlarm {
    /// A new alarm, which is unset. Call this in the context of the runtime that drives it.
    pub(super) fn new(clock: Arc<Clock>, driver: Weak<Driver>) -> TokioAlarm {
        // One of its own, which is never muted.
        let end_waker = Waker::from(AlarmWaker::new(driver.clone()));
        let alarm_waker = AlarmWaker::new(driver);
        let end = (!clock.is_pausable())
            .then(|| end_of_time_driver(clock.start_of(clock.last_tick()), &end_waker));
        TokioAlarm {
            // It is not among tokio's timers before it is set.
            sleep: Box::pin(sleep_until(Instant::now())),
            _end: end.flatten(),
            clock,
            waker: Waker::from(alarm_waker.clone()),
            alarm_waker,
            at: Tick::NEVER,
            is_attached: false,
            fired_early: false,
        }
    }
}

impl Alarm for TokioAlarm {
    fn at(&self) -> Tick {
        self.at
    }

    /// Its waker is spent.
    fn note_fired(&mut self, present: Tick) {
        self.fired_early = self.at > present;
        self.is_attached = false;
        self.at = Tick::NEVER;
    }

    fn set(&mut self, tick: Tick) -> SetOutcome {
        if tick == Tick::NEVER {
            return self.unset();
        }
        let before = self.at;
        let was_set = self.clock.is_pausable() && self.is_attached && tick < before;
        let set = self.set_to(tick.min(self.clock.last_tick()));
        if !was_set || !matches!(set, SetOutcome::Passed(_)) {
            return set;
        }
        // It goes on to wait for what it was set for. On a clock that stands, this may be overdue,
        // and yet come before the next millisecond.
        match self.set_to(before) {
            SetOutcome::Done => set,
            other => other,
        }
    }

    /// Sets the alarm so that the time driver fires it when it comes round next.
    ///
    /// If the present tick began after the millisecond up to which the time driver has worked, the
    /// alarm is set for that tick, and no time need pass. Otherwise it is set for the next
    /// millisecond, and too late for the present tick: what is armed for that fires at once, as
    /// tokio's timers do.
    fn set_soon(&mut self, now: Tick) -> (SetOutcome, Tick) {
        if self.is_attached && self.at <= now && !self.sleep.is_elapsed() {
            return (SetOutcome::Done, self.at);
        }
        let set = self.set_to(now);
        if !matches!(set, SetOutcome::Passed(_)) {
            return (set, now);
        }
        let soon = self.clock.now_instant() + Duration::from_nanos(1);
        match self.set_at(soon, now.next()) {
            // Either the time driver has come by meanwhile, or it has ended, and the clock has
            // reached `soon` before it was read. The end of time tells which.
            SetOutcome::Passed(_) => match self.set_to(self.clock.last_tick()) {
                SetOutcome::Ended => (SetOutcome::Ended, now.next()),
                _ => (set, now.next()),
            },
            other => (other, now.next()),
        }
    }
}

impl TokioAlarm {
    /// If it fired early, either the time driver has ended, or it was set for later while it fired.
    fn unset(&mut self) -> SetOutcome {
        let fired_early = std::mem::take(&mut self.fired_early);
        if fired_early && self.set_to(self.clock.last_tick()) == SetOutcome::Ended {
            return SetOutcome::Ended;
        }
        if self.at != Tick::NEVER {
            self.at = Tick::NEVER;
            // An instant in the past elapses at once, and so tokio drops it from its timers.
            self.reset(self.clock.long_ago());
        }
        SetOutcome::Done
    }

    fn set_to(&mut self, tick: Tick) -> SetOutcome {
        self.set_at(self.clock.start_of(tick), tick)
    }

    /// Resets tokio's sleep to an instant of that tick, and attaches it.
    fn set_at(&mut self, instant: Instant, tick: Tick) -> SetOutcome {
        self.reset(instant);
        self.at = tick;
        let polled = if self.sleep.is_elapsed() {
            Some(Poll::Ready(()))
        } else {
            poll_alive(self.sleep.as_mut(), &self.waker)
        };
        self.is_attached = polled == Some(Poll::Pending);
        match polled {
            None => SetOutcome::Ended,
            Some(Poll::Pending) => SetOutcome::Done,
            Some(Poll::Ready(())) if self.time_driver_has_ended(instant) => SetOutcome::Ended,
            // Nothing comes after the end of time.
            Some(Poll::Ready(())) if tick >= self.clock.last_tick() => SetOutcome::Done,
            Some(Poll::Ready(())) => SetOutcome::Passed(tick),
        }
    }

    /// Resets tokio's sleep. In the past it elapses at once, and would wake the waker, which is for
    /// the time driver alone. A wake of the time driver meanwhile is muted too, and attaching the
    /// alarm again finds that out.
    fn reset(&mut self, instant: Instant) {
        self.is_attached = false;
        // Relaxed, here and in `wake_by_ref`: it elapses within `reset`, on this thread. Another
        // thread that fires it meanwhile fires what is being unset, and may read either.
        self.alarm_waker.is_muted.store(true, Ordering::Relaxed);
        self.sleep.as_mut().reset(instant);
        self.alarm_waker.is_muted.store(false, Ordering::Relaxed);
    }

    /// Whether a sleep that has elapsed shows the end, and not that `instant` has passed.
    fn time_driver_has_ended(&mut self, instant: Instant) -> bool {
        // The clock is read after that: in a runtime that is alive it has reached the instant.
        let is_ahead = self.clock.try_now().map(|now| now < instant);
        is_ahead.unwrap_or_else(|| {
            // Where the clock cannot be read, try the end of time, which has not passed.
            self.reset(self.clock.start_of(self.clock.last_tick()));
            self.sleep.is_elapsed()
        })
    }
}

/// A sleep at `end_of_time`, which fires only when the time driver ends. `None` if that has ended:
/// the next thread that arms finds that out.
fn end_of_time_driver(end_of_time: Instant, waker: &Waker) -> Option<Pin<Box<Sleep>>> {
    let mut sleep = Box::pin(sleep_until(end_of_time));
    // Before the first reset or poll a sleep is in no timers, and shows nothing of the time driver.
    sleep.as_mut().reset(end_of_time);
    if sleep.is_elapsed() {
        return None;
    }
    poll_alive(sleep.as_mut(), waker)?
        .is_pending()
        .then_some(sleep)
}

/// Polls a sleep whose reset has just shown the time driver alive. `None` if that has ended since.
fn poll_alive(sleep: Pin<&mut Sleep>, waker: &Waker) -> Option<Poll<()>> {
    // Not at the cost of the budget of the task that this may run in.
    let mut sleep = unconstrained(sleep);
    let mut context = Context::from_waker(waker);
    let poll = || Pin::new(&mut sleep).poll(&mut context);
    catch_unwind(AssertUnwindSafe(poll)).ok()
}

/// The target of the alarm's wakes.
struct AlarmWaker {
    driver: Weak<Driver>,
    /// The alarm is being reset. If it elapses now, that is no firing.
    is_muted: AtomicBool,
}

impl AlarmWaker {
    fn new(driver: Weak<Driver>) -> Arc<AlarmWaker> {
        Arc::new(AlarmWaker {
            driver,
            is_muted: AtomicBool::new(false),
        })
    }
}

impl Wake for AlarmWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// While a thread sets the alarm, that thread runs the driver already. So a thread that runs it
    /// from here is within tokio's time driver.
    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_muted.load(Ordering::Relaxed) {
            return;
        }
        if let Some(driver) = self.driver.upgrade() {
            driver.handle_alarm();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::{Alarm, SetOutcome, TokioAlarm};
    use crate::Timer;
    use crate::clock::Clock;
    use crate::clock::tick::{Tick, TickLength};

    /// An alarm of no driver. Call this in the context of a runtime.
    fn alarm() -> TokioAlarm {
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        TokioAlarm::new(Arc::new(Clock::of_system(tick, true)), Weak::new())
    }

    /// The system's clock reaches each instant that is set for, before it is read again. If that
    /// were taken for a missed tick, the running thread would turn for ever.
    #[test]
    fn an_alarm_that_is_set_soon_learns_of_its_runtimes_end() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let mut alarm = {
            let _context = runtime.enter();
            alarm()
        };
        let set_soon = |alarm: &mut TokioAlarm| alarm.set_soon(alarm.clock.current_tick()).0;
        assert_ne!(set_soon(&mut alarm), SetOutcome::Ended);
        drop(runtime);
        assert_eq!(set_soon(&mut alarm), SetOutcome::Ended);
    }

    #[test]
    fn an_alarm_set_soon_does_not_wait_for_what_it_was_set_for() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let _context = runtime.enter();
        let mut alarm = alarm();
        let now = alarm.clock.current_tick();
        assert_eq!(alarm.set(Tick::new(now.get() + 1_000)), SetOutcome::Done);
        assert!(alarm.set_soon(now).1 <= now.next());
        assert!(alarm.at() <= now.next());
    }

    /// Otherwise each thread that remembers the timer keeps what its runtime holds.
    #[test]
    fn an_idle_timer_learns_of_its_runtimes_end() {
        for is_used in [false, true] {
            let workers = Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let timer = workers.block_on(async {
                let timer = Timer::new();
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
