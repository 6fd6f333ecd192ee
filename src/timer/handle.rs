//! The [`Timer`], the handle that makes all futures.
//!
//! Invariant: a future holds only its shard, so making one does not write a count that all workers
//! share. A clone of a timer does write one, and slows nobody who does not clone.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::deadline::Deadline;
use crate::driver::{Driver, Watch};
use crate::future::interval::{Interval, assert_period};
use crate::future::open_deadline;
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
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let timer = Timer::current();
/// let slow = timer.timeout(Duration::from_secs(30), std::future::pending::<()>()).await;
/// assert!(slow.is_err());
/// # });
/// ```
///
/// # Usage
///
/// | timer | made by |
/// |---|---|
/// | the current runtime's own, which the free functions use | [`Timer::current`] |
/// | the process's, on a thread of its own and under any executor | [`Timer::global`] |
/// | one with a tick, shards or a name of your choice | [`Timer::builder`] |
///
/// It can be used from any thread, inside or outside of its runtime. The futures fire by that
/// runtime's clock, even if every handle is dropped.
///
/// # Cost
///
/// A clone writes one count, and slows nobody who does not clone. Keeping a `Timer` saves the
/// look-up of the free functions. A method that makes a future touches the calling thread's shard
/// alone.
#[derive(Clone)]
pub struct Timer {
    pub(super) inner: Arc<Inner>,
}

/// On cache lines of its own, apart from the count of its references. A clone of a timer writes the
/// count, and every other call reads what is here.
#[repr(align(128))]
pub(super) struct Inner {
    /// A power of two.
    pub(super) shards: Box<[Arc<Shard>]>,
    pub(super) spread: Spread,
    pub(super) clock: Arc<Clock>,
    pub(super) driver: Arc<Driver>,
}

impl Timer {
    /// Returns the current runtime's own timer, which the free functions use. The first use makes
    /// it.
    ///
    /// Each call asks tokio for the current runtime, which writes a count that all its threads
    /// share. A server calls it once, and passes clones on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in one without a time driver.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let timer = Timer::current();
    /// let idle = timer.deadline(Duration::from_secs(60));
    ///
    /// // It is one timer, on whatever thread of the runtime it is asked for.
    /// let pending = tokio::spawn(async { Timer::current().metrics().pending() });
    /// assert_eq!(pending.await?, 1);
    /// # drop(idle);
    /// # Ok::<(), tokio::task::JoinError>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn current() -> Timer {
        local::timer()
    }

    /// Returns the process's own timer, for every executor. The first use starts its thread.
    ///
    /// | | [`current`](Timer::current), [`tickwheel::sleep`](crate::sleep) and the others | `global` |
    /// |---|---|---|
    /// | where it can be called | in a tokio runtime with a time driver | anywhere: on any thread, under any executor whose wakers may be used on other threads |
    /// | finding the timer | asks tokio for the current runtime, which writes a count that all its threads share | reads a static; a clone is a handle to keep |
    /// | where timers fire | in the runtime, near the woken tasks | on the thread `tickwheel-timer`, in the context of no runtime, which sends each woken task to another thread |
    /// | a runtime that is stalled or has shut down | its timers are late, or end | the timers of others go on |
    /// | tokio's paused clock | is followed | is not followed: time is the system's |
    ///
    /// Use it outside of tokio, where several runtimes or executors share deadlines, and where a
    /// timeout must fire although its runtime is stalled.
    ///
    /// [`Waker`](std::task::Waker) demands that other threads may use it. monoio needs its feature
    /// `sync` for that. Without it, a sleep in its `block_on` never ends, and nothing reports that.
    /// The waker of a spawned task panics there, and the task is never woken.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// futures::executor::block_on(async {
    ///     Timer::global().sleep(Duration::from_millis(5)).await;
    /// });
    /// ```
    ///
    /// A waker that blocks delays the timers after it. If a process has used this timer and then
    /// forks, its sleeps never end in the child, which has no such thread. The thread never ends,
    /// so a library that has used this timer must not be unloaded. A sleep of a free function that
    /// is first polled outside of any runtime uses it too.
    /// [OPERATIONS](crate::docs::operations#plugins-and-forks) has more.
    ///
    /// A paused tokio clock does not see this timer and runs on to the next of its own timers, so
    /// `tokio::time::timeout` around one of its sleeps may elapse at once. Instants of this timer
    /// are the system's: take them from [`now`](Timer::now). Only the deadline of
    /// [`with_deadline`](Timer::with_deadline) is an instant of the clock where the future is
    /// polled. The time left then passes in the system's time, unless that clock passes the
    /// deadline first.
    ///
    /// # Panics
    ///
    /// If its thread cannot start. A later use tries again.
    #[track_caller]
    pub fn global() -> &'static Timer {
        local::global_timer()
    }

    /// Returns a builder of a timer with settings of its own.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async {
    /// // One wake-up each second is enough for sessions of half an hour.
    /// let sessions = Timer::builder().tick(Duration::from_secs(1)).name("sessions").build()?;
    /// let _idle = sessions.deadline(Duration::from_secs(30 * 60));
    /// assert_eq!(sessions.metrics().pending(), 1);
    /// assert_eq!(Timer::current().metrics().pending(), 0, "this is another timer");
    /// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Waits until `duration` has passed, like [`tickwheel::sleep`](crate::sleep), on this timer.
    ///
    /// It can be called on any thread, and the future awaited under any executor whose wakers may
    /// be used on other threads. The call never panics.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let timer = runtime.block_on(async { Timer::current() });
    ///
    /// // This thread is in no runtime. The other one drives the sleep.
    /// futures::executor::block_on(timer.sleep(Duration::from_millis(5)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_within(duration, false)
    }

    /// Waits until `deadline`, like [`tickwheel::sleep_until`](crate::sleep_until), on this timer.
    ///
    /// The deadline is an instant of this timer's clock, [`now`](Timer::now).
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let timer = Timer::builder().tick(Duration::from_millis(100)).build()?;
    /// let start = timer.now();
    /// timer.sleep_until(start + Duration::from_millis(250)).await;
    /// let waited = timer.now() - start;
    /// assert!(waited.as_millis() >= 250, "never early");
    /// assert!(waited.as_millis() <= 352, "at most a tick late, and tokio's rounding");
    /// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
    /// ```
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self.shard().clone(), deadline)
    }

    /// Bounds the time of a future, like [`tickwheel::timeout`](crate::timeout), on this timer.
    ///
    /// Nothing is looked up, not even at the first pending poll.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// struct Upstream {
    ///     timer: Timer,
    ///     answers: tokio::sync::Mutex<tokio::sync::mpsc::Receiver<u64>>,
    /// }
    ///
    /// impl Upstream {
    ///     async fn answer(&self) -> std::io::Result<Option<u64>> {
    ///         let mut answers = self.answers.lock().await;
    ///         Ok(self.timer.timeout(Duration::from_secs(5), answers.recv()).await?)
    ///     }
    /// }
    ///
    /// let (sender, answers) = tokio::sync::mpsc::channel(1);
    /// let upstream = Upstream { timer: Timer::current(), answers: answers.into() };
    /// sender.send(42).await.unwrap();
    /// assert_eq!(upstream.answer().await?, Some(42));
    /// assert_eq!(upstream.answer().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[inline]
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout {
            future: future.into_future(),
            // It counts from here, where tokio's timeout begins to count.
            sleep: self.sleep_within(duration, open_deadline::is_open()),
        }
    }

    /// Bounds the time of a future until an instant, like
    /// [`tickwheel::timeout_at`](crate::timeout_at), on this timer.
    ///
    /// The deadline is an instant of this timer's clock, [`now`](Timer::now).
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer, error::Elapsed};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// // One deadline for a read of many parts.
    /// let (sender, mut parts) = tokio::sync::mpsc::channel(8);
    /// sender.send("head").await?;
    /// sender.send("body, of which the rest never comes").await?;
    ///
    /// let timer = Timer::current();
    /// let deadline = timer.now() + Duration::from_secs(10);
    /// let mut read = Vec::new();
    /// let end = loop {
    ///     match timer.timeout_at(deadline, parts.recv()).await {
    ///         Ok(Some(part)) => read.push(part),
    ///         Ok(None) => break Ok(()),
    ///         Err(elapsed) => break Err(elapsed),
    ///     }
    /// };
    /// assert_eq!((read.len(), end), (2, Err(Elapsed::new())));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    #[inline]
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout {
            future: future.into_future(),
            sleep: self.sleep_to(deadline, open_deadline::is_open()),
        }
    }

    /// Bounds a future and every timeout made within it, like
    /// [`tickwheel::with_deadline`](crate::with_deadline()), on this timer.
    ///
    /// Timeouts within it may be on any timer. See [`WithDeadline`] for a timer that goes by
    /// another clock than the poller.
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, Timer, sleep, time_left, timeout};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let coarse = Timer::builder().tick(Duration::from_millis(100)).build()?;
    /// let deadline = Instant::now() + Duration::from_secs(3);
    /// let call = coarse.with_deadline(deadline, async {
    ///     sleep(Duration::from_secs(1)).await;
    ///     assert!(time_left() <= Some(Duration::from_secs(2)));
    ///     // On the runtime's timer, but bounded too.
    ///     timeout(Duration::from_secs(30), std::future::pending::<()>()).await
    /// });
    /// let _elapsed = call.await;
    /// assert!(Instant::now() < deadline + Duration::from_millis(200));
    /// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
    /// ```
    #[inline]
    pub fn with_deadline<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> WithDeadline<F::IntoFuture> {
        let sleep = self.sleep_until(deadline);
        let deadline = open_deadline::earlier(deadline);
        let _open = open_deadline::open(deadline);
        WithDeadline {
            future: future.into_future(),
            sleep,
            deadline,
        }
    }

    /// Ticks with a period, first at once, like [`tickwheel::interval`](crate::interval), on this
    /// timer.
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let flusher = Timer::builder().tick(Duration::from_secs(1)).name("flusher").build()?;
    /// let mut flush = flusher.interval(Duration::from_secs(60));
    /// let first = flush.tick().await;
    /// assert_eq!(flush.tick().await - first, Duration::from_secs(60));
    /// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        assert_period(period);
        Interval::new(self.sleep_until(self.now()), period)
    }

    /// Ticks with a period, first at `start`, like [`tickwheel::interval_at`](crate::interval_at),
    /// on this timer.
    ///
    /// A `start` that passed a millisecond ago or more ticks at the first poll, unless a stall has
    /// made the driver late. Then the driver fires it, once its runtime runs.
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// // Many connections ping each 30 s. A start of its own for each spreads them.
    /// let (timer, period) = (Timer::current(), Duration::from_secs(30));
    /// let connection = 7;
    /// let start = timer.now() + period.mul_f64(f64::from(connection) / 100.0);
    /// let mut pings = timer.interval_at(start, period);
    /// assert_eq!(pings.tick().await, start);
    /// # });
    /// ```
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        assert_period(period);
        Interval::new(self.sleep_until(start), period)
    }

    /// Arms a deadline that expires when `timeout` has passed since its last reset.
    ///
    /// It is armed at once, whether or not it is polled. It resolves to
    /// [`Cancelled`](crate::error::Cancelled) if the timer's runtime has shut down.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let timer = Timer::current();
    /// let start = timer.now();
    /// let idle = timer.deadline(Duration::from_secs(30));
    /// let handle = idle.handle();
    /// sleep(Duration::from_secs(20)).await;
    /// assert!(handle.reset(), "in time");
    ///
    /// assert_eq!(idle.await, Ok(()));
    /// assert_eq!((timer.now() - start).as_secs(), 50);
    /// # });
    /// ```
    pub fn deadline(&self, timeout: Duration) -> Deadline {
        Deadline::new(self.shard().clone(), timeout)
    }

    /// Returns the present instant of the system's clock. With tokio's `test-util` the timer of a
    /// current-thread runtime reads [`Instant::now`] on the calling thread.
    pub fn now(&self) -> Instant {
        self.inner.clock.now_instant()
    }

    /// Returns counts of the timer's work, past and present. It locks each shard for under a
    /// microsecond.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let timer = Timer::current();
    /// let late = timer.timeout(Duration::from_secs(1), std::future::pending::<()>());
    /// assert!(late.await.is_err());
    /// let _idle = timer.deadline(Duration::from_secs(30));
    ///
    /// let metrics = timer.metrics();
    /// assert_eq!((metrics.armed(), metrics.fired(), metrics.pending()), (2, 1, 1));
    /// # });
    /// ```
    pub fn metrics(&self) -> Metrics {
        let shards = self.inner.shards.iter().map(|shard| shard.counts());
        Metrics::new(shards, &self.inner.driver, &self.inner.clock)
    }

    /// Returns the number of timers in every slot of every level. It locks each shard for some
    /// microseconds, however many timers there are.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let timer = Timer::current();
    /// let _idle = [10, 10, 20].map(|seconds| timer.deadline(Duration::from_secs(seconds)));
    /// println!("{}", timer.snapshot()); // for a person who looks for a crowd of timers
    /// # assert!(timer.snapshot().to_string().starts_with("timers 3,"));
    /// # });
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let clock = &self.inner.clock;
        let now = clock.current_tick().get();
        let shards = self.inner.shards.iter().map(|shard| shard.slot_counts());
        Snapshot::new(now, clock.tick().as_duration(), shards)
    }

    /// A sleep, or the sleep of a timeout that an open deadline caps. The clock is read now,
    /// because nearly all sleeps arm.
    #[inline(always)] // So that it is built where it stays, beside a future that may be large.
    fn sleep_within(&self, duration: Duration, is_capped: bool) -> Sleep {
        let shard = self.shard().clone();
        let mut deadline = shard.clock().instant_after(duration);
        if is_capped {
            deadline = open_deadline::bound(deadline, shard.clock());
        }
        Sleep::new(Some(shard), None, deadline, duration.is_zero())
    }

    /// Like `sleep_within`, until an instant.
    #[inline(always)]
    fn sleep_to(&self, deadline: Instant, is_capped: bool) -> Sleep {
        let shard = self.shard().clone();
        let mut deadline = deadline;
        if is_capped {
            deadline = open_deadline::bound(deadline, shard.clock());
        }
        Sleep::until(shard, deadline)
    }

    /// The calling thread's shard. From tokio 1.54 on, a worker that moves to another thread takes
    /// its shard along.
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
            .field("shards", &metrics.shards())
            .field("pending", &metrics.pending())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{LINE, lines};

    /// In an `Arc` the count stands before the contents, as far away as they are aligned.
    #[test]
    fn the_count_of_a_timers_clones_lies_on_no_line_that_a_call_reads() {
        assert!(align_of::<Inner>() >= 2 * LINE);
        let read = [
            ("shards", [0, 0]),
            ("spread", [0, 0]),
            ("clock", [0, 0]),
            ("driver", [0, 0]),
        ];
        assert_eq!(lines!(Inner: shards, spread, clock, driver), read);
    }
}
