//! The functions at the crate's root: tokio's names, on the current runtime's own timer.
//!
//! Looking that timer up writes a count that all threads of the runtime share. So a call on a
//! thread that drives a runtime only notes the deadline, and the poll that arms looks the timer up.
//! A call looks it up at once elsewhere, as its thread's first, within an open deadline, on an
//! overflow, and with tokio before 1.54.
//!
//! Invariant: apart from these calls, a ready timeout, and a sleep that is neither polled nor
//! reset, do not touch shared memory.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::future::interval::{Interval, assert_period};
use crate::future::open_deadline;
use crate::future::sleep::Sleep;
use crate::future::timeout::Timeout;
use crate::future::with_deadline::WithDeadline;
use crate::shard::Shard;
use crate::timer::local;

/// Waits until `duration` has passed, like [`tokio::time::sleep`].
///
/// It is on the current runtime's own timer. Zero waits for the next line of tokio's grid, at most
/// a millisecond, and an excessive duration saturates. See [`Sleep`] for its guarantees.
///
/// # Panics
///
/// Outside a tokio runtime, and in one without a time driver. It is the call that needs a runtime,
/// and not the poll: `runtime.block_on(sleep(..))` panics, but an `async` block makes its calls
/// when it is polled, so `runtime.block_on(async { sleep(..).await })` does not. If the thread has
/// used the timer of another runtime, a missing time driver may panic at the first poll instead.
///
/// The future panics if it is polled while pending and its runtime has shut down.
///
/// ```
/// # use tickwheel::{Duration, Instant, sleep};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let start = Instant::now();
/// sleep(Duration::from_millis(100)).await;
/// assert!(start.elapsed() >= Duration::from_millis(100));
/// # });
/// ```
#[track_caller]
#[inline]
pub fn sleep(duration: Duration) -> Sleep {
    sleep_after(duration, false)
}

/// Waits until `deadline`, like [`tokio::time::sleep_until`].
///
/// A deadline that passed a millisecond ago or more is ready at the first poll, unless a stall has
/// made the driver late. Then the driver fires it, once its runtime runs.
///
/// # Panics
///
/// Where [`sleep`] does: outside a tokio runtime, and in one without a time driver.
///
/// ```
/// # use tickwheel::{Duration, Instant, sleep_until};
/// # async fn sample() { tickwheel::sleep(Duration::from_millis(30)).await }
/// # tokio_test::block_on(async { tokio::time::pause();
/// let start = Instant::now();
/// // Whatever time a sample takes, the next one begins on the second.
/// for second in 1..=3 {
///     sample().await;
///     sleep_until(start + Duration::from_secs(second)).await;
/// }
/// assert!(start.elapsed() < Duration::from_millis(3_002));
/// # });
/// ```
#[track_caller]
#[inline]
pub fn sleep_until(deadline: Instant) -> Sleep {
    sleep_to(deadline, false)
}

/// Bounds the time of a future from the call on, like [`tokio::time::timeout`].
///
/// It returns the future's output, or [`Elapsed`](crate::error::Elapsed) once `duration` has
/// passed. A future that is ready at the first poll arms nothing. See
/// [`Timeout`] for the rest.
///
/// On a thread that drives a runtime, the first poll that finds the future pending looks the timer
/// up. So a timeout that is ready at once looks up none. One that is moved to another runtime
/// before then uses the timer there, unlike tokio's. On a thread without a runtime it uses
/// [`Timer::global`](crate::Timer::global). The deadline stays the same instant. If one of the two
/// clocks is paused, that instant may come much later or earlier. The call itself looks the timer
/// up on any other thread, within a [`with_deadline`](crate::with_deadline), for a duration that
/// overflows, and with tokio before 1.54. So does the first call on a thread.
///
/// # Panics
///
/// Outside a tokio runtime, and in one without a time driver: at the call, or at the first pending
/// poll if the thread has used the timer of another runtime.
///
/// The future panics if it is polled while pending and its runtime has shut down.
///
/// ```
/// # use tickwheel::{Duration, sleep, timeout};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let query = async {
///     sleep(Duration::from_millis(200)).await;
///     "42 rows"
/// };
/// assert_eq!(timeout(Duration::from_secs(1), query).await, Ok("42 rows"));
///
/// // A pinned future goes on after its timeout.
/// let mut slow = std::pin::pin!(sleep(Duration::from_secs(5)));
/// assert!(timeout(Duration::from_secs(1), &mut slow).await.is_err());
/// slow.await;
/// # });
/// ```
#[track_caller]
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        sleep: sleep_after(duration, open_deadline::is_open()),
    }
}

/// Bounds the time of a future until an instant, like [`tokio::time::timeout_at`].
///
/// It is for one deadline over several steps. Otherwise it behaves like [`timeout`]. Even after the
/// deadline, the future is polled once, and wins if it is ready.
///
/// # Panics
///
/// Where [`timeout`] does: outside a tokio runtime, and in one without a time driver, at the call
/// or at the first pending poll.
///
/// ```
/// # use tickwheel::{Duration, Instant, sleep, timeout_at};
/// # async fn connect() { sleep(Duration::from_millis(700)).await }
/// # async fn request() { sleep(Duration::from_millis(700)).await }
/// # tokio_test::block_on(async { tokio::time::pause();
/// let deadline = Instant::now() + Duration::from_secs(1);
/// assert!(timeout_at(deadline, connect()).await.is_ok());
/// assert!(timeout_at(deadline, request()).await.is_err(), "300 ms were left");
/// # });
/// ```
#[track_caller]
#[inline]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        sleep: sleep_to(deadline, open_deadline::is_open()),
    }
}

/// Ticks with a period, first at once, like [`tokio::time::interval`].
///
/// The ticks are scheduled a period apart, whatever time the work between them takes. See
/// [`Interval`] for ticks that were missed.
///
/// # Panics
///
/// If `period` is zero. Outside a tokio runtime, and in one without a time driver.
///
/// ```
/// # use tickwheel::{Duration, Instant, interval, sleep};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let start = Instant::now();
/// let mut poll = interval(Duration::from_secs(10));
/// for _ in 0..3 {
///     poll.tick().await; // at 0, 10 and 20 s
///     sleep(Duration::from_secs(4)).await;
/// }
/// assert_eq!(start.elapsed().as_secs(), 24);
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert_period(period);
    Interval::new(sleep_until(Instant::now()), period)
}

/// Ticks with a period, first at `start`, like [`tokio::time::interval_at`].
///
/// A `start` that passed a millisecond ago or more ticks at the first poll, unless a stall has made
/// the driver late. Then the driver fires it, once its runtime runs.
///
/// # Panics
///
/// Where [`interval`] does: if `period` is zero, outside a tokio runtime, and in one without a time
/// driver.
///
/// ```
/// # use tickwheel::{Duration, Instant, interval_at};
/// # tokio_test::block_on(async { tokio::time::pause();
/// // A ping each 15 s, and none before the connection is 15 s old.
/// let (start, period) = (Instant::now(), Duration::from_secs(15));
/// let mut pings = interval_at(start + period, period);
/// assert_eq!(pings.tick().await, start + period);
/// assert_eq!(pings.tick().await, start + 2 * period);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert_period(period);
    Interval::new(sleep_until(start), period)
}

/// Bounds a future and every timeout made within it.
///
/// It is on the current runtime's own timer. The deadline is an instant of the clock that
/// [`Instant::now`] reads where the future is polled. It is open during the conversion by
/// [`IntoFuture`] too. See [`WithDeadline`] for its exact bounds.
///
/// # Panics
///
/// Where [`sleep`] does: outside a tokio runtime, and in one without a time driver.
///
/// ```
/// # use tickwheel::{Duration, Instant, timeout, with_deadline};
/// # async fn first() {}
/// # async fn second() { std::future::pending::<()>().await; }
/// # tokio_test::block_on(async { tokio::time::pause();
/// let deadline = Instant::now() + Duration::from_secs(2);
/// let both = with_deadline(deadline, async {
///     first().await;
///     timeout(Duration::from_secs(30), second()).await // ends after two seconds
/// });
/// assert!(matches!(both.await, Err(_) | Ok(Err(_))));
/// # });
/// ```
#[track_caller]
#[inline]
pub fn with_deadline<F: IntoFuture>(deadline: Instant, future: F) -> WithDeadline<F::IntoFuture> {
    let sleep = sleep_until(deadline);
    let deadline = open_deadline::earlier(deadline);
    // The conversion may make timeouts, as the call of a service does.
    let _open = open_deadline::open(deadline);
    WithDeadline {
        future: future.into_future(),
        sleep,
        deadline,
    }
}

/// A sleep, or the sleep of a timeout that an open deadline caps, which requires the timer at once.
#[inline(always)] // So that the sleep is built where it stays, beside a future that may be large.
#[track_caller]
fn sleep_after(duration: Duration, is_capped: bool) -> Sleep {
    let mut noted = None;
    if !is_capped && local::ensure_worker_timer() {
        noted = Instant::now().checked_add(duration);
    }
    let (shard, deadline) = match noted {
        Some(deadline) => (None, deadline),
        None => {
            let shard = shard();
            let deadline = deadline_after(&shard, duration, is_capped);
            (Some(shard), deadline)
        }
    };
    Sleep::new(
        shard,
        Some(local::shard_of_poller),
        deadline,
        duration.is_zero(),
    )
}

/// Like `sleep_after`, until an instant.
#[inline(always)]
#[track_caller]
fn sleep_to(deadline: Instant, is_capped: bool) -> Sleep {
    let (shard, deadline) = if !is_capped && local::ensure_worker_timer() {
        (None, deadline)
    } else {
        let shard = shard();
        let deadline = capped(&shard, deadline, is_capped);
        (Some(shard), deadline)
    };
    Sleep::new(shard, Some(local::shard_of_poller), deadline, true)
}

/// For a deadline that overflows, an open deadline, and a thread that drives no runtime, where a
/// failing look-up has to panic at the caller's line.
#[cold]
#[track_caller]
fn shard() -> Arc<Shard> {
    local::shard()
}

#[cold]
fn deadline_after(shard: &Shard, duration: Duration, is_capped: bool) -> Instant {
    capped(shard, shard.clock().instant_after(duration), is_capped)
}

#[cold]
fn capped(shard: &Shard, own: Instant, is_capped: bool) -> Instant {
    if is_capped {
        open_deadline::bound(own, shard.clock())
    } else {
        own
    }
}
