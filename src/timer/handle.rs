//! The [`Timer`], the handle that makes all futures.
//!
//! Invariant: a future holds only its shard, so making one touches no count that all workers share.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::deadline::Deadline;
use crate::driver::{Driver, Watch};
use crate::future::interval::{Interval, assert_period};
use crate::future::limit;
use crate::future::sleep::Sleep;
use crate::future::timeout::Timeout;
use crate::future::with_deadline::WithDeadline;
use crate::metrics::{Metrics, Snapshot};
use crate::report::Reporter;
use crate::shard::Shard;
use crate::timer::thread_shard::Spread;
use crate::timer::{Builder, local};

/// A handle to a timer: a set of sharded timing wheels and the driver that turns them.
///
/// A clone is cheap, and can be used from any thread, inside or outside of its runtime. The futures
/// fire by that runtime's clock, even if every handle is dropped. The free functions use the
/// current runtime's timer. Keeping a `Timer` saves the look-up.
///
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let timer = Timer::current();
/// let slow = timer.timeout(Duration::from_secs(30), std::future::pending::<()>()).await;
/// assert!(slow.is_err());
/// # });
/// ```
#[derive(Clone)]
pub struct Timer {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    /// A power of two.
    pub(super) shards: Box<[Arc<Shard>]>,
    pub(super) spread: Spread,
    pub(super) clock: Arc<Clock>,
    pub(super) driver: Arc<Driver>,
}

impl Timer {
    /// A builder of a timer with settings of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The current runtime's own timer, as in the free functions, made by the first use. It panics
    /// outside a tokio runtime, and in one without a time driver.
    #[track_caller]
    pub fn current() -> Timer {
        local::timer()
    }

    /// The process's own timer, for every executor. The first use starts its thread.
    ///
    /// | | [`current`](Timer::current), [`tickwheel::sleep`](crate::sleep) and the others | `global` |
    /// |---|---|---|
    /// | where it can be called | in a tokio runtime with a time driver | anywhere: under any executor, on any thread |
    /// | finding the timer | asks tokio for the current runtime, a count that all its threads share | reads a static; a clone is a handle to keep |
    /// | where timers fire | in the runtime, near the woken tasks | on the thread `tickwheel-timer`, in the context of no runtime, which sends each woken task to another thread |
    /// | a runtime that is stalled or has shut down | its timers are late, or end | the timers of others go on |
    /// | tokio's paused clock | is followed | is not followed: time is the system's |
    ///
    /// Use it outside of tokio, where several runtimes or executors share deadlines, and where a
    /// timeout must fire although its runtime is stalled.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// futures::executor::block_on(async {
    ///     Timer::global().sleep(Duration::from_millis(5)).await;
    /// });
    /// ```
    ///
    /// A waker that blocks delays the timers after it. In a forked child process, which has no such
    /// thread, sleeps never end. It panics if the thread cannot start; a later use tries again.
    ///
    /// A paused tokio clock does not see this timer and runs on to the next of its own timers, so
    /// `tokio::time::timeout` around one of its sleeps may elapse at once. Instants of this timer
    /// are the system's: take them from [`now`](Timer::now). Only the deadline of
    /// [`with_deadline`](Timer::with_deadline) is an instant of the clock where the future is
    /// polled. The time left then passes in the system's time, unless that clock passes the
    /// deadline first.
    #[track_caller]
    pub fn global() -> &'static Timer {
        local::global_timer()
    }

    /// Like [`tickwheel::sleep`](crate::sleep), on this timer.
    #[inline]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let (shard, deadline) = self.after(duration);
        Sleep::new(Some(shard), None, deadline, duration.is_zero())
    }

    /// Like [`tickwheel::sleep_until`](crate::sleep_until), on this timer.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self.shard().clone(), deadline)
    }

    /// Like [`tickwheel::timeout`](crate::timeout), on this timer.
    #[inline]
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        let (shard, mut deadline) = self.after(duration);
        if limit::is_open() {
            deadline = limit::cap(deadline, shard.clock());
        }
        Timeout {
            future: future.into_future(),
            sleep: Sleep::new(Some(shard), None, deadline, duration.is_zero()),
        }
    }

    /// Like [`tickwheel::timeout_at`](crate::timeout_at), on this timer.
    #[inline]
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        let shard = self.shard().clone();
        let mut deadline = deadline;
        if limit::is_open() {
            deadline = limit::cap(deadline, shard.clock());
        }
        Timeout {
            future: future.into_future(),
            sleep: Sleep::until(shard, deadline),
        }
    }

    /// Like [`tickwheel::with_deadline`](crate::with_deadline()), on this timer. See
    /// [`WithDeadline`] for a timer that goes by another clock than the poller.
    #[inline]
    pub fn with_deadline<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> WithDeadline<F::IntoFuture> {
        let sleep = self.sleep_until(deadline);
        let deadline = limit::capped(deadline);
        let _open = limit::open(deadline);
        WithDeadline {
            future: future.into_future(),
            sleep,
            deadline,
        }
    }

    /// Like [`tickwheel::interval`](crate::interval), on this timer. Panics if `period` is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        assert_period(period);
        Interval::new(self.sleep_until(self.now()), period)
    }

    /// Like [`tickwheel::interval_at`](crate::interval_at), on this timer. Panics if `period` is
    /// zero.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        assert_period(period);
        Interval::new(self.sleep_until(start), period)
    }

    /// A deadline that expires when `timeout` has passed since its last reset, armed at once.
    /// [`Cancelled`](crate::error::Cancelled) if the timer's runtime has shut down.
    pub fn deadline(&self, timeout: Duration) -> Deadline {
        Deadline::new(self.shard().clone(), timeout)
    }

    /// The present instant of the system's clock. With tokio's `test-util` the timer of a
    /// current-thread runtime reads [`Instant::now`] on the calling thread.
    pub fn now(&self) -> Instant {
        self.inner.clock.now_instant()
    }

    /// Counts of the timer's work, past and present. Locks each shard for under a microsecond.
    pub fn metrics(&self) -> Metrics {
        let shards = self.inner.shards.iter().map(|shard| shard.counts());
        Metrics::new(shards, &self.inner.driver, &self.inner.clock)
    }

    /// The contents of every slot of every level. Locks each shard for some microseconds, however
    /// many timers there are.
    pub fn snapshot(&self) -> Snapshot {
        let clock = &self.inner.clock;
        let now = clock.current_tick().get();
        let shards = self.inner.shards.iter().map(|shard| shard.slot_counts());
        Snapshot::new(now, clock.tick().as_duration(), shards)
    }

    /// A shard, and the instant `duration` from now. The clock is read now, because nearly all
    /// sleeps arm.
    #[inline(always)]
    fn after(&self, duration: Duration) -> (Arc<Shard>, Instant) {
        let shard = self.shard().clone();
        let deadline = shard.clock().instant_after(duration);
        (shard, deadline)
    }

    /// The calling thread's shard. A worker that moves to another thread takes its shard along.
    #[inline]
    pub(crate) fn shard(&self) -> &Arc<Shard> {
        let shards = &self.inner.shards;
        &shards[self.inner.spread.number() & (shards.len() - 1)]
    }

    #[inline]
    pub(crate) fn shard_of_number(&self, number: usize) -> &Arc<Shard> {
        &self.inner.shards[number]
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub(crate) fn reporter(&self) -> &Reporter {
        self.inner.driver.reporter()
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch::new(&self.inner.driver)
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.inner.clock.has_ended()
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = self.metrics();
        f.debug_struct("Timer")
            .field("tick", &self.inner.clock.tick().as_duration())
            .field("shards", &metrics.shards)
            .field("pending", &metrics.pending)
            .finish_non_exhaustive()
    }
}
