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
//! tokio's usual timer wakes the waker within a reset to the past. That would note a request at the
//! alarm's lock, and the thread that resets would set the alarm once more, for the same past,
//! without end. So before a reset to the past the alarm registers a waker that does nothing, and
//! the next poll registers the real one again. A firing in between is lost, and not needed: the
//! thread that resets the alarm sets it for the earliest expiry. If the instant passes in between,
//! exactly one request is noted.
//!
//! # The end
//!
//! A sleep of a living runtime never elapses before its instant. So if a sleep that lies at the end
//! of time has elapsed, the time driver has ended. No reading of a clock decides this: clocks step
//! back, and those of two processors differ. Every thread that finds the alarm behind its lock
//! looks first. A turn looks as it begins and as it ends.
//!
//! ```text
//!   alive --(a sleep at the end of time has elapsed, ---> time driver ended --(`end`)--> ended
//!            or a reset or a poll has panicked)           nothing of tokio's is touched any more
//! ```
//!
//! A second tokio sleep, the *end sleep*, lies at the end of time. A time driver that ends fires
//! all its timers, and so wakes the waker. It fires them in batches, and so the alarm perhaps
//! before the end sleep. A reset then elapses at once. So if a reset to an instant ahead elapses at
//! once, the alarm is reset to the end of time, and shows which it is: an end, or clocks that
//! differ.
//!
//! The end sleep is set from the start. But a clock that can be paused would run to it. There it is
//! set once the alarm's task was dropped: a runtime that shuts down drops its tasks first, and its
//! clock no longer runs. Before that the alarm shows nothing, because a thread outside of the
//! runtime reads another clock. The drop alone does not wake the waits, because other tasks may be
//! dropped after it.
//!
//! A reset or a poll may panic at the moment at which the time driver ends. Such a panic is caught,
//! and counts as the end. A panic hook sees it, and `panic = "abort"` leaves nothing to catch:
//! tokio has no other report of the end. The time driver ends its timers in batches, with a waker
//! of another task maybe slow in between, and a poll of a timer that is still pending panics
//! meanwhile. So each poll follows a reset to an instant ahead or to the past, which elapses by
//! then, and only a pending alarm is polled.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The time driver ends while a thread resets the alarm.* The reset elapses at once, or panics.
//!   Or the alarm was set before the end, and fires with it.
//! - *The alarm's time comes at the moment of the end.* Then it shows nothing. The end sleep does,
//!   or the next reset, which elapses at once.
//! - *The clock steps back, or the thread that resets the alarm reads an earlier one than the time
//!   driver.* A reset may elapse at once though its instant lies ahead. It has passed then, as it
//!   has for tokio's own timers.
//! - *The runtime ends, or has ended, before the timer is built.* The end sleep elapses in its
//!   first reset, or is woken. On a clock that can be paused the refused task counts as dropped, so
//!   the first look sets the end sleep. For tokio's alternative timer see `end`.
//! - *tokio's alternative timer* ends with each worker. It fires that worker's timers before tasks
//!   are dropped, and loses a timer that a worker sets at its last moment. The end sleep was set
//!   long before. See also `end`.
//!
//! # The alarm's task
//!
//! Threads that cannot set the alarm notify a task of the runtime. It makes a turn, which fires
//! what is due by its clock, reads the expiries and sets the alarm.
//!
//! - *On a clock that can be paused* virtual time must not run to a disarmed timer. It runs only
//!   while no task is ready. So a disarm that defers an expiry notifies the task, which sets the
//!   alarm once for all disarms so far. A thread that reads another clock notifies the task too,
//!   because it cannot tell when the time driver comes round next.
//! - *On tokio's alternative timer* each reset makes a new timer. That panics on a worker that
//!   shuts down, as where a task arms something in its `Drop`, and on a thread that has entered the
//!   runtime while running a current-thread one. Threads cannot find this out. So a thread in the
//!   context of the runtime notifies the task, also one that makes a turn in the alarm's waker. A
//!   worker that has just learnt of the end may still run the task. Its reset then panics, as a
//!   task's own tokio sleep does at that moment. So does a reset on a thread outside, from
//!   `shutdown_background` until the last worker has come round.
//!
//! Invariant: only a thread that holds the alarm's lock sets, unsets and polls it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::Driver;
use super::alarm::Alarm;
use super::end::{A_WHILE, Life, may_be_alternative, wake_later};
use crate::clock::tick::{Moment, Tick};
use crate::clock::{Clock, FAR};
use crate::runtime::coop::unconstrained;
use crate::runtime::{Handle, Id};
use crate::shard::MissedTick;

pub(super) struct TokioAlarm {
    sleep: Pin<Box<Sleep>>,
    instant: Instant,
    end_sleep: Pin<Box<Sleep>>,
    /// Whether the end sleep is among tokio's timers.
    is_end_watched: bool,
    clock: Arc<Clock>,
    alarm_waker: Arc<AlarmWaker>,
    waker: Waker,
    time_driver_ended: Option<Moment>,
    /// How much longer than the time driver the timer lives.
    linger: Duration,
    /// The runtime, if that has tokio's alternative timer.
    alternative: Option<Id>,
}

impl TokioAlarm {
    /// A new alarm, unset. Call this in its runtime's context, and under the alarm's lock. The
    /// runtime may have ended; only for `Life::Alive` is tokio's timer touched.
    pub(super) fn new(driver: &Arc<Driver>, runtime: &Handle, life: Life) -> TokioAlarm {
        let alarm_waker = Arc::new(AlarmWaker {
            driver: Arc::downgrade(driver),
            is_shutting_down: AtomicBool::new(false),
        });
        let now = Instant::now();
        let mut alarm = TokioAlarm {
            // Neither is among tokio's timers before it is set.
            sleep: Box::pin(sleep_until(now)),
            end_sleep: Box::pin(sleep_until(now)),
            is_end_watched: false,
            instant: now,
            waker: Waker::from(alarm_waker.clone()),
            alarm_waker,
            time_driver_ended: None,
            linger: Duration::ZERO,
            alternative: None,
            clock: driver.clock.clone(),
        };
        match life {
            Life::Alive => {
                // Both elapse, because a poll of a sleep that was never reset sets it.
                let past = alarm.clock.long_ago();
                for sleep in [&mut alarm.sleep, &mut alarm.end_sleep] {
                    catch(|| sleep.as_mut().reset(past));
                }
                if may_be_alternative(runtime) && !alarm.fires_within_reset() {
                    alarm.linger = A_WHILE;
                    alarm.alternative = Some(runtime.id());
                }
                if alarm.clock.is_pausable() || alarm.alternative.is_some() {
                    alarm.spawn_task(driver, runtime);
                }
                if !alarm.clock.is_pausable() {
                    alarm.watch_end();
                }
            }
            Life::Ends => {
                alarm.linger = A_WHILE;
                alarm.note_end();
            }
            Life::Ended => alarm.note_end(),
        }
        alarm
    }
}

impl Alarm for TokioAlarm {
    fn ended(&mut self) -> Option<Moment> {
        if self.time_driver_ended.is_none() {
            self.look_for_end();
        }
        let is_over = |&end: &Moment| self.clock.now().since(end) >= self.linger;
        self.time_driver_ended.filter(is_over)
    }

    /// Where this thread reads another clock, and in the context of the alarm's runtime if that has
    /// tokio's alternative timer.
    fn needs_task(&self) -> bool {
        let is_entered = |id| Handle::try_current().is_ok_and(|current| current.id() == id);
        !self.clock.is_read_here()
            || self.time_driver_ended.is_none() && self.alternative.is_some_and(is_entered)
    }

    fn set(&mut self, tick: Tick) -> bool {
        if tick == Tick::NEVER {
            self.unset();
            return true;
        }
        // Nothing comes after the end of time.
        self.arm_at(self.clock.start_of(tick)) || tick >= self.clock.last_tick()
    }

    fn set_next_round(&mut self, tick: Tick) -> MissedTick {
        let now = self.clock.now();
        let present = self.clock.tick().current(now);
        let (line, start) = (self.clock.line_until(now), self.clock.start_of(present));
        let is_missed = !self.arm_at(start);
        // The present tick may begin after the present line of the grid. What else is due is due at
        // that line, and no time need pass until the time driver comes to it.
        let comes_at = if !is_missed && start <= line || self.arm_at(line) {
            present
        } else if is_missed {
            self.set_next_line()
        } else {
            #[cfg(test)]
            tests::between_resets();
            // The time driver may have come to that line since the first reset.
            if self.arm_at(start) {
                present
            } else {
                self.set_next_line()
            }
        };
        MissedTick {
            up_to: if is_missed { present } else { tick },
            comes_at,
        }
    }
}

impl TokioAlarm {
    /// Notes the end of the time driver, if the sleeps show it now.
    fn look_for_end(&mut self) {
        if !self.is_end_watched {
            // Acquire: pairs with the Release in the drop of `ShutdownSentinel`.
            if !self.alarm_waker.is_shutting_down.load(Ordering::Acquire) {
                // The runtime's clock may be ahead of the calling thread's.
                return;
            }
            self.watch_end();
        }
        if self.end_sleep.is_elapsed() {
            self.note_end();
        }
    }

    fn note_end(&mut self) {
        if self.time_driver_ended.is_none() {
            self.time_driver_ended = Some(self.clock.now());
            if !self.linger.is_zero() && !wake_later(self.waker.clone()) {
                self.linger = Duration::ZERO;
            }
        }
    }

    /// Sets the end sleep.
    fn watch_end(&mut self) {
        self.is_end_watched = true;
        let end_of_time = self.clock.start_of(Tick::NEVER);
        if reset(self.end_sleep.as_mut(), end_of_time, &self.waker) != Some(true) {
            self.note_end();
        }
    }

    /// tokio's usual timer does. The alternative one fires when its worker comes round next: maybe
    /// at once, but on the worker's thread.
    fn fires_within_reset(&mut self) -> bool {
        let firing = Arc::new(FiringThread::default());
        let ahead = self.clock.start_of(self.clock.last_tick());
        reset(self.sleep.as_mut(), ahead, &Waker::from(firing.clone()));
        let past = self.clock.long_ago();
        catch(|| self.sleep.as_mut().reset(past));
        firing.0.get() == Some(&thread::current().id())
    }

    fn unset(&mut self) {
        // An elapsed sleep is not among tokio's timers.
        if self.time_driver_ended.is_none() && !self.sleep.is_elapsed() {
            // An instant in the past elapses at once, on the alternative timer a little later.
            self.instant = self.clock.long_ago();
            if reset(self.sleep.as_mut(), self.instant, Waker::noop()).is_none() {
                self.note_end();
            }
        }
    }

    /// Starts a task that makes a turn whenever it is notified, in the runtime and by its clock. It
    /// ends with the driver.
    fn spawn_task(&self, driver: &Driver, runtime: &Handle) {
        let notify = driver.alarm_task.clone();
        let sentinel = ShutdownSentinel(self.alarm_waker.clone());
        runtime.spawn(async move {
            loop {
                notify.notified().await;
                let Some(driver) = sentinel.0.driver.upgrade() else {
                    break;
                };
                driver.handle_task();
            }
        });
    }

    /// Returns the tick that is current then. With a tick of a millisecond that is the next tick.
    fn set_next_line(&mut self) -> Tick {
        // The time driver may run in the meantime, or end. An instant further ahead tells which.
        let mut ahead = Duration::from_nanos(1);
        loop {
            let instant = self.clock.now_instant() + ahead;
            if self.arm_at(instant) {
                return self.clock.tick_at_line_from(instant);
            }
            ahead = Duration::from_millis(1);
        }
    }

    /// Resets tokio's sleep to an instant. `false` if the instant has passed.
    fn arm_at(&mut self, instant: Instant) -> bool {
        if self.time_driver_ended.is_none() {
            self.instant = instant;
            match reset(self.sleep.as_mut(), instant, &self.waker) {
                Some(true) => return true,
                Some(false) if self.clock.now_instant() < instant => {
                    // An end, or clocks that differ.
                    let end_of_time = self.clock.start_of(Tick::NEVER);
                    if reset(self.sleep.as_mut(), end_of_time, &self.waker) != Some(true) {
                        self.note_end();
                    }
                }
                Some(false) => {}
                None => self.note_end(),
            }
        }
        self.time_driver_ended.is_some()
    }
}

/// `None` if it panics, because the time driver ends at this moment.
fn catch<R>(touch: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(touch)).ok()
}

/// Resets a sleep to `instant`, and registers `waker`. Returns whether it is pending; `None` as in
/// `catch`.
fn reset(mut sleep: Pin<&mut Sleep>, instant: Instant, waker: &Waker) -> Option<bool> {
    catch(|| {
        // After the alarm has fired, the clock need not be read.
        if !sleep.is_elapsed() {
            let now = Instant::now();
            if instant <= now {
                // A poll may panic while the time driver ends. A reset to an instant ahead elapses.
                sleep.as_mut().reset(now + FAR);
                is_pending(sleep.as_mut(), Waker::noop());
            }
        }
        sleep.as_mut().reset(instant);
        is_pending(sleep, waker)
    })
}

/// Whether a sleep is pending, with `waker` registered.
fn is_pending(sleep: Pin<&mut Sleep>, waker: &Waker) -> bool {
    // An elapsed sleep is not polled: that panics once the time driver has ended. A poll spends
    // nothing of the budget of the task that this may run in.
    !sleep.is_elapsed()
        && pin!(unconstrained(sleep))
            .poll(&mut Context::from_waker(waker))
            .is_pending()
}

/// Held by the alarm's task. A runtime that shuts down drops its tasks first, and this with them.
struct ShutdownSentinel(Arc<AlarmWaker>);

impl Drop for ShutdownSentinel {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `look_for_end`.
        self.0.is_shutting_down.store(true, Ordering::Release);
        if let Some(driver) = self.0.driver.upgrade() {
            driver.look_for_end();
        }
    }
}

struct AlarmWaker {
    driver: Weak<Driver>,
    is_shutting_down: AtomicBool,
}

impl Wake for AlarmWaker {
    fn wake(self: Arc<Self>) {
        if let Some(driver) = self.driver.upgrade() {
            driver.handle_alarm();
        }
    }
}

/// The thread that has woken it.
#[derive(Default)]
struct FiringThread(OnceLock<ThreadId>);

impl Wake for FiringThread {
    fn wake(self: Arc<Self>) {
        let _ = self.0.set(thread::current().id());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::clock::tick::TickLength;
    use crate::report::Reporter;

    thread_local! {
        static BETWEEN_RESETS: Cell<Option<fn()>> = const { Cell::new(None) };
    }

    /// Runs what a test wants to happen there.
    pub(super) fn between_resets() {
        if let Some(meanwhile) = BETWEEN_RESETS.get() {
            meanwhile();
        }
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn alarm(runtime: &Runtime, tick: Duration) -> TokioAlarm {
        let _context = runtime.enter();
        let tick = TickLength::new(tick).unwrap();
        let clock = Arc::new(Clock::of_system(tick, true));
        let driver = Arc::new(Driver::new(clock, Reporter::default()));
        TokioAlarm::new(&driver, runtime.handle(), Life::Alive)
    }

    /// The time driver has come further than the clock of the thread that sets the alarm.
    #[test]
    fn a_clock_that_has_stepped_back_shows_no_end() {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        let runtime = runtime.unwrap();
        let mut alarm = alarm(&runtime, TickLength::MIN);
        let step = 20 * TickLength::MIN;
        runtime.block_on(tokio::time::advance(step));
        // Ahead by this clock, passed for the time driver.
        let ahead = Tick::new(alarm.clock.current_tick().get() + 5);
        assert!(!alarm.set(ahead));
        assert_eq!(alarm.ended(), None);
        drop(runtime);
        assert!(alarm.set(ahead));
        assert!(alarm.ended().is_some());
    }

    /// Whatever it was last set for. An instant that the clock has reached shows nothing.
    #[test]
    fn an_alarm_learns_of_its_runtimes_end_without_a_reset() {
        let sets: [fn(&mut TokioAlarm); 4] = [
            |_| {},
            |alarm| {
                alarm.set(Tick::new(1_000_000));
            },
            |alarm| {
                alarm.set_next_round(Tick::FIRST);
            },
            |alarm| {
                alarm.set(Tick::new(1_000_000));
                alarm.set(Tick::NEVER);
            },
        ];
        for (number, set) in sets.iter().enumerate() {
            let runtime = runtime();
            let mut alarm = alarm(&runtime, TickLength::MIN);
            set(&mut alarm);
            assert_eq!(alarm.ended(), None, "{number}");
            drop(runtime);
            assert!(alarm.ended().is_some(), "{number}");
        }
    }

    #[test]
    fn the_next_round_does_not_wait_for_what_the_alarm_was_set_for() {
        let runtime = runtime();
        let mut alarm = alarm(&runtime, TickLength::MIN);
        let later = Tick::new(alarm.clock.current_tick().get() + 1_000);
        assert!(alarm.set(later));
        assert!(alarm.set_next_round(Tick::FIRST).comes_at < later);
        assert!(alarm.instant < alarm.clock.start_of(later));
    }

    /// Otherwise the turn would pass by a shard that has something due in that tick.
    #[test]
    fn the_next_round_comes_in_the_tick_that_it_names() {
        for tick in [1, 2, 50, 200] {
            let runtime = runtime();
            let tick = tick * TickLength::MIN;
            let mut alarm = alarm(&runtime, tick);
            for _ in 0..20 {
                let now = alarm.clock.current_tick();
                let named = alarm.set_next_round(now).comes_at;
                // tokio rounds the instant up to a line of its grid.
                let fires_by = alarm.clock.moment(alarm.instant + TickLength::MIN);
                assert!(named <= alarm.clock.tick().current(fires_by), "{tick:?}");
                assert!(named >= now, "{tick:?}");
            }
        }
    }

    /// The thread may be preempted at any place.
    #[test]
    fn a_time_driver_that_passes_a_line_between_two_resets_loses_no_alarm() {
        let runtime = crate::runtime::workers(1);
        runtime.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        let mut alarm = alarm(&runtime, TickLength::MIN * 3 / 2);
        BETWEEN_RESETS.set(Some(|| {
            BETWEEN_RESETS.set(None);
            thread::sleep(5 * TickLength::MIN);
        }));
        // Most rounds do not come to that place.
        while BETWEEN_RESETS.get().is_some() {
            let now = alarm.clock.current_tick();
            alarm.set_next_round(now);
        }
        // It is set, or has fired since.
        let set_for = alarm.clock.moment(alarm.instant);
        let lag = alarm.clock.now().since(set_for);
        assert!(!alarm.sleep.is_elapsed() || lag < 4 * TickLength::MIN);
        runtime.shutdown_background();
    }
}
