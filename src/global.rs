//! One timer for the process, on a thread of its own, for every executor.
//!
//! The functions have the names and semantics of those at the crate's root and of `tokio::time`.
//! All of them use one [`Timer`]. The first use starts it, and it never ends.
//!
//! # Which of the two to take
//!
//! | | [`tickwheel::sleep`](crate::sleep) and the others | `tickwheel::global` |
//! |---|---|---|
//! | where it can be called | in a tokio runtime with a time driver | anywhere: under any executor, on any thread |
//! | finding the timer | asks tokio for the current runtime, a count that all its threads share | reads a static: some nanoseconds, on any number of threads |
//! | where timers fire | in the runtime, where its own timers fire and the woken tasks are near | on the thread `tickwheel-timer`, which sends each woken task to another thread |
//! | a runtime that is stalled or has shut down | its timers are late, or end | the timers of others go on |
//! | tokio's paused clock | is followed | is not followed: time is the system's |
//!
//! Take the functions at the root in a tokio program of one runtime. They are the better ones above
//! all if many timers fire, or if the tests pause the clock.
//!
//! Take the functions of this module in four cases:
//!
//! - There is no tokio runtime.
//! - Several runtimes or executors share deadlines.
//! - A timeout must fire though its runtime is stalled.
//! - Very many timeouts that never fire are made without a [`Timer`] at hand.
//!
//! # Cost
//!
//! The thread sleeps until the next timer is due. While nothing is armed it wakes at most once
//! more, for a timer that was disarmed. The thread itself wakes what is due. So a waker that blocks
//! delays all that is due after it. A waker that panics delays nothing. It is a plain thread, in
//! the context of no runtime.
//!
//! # A paused clock
//!
//! A tokio runtime whose clock is paused does not know of this timer. While it waits for nothing
//! else, its clock runs to the next of its own timers. So `tokio::time::timeout` around a
//! `global::sleep` may elapse there at once. On its threads [`Instant::now`] is not the system's
//! time, and the instants of this timer are.
//!
//! # Fork
//!
//! A child process that was forked and runs no other program has no such thread. What sleeps on
//! this timer there sleeps for ever.
//!
//! # Panics
//!
//! The first use panics if it cannot start the thread. The message says why. A later use tries
//! again.
//!
//! # Examples
//!
//! With the executor of `futures`, and no tokio runtime anywhere:
//!
//! ```
//! use std::time::Duration;
//! use futures::executor::block_on;
//! use tickwheel::global;
//!
//! block_on(async {
//!     global::sleep(Duration::from_millis(20)).await;
//!     let slow = std::future::pending::<()>();
//!     assert!(global::timeout(Duration::from_millis(20), slow).await.is_err());
//! });
//! ```
//!
//! Deadlines and maps are made on [`timer`]:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::time::Duration;
//! use tickwheel::{DelayMap, global};
//!
//! let (sessions, mut expired) = DelayMap::new(&global::timer());
//! sessions.insert("alice", 1, Duration::from_millis(20))?;
//! let first = futures::executor::block_on(expired.recv());
//! assert_eq!(first.map(|first| first.key), Some("alice"));
//! # Ok(())
//! # }
//! ```

use std::future::IntoFuture;

use crate::future::scope::End;
use crate::future::timeout::Bound;
use crate::timer::local;
use crate::{Duration, Instant, Interval, Scope, Sleep, Timeout, Timer};

/// The process's timer, which the functions of this module use.
///
/// It is the same as [`Timer::global`].
///
/// # Panics
///
/// If the call has to start the timer's thread and cannot.
///
/// ```
/// use tickwheel::{Duration, global};
///
/// let deadline = global::timer().deadline(Duration::from_secs(30));
/// assert!(deadline.handle().reset(), "outside of any runtime");
/// ```
#[track_caller]
pub fn timer() -> Timer {
    local::global_timer().clone()
}

/// Waits until `duration` has passed. All else is as with [`tickwheel::sleep`](crate::sleep).
///
/// # Panics
///
/// If the call has to start the timer's thread and cannot.
///
/// # Examples
///
/// ```
/// # futures::executor::block_on(async {
/// tickwheel::global::sleep(tickwheel::Duration::from_millis(5)).await;
/// # });
/// ```
#[inline]
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    local::global_timer().sleep(duration)
}

/// Waits until `deadline`. All else is as with [`tickwheel::sleep_until`](crate::sleep_until).
///
/// `deadline` is in the system's time. On a thread of a runtime whose clock is paused,
/// [`Instant::now`] is not. Take `Instant::from_std(std::time::Instant::now())` there.
///
/// # Panics
///
/// If the call has to start the timer's thread and cannot.
///
/// # Examples
///
/// ```
/// # futures::executor::block_on(async {
/// use tickwheel::{Duration, Instant, global};
///
/// global::sleep_until(Instant::now() + Duration::from_millis(5)).await;
/// # });
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    local::global_timer().sleep_until(deadline)
}

/// Bounds the time of a future. All else is as with [`tickwheel::timeout`](crate::timeout).
///
/// # Panics
///
/// If the call has to start the timer's thread and cannot.
///
/// # Examples
///
/// ```
/// # futures::executor::block_on(async {
/// use tickwheel::{Duration, global};
///
/// assert_eq!(global::timeout(Duration::from_secs(5), async { "pong" }).await, Ok("pong"));
/// # });
/// ```
#[track_caller]
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    let bound = Bound::after(local::global_shard(), duration);
    Timeout::new(bound, future.into_future())
}

/// Bounds the time of a future by an instant. All else is as with
/// [`tickwheel::timeout_at`](crate::timeout_at).
///
/// [`sleep_until`] says which time `deadline` is in.
///
/// # Panics
///
/// If the call has to start the timer's thread and cannot.
///
/// ```
/// # futures::executor::block_on(async {
/// use tickwheel::{Duration, Instant, global};
///
/// let deadline = Instant::now() + Duration::from_millis(10);
/// let never = global::timeout_at(deadline, std::future::pending::<()>());
/// assert!(never.await.is_err());
/// # });
/// ```
#[track_caller]
#[inline]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    let bound = Bound::at(local::global_shard(), deadline);
    Timeout::new(bound, future.into_future())
}

/// Bounds a future and every timeout that is made within it. In all else it is as
/// [`tickwheel::scope`](crate::scope).
///
/// `deadline` is an instant of the clock that [`Instant::now`] reads where the scope is polled,
/// also on a thread of a runtime whose clock is paused. What is left then passes in the system's
/// time. [`Scope`] says more.
///
/// # Panics
///
/// If the timer's thread has to be started and cannot.
///
/// # Examples
///
/// ```
/// # futures::executor::block_on(async {
/// use tickwheel::{Duration, Instant, global, remaining};
///
/// let deadline = Instant::now() + Duration::from_secs(5);
/// let left = global::scope(deadline, async { remaining() }).await;
/// assert!(matches!(left, Ok(Some(left)) if left <= Duration::from_secs(5)));
/// # });
/// ```
#[track_caller]
#[inline]
pub fn scope<F: IntoFuture>(deadline: Instant, future: F) -> Scope<F::IntoFuture> {
    let bound = Bound::held(local::global_shard(), deadline);
    Scope::new(End::new(bound, deadline), future.into_future())
}

/// Ticks with a period, the first time at once. All else is as with
/// [`tickwheel::interval`](crate::interval).
///
/// # Panics
///
/// If `period` is zero, or the call has to start the timer's thread and cannot.
///
/// # Examples
///
/// ```
/// # futures::executor::block_on(async {
/// use tickwheel::{Duration, global};
///
/// let mut beat = global::interval(Duration::from_millis(5));
/// let first = beat.tick().await;
/// assert!(beat.tick().await >= first + Duration::from_millis(5));
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    local::global_timer().interval(period)
}

/// Ticks with a period, the first time at `start`. All else is as with
/// [`tickwheel::interval_at`](crate::interval_at).
///
/// # Panics
///
/// If `period` is zero, or the call has to start the timer's thread and cannot.
///
/// ```
/// # futures::executor::block_on(async {
/// use tickwheel::{Duration, Instant, global};
///
/// let start = Instant::now() + Duration::from_millis(10);
/// let mut beat = global::interval_at(start, Duration::from_millis(5));
/// assert_eq!(beat.tick().await, start);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    local::global_timer().interval_at(start, period)
}
