//! The driver turns every wheel of a timer, in time.
//!
//! # A turn
//!
//! ```text
//! the alarm fires, in tokio's time driver or on the alarm's own thread
//!   Turns::turn                    alarm          reads the clock before any shard; this thread
//!                                                 takes the alarm and makes the turn, or leaves it
//!                                                 to the thread that makes one
//!     Driver::begin_wait           mod            late by a stall: leaves it to a task, which comes
//!                                                 after those that have something to read (`rounds`)
//!     Driver::fire                 mod
//!       Stalls::turn_begins        clock            notes a stall, if the driver comes late by one
//!       Shard::fire_batch          shard            each shard, until none has more than a batch:
//!                                                   locks it
//!         Wheel::find_due          wheel            finds what is due, cascades
//!         LockedWord::decide       shard            decides on a deadline (W1)
//!         ShardTick::set           shard
//!       Reporter::wake_all         report           wakes the tasks, under no lock
//!     Stalls::turn_ends            clock          what is due next waits from then on
//!     Alarm::set                   tokio_alarm    for the earliest expiry of all shards
//!     Driver::close                mod            if the runtime has ended, closes the shards
//!
//! a thread arms something for earlier than the next expiry of its shard
//!   Shard::notify_driver           shard
//!     Driver::request_turn         mod            done, if the alarm is set early enough
//!       Turns::set_earlier         alarm          left to the thread that holds the alarm's lock,
//!                                                 to a turn, or to the alarm's task
//!         Driver::note_wait        mod            what is due keeps waiting
//!         Alarm::set               tokio_alarm    too late for its tick: leaves a turn to a task
//!
//! a thread disarms the earliest timer of a shard, on a clock that can be paused
//!   Shard::notify_driver           shard
//!     Driver::request_turn         mod            notifies the alarm's task
//!       Turns::turn                alarm          in that task
//! ```
//!
//! There is no driver task, so no task and no queue stands between a due and its timer, but after a
//! stall (see [`rounds`]). The waker
//! of one tokio timer, the [alarm](tokio_alarm), makes the turn where tokio wakes its own timers.
//! It sets the alarm again, or leaves that to the alarm's task. The process's timer has no runtime;
//! its alarm is a [thread](thread_alarm). No thread waits for another one that sets the alarm: it
//! leaves its request to that thread (see [`alarm`]).
//!
//! Turns happen only within tokio's time driver, in the alarm's task, or on the alarm's own thread.
//! So on a runtime's timer a blocking waker holds up no more than it would with tokio. A thread
//! that arms never turns, but one that finds the runtime ended wakes the waiting tasks.
//!
//! Invariants:
//!
//! - While something is armed, the alarm is set for the earliest expiry or before, or a turn is
//!   being made. Or a thread or the alarm's task is about to set it. While nothing is armed,
//!   nothing sets the alarm. It fires at most once more for each shard, for a timer that was
//!   disarmed. On a clock that can be paused there is then no tokio timer at all. A task that waits
//!   with nothing armed takes a [`Watch`].
//! - The clock is read before any shard is turned, to the floor of that reading.
//! - The driver holds its shards weakly, and its waker holds the driver weakly. A thread that can
//!   still arm a timer, or has one pending, holds a shard, and each shard holds the driver.
//! - The shards are closed once the runtime's time driver has ended, by the thread that finds it
//!   ended (see `tokio_alarm`). Every task was dropped by then, with the exceptions in `end`.
//!   During a turn, its thread does.
//!
//! # When does the driver come?
//!
//! Four ticks answer this. They agree while the driver is on time.
//!
//! | tick | for whom | how it differs |
//! |---|---|---|
//! | `Shard::next_expiry` | a thread that arms in that shard, and a turn | one shard's; under its lock, nothing there is due before it |
//! | `Turns::next_check` | a thread that has lowered a next expiry | `FIRST` during a turn, which reads the expiries at its end; `NEVER` while they are read |
//! | `Stalls::waits_since` | a thread that finds a deadline passed | stays where it is while the driver is late, which shows a stall |
//! | `Stalls::late_since` | a turn that counts how late its timers are | is not raised by a turn that took until after it |

pub(crate) mod alarm;
mod end;
mod rounds;
mod thread_alarm;
mod tokio_alarm;
pub(crate) mod waits;

use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::clock::tick::{Moment, Tick};
use crate::report::Reporter;
use crate::runtime::Handle;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

use crate::shard::{ExpiryChange, Shard, ShardTick, TurnRequests};
use alarm::{Act, Alarm, Hooks, Late, Step, TurnBy, Turns};
pub(crate) use end::{Life, Watch, on_a_plain_thread};
use rounds::{ComeRound, Rounds};
use thread_alarm::ThreadAlarm;
use tokio_alarm::TokioAlarm;
use waits::Waits;

/// The driver of one timer. Its alarm, its shards and the waits for its end hang on it.
pub(crate) struct Driver {
    /// The alarm, and who makes a turn.
    turns: Turns,
    /// A shard is dropped once no thread can arm on it and nothing is armed in it.
    shards: OnceLock<Box<[Weak<Shard>]>>,
    /// The timer's, which the shards share.
    clock: Arc<Clock>,
    /// Notifies the alarm's task, which makes a turn, where there is one.
    alarm_task: Arc<Notify>,
    /// Whether turns that are left to a task have one of their own. Otherwise one is spawned for
    /// each.
    has_task: AtomicBool,
    /// Whether such a task has yet to run.
    is_turn_spawned: AtomicBool,
    /// Where tasks are spawned. `None` after the end.
    runtime: Mutex<Option<(Handle, Weak<Driver>)>>,
    /// When tasks last ran first after a stall.
    rounds: Rounds,
    /// Wakers for the end, with nothing armed. The driver takes them away when it closes.
    waits: Waits,
    /// How often the alarm has fired.
    wake_ups: AtomicU64,
    /// Wakes tasks, and reports stalls.
    reporter: Reporter,
}

impl Driver {
    pub(crate) fn new(clock: Arc<Clock>, reporter: Reporter) -> Driver {
        Driver {
            turns: Turns::new(),
            shards: OnceLock::new(),
            clock,
            alarm_task: Arc::default(),
            has_task: AtomicBool::new(false),
            is_turn_spawned: AtomicBool::new(false),
            runtime: Mutex::new(None),
            rounds: Rounds::default(),
            waits: Waits::new(),
            wake_ups: AtomicU64::new(0),
            reporter,
        }
    }

    /// Begins to drive these shards on the runtime of `handle`. Call this in its context.
    pub(crate) fn begin(self: &Arc<Self>, shards: &[Arc<Shard>], handle: &Handle, life: Life) {
        *lock(&self.runtime) = Some((handle.clone(), Arc::downgrade(self)));
        self.begin_with(shards, || TokioAlarm::new(self, handle, life));
        // If the runtime has ended, so has the timer.
        self.look_for_end();
    }

    pub(crate) fn begin_on_thread(
        self: &Arc<Self>,
        shards: &[Arc<Shard>],
        name: &str,
    ) -> io::Result<()> {
        let alarm = ThreadAlarm::start(name, self.clone())?;
        self.begin_with(shards, || alarm);
        Ok(())
    }

    fn begin_with<A: Alarm + 'static>(&self, shards: &[Arc<Shard>], make: impl FnOnce() -> A) {
        let weak = shards.iter().map(Arc::downgrade).collect();
        let _ = self.shards.set(weak);
        self.turns.begin(|| Box::new(make()));
    }

    /// How many timers are due by a tick. `None` for very many.
    fn count_due(&self, tick: Tick) -> Option<usize> {
        self.shards().map(|shard| shard.count_due(tick)).sum()
    }

    #[inline]
    pub(crate) fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// Runs when the alarm has fired.
    fn handle_alarm(&self) {
        // Relaxed: a count on which nothing depends.
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
        self.turns.turn(self, self.now(), TurnBy::Alarm);
    }

    /// Runs when the timer begins, and when the alarm's task was dropped: from then on a look shows
    /// whether the runtime has ended.
    fn look_for_end(&self) {
        self.turns.set_for_earliest(self, self.now());
    }

    /// Runs in the alarm's task.
    fn handle_task(&self) {
        self.turns.turn(self, self.now(), TurnBy::Task);
    }

    /// Fires everything due at `now`, a batch of each shard in turn. Returns the time at the end.
    /// Work left to a task would wait in a run queue, behind tasks that are always ready.
    fn fire_due(&self, mut now: Moment, late_since: Tick, wakers: &mut Vec<Waker>) -> Moment {
        let present = self.clock.tick().current(now);
        loop {
            let mut is_finished = true;
            for shard in self.shards().filter(|shard| shard.next_expiry() <= present) {
                is_finished &= shard.fire_batch(present, now, late_since, wakers);
                self.reporter.wake_all(wakers);
                // A waker may have taken its time.
                now = now.max(self.clock.now_or_epoch());
                self.reporter.driver_was_stalled(self.note_progress(now));
            }
            if is_finished {
                return now;
            }
        }
    }

    /// Notes progress at `now`. Returns the length of the stall that thereby ends, if any.
    fn note_progress(&self, now: Moment) -> Option<Duration> {
        let stalls = self.clock.stalls();
        stalls.turn_begins(now, || self.clock.is_virtual())
    }

    fn shards(&self) -> impl Iterator<Item = Arc<Shard>> + '_ {
        self.shards
            .get()
            .into_iter()
            .flatten()
            .filter_map(Weak::upgrade)
    }
}

impl Hooks for Driver {
    fn expiries(&self) -> [Tick; 2] {
        let (mut first, mut second) = (Tick::NEVER, Tick::NEVER);
        // A shard whose last reference ends here is empty, so under the alarm's lock too its drop
        // runs no user code.
        for shard in self.shards() {
            let (next, after) = (shard.next_expiry(), shard.after_next());
            if next < first {
                second = first;
                first = next;
            } else if next > first {
                second = second.min(next);
            }
            if after > next {
                second = second.min(after);
            }
        }
        [first, second]
    }

    fn fire(&self, mut now: Moment, begun: Option<Tick>, wakers: &mut Vec<Waker>) -> Moment {
        if let Some(begun) = begun {
            now = now.max(self.clock.tick().start_of(begun)).max(self.now());
        }
        // While this turn has the alarm, no other thread writes it.
        let late_since = self.clock.stalls().late_since();
        // On a thread of the runtime, so that plain threads learn of a virtual clock.
        self.clock.is_virtual();
        self.reporter.driver_was_stalled(self.note_progress(now));
        self.fire_due(now, late_since, wakers)
    }

    #[inline(always)] // Each caller needs one arm.
    fn note(&self, step: Step) -> Option<Late> {
        match step {
            Step::Begins(now) => return self.begin_wait(now),
            Step::WaitFails => self.clock.stalls().tasks_have_run(),
            Step::WaitElapses(now) => return self.begin_wait_again(now),
            Step::WaitEnds(now) => self.rounds.end(now),
            Step::Ends { next, now } => self.clock.stalls().turn_ends(next, now),
            Step::Sets { tick, now } => return self.note_wait(tick, now),
            Step::Misses(tick) => self.clock.note_missed(tick),
            Step::LeavesToTask(expiry) => self.note_left(expiry),
        }
        None
    }

    #[inline(always)]
    fn act(&self, act: Act) {
        match act {
            Act::LetTasksRun(now, late) => self.let_tasks_run(now, late),
            Act::Report(late) => self.reporter.driver_was_stalled(late.by),
            Act::NotifyTask => self.notify_task(),
            Act::Close(ended) => self.close(ended),
        }
    }
}

/// The steps of a turn and of the alarm, one by one.
impl Driver {
    /// Lets a turn wait that comes late by a stall.
    fn begin_wait(&self, now: Moment) -> Option<Late> {
        let stalls = self.clock.stalls();
        if !stalls.may_let_tasks_run(now) || self.clock.is_virtual() {
            return None;
        }
        let until = self.clock.tick().due(self.rounds.begin(now)?);
        let by = Some(self.note_progress(now)?);
        stalls.tasks_run_until(until);
        Some(Late { by, until })
    }

    /// Lets a turn go on waiting, if its tasks could not run in the meantime.
    fn begin_wait_again(&self, now: Moment) -> Option<Late> {
        let until = self.clock.tick().due(self.rounds.begin_again(now)?);
        let by = self.note_progress(now);
        self.clock.stalls().tasks_run_until(until);
        Some(Late { by, until })
    }

    /// Reports a stall, and starts the task that makes the turn after it.
    fn let_tasks_run(&self, now: Moment, late: Late) {
        self.reporter.driver_was_stalled(late.by);
        let stalls = self.clock.stalls();
        let Some((runtime, driver)) = lock(&self.runtime).clone() else {
            return stalls.tasks_have_run();
        };
        let due = self.clock.tick().current(now);
        runtime.spawn(rounds::run(ComeRound(driver), due));
    }

    /// The alarm is set for `tick`. What is due already keeps waiting. If it is gone, no later turn
    /// shows the stall, so it is noted here.
    fn note_wait(&self, tick: Tick, now: Moment) -> Option<Late> {
        let stalls = self.clock.stalls();
        if tick.max(stalls.waits_since()) <= self.clock.tick().current(now) {
            return None;
        }
        let by = self.note_progress(now);
        stalls.wait_from(tick.max(self.clock.tick().current(now)));
        let until = tick;
        by.is_some().then_some(Late { by, until })
    }

    /// If the alarm's task comes late, that is a stall. What is linked in the past has not waited:
    /// by this thread's clock, because a virtual clock has no stalls.
    fn note_left(&self, expiry: Tick) {
        let due = expiry.max(self.clock.current_tick());
        self.clock.stalls().wait_from_earlier(due);
    }

    fn notify_task(&self) {
        if self.has_task.load(Ordering::Relaxed) {
            return self.alarm_task.notify_one();
        }
        // The task takes it back before its turn, which then sees what came before.
        if self.is_turn_spawned.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some((runtime, driver)) = lock(&self.runtime).clone() else {
            return;
        };
        // A runtime that ends drops the task, and the alarm then fires: it watches the end.
        runtime.spawn(async move {
            if let Some(driver) = driver.upgrade() {
                driver.is_turn_spawned.swap(false, Ordering::AcqRel);
                driver.handle_task();
            }
        });
    }

    /// Closes every shard, for ever.
    fn close(&self, ended: Moment) {
        // First, so that a thread that finds a shard closed, under its lock, finds the clock ended.
        let mut waits = self.waits.close(|| self.clock.end(ended));
        self.clock.stalls().wait_from(Tick::NEVER);
        for shard in self.shards() {
            self.reporter.wake_all(&mut shard.close());
        }
        self.reporter.wake_all(&mut waits);
        // It keeps what is left of the runtime.
        let runtime = lock(&self.runtime).take();
        drop(runtime);
    }

    fn now(&self) -> Moment {
        self.clock.now_or_epoch()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // So that the task ends.
        self.alarm_task.notify_one();
    }
}

impl TurnRequests for Driver {
    fn request_turn(&self, change: ExpiryChange, expiry: &ShardTick) {
        match change {
            ExpiryChange::Earlier(tick) if !self.turns.next_check().comes_by(tick) => {
                self.turns.set_earlier(self, expiry, self.now());
            }
            ExpiryChange::Deferred => {
                // The task runs before the runtime is idle, and so before its time runs.
                self.alarm_task.notify_one();
            }
            _ => {}
        }
    }

    fn wake(&self, waker: Waker) {
        self.reporter.wake(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::{Context, Poll};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::clock::tick::TickLength;
    use crate::runtime::{coop, spend_budget};
    use tokio::time::{Instant, sleep};

    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// Two threads notify the driver in the wrong order: of an expiry, and of its deferral.
    #[tokio::test(start_paused = true)]
    async fn an_expiry_that_was_deferred_pulls_no_virtual_time_along() {
        let runtime = Handle::current();
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(Some(&runtime), tick, Instant::now(), true);
        let driver = Arc::new(Driver::new(Arc::new(clock), Reporter::default()));
        driver.begin(&[], &runtime, Life::Alive);
        let expiry = ShardTick::new(Tick::NEVER);
        driver.request_turn(ExpiryChange::Deferred, &expiry);
        driver.request_turn(ExpiryChange::Earlier(Tick::new(10)), &expiry);
        sleep(Duration::from_millis(20)).await;
        assert_eq!(driver.wake_ups(), 0);
    }

    /// An alarm that calls something when it is set for the first time.
    struct Calls<F> {
        /// What it calls, until it has.
        first: Option<F>,
        /// What it answers to `ended`.
        ended: Option<Moment>,
    }

    impl<F: FnOnce(&mut Option<Moment>) -> bool + Send> Alarm for Calls<F> {
        fn set(&mut self, tick: Tick) -> Result<(), Tick> {
            let first = self.first.take();
            first
                .is_none_or(|first| first(&mut self.ended))
                .then_some(())
                .ok_or(tick)
        }

        fn ended(&mut self) -> Option<Moment> {
            self.ended
        }
    }

    fn driver() -> Arc<Driver> {
        driver_since(Instant::now(), None)
    }

    /// A driver whose clock has run for a second.
    fn driver_of_a_second(runtime: Option<&Handle>) -> Arc<Driver> {
        let a_second = Duration::from_secs(1);
        driver_since(Instant::now().checked_sub(a_second).unwrap(), runtime)
    }

    fn driver_since(epoch: Instant, runtime: Option<&Handle>) -> Arc<Driver> {
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(runtime, tick, epoch, true);
        Arc::new(Driver::new(Arc::new(clock), Reporter::default()))
    }

    fn shard(driver: &Arc<Driver>, index: usize) -> Arc<Shard> {
        Arc::new(Shard::new(driver.clock.clone(), driver.clone(), index))
    }

    fn begin(driver: &Driver, first: impl FnOnce(&mut Option<Moment>) -> bool + Send + 'static) {
        let (first, ended) = (Some(first), None);
        driver.begin_with(&[], || Calls { first, ended });
    }

    fn set_earlier(driver: &Driver, tick: Tick) {
        driver.request_turn(ExpiryChange::Earlier(tick), &ShardTick::new(tick));
    }

    fn set_for_an_hour(driver: &Driver) {
        let in_an_hour = driver.clock.now().after(HOUR);
        set_earlier(driver, driver.clock.tick().due(in_an_hour));
    }

    /// The alarm may be set under a panic hook, which may arm a timer, or wait for a lock of a
    /// thread that does.
    #[test]
    fn no_thread_waits_for_one_that_sets_the_alarm() {
        for is_turn in [false, true] {
            for (fires_meanwhile, is_here) in
                [(false, true), (false, false), (true, true), (true, false)]
            {
                let driver = driver();
                let other = driver.clone();
                begin(&driver, move |_| {
                    let meanwhile = move || {
                        if fires_meanwhile {
                            other.handle_alarm();
                        } else {
                            set_earlier(&other, Tick::FIRST);
                        }
                    };
                    if is_here {
                        meanwhile();
                    } else {
                        thread::spawn(meanwhile).join().unwrap();
                    }
                    true
                });
                if is_turn {
                    driver.handle_alarm();
                } else {
                    set_for_an_hour(&driver);
                }
                // Served: the alarm was set again for the shards' expiries, and there is no shard.
                assert_eq!(driver.turns.next_check().tick(), Tick::NEVER);
                assert!(driver.turns.is_at_rest());
            }
        }
    }

    /// The firing that tells of the end is left to the thread that sets the alarm.
    #[test]
    fn an_end_that_comes_as_the_alarm_is_set_closes_the_timer() {
        for is_turn in [false, true] {
            let driver = driver();
            begin(&driver, |ended| {
                *ended = Some(Moment::EPOCH);
                true
            });
            if is_turn {
                driver.handle_alarm();
            } else {
                set_for_an_hour(&driver);
            }
            assert!(driver.clock.has_ended(), "in a turn: {is_turn}");
        }
    }

    /// Whoever polls a sleep afterwards would leave it to a driver that comes no more.
    #[test]
    fn an_end_that_comes_as_a_wait_begins_leaves_no_tasks_to_run() {
        let driver = driver_of_a_second(None);
        begin(&driver, |ended| {
            *ended = Some(Moment::EPOCH);
            true
        });
        let stalls = driver.clock.stalls();
        stalls.let_tasks_run();
        stalls.wait_from(Tick::FIRST);
        let now = driver.clock.now();
        assert!(stalls.is_left_to_driver(now), "a turn would wait");
        driver.handle_alarm();
        assert!(driver.clock.has_ended());
        assert!(!stalls.is_left_to_driver(now));
    }

    #[test]
    fn a_wait_that_begins_again_ends_a_stall_and_the_next_begins_with_its_last_tick() {
        let driver = driver();
        let (clock, now) = (&driver.clock, driver.clock.now());
        let until = clock.tick().due(driver.rounds.begin(now).unwrap());
        clock.stalls().tasks_run_until(until);
        let held_up = now.after(Duration::from_millis(900));
        let late = driver.begin_wait_again(held_up).expect("it was held up");
        assert!(late.by.is_some(), "that is reported");
        assert!(late.until > clock.tick().due(held_up));
        assert_eq!(clock.stalls().count(), 1);
        assert_eq!(clock.stalls().waits_since(), late.until);
    }

    /// No task was started that would say so.
    #[test]
    fn a_wait_that_cannot_begin_leaves_no_tasks_to_run() {
        let driver = driver_of_a_second(None);
        begin(&driver, |_| false);
        let (stalls, now) = (driver.clock.stalls(), driver.clock.now());
        stalls.let_tasks_run();
        stalls.wait_from(Tick::FIRST);
        assert!(stalls.is_left_to_driver(now), "a turn would wait");
        driver.handle_alarm();
        assert!(!stalls.is_left_to_driver(now));
    }

    #[test]
    fn a_turn_notes_since_when_the_next_timer_waits() {
        let driver = driver();
        let shards = [shard(&driver, 0)];
        let first = None::<fn(&mut Option<Moment>) -> bool>;
        driver.begin_with(&shards, || Calls { first, ended: None });
        let due = Tick::new(3_600_000);
        assert!(shards[0].arm(due, Waker::noop().clone()).is_some());
        let stalls = driver.clock.stalls();
        stalls.wait_from(Tick::NEVER);
        driver.handle_alarm();
        assert_eq!((stalls.waits_since(), stalls.late_since()), (due, due));
    }

    /// What is armed for it later is due at once.
    #[test]
    fn a_tick_that_the_alarm_is_too_late_for_is_noted() {
        let driver = driver();
        begin(&driver, |_| false);
        set_earlier(&driver, Tick::new(5));
        assert_eq!(
            [5, 6].map(|tick| driver.clock.has_missed(Tick::new(tick))),
            [true, false]
        );
    }

    /// Sets nothing, and notes a request each time.
    struct Missed {
        driver: Weak<Driver>,
        watched: Arc<AtomicU64>,
    }

    impl Alarm for Missed {
        fn set(&mut self, tick: Tick) -> Result<(), Tick> {
            self.driver.upgrade().unwrap().handle_alarm();
            Err(tick)
        }

        fn watch_end(&mut self) {
            self.watched.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// In between another thread may have set the alarm, and it may have fired.
    #[test]
    fn the_end_is_watched_for_each_turn_that_is_left_to_a_task() {
        let (driver, watched) = (driver(), Arc::default());
        driver.begin_with(&[], || Missed {
            driver: Arc::downgrade(&driver),
            watched: Arc::clone(&watched),
        });
        set_earlier(&driver, Tick::new(5));
        assert_eq!(
            watched.load(Ordering::Relaxed),
            2,
            "the tick's, and the request's"
        );
    }

    struct OfTask;

    impl Alarm for OfTask {
        fn set(&mut self, _: Tick) -> Result<(), Tick> {
            panic!("only the task may set it");
        }

        fn needs_task(&self) -> bool {
            true
        }
    }

    /// tokio's alternative timer may be ending where its wakers run. And a worker may block before
    /// the task has run.
    #[test]
    fn an_alarm_of_a_task_is_set_by_no_turn_and_waited_for_at_once() {
        let driver = driver();
        driver.begin_with(&[], || OfTask);
        driver.handle_alarm();
        for hours in [2, 1, 3] {
            let due = driver.clock.now().after(hours * HOUR);
            set_earlier(&driver, driver.clock.tick().due(due));
        }
        let in_an_hour = driver.clock.tick().due(driver.clock.now().after(HOUR));
        assert!(driver.clock.stalls().waits_since() <= in_an_hour);
    }

    #[tokio::test]
    async fn what_a_plain_thread_links_in_the_past_has_not_waited() {
        let driver = driver_of_a_second(Some(&Handle::current()));
        driver.begin_with(&[], || OfTask);
        thread::scope(|scope| scope.spawn(|| set_earlier(&driver, Tick::FIRST)).join()).unwrap();
        assert!(driver.clock.stalls().waits_since() >= Tick::new(1_000));
    }

    /// The alarm's task has yet to set the alarm again, after a turn that took a second.
    #[test]
    fn what_is_left_to_the_task_raises_no_tick_of_a_timer_that_is_due() {
        let driver = driver_of_a_second(None);
        driver.begin_with(&[], || OfTask);
        let (stalls, due) = (driver.clock.stalls(), Tick::new(5));
        stalls.turn_ends(due, driver.clock.now());
        set_for_an_hour(&driver);
        assert_eq!(stalls.late_since(), due);
        assert!(stalls.waits_since() >= Tick::new(1_000));
    }

    #[test]
    fn a_timer_linked_in_the_past_is_late_since_it_was_armed() {
        let driver = driver_of_a_second(None);
        let (clock, shards) = (driver.clock.clone(), [shard(&driver, 0)]);
        let first = None::<fn(&mut Option<Moment>) -> bool>;
        driver.begin_with(&shards, || Calls { first, ended: None });
        let begun = clock.tick().start_of(clock.current_tick());
        assert!(shards[0].arm(Tick::new(1), Waker::noop().clone()).is_some());
        driver.handle_alarm();
        let fired = shards[0].counts().fired;
        assert_eq!(fired.by_lateness.iter().sum::<u64>(), 1);
        assert!(
            Duration::from_nanos(fired.sum) <= clock.now().since(begun),
            "{fired:?}"
        );
    }

    #[test]
    fn a_tick_that_passes_before_a_turn_sets_the_alarm_is_turned_to() {
        let driver = driver();
        let shard = Shard::new(driver.clock.clone(), driver.clone(), 0);
        let shards = [Arc::new(shard)];
        let soon = Tick::new(driver.clock.current_tick().get() + 20);
        let arm = |_| shards[0].arm(soon, Waker::noop().clone()).is_some();
        assert!((0..200).all(arm), "more than a batch");
        let first = Some(|_: &mut Option<Moment>| {
            thread::sleep(Duration::from_millis(25));
            false
        });
        driver.begin_with(&shards, || Calls { first, ended: None });
        driver.handle_alarm();
        assert_eq!(shards[0].counts().pending, 0);
    }

    /// No turn comes for a timer that is gone.
    #[test]
    fn an_alarm_that_is_set_late_without_a_turn_notes_the_stall() {
        let driver = driver();
        begin(&driver, |_| true);
        driver.clock.stalls().wait_from(Tick::FIRST);
        thread::sleep(Duration::from_millis(60));
        driver.look_for_end();
        assert_eq!(driver.clock.stalls().count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_without_budget_sets_the_alarm_without_an_empty_turn() {
        let timer = crate::Timer::builder().build().unwrap();
        let use_up = |cx: &mut Context<'_>| {
            while coop::has_budget_remaining() {
                spend_budget(cx);
            }
            Poll::Ready(timer.deadline(Duration::from_millis(1)))
        };
        assert_eq!(poll_fn(use_up).await.await, Ok(()));
        assert_eq!(timer.metrics().wake_ups(), 1, "no empty turn");
    }
}
