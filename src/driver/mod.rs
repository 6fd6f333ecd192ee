//! The driver turns every wheel of a timer, in time.
//!
//! # A turn
//!
//! ```text
//! the alarm fires, in tokio's time driver or on the alarm's own thread
//!   Driver::handle_alarm           mod            counts the wake-up
//!     Requests::run                requests       this thread becomes the running thread, or leaves
//!                                                 the request to it
//!       Driver::serve              core           reads the clock before any shard
//!         Alarm::has_ended         tokio_alarm    if the runtime has, closes the shards instead
//!         Stalls::turn_begins      clock          notes a stall, if the driver comes late by one
//!         Driver::fire_due         core           each shard, until none has more than a batch:
//!           Shard::fire_batch      shard            locks it
//!             Wheel::turn          wheel            finds what is due, cascades
//!             Word::expire_if      shard            judges a deadline (W1)
//!             NextExpiry::set      shard
//!           Reporter::wake_all     waking           wakes the tasks, under no lock
//!         Stalls::turn_ends        clock          what is due next waits from then on
//!         Alarm::set               tokio_alarm    for the earliest expiry of all shards
//!
//! a thread arms something for earlier than the next expiry of its shard
//!   Shard::notify_driver           shard
//!     Driver::request_turn         mod            done, if the alarm is set early enough
//!       Requests::run              requests       as above
//!         Driver::note_wait        core           what is overdue keeps waiting
//!         Alarm::set               tokio_alarm
//! ```
//!
//! There is no driver task, so no task and no queue stands between a due and its timer. The waker
//! of one tokio timer, the [alarm](tokio_alarm), makes the turn where tokio wakes its own timers,
//! and sets the alarm again. The process's timer has no runtime: its alarm is a
//! [thread](thread_alarm).
//!
//! Invariants:
//!
//! - One turn is made at a time, by the running thread. It holds no lock meanwhile: it alone has
//!   the core.
//! - A thread that arms never turns, because wakers are user code and run only where tokio would
//!   run them. Those that a thread wakes because it finds the runtime ended are the exception.
//! - While something is armed, the alarm is set for the earliest expiry or before, or a turn is
//!   being made or requested. While nothing is armed it wakes nobody, and on a clock that can be
//!   paused there is no tokio timer at all. A task that waits with nothing armed takes a [`Watch`].
//! - The driver holds its shards weakly, and its waker holds the driver weakly. A thread that can
//!   still arm a timer, or has one pending, holds a shard, and each shard holds the driver.
//! - The shards are closed when the runtime's time driver has ended, after every task was dropped,
//!   by the running thread that finds it ended (see `tokio_alarm`).
//!
//! # When does the driver come?
//!
//! Four ticks answer this, for four readers. They agree while the driver is on time.
//!
//! | tick | for whom | how it differs |
//! |---|---|---|
//! | `Shard::next_expiry` | a thread that arms in that shard | one shard's; under its lock, nothing there is due before it |
//! | `Requests::next_turn` | a thread that has lowered a next expiry | `NEVER` while the running thread reads the expiries, so that a change meanwhile is submitted |
//! | `Alarm::at` | the running thread | what tokio's timer is set for; `NEVER` once it has fired |
//! | `Stalls::waits_since` | a thread that finds a deadline passed | stays where it is while the driver is late; that is what shows a stall |

pub(crate) mod alarm_tick;
mod core;
mod linger;
pub(crate) mod requests;
mod thread_alarm;
mod tokio_alarm;
mod watch;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::runtime::Handle;

use self::core::Core;
use crate::clock::Clock;
use crate::report::Reporter;
use crate::shard::{ExpiryChange, MissedTick, Shard, TurnRequests};
pub(crate) use linger::{Life, on_a_plain_thread};
use requests::{Request, Requests};
use slab::Slab;
use thread_alarm::ThreadAlarm;
use tokio_alarm::TokioAlarm;
pub(crate) use watch::Watch;

/// Turns the wheels of one timer.
pub(crate) struct Driver {
    requests: Requests,
    clock: Arc<Clock>,
    /// The state that the running thread works with. It is here while no thread runs the driver.
    /// Once the driver has ended, it never is.
    core: Mutex<Option<Core>>,
    /// What waits for its end with nothing armed. The driver takes them when it closes.
    waits: Mutex<Slab<Waker>>,
    wake_ups: AtomicU64,
    reporter: Reporter,
}

impl Driver {
    /// A driver that does nothing before it [begins](Driver::begin).
    pub(crate) fn new(clock: Arc<Clock>, reporter: Reporter) -> Driver {
        Driver {
            requests: Requests::new(),
            clock,
            core: Mutex::new(None),
            waits: Mutex::default(),
            wake_ups: AtomicU64::new(0),
            reporter,
        }
    }

    /// Begins to drive these shards on the runtime of `handle`, which is in that part of its life.
    /// Call this in the context of that runtime.
    pub(crate) fn begin(self: &Arc<Self>, shards: &[Arc<Shard>], handle: &Handle, life: Life) {
        let (clock, driver) = (self.clock.clone(), Arc::downgrade(self));
        let alarm = match life {
            Life::Alive => TokioAlarm::new(clock, driver, handle),
            Life::Ends => Some(TokioAlarm::of_ending(clock, driver)),
            Life::Ended => None,
        };
        match alarm {
            Some(alarm) => *self.core() = Some(Core::new(alarm, shards)),
            None => self.close(shards.iter().cloned()),
        }
        if life == Life::Ends {
            // It finds that out.
            self.run(Request::SET_ALARM);
        }
    }

    /// Begins to drive these shards, on a thread of that name which this starts.
    pub(crate) fn begin_on_thread(
        self: &Arc<Self>,
        shards: &[Arc<Shard>],
        name: &str,
    ) -> io::Result<()> {
        let alarm = ThreadAlarm::start(self, name)?;
        *self.core() = Some(Core::new(alarm, shards));
        Ok(())
    }

    #[inline]
    pub(crate) fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// How often the alarm has fired.
    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// The alarm has fired, within tokio's time driver or on the alarm's own thread.
    fn handle_alarm(&self) {
        // Relaxed: a count that nothing else hangs on.
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
        self.run(Request::FIRED);
    }
}

impl TurnRequests for Driver {
    fn request_turn(&self, change: ExpiryChange) -> Option<MissedTick> {
        let is_set_by = |tick| self.requests.is_set_by(tick);
        match change {
            ExpiryChange::Earlier(tick) if !is_set_by(tick) => self.requests.ask_for(tick),
            // The alarm is deferred too, unless it is set for an earlier tick.
            ExpiryChange::Later(tick) if !tick.before().is_some_and(is_set_by) => {}
            _ => return None,
        }
        self.run(Request::SET_ALARM)
    }

    fn wake(&self, waker: Waker) {
        self.reporter.wake(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::thread;
    use std::time::Duration;

    use super::core::{Alarm, SetOutcome};
    use super::*;
    use crate::clock::tick::{Tick, TickLength};
    use tokio::time::{Instant, sleep};

    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// Two threads notify the driver in the wrong order: of an expiry, and that it was deferred.
    #[tokio::test(start_paused = true)]
    async fn an_expiry_that_was_deferred_pulls_no_virtual_time_along() {
        let runtime = Handle::current();
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(Some(&runtime), tick, Instant::now(), true);
        let driver = Arc::new(Driver::new(Arc::new(clock), Reporter::default()));
        driver.begin(&[], &runtime, Life::Alive);
        driver.request_turn(ExpiryChange::Later(Tick::new(10)));
        driver.request_turn(ExpiryChange::Earlier(Tick::new(10)));
        sleep(Duration::from_millis(20)).await;
        assert_eq!(driver.wake_ups(), 0);
    }

    /// An alarm that calls something when it is set for the first time.
    struct Calls<F> {
        at: Tick,
        first: Option<F>,
        /// How many ticks after the present one it is in time for, when it is set to fire next.
        soon: u64,
    }

    impl<F: FnOnce() + Send> Alarm for Calls<F> {
        fn at(&self) -> Tick {
            self.at
        }

        fn set(&mut self, tick: Tick) -> SetOutcome {
            self.at = tick;
            if let Some(first) = self.first.take() {
                first();
            }
            SetOutcome::Done
        }

        fn set_soon(&mut self, now: Tick) -> (SetOutcome, Tick) {
            (SetOutcome::Done, Tick::new(now.get() + self.soon))
        }

        fn note_fired(&mut self) {}
    }

    /// A driver on the system's clock, without shards.
    fn driver() -> Arc<Driver> {
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(None, tick, Instant::now(), true);
        Arc::new(Driver::new(Arc::new(clock), Reporter::default()))
    }

    /// An alarm that is unset. The call that sets it is held up, and other threads ask for
    /// something meanwhile.
    fn set_core(driver: &Driver, soon: u64, meanwhile: impl FnOnce() + Send + 'static) {
        let alarm = Calls {
            at: Tick::NEVER,
            first: Some(meanwhile),
            soon,
        };
        *driver.core() = Some(Core::new(alarm, &[]));
    }

    fn set_the_alarm(driver: &Driver) -> Option<MissedTick> {
        let in_an_hour = driver.clock.tick().due(driver.clock.now().after(HOUR));
        driver.request_turn(ExpiryChange::Earlier(in_an_hour))
    }

    #[test]
    fn what_was_asked_for_while_the_running_thread_was_held_up_has_waited_since_then() {
        for has_fired in [false, true] {
            let driver = driver();
            let (shared, held_up_at) = (driver.clone(), Arc::new(OnceLock::new()));
            let note = held_up_at.clone();
            set_core(&driver, 0, move || {
                note.set(shared.clock.current_tick()).unwrap();
                shared.request_turn(ExpiryChange::Earlier(Tick::FIRST));
                thread::sleep(Duration::from_millis(20));
            });
            if has_fired {
                driver.handle_alarm();
            } else {
                set_the_alarm(&driver);
            }
            let waits_since = driver.clock.stalls().waits_since();
            assert!(waits_since <= *held_up_at.get().unwrap());
        }
    }

    /// The alarm fires on another thread, while this one sets it.
    #[test]
    fn a_tick_is_missed_if_the_alarm_fires_after_it() {
        for (soon, is_missed) in [(0, false), (1, true)] {
            let driver = driver();
            let (shared, before) = (driver.clone(), driver.clock.current_tick());
            set_core(&driver, soon, move || shared.handle_alarm());
            let missed = set_the_alarm(&driver).map(|missed| missed.up_to);
            assert_eq!(missed.is_some(), is_missed);
            assert!(
                missed.is_none_or(|up_to| up_to >= before && up_to <= driver.clock.current_tick())
            );
        }
    }
}
