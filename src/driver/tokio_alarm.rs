//! The alarm of a runtime's timer: its driver's tokio timer.
//!
//! The alarm is a [`tokio::time::Sleep`] in no task. Its waker makes the turn where tokio's own
//! timers fire. A thread that arms something earlier resets it. There are two such sleeps. Each of
//! them is in one of three states:
//!
//! ```text
//!   idle: not among tokio's timers --(reset)--> set for a tick, or for the end of time ^
//!   |    ^                     | +-----(unset, a reset to the past)---------+
//!   +------(reset)------ elapsed: by its time, or by the time driver's end
//! ```
//!
//! Invariant: only a thread that holds the alarm's lock resets and polls them. Whoever resets one
//! learns whether it is set. If not, its instant has passed for tokio, and `set` says so: a turn
//! goes on then, and any other thread leaves a turn to a task. Nothing asks where tokio's time
//! driver stands.
//!
//! # The pair
//!
//! On a clock that cannot be paused, and on tokio's usual timer, the earlier one of the two is the
//! alarm. tokio wakes its time driver, by a write to an eventfd, for a timer that is due before all
//! that its wheel held after it last fired something. A single alarm is not in that wheel when its
//! waker runs. So each turn would cost a write, and the task that it wakes another one, if that
//! arms a short sleep. The second sleep stays in the wheel:
//!
//! | for a turn at a tick | what `set` does |
//! |---|---|
//! | one lies there already | nothing |
//! | one lies before it | moves that one, the earlier of two: nothing is due there any more |
//! | one has elapsed | resets that one, and leaves the other for a later turn |
//! | both lie after it | resets the later one |
//! | it has passed | resets the one that was tried to the end of time |
//!
//! A turn says when there may be work after the next turn, and the other sleep is set for that. So
//! where each tick has work, each turn finds one set for the next tick, and sets the other for the
//! tick after it, which wakes nobody.
//!
//! So one of the two is set, or has just fired and its waker is about to make a turn. While nothing
//! is armed, one lies at the end of time. What the other lies at may have been disarmed. Then the
//! next turn moves it, or it makes one turn for nothing, as a single alarm would.
//!
//! # The single alarm
//!
//! Virtual time would run to the second sleep, and on tokio's alternative timer each reset makes a
//! new timer. There the first sleep is the alarm, idle while nothing is armed. The second one is
//! the *end sleep*, which lies at the end of time, or is idle.
//!
//! # The end
//!
//! A sleep of a living runtime never elapses before its instant. So if one that lies at the end of
//! time has elapsed, the time driver has ended. No reading of a clock decides this: clocks step
//! back, and those of two processors differ. A time driver that ends fires all its timers, and so
//! wakes the waker.
//!
//! ```text
//!   alive --(a sleep at the end of time has elapsed, ---> time driver ended --(`end`)--> ended
//!            or a reset or a poll has panicked)           nothing of tokio's is touched any more
//! ```
//!
//! None of a pair may lie at the end of time, and tokio ends its timers in batches, with a waker of
//! another task maybe slow in between. So where a reset elapses at once, one that is watched for
//! the end is reset to the end of time. If it elapses again, this is the end. If not, the instant
//! has passed for tokio, as it has for tokio's own timers, and that sleep stays where it is.
//!
//! Every thread that finds the alarm behind its lock looks for the end first. A turn looks as it
//! begins and as it ends.
//!
//! A pair is set from the start, and so is the end sleep of the alternative timer. On a clock that
//! can be paused the end sleep is set once the alarm's task was dropped: a runtime that ends
//! drops its tasks first, and its clock no longer runs. The drop alone does not wake the waits,
//! because other tasks may be dropped after it.
//!
//! A reset or a poll may panic at the moment at which the time driver ends. Such a panic is caught,
//! and counts as the end. A panic hook sees it, and `panic = "abort"` leaves nothing to catch:
//! tokio has no other report of the end. A poll of a timer that is still pending panics while the
//! time driver ends its timers. So each poll follows a reset to an instant ahead or to the past,
//! which elapses by then, and only a pending sleep is polled.
//!
//! tokio's usual timer wakes the waker within a reset to the past. That would note a request at the
//! alarm's lock, for nothing. So before a reset to the past a sleep registers a waker that does
//! nothing, and the poll after it registers the real one. If the instant passes in between, one
//! request is noted.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The time driver ends while a thread resets a sleep.* The reset elapses at once, or panics. Or
//!   the sleep was set before the end, and fires with it.
//! - *The times of both have come as the time driver ends.* Then neither shows anything. But each
//!   has fired, so a thread resets one of them, for a turn or for a request that is noted. That
//!   elapses at once, and again at the end of time. A thread that leaves such a request to a task
//!   sets one at the end of time (`watch_end`), since the runtime may drop that task.
//! - *An instant passes between two resets*, because the thread is preempted. The second one says
//!   so, and a turn follows.
//! - *The runtime ends, or has ended, before the timer is built.* The second sleep elapses in its
//!   first reset, or is woken. On a clock that can be paused the refused task counts as dropped, so
//!   the first look sets the end sleep. For tokio's alternative timer see `end`.
//! - *tokio's alternative timer* ends with each worker. It fires that worker's timers before tasks
//!   are dropped, and loses a timer that a worker sets at its last moment. The end sleep was set
//!   long before. See also `end`.
//!
//! # The alarm's task
//!
//! Threads that cannot set the alarm leave a turn to a task of the runtime. It fires what is due by
//! its clock, reads the expiries and sets the alarm. A pair has no task: one is spawned for each
//! such turn, after a tick has passed, and one of the pair then lies at the end of time. A single
//! alarm has a task of its own:
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

/// The sleeps, and what this thread knows of their time driver. Used under the alarm's lock.
pub(super) struct TokioAlarm {
    /// A pair, or the alarm and the end sleep.
    sleeps: [TickSleep; 2],
    /// Whether either sleep may be the alarm.
    is_pair: bool,
    /// Whether the second sleep was set at the end of time, once.
    is_end_watched: bool,
    /// Translates ticks to tokio's instants.
    clock: Arc<Clock>,
    /// What the sleeps wake, and what knows whether the alarm's task was dropped.
    alarm_waker: Arc<AlarmWaker>,
    /// Of `alarm_waker`, made once.
    waker: Waker,
    /// When the time driver was found to have ended. From then on no sleep is touched.
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
            sleeps: [TickSleep::new(now), TickSleep::new(now)],
            is_pair: false,
            is_end_watched: false,
            waker: Waker::from(alarm_waker.clone()),
            alarm_waker,
            time_driver_ended: None,
            linger: Duration::ZERO,
            alternative: None,
            clock: driver.clock.clone(),
        };
        match life {
            Life::Alive => alarm.begin(driver, runtime),
            Life::Ends => {
                alarm.linger = A_WHILE;
                alarm.note_end();
            }
            Life::Ended => alarm.note_end(),
        }
        alarm
    }

    fn begin(&mut self, driver: &Arc<Driver>, runtime: &Handle) {
        // Both elapse, because a poll of a sleep that was never reset sets it.
        let past = self.clock.long_ago();
        for sleep in &mut self.sleeps {
            catch(|| sleep.sleep.as_mut().reset(past));
        }
        if may_be_alternative(runtime) && !self.fires_within_reset() {
            self.linger = A_WHILE;
            self.alternative = Some(runtime.id());
        }
        self.is_pair = !self.clock.is_pausable() && self.alternative.is_none();
        if !self.is_pair {
            self.spawn_task(driver, runtime);
        }
        if self.alternative.is_none() {
            self.clock.stalls().let_tasks_run();
        }
        if !self.clock.is_pausable() {
            self.set_for_end(1);
        }
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

    fn set(&mut self, tick: Tick) -> Result<(), Tick> {
        // Nothing comes after the end of time.
        if self.set_sleep(tick) || tick >= self.clock.last_tick() {
            return Ok(());
        }
        // What is due in the present tick may be due by now, too.
        let present = self.clock.current_tick();
        let is_present_missed = present > tick && !self.set_sleep(present);
        Err(if is_present_missed { present } else { tick })
    }

    fn set_also(&mut self, next: Tick, after: Tick) {
        if !self.is_pair || after == Tick::NEVER || self.time_driver_ended.is_some() {
            return;
        }
        let other = usize::from(self.sleeps[0].is_set_for(next));
        // If that has passed by now, so has `next`, whose sleep then makes the turn.
        let _ = self.sleeps[other].is_set_for(after) || self.reset(other, after);
    }

    fn watch_end(&mut self) {
        let lies_there = |sleep: &TickSleep| sleep.tick == Tick::NEVER;
        if !self.is_pair || self.time_driver_ended.is_some() || self.sleeps.iter().any(lies_there) {
            return;
        }
        // One that has elapsed, or the later one: the earlier one may still make the turn.
        let [first, second] = &self.sleeps;
        let is_second = !first.is_elapsed() && (second.is_elapsed() || first.tick < second.tick);
        self.set_for_end(usize::from(is_second));
    }
}

impl TokioAlarm {
    /// Sets one of the sleeps for a tick. `false` if that has passed. If the time driver has ended,
    /// there is nothing to set.
    fn set_sleep(&mut self, tick: Tick) -> bool {
        if self.time_driver_ended.is_some() {
            return true;
        }
        if !self.is_pair {
            if tick == Tick::NEVER {
                self.unset();
                return true;
            }
            return self.reset(0, tick);
        }
        let mut sleeps = self.sleeps.iter();
        sleeps.any(|sleep| sleep.is_set_for(tick)) || self.reset(self.spare_for(tick), tick)
    }

    /// The one of the pair that is reset for a tick at which none lies: see the table at the head.
    fn spare_for(&self, tick: Tick) -> usize {
        let rank = |sleep: &TickSleep| {
            if sleep.is_elapsed() {
                1
            } else if sleep.tick < tick {
                2
            } else {
                0
            }
        };
        let [first, second] = &self.sleeps;
        let (of_first, of_second) = (rank(first), rank(second));
        let is_second = if of_first == of_second {
            // Of two that lie after it the later one, of two that lie before it the earlier one.
            (first.tick < second.tick) == (of_first == 0)
        } else {
            of_first < of_second
        };
        usize::from(is_second)
    }

    /// Resets a sleep to the start of a tick. `false` if that has passed.
    fn reset(&mut self, index: usize, tick: Tick) -> bool {
        let instant = self.clock.start_of(tick);
        match self.sleeps[index].reset(tick, instant, &self.waker) {
            Some(true) => return true,
            // That has passed, or the time driver has ended.
            Some(false) if self.is_pair => self.set_for_end(index),
            Some(false) if self.is_end_watched() => self.set_for_end(1),
            Some(false) => {}
            None => self.note_end(),
        }
        self.time_driver_ended.is_some()
    }

    /// Makes the first sleep idle.
    fn unset(&mut self) {
        let sleep = &mut self.sleeps[0];
        if !sleep.is_elapsed() {
            // An instant in the past elapses at once, on the alternative timer a little later.
            let past = self.clock.long_ago();
            if sleep.reset(Tick::FIRST, past, Waker::noop()).is_none() {
                self.note_end();
            }
        }
    }

    /// Notes the end of the time driver, if a sleep shows it now.
    fn look_for_end(&mut self) {
        if self.is_end_watched() && self.sleeps.iter().any(TickSleep::has_ended) {
            self.note_end();
        }
    }

    /// Whether the second sleep was set at the end of time. It is from now on, once the alarm's
    /// task was dropped.
    fn is_end_watched(&mut self) -> bool {
        // Acquire: pairs with the Release in the drop of `ShutdownSentinel`.
        if !self.is_end_watched && self.alarm_waker.is_shutting_down.load(Ordering::Acquire) {
            self.set_for_end(1);
        }
        self.is_end_watched
    }

    fn note_end(&mut self) {
        if self.time_driver_ended.is_none() {
            self.time_driver_ended = Some(self.clock.now());
            if !self.linger.is_zero() && !wake_later(self.waker.clone()) {
                self.linger = Duration::ZERO;
            }
        }
    }

    /// Sets a sleep at the end of time. If it elapses at once, that is the end.
    fn set_for_end(&mut self, index: usize) {
        self.is_end_watched = true;
        let end_of_time = self.clock.start_of(Tick::NEVER);
        if self.sleeps[index].reset(Tick::NEVER, end_of_time, &self.waker) != Some(true) {
            self.note_end();
        }
    }

    /// tokio's usual timer does. The alternative one fires when its worker comes round next: maybe
    /// at once, but on the worker's thread.
    fn fires_within_reset(&mut self) -> bool {
        let firing = Arc::new(FiringThread::default());
        let ahead = self.clock.last_tick();
        let (instant, waker) = (self.clock.start_of(ahead), Waker::from(firing.clone()));
        let sleep = &mut self.sleeps[0];
        sleep.reset(ahead, instant, &waker);
        let past = self.clock.long_ago();
        catch(|| sleep.sleep.as_mut().reset(past));
        firing.0.get() == Some(&thread::current().id())
    }

    /// Starts a task that makes a turn whenever it is notified, in the runtime and by its clock. It
    /// ends with the driver.
    fn spawn_task(&self, driver: &Driver, runtime: &Handle) {
        driver.has_task.store(true, Ordering::Relaxed);
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
}

/// A tokio sleep, and the tick that it was last reset to.
struct TickSleep {
    /// In no task, with the alarm's waker.
    sleep: Pin<Box<Sleep>>,
    /// `NEVER` for the end of time, `FIRST` for the past and before the first reset.
    tick: Tick,
}

impl TickSleep {
    /// Not among tokio's timers before it is reset.
    fn new(now: Instant) -> TickSleep {
        TickSleep {
            sleep: Box::pin(sleep_until(now)),
            tick: Tick::FIRST,
        }
    }

    fn is_elapsed(&self) -> bool {
        self.sleep.is_elapsed()
    }

    fn is_set_for(&self, tick: Tick) -> bool {
        self.tick == tick && !self.is_elapsed()
    }

    /// Whether it lies at the end of time, and has elapsed.
    fn has_ended(&self) -> bool {
        self.tick == Tick::NEVER && self.is_elapsed()
    }

    /// Resets it to the instant at which `tick` starts, and registers `waker`. Returns whether it
    /// is set; `None` as in `catch`.
    fn reset(&mut self, tick: Tick, instant: Instant, waker: &Waker) -> Option<bool> {
        self.tick = tick;
        let mut sleep = self.sleep.as_mut();
        catch(|| {
            // After the alarm has fired, the clock need not be read.
            if !sleep.is_elapsed() {
                let now = Instant::now();
                if instant <= now {
                    // A poll may panic while the time driver ends. A reset to an instant ahead
                    // elapses.
                    sleep.as_mut().reset(now + FAR);
                    is_pending(sleep.as_mut(), Waker::noop());
                }
            }
            sleep.as_mut().reset(instant);
            is_pending(sleep, waker)
        })
    }
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

/// `None` if it panics, because the time driver ends at this moment.
fn catch<R>(touch: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(touch)).ok()
}

/// Held by the alarm's task. A runtime that ends drops its tasks first, and this with them.
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

/// Makes a turn where it is woken.
struct AlarmWaker {
    /// Weak, because tokio keeps the waker.
    driver: Weak<Driver>,
    /// Whether the alarm's task was dropped, and with it the other tasks of the runtime.
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
    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::clock::tick::TickLength;
    use crate::report::Reporter;
    use crate::runtime::workers;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn current_thread(is_paused: bool) -> Runtime {
        let mut builder = Builder::new_current_thread();
        builder
            .enable_all()
            .start_paused(is_paused)
            .build()
            .unwrap()
    }

    fn alarm(runtime: &Runtime) -> TokioAlarm {
        driver_and_alarm(runtime).1
    }

    fn driver_and_alarm(runtime: &Runtime) -> (Arc<Driver>, TokioAlarm) {
        let _context = runtime.enter();
        let tick = TickLength::new(TickLength::MIN).unwrap();
        let clock = Arc::new(Clock::of_system(tick, true));
        let driver = Arc::new(Driver::new(clock, Reporter::default()));
        let alarm = TokioAlarm::new(&driver, runtime.handle(), Life::Alive);
        (driver, alarm)
    }

    fn ahead(alarm: &TokioAlarm, ticks: u64) -> Tick {
        Tick::new(alarm.clock.current_tick().get().saturating_add(ticks))
    }

    /// Where the sleeps of a pair lie, the earlier one first. `None` for one that has elapsed.
    fn ticks(alarm: &TokioAlarm) -> [Option<Tick>; 2] {
        let tick = |sleep: &TickSleep| (!sleep.is_elapsed()).then_some(sleep.tick);
        let mut ticks = alarm.sleeps.each_ref().map(tick);
        ticks.sort();
        ticks
    }

    #[test]
    fn of_a_pair_one_is_the_alarm_and_the_other_stays() {
        let runtime = current_thread(false);
        let mut alarm = alarm(&runtime);
        let [sooner, soon, later] = [400_000, 500_000, 600_000].map(|n| ahead(&alarm, n));
        let sets = [
            (
                later,
                [Some(later), Some(Tick::NEVER)],
                "an elapsed one is set",
            ),
            (soon, [Some(soon), Some(later)], "both lay after it"),
            (soon, [Some(soon), Some(later)], "one lies there"),
            (later, [Some(soon), Some(later)], "one lies there"),
            (sooner, [Some(sooner), Some(soon)], "the later one is moved"),
            (later, [Some(soon), Some(later)], "one lay before it"),
            (
                Tick::NEVER,
                [Some(later), Some(Tick::NEVER)],
                "one lay before it",
            ),
        ];
        assert_eq!(ticks(&alarm), [None, Some(Tick::NEVER)]);
        for (number, (tick, expected, why)) in sets.into_iter().enumerate() {
            assert_eq!(alarm.set(tick), Ok(()));
            assert_eq!(ticks(&alarm), expected, "{number}: {why}");
        }
    }

    /// It is the answer, and not the last tick that was asked for, that the caller goes on with.
    #[test]
    fn a_tick_that_has_passed_moves_no_alarm_before_the_later_one() {
        let runtime = workers(1);
        let mut alarm = alarm(&runtime);
        let [soon, later] = [400_000, 500_000].map(|n| ahead(&alarm, n));
        assert_eq!(alarm.set(later), Ok(()));
        assert_eq!(alarm.set(soon), Ok(()));
        let past = Tick::FIRST;
        // The time driver works up to the present tick, and so past the first one.
        loop {
            if let Err(missed) = alarm.set(past) {
                assert!(past <= missed && missed <= ahead(&alarm, 0));
                break;
            }
        }
        assert!(ticks(&alarm).contains(&Some(soon)), "it is still set");
    }

    /// The time driver has come further than the clock of the thread that sets the alarm.
    #[test]
    fn a_clock_that_has_stepped_back_shows_no_end() {
        let runtime = current_thread(true);
        let mut alarm = alarm(&runtime);
        runtime.block_on(tokio::time::advance(20 * TickLength::MIN));
        // Ahead by this clock, passed for the time driver.
        let tick = ahead(&alarm, 5);
        assert_eq!(alarm.set(tick), Err(tick));
        assert_eq!(alarm.ended(), None);
        drop(runtime);
        assert_eq!(alarm.set(tick), Ok(()));
        assert!(alarm.ended().is_some());
    }

    /// So what is due in the present tick is known to be due, too.
    #[test]
    fn of_the_ticks_that_have_passed_the_present_one_is_told() {
        let runtime = current_thread(true);
        let mut alarm = alarm(&runtime);
        runtime.block_on(tokio::time::advance(HOUR));
        thread::sleep(2 * TickLength::MIN);
        let present = ahead(&alarm, 0);
        assert!(present > Tick::FIRST);
        let told = alarm.set(Tick::FIRST);
        assert!(told.is_err_and(|missed| missed >= present), "{told:?}");
    }

    /// The request of that firing would be served for nothing.
    #[test]
    fn an_alarm_does_not_fire_as_it_is_reset_to_the_past() {
        let runtime = current_thread(true);
        let (driver, mut alarm) = driver_and_alarm(&runtime);
        runtime.block_on(tokio::time::advance(HOUR));
        // Neither has elapsed.
        let tomorrow = ahead(&alarm, 24 * 3_600_000);
        assert_eq!(alarm.set(tomorrow), Ok(()));
        assert!(alarm.set(Tick::FIRST).is_err());
        assert_eq!(driver.wake_ups(), 0);
    }

    /// Whatever it was last set for. Where none lies at the end of time the next reset shows it,
    /// also one to the past.
    #[test]
    fn an_alarm_learns_of_its_runtimes_end() {
        const FOR_EVER: u64 = u64::MAX;
        let sets: [(&[u64], bool); 6] = [
            (&[], true),
            (&[0], true),
            (&[1_000_000], true),
            (&[2_000_000, 1_000_000], false),
            // The first of the pair lies there.
            (&[2_000_000, 1_000_000, 500_000, FOR_EVER], true),
            (&[1, 0], false),
        ];
        for (set, lies_at_the_end_of_time) in sets {
            for is_past in [false, true] {
                let runtime = current_thread(false);
                let mut alarm = alarm(&runtime);
                for &ticks in set {
                    assert_eq!(alarm.set(ahead(&alarm, ticks)), Ok(()));
                }
                assert_eq!(alarm.ended(), None, "{set:?}");
                thread::sleep(2 * TickLength::MIN);
                drop(runtime);
                assert_eq!(alarm.ended().is_some(), lies_at_the_end_of_time, "{set:?}");
                let tick = if is_past {
                    Tick::FIRST
                } else {
                    ahead(&alarm, 1_000)
                };
                assert_eq!(alarm.set(tick), Ok(()), "{set:?}");
                assert!(alarm.ended().is_some(), "{set:?}");
            }
        }
    }

    /// Both may have fired before the end. The earlier one may yet make a turn.
    #[test]
    fn an_end_that_is_watched_shows_whatever_has_fired() {
        let sets: [(&[u64], bool); 3] = [
            (&[1, 0], false),
            (&[2_000_000, 1_000_000], true),
            // The first of the pair is the earlier one.
            (&[2_000_000, 1_000_000, 500_000], true),
        ];
        for (set, stays) in sets {
            let runtime = current_thread(false);
            let mut alarm = alarm(&runtime);
            for &ticks in set {
                assert_eq!(alarm.set(ahead(&alarm, ticks)), Ok(()));
            }
            runtime.block_on(async { tokio::time::sleep(3 * TickLength::MIN).await });
            let [earlier, _] = ticks(&alarm);
            assert_eq!(earlier.is_some(), stays);
            alarm.watch_end();
            assert_eq!(ticks(&alarm), [earlier, Some(Tick::NEVER)]);
            alarm.watch_end();
            assert_eq!(ticks(&alarm), [earlier, Some(Tick::NEVER)]);
            assert_eq!(alarm.ended(), None);
            drop(runtime);
            assert!(alarm.ended().is_some());
        }
    }
}
