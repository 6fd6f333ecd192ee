//! One timer for the process, on a thread of its own, for every executor.
//!
//! The functions have the names and semantics of those at the crate's root. They use one [`Timer`],
//! which the first use starts and which never ends.
//!
//! | | [`tickwheel::sleep`](crate::sleep) and the others | `tickwheel::global` |
//! |---|---|---|
//! | where it can be called | in a tokio runtime with a time driver | anywhere: under any executor, on any thread |
//! | finding the timer | asks tokio for the current runtime, a count that all its threads share | reads a static: some nanoseconds, on any number of threads |
//! | where timers fire | in the runtime, near the woken tasks | on the thread `tickwheel-timer`, which sends each woken task to another thread |
//! | a runtime that is stalled or has shut down | its timers are late, or end | the timers of others go on |
//! | tokio's paused clock | is followed | is not followed: time is the system's |
//!
//! Use the functions at the root in a tokio program of one runtime, above all if many timers fire
//! or if the tests pause the clock. Use these outside of tokio, where several runtimes or executors
//! share deadlines, and where a timeout must fire although its runtime is stalled.
//!
//! ```
//! use tickwheel::{Duration, global};
//!
//! futures::executor::block_on(async {
//!     global::sleep(Duration::from_millis(5)).await;
//!     let slow = std::future::pending::<()>();
//!     assert!(global::timeout(Duration::from_millis(5), slow).await.is_err());
//! });
//! ```
//!
//! The thread sleeps until the next timer is due, and wakes tasks in the context of no runtime. A
//! waker that blocks delays the timers after it. A forked child process has no such thread, so its
//! sleeps never end.
//!
//! A paused tokio clock does not see this timer and runs on to the next of its own timers. So
//! `tokio::time::timeout` around a `global::sleep` may elapse at once there. Instants of this timer
//! are the system's: use `Instant::from_std(std::time::Instant::now())`.
//!
//! # Panics
//!
//! Each function panics with the cause if it cannot start the thread. A later use tries again.

use std::future::IntoFuture;

use crate::future::limit;
use crate::future::scope::End;
use crate::timer::local;
use crate::{Duration, Instant, Interval, Scope, Sleep, Timeout, Timer};

/// The process's timer, for deadlines and maps too; the same as [`Timer::global`].
#[track_caller]
pub fn timer() -> Timer {
    local::global_timer().clone()
}

/// As [`tickwheel::sleep`](crate::sleep), on the process's timer.
#[inline]
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    local::global_timer().sleep(duration)
}

/// As [`tickwheel::sleep_until`](crate::sleep_until), on the process's timer.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    local::global_timer().sleep_until(deadline)
}

/// As [`tickwheel::timeout`](crate::timeout), on the process's timer.
#[track_caller]
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    let sleep = limit::sleep_after(local::global_shard(), duration);
    Timeout::new(sleep, future.into_future())
}

/// As [`tickwheel::timeout_at`](crate::timeout_at), on the process's timer.
#[track_caller]
#[inline]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    let sleep = limit::sleep_until(local::global_shard(), deadline);
    Timeout::new(sleep, future.into_future())
}

/// As [`tickwheel::scope`](crate::scope), on the process's timer. `deadline` is an instant of the
/// clock that [`Instant::now`] reads where the scope is polled. The rest of it passes in the
/// system's time.
#[track_caller]
#[inline]
pub fn scope<F: IntoFuture>(deadline: Instant, future: F) -> Scope<F::IntoFuture> {
    let sleep = local::global_timer().sleep_until(deadline);
    Scope::new(End::new(sleep, deadline), future.into_future())
}

/// As [`tickwheel::interval`](crate::interval), on the process's timer. It panics too if `period`
/// is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    local::global_timer().interval(period)
}

/// As [`tickwheel::interval_at`](crate::interval_at), on the process's timer. It panics too if
/// `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    local::global_timer().interval_at(start, period)
}
