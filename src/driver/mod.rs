//! The driver turns every wheel of a timer, in time.
//!
//! # A turn
//!
//! ```text
//! the alarm fires, in tokio's time driver or on the alarm's own thread
//!   Driver::handle_alarm           mod            counts the wake-up
//!     Requests::run                requests       this thread becomes the running thread, or leaves
//!                                                 the request to it
//!       Driver::serve              core           reads the clock before it looks at any shard
//!         Driver::turn             core
//!           Stalls::turn_begins    clock          notes a stall, if the driver comes late by one
//!           Driver::fire_due       core           each shard, until none has more than a batch:
//!             Shard::fire_batch    shard            locks it
//!               Wheel::turn        wheel            finds what is due, cascades
//!               Word::expire_if    shard            judges a deadline (W1)
//!               NextExpiry::set    shard
//!             Reporter::wake_all   waking           wakes the tasks, under no lock
//!           Stalls::wait_from      clock          what is due next waits from then on
//!         Alarm::set               tokio_alarm    for the earliest expiry of all shards
//!
//! a thread arms something for earlier than the next expiry of its shard
//!   Shard::notify_driver           shard
//!     Driver::request_turn_by      mod            done, if the alarm is set early enough
//!       Requests::run              requests       as above
//!         Driver::note_wait        core           what is overdue keeps waiting
//!         Alarm::set               tokio_alarm
//! ```
//!
//! There is no driver task. The waker of one tokio timer, the [alarm](tokio_alarm), makes the turn
//! and sets it again, where tokio wakes its own timers. So no task and no queue stands between a
//! due and its timer. A turn fires all that is due, as a pass of tokio's time driver does. The
//! [requests] settle which thread does this work: the [running thread](self::core).
//!
//! The process's timer has no runtime. Its alarm is a thread, and all else is the same.
//!
//! Invariants:
//!
//! - One turn is made at a time, by the running thread. It holds no lock meanwhile: it alone has
//!   the core, which holds what it works with.
//! - A thread that arms never turns. Wakers are user code, and run only where tokio would run them,
//!   but for those that are woken when a thread finds that the runtime has ended.
//! - While something is armed, the alarm is set for the earliest expiry or before, or a turn is
//!   being made or requested. While nothing is armed it wakes nobody. On a clock that can be paused
//!   there is then no tokio timer at all. So whoever waits with nothing armed takes a [`Watch`].
//! - The driver holds its shards weakly, and its waker holds the driver weakly. A thread that can
//!   still arm a timer, or has one pending, holds a shard, and each shard holds the driver. When
//!   the last of them has let go, all of it is dropped.
//! - The shards are closed when the runtime's time driver has ended. The waker that the time driver
//!   then fires closes them, after every task was dropped. Or the running thread closes them that
//!   finds the time driver ended when it sets the alarm (see `tokio_alarm`).
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

mod core;
pub(crate) mod requests;
mod thread_alarm;
mod tokio_alarm;
mod watch;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use crate::runtime::Handle;
use crate::sync::lock;

use self::core::Core;
use crate::clock::Clock;
use crate::clock::tick::Tick;
use crate::shard::{MissedTick, Shard, TurnRequests};
use crate::waking::Reporter;
use requests::{Request, Requests};
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
    wake_ups: AtomicU64,
    reporter: Reporter,
    /// The runtime that drives this; `None` for the process's timer, and once the driver has ended.
    runtime: Mutex<Option<Handle>>,
}

/// Where the running thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Within tokio's time driver, where it fires its timers; or on the alarm's own thread.
    TimeDriver,
    /// Anywhere: in a call of the user's.
    Caller,
}

impl Driver {
    /// A driver that does nothing before it [begins](Driver::begin).
    pub(crate) fn new(clock: Arc<Clock>, reporter: Reporter) -> Driver {
        Driver {
            requests: Requests::new(),
            clock,
            core: Mutex::new(None),
            wake_ups: AtomicU64::new(0),
            reporter,
            runtime: Mutex::new(None),
        }
    }

    /// Begins to drive these shards on the runtime of `handle`. Call this in the context of that
    /// runtime.
    pub(crate) fn begin(self: &Arc<Self>, shards: &[Arc<Shard>], handle: &Handle) {
        let alarm = TokioAlarm::new(self.clock.clone(), Arc::downgrade(self));
        *self.runtime() = Some(handle.clone());
        *self.core() = Some(Core::new(alarm, shards));
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

    /// Whether the runtime has shut down, as far as anybody has noticed.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.clock.ended().is_some()
    }

    #[inline]
    pub(crate) fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// How often the alarm has fired.
    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// Nothing panics under this lock.
    fn runtime(&self) -> MutexGuard<'_, Option<Handle>> {
        lock(&self.runtime)
    }

    /// The alarm has fired, within tokio's time driver or on the alarm's own thread.
    fn handle_alarm(&self) {
        // Relaxed: a count that nothing else hangs on.
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
        self.run(Request::Fired, Whereabouts::TimeDriver);
    }
}

impl TurnRequests for Driver {
    fn request_turn_by(&self, tick: Tick) -> Option<MissedTick> {
        if self.requests.is_set_by(tick) {
            return None;
        }
        self.requests.ask_for(tick);
        self.run(Request::SetAlarm, Whereabouts::Caller)
    }

    /// Defers the alarm too, if it is set for `tick`.
    fn retract_turn_at(&self, tick: Tick) -> Option<MissedTick> {
        let before = tick.before();
        if before.is_some_and(|before| self.requests.is_set_by(before)) {
            return None;
        }
        self.run(Request::SetAlarm, Whereabouts::Caller)
    }

    fn wake(&self, waker: Waker) {
        self.reporter.wake(waker);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("requests", &self.requests)
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::tick::TickLength;
    use tokio::time::{Instant, sleep};

    /// Two threads notify the driver in the wrong order: of an expiry, and that it was deferred.
    #[tokio::test(start_paused = true)]
    async fn an_expiry_that_was_deferred_pulls_no_virtual_time_along() {
        let runtime = Handle::current();
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(&runtime, tick, Instant::now(), true);
        let driver = Arc::new(Driver::new(Arc::new(clock), Reporter::default()));
        driver.begin(&[], &runtime);
        driver.retract_turn_at(Tick::new(10));
        driver.request_turn_by(Tick::new(10));
        sleep(Duration::from_millis(20)).await;
        assert_eq!(driver.wake_ups(), 0);
    }
}
