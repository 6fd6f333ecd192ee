//! The [`Interval`]: ticks with a period.
//!
//! A tick here is one of the interval's, as in tokio's `Interval`, not the wheel's unit.
//!
//! Invariant: the deadline of its sleep is the next tick. After a tick the deadline moves on at
//! once; a poll for the next tick arms it.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::clock::FAR;
use crate::error::ShutDown;
use crate::future::sleep::{Sleep, panic_shut_down};

/// Ticks with a period: [`interval`](crate::interval), [`interval_at`](crate::interval_at).
///
/// It behaves like [`tokio::time::Interval`], and is `Unpin`.
///
/// ```
/// # use tickwheel::{Duration, interval};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let mut heartbeat = interval(Duration::from_secs(15));
/// let start = heartbeat.tick().await; // the first tick is at once
/// assert_eq!(heartbeat.tick().await, start + Duration::from_secs(15));
/// # });
/// ```
///
/// # Usage
///
/// - A tick taken more than 5 ms late counts as missed, and [`MissedTickBehavior`] decides the next
///   one.
/// - [`reset`](Interval::reset) moves the next tick to one period from now. Its siblings move it
///   where their argument says. The ticks after it follow one period apart.
/// - After a stall of the process a tick comes as late as a [`Sleep`].
///
/// # Cost
///
/// It holds one [`Sleep`], which the first poll of each tick arms if it has to wait. A reset costs
/// what the sleep's costs. Dropping it takes its timer out, in O(1).
///
/// # Cancel safety
///
/// Dropping the future of [`tick`](Interval::tick), as `select!` does, loses no tick.
///
/// # Panics
///
/// A tick that is awaited while pending, once the runtime that drives the timer has shut down.
/// [`try_poll_tick`](Interval::try_poll_tick) returns an error instead.
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
}

/// A tick taken later than this is missed. The figure is tokio's.
const MISSED: Duration = Duration::from_millis(5);

impl Interval {
    /// The caller has asserted the period, before it looked a timer up.
    pub(crate) fn new(first: Sleep, period: Duration) -> Interval {
        Interval {
            sleep: first,
            // So that no instant overflows.
            period: period.min(FAR),
            missed_tick_behavior: MissedTickBehavior::default(),
        }
    }

    /// Completes at the next tick, and returns the instant that the tick was scheduled for.
    ///
    /// # Panics
    ///
    /// If it is polled while pending and the runtime that drives the timer has shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping it before it completes, as in a `select!`, loses no tick.
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, interval, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut heartbeat = interval(Duration::from_secs(15));
    /// let mut answer = sleep(Duration::from_secs(40));
    /// let mut sent = 0;
    /// loop {
    ///     tokio::select! {
    ///         _scheduled = heartbeat.tick() => sent += 1,
    ///         () = &mut answer => break,
    ///     }
    /// }
    /// assert_eq!(sent, 3, "at 0, 15 and 30 s");
    /// # });
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, and registers the task's waker.
    ///
    /// # Panics
    ///
    /// If the tick is pending and the runtime that drives the timer has shut down.
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, ready};
    /// use futures::{Stream, StreamExt};
    /// use tickwheel::{Duration, Interval, interval};
    ///
    /// /// A stream that counts down, a number each second.
    /// struct Countdown(Interval, u32);
    ///
    /// impl Stream for Countdown {
    ///     type Item = u32;
    ///
    ///     fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
    ///         ready!(self.0.poll_tick(cx));
    ///         let left = self.1.checked_sub(1);
    ///         self.1 = left.unwrap_or(0);
    ///         Poll::Ready(left)
    ///     }
    /// }
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let countdown = Countdown(interval(Duration::from_secs(1)), 3);
    /// assert_eq!(countdown.collect::<Vec<_>>().await, [2, 1, 0]);
    /// # });
    /// ```
    #[inline]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let tick = ready!(self.try_poll_tick(cx));
        Poll::Ready(tick.unwrap_or_else(|end| panic_shut_down(end)))
    }

    /// Like [`poll_tick`](Interval::poll_tick), but returns an error where that panics.
    ///
    /// # Errors
    ///
    /// [`ShutDown`] if the runtime that drives the timer has shut down before the tick.
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use tickwheel::{Duration, Timer};
    ///
    /// let elsewhere = tokio::runtime::Runtime::new()?;
    /// let timer = elsewhere.block_on(async { Timer::current() });
    /// let hour = Duration::from_secs(3600);
    /// let mut hourly = timer.interval_at(timer.now() + hour, hour);
    /// drop(elsewhere);
    /// let end = futures::executor::block_on(poll_fn(|cx| hourly.try_poll_tick(cx)));
    /// assert!(end.is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn try_poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Instant, ShutDown>> {
        let ended = ready!(self.sleep.poll_keeping_no_waker(cx));
        Poll::Ready(ended.map(|()| self.advance()))
    }

    /// Moves the deadline on from a tick that has come, and returns that tick.
    #[inline(never)] // It is long, and most polls are pending.
    fn advance(&mut self) -> Instant {
        let (tick, now) = (self.sleep.deadline(), self.sleep.now());
        let late = now.saturating_duration_since(tick);
        let next = match self.missed_tick_behavior {
            MissedTickBehavior::Delay if late > MISSED => now + self.period,
            MissedTickBehavior::Skip if late > MISSED => {
                // Shorter than `FAR`, so it fits.
                let rest = (late.as_nanos() % self.period.as_nanos()) as u64;
                now + self.period - Duration::from_nanos(rest)
            }
            _ => tick + self.period,
        };
        // Like tokio's interval, without a look at the clock. Otherwise a late interval would
        // starve what a biased `select!` polls after it.
        self.sleep.reset_to(next, false);
        tick
    }

    /// Moves the next tick to one period from now, earlier or later. The ticks after it follow one
    /// period apart. A tick that is due and was not taken is dropped.
    ///
    /// ```
    /// # use tickwheel::{Duration, interval, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut ping = interval(Duration::from_secs(30));
    /// let start = ping.tick().await;
    /// sleep(Duration::from_secs(20)).await; // then the peer sends something
    /// ping.reset(); // so it is alive, and needs no ping before 50 s
    /// assert_eq!((ping.tick().await - start).as_secs(), 50);
    /// # });
    /// ```
    #[inline]
    pub fn reset(&mut self) {
        self.sleep.reset_after(self.period);
    }

    /// Moves the next tick to now. The ticks after it follow one period apart.
    ///
    /// ```
    /// # use tickwheel::{Duration, interval, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut flush = interval(Duration::from_secs(60));
    /// let start = flush.tick().await;
    /// sleep(Duration::from_secs(10)).await; // then the buffer is full
    /// flush.reset_immediately();
    /// assert_eq!((flush.tick().await - start).as_secs(), 10);
    /// assert_eq!((flush.tick().await - start).as_secs(), 70);
    /// # });
    /// ```
    pub fn reset_immediately(&mut self) {
        self.sleep.reset_after(Duration::ZERO);
    }

    /// Moves the next tick to `after` from now, earlier or later. The ticks after it follow one
    /// period apart.
    ///
    /// ```
    /// # use tickwheel::{Duration, interval};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut refresh = interval(Duration::from_secs(600));
    /// let start = refresh.tick().await;
    /// // It failed. The next try is in ten seconds, and the usual period counts from there.
    /// refresh.reset_after(Duration::from_secs(10));
    /// assert_eq!((refresh.tick().await - start).as_secs(), 10);
    /// assert_eq!((refresh.tick().await - start).as_secs(), 610);
    /// # });
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.sleep.reset_after(after);
    }

    /// Moves the next tick to `deadline`, earlier or later. The ticks after it follow one period
    /// apart.
    ///
    /// A deadline more than 5 ms in the past counts as missed, by the
    /// [`missed_tick_behavior`](Interval::missed_tick_behavior).
    ///
    /// ```
    /// # use tickwheel::{Duration, interval};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// // Two intervals that tick together from the second's next tick on.
    /// let mut first = interval(Duration::from_secs(10));
    /// let mut second = interval(Duration::from_secs(10));
    /// let start = first.tick().await;
    /// second.reset_at(start + first.period());
    /// assert_eq!(first.tick().await, second.tick().await);
    /// # });
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset_to(deadline, false);
    }

    /// Returns the behaviour when ticks were missed.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets the behaviour when ticks were missed. The default is [`MissedTickBehavior::Burst`].
    ///
    /// ```
    /// # use tickwheel::{Duration, MissedTickBehavior, interval, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut sample = interval(Duration::from_secs(10));
    /// sample.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// let start = sample.tick().await;
    /// sleep(Duration::from_secs(34)).await; // longer than three periods
    /// assert_eq!((sample.tick().await - start).as_secs(), 10, "late");
    /// assert_eq!((sample.tick().await - start).as_secs(), 40, "20 and 30 are left out");
    /// # });
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// Returns the period.
    pub fn period(&self) -> Duration {
        self.period
    }
}

#[track_caller]
pub(crate) fn assert_period(period: Duration) {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The clock goes on, and the driver does not come: a handler takes its time.
    fn work(period: Duration) {
        assert_pending!(task::spawn(tokio::time::advance(2 * period)).poll());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_interval_waits_for_the_driver_as_tokios_does() {
        let period = 5 * MS;
        for is_reset in [true, false] {
            let mut tokios = tokio::time::interval(period);
            let mut ours = crate::interval(period);
            tokios.tick().await;
            ours.tick().await;
            if is_reset {
                tokios.reset();
                ours.reset();
            }
            work(period);
            assert_pending!(task::spawn(tokios.tick()).poll());
            let mut tick = task::spawn(ours.tick());
            assert_pending!(tick.poll());
            tokio::time::sleep(MS).await;
            assert!(tick.is_woken());
            assert_ready!(tick.poll());
        }
    }
}
