//! The functions at the crate's root: tokio's names, on the current runtime's own timer.
//!
//! Each is the method of [`Timer`](crate::Timer) of its name, on the timer that
//! [`Timer::current`](crate::Timer::current) gives. To look that up changes a count that all
//! threads of the runtime share. So what is made on a thread that drives a runtime notes its
//! deadline alone. The poll that has to arm looks the timer up.
//!
//! Invariant: a timeout whose future is ready at once, and a sleep that is never polled, read and
//! write nothing that threads share.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use tokio::time::Instant;

use crate::future::interval::{Interval, assert_period};
use crate::future::limit;
use crate::future::scope::{End, Scope};
use crate::future::sleep::{FirstPoll, Sleep};
use crate::future::timeout::Timeout;
use crate::timer::local;

/// Waits until `duration` has passed, on the current runtime's own timer.
///
/// It behaves as [`tokio::time::sleep`] does. A sleep of zero is ready at the first poll. A
/// duration that is too long to be counted saturates. See [`Sleep`] for its guarantees, and the
/// [landing page](crate#the-cost-of-the-free-functions) for what the look-up of the timer costs.
///
/// # Panics
///
/// Outside a tokio runtime, and in a runtime without a time driver. An `async` block makes its
/// calls when it is polled.
///
/// ```
/// # tokio_test::block_on(async {
/// tickwheel::sleep(tickwheel::Duration::from_millis(1)).await;
/// # });
/// ```
#[track_caller]
#[inline]
pub fn sleep(duration: Duration) -> Sleep {
    match noted_deadline(duration) {
        Some(deadline) => unbound_after(deadline, duration),
        None => bound_sleep(duration),
    }
}

/// Waits until `deadline`, on the current runtime's own timer.
///
/// It behaves as [`tokio::time::sleep_until`] does. If the deadline has passed, the sleep is ready
/// at the first poll. It panics as [`sleep`] does.
///
/// ```
/// # use tickwheel::{Duration, Instant, sleep_until};
/// # tokio_test::block_on(async {
/// sleep_until(Instant::now() + Duration::from_millis(1)).await;
/// # });
/// ```
#[track_caller]
#[inline]
pub fn sleep_until(deadline: Instant) -> Sleep {
    if !local::is_on_worker() {
        return Sleep::until(local::shard(), deadline);
    }
    Sleep::unbound(local::shard_of_poller, deadline, FirstPoll::ReadsClock)
}

/// Bounds the time of a future, on the current runtime's own timer.
///
/// It returns the output of the future, or [`Elapsed`](crate::error::Elapsed) if the future is not
/// ready in time. It behaves as [`tokio::time::timeout`] does. The future is polled first, so a
/// future that is ready wins over a deadline that has passed. If it is ready at the first poll,
/// nothing is armed and no timer is looked up. See [`Timeout`] for the rest.
///
/// The time counts from the call. In a task, the timer is looked up by the first poll that finds
/// the future pending. A timeout that another runtime polls first goes by that runtime's timer, and
/// one that a thread without a runtime polls first by the [process's](crate::global). Its deadline
/// stays the instant at which it was due where it was made. If the clock of that runtime is paused,
/// another clock may come to that instant much later or earlier. tokio's timeout would go by the
/// runtime where it was made.
///
/// # Panics
///
/// Outside a tokio runtime, and in a runtime without a time driver. A thread that has used a timer
/// of one runtime, and then drives another one without a time driver, panics when it polls.
///
/// ```
/// # use tickwheel::{Duration, timeout};
/// # tokio_test::block_on(async {
/// let never = std::future::pending::<()>();
/// assert!(timeout(Duration::from_millis(1), never).await.is_err());
/// # });
/// ```
#[track_caller]
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(timeout_after(duration), future.into_future())
}

/// As [`timeout`], until an instant, as [`tokio::time::timeout_at`].
///
/// ```
/// # use tickwheel::{Duration, Instant, timeout_at};
/// # tokio_test::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(1);
/// assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// # });
/// ```
#[track_caller]
#[inline]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(timeout_until(deadline), future.into_future())
}

/// Ticks with a period, the first time at once, on the current runtime's own timer.
///
/// It behaves as [`tokio::time::interval`] does. See [`Interval`] for an example.
///
/// # Panics
///
/// If `period` is zero. Also outside a tokio runtime, and in a runtime without a time driver.
///
/// ```
/// # use tickwheel::{Duration, interval};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let mut beat = interval(Duration::from_secs(10));
/// let first = beat.tick().await; // at once
/// assert_eq!(beat.tick().await - first, Duration::from_secs(10));
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert_period(period);
    Interval::new(sleep_until(Instant::now()), period)
}

/// As [`interval`], the first time at `start`, as [`tokio::time::interval_at`].
///
/// ```
/// # use tickwheel::{Duration, Instant, interval_at};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let start = Instant::now() + Duration::from_secs(1);
/// let mut beat = interval_at(start, Duration::from_secs(15));
/// assert_eq!(beat.tick().await, start);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert_period(period);
    Interval::new(sleep_until(start), period)
}

/// Bounds a future and every timeout of this crate that is made within it, on the current
/// runtime's own timer.
///
/// It returns the output of the future, or [`Elapsed`](crate::error::Elapsed) if the future is not
/// ready before `deadline`. See [`Scope`] for what it bounds, and [`remaining`](crate::remaining)
/// for what is left of it.
///
/// `deadline` is an instant of the clock that [`Instant::now`] reads where the scope is polled. So
/// are [`remaining`](crate::remaining) and [`scope_deadline`](crate::scope_deadline).
///
/// # Panics
///
/// Outside a tokio runtime, and in a runtime without a time driver.
///
/// ```
/// # use tickwheel::{Duration, Instant, remaining, scope, timeout};
/// # async fn answer() -> u8 { 7 }
/// # tokio_test::block_on(async { tokio::time::pause();
/// let call = scope(Instant::now() + Duration::from_secs(2), async {
///     assert_eq!(remaining(), Some(Duration::from_secs(2)));
///     timeout(Duration::from_secs(30), answer()).await // it has 2 s in fact
/// });
/// assert_eq!(call.await, Ok(Ok(7)));
/// # });
/// ```
#[track_caller]
#[inline]
pub fn scope<F: IntoFuture>(deadline: Instant, future: F) -> Scope<F::IntoFuture> {
    Scope::new(
        End::new(sleep_until(deadline), deadline),
        future.into_future(),
    )
}

/// Methods for every [`Future`], under the names of tokio-util's trait.
///
/// ```
/// use tickwheel::{Duration, future::FutureExt};
///
/// # tokio_test::block_on(async {
/// assert!(std::future::pending::<()>().timeout(Duration::from_millis(1)).await.is_err());
/// # });
/// ```
pub trait FutureExt: Future {
    /// Bounds the time of this future as [`timeout`](crate::timeout()) does, and panics as that.
    #[track_caller]
    #[inline]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(timeout_after(duration), self)
    }

    /// Bounds the time of this future as [`timeout_at`](crate::timeout_at()) does, and panics as
    /// that.
    #[track_caller]
    #[inline]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(timeout_until(deadline), self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}

/// The deadline of what is made now on a thread that drives a runtime, and finds its timer when it
/// arms. `None` elsewhere, where a look-up that fails has to panic at the caller's line, and for
/// no time and for what overflows.
#[inline(always)]
#[track_caller]
fn noted_deadline(duration: Duration) -> Option<Instant> {
    if duration.is_zero() || !local::is_on_worker() {
        return None;
    }
    Instant::now().checked_add(duration)
}

#[inline(always)]
fn unbound_after(deadline: Instant, duration: Duration) -> Sleep {
    let first_poll = FirstPoll::after(duration);
    Sleep::unbound(local::shard_of_poller, deadline, first_poll)
}

#[cold]
#[track_caller]
fn bound_sleep(duration: Duration) -> Sleep {
    Sleep::after(local::shard(), duration)
}

/// The sleep of a timeout. Where a scope may be open, its limit has to be known in the time of the
/// timer.
#[inline(always)] // So that the compiler makes the sleep where it stays.
#[track_caller]
fn timeout_after(duration: Duration) -> Sleep {
    match noted_deadline(duration) {
        Some(deadline) if !limit::may_be_open() => unbound_after(deadline, duration),
        _ => bounded_sleep(duration),
    }
}

#[cold]
#[track_caller]
fn bounded_sleep(duration: Duration) -> Sleep {
    limit::sleep_after(local::shard(), duration)
}

#[inline]
#[track_caller]
fn timeout_until(deadline: Instant) -> Sleep {
    if limit::may_be_open() {
        return limit::sleep_until(local::shard(), deadline);
    }
    sleep_until(deadline)
}
