//! Timers for tokio programs that hold very many deadlines which almost never fire.
//!
//! One idle deadline for each of 100,000 connections, a timeout around each of a million requests a
//! second: nearly all of them are armed, pushed back and dropped, and never fire. tickwheel makes
//! that cheap on every core, with `tokio::time`'s own names and semantics.
//!
//! # Uses
//!
//! **A timeout.** Change the `use` line; nothing else changes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use tickwheel::time::{Duration, timeout}; // was: use tokio::time::{Duration, timeout};
//! # async fn request() -> u8 { 7 }
//!
//! match timeout(Duration::from_secs(30), request()).await {
//!     Ok(answer) => println!("{answer}"),
//!     Err(elapsed) => println!("{elapsed}"),
//! }
//! # }
//! ```
//!
//! **A keepalive deadline that other tasks push back.** One task awaits the [`Deadline`], any other
//! resets it through a [`ResetHandle`], by `&self`, without a lock, and learns whether it was in
//! time.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use tickwheel::{Duration, Timer, sleep};
//!
//! let idle = Timer::current().deadline(Duration::from_secs(60));
//! let keepalive = idle.handle();
//! tokio::spawn(async move {
//!     for _heartbeat in 0..3 {
//!         sleep(Duration::from_secs(20)).await;
//!         assert!(keepalive.reset(), "in time");
//!     }
//! });
//! idle.await.expect("nobody cancels it");
//! println!("no heartbeat for a minute");
//! # }
//! ```
//!
//! **Timers by key.** A [`DeadlineMap`] has one awaited deadline for each key, a [`DelayMap`] one
//! stream of delayed values; any task resets or removes knowing only the key.
//!
//! **One timer for the process**, on a thread of its own: [`global`], for any executor, and for what
//! must fire though a runtime is stalled or has ended. It tells which of the two to take.
//!
//! **A timer of one's own**, with another accuracy, held to save the look-up of the runtime's own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tickwheel::error::BuildError> {
//! use tickwheel::{Duration, Timer};
//!
//! let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
//! let answer = timer.timeout(Duration::from_secs(1), async { "pong" }).await;
//! assert_eq!(answer, Ok("pong"));
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **Never early.** No timer completes before its deadline as the clock of its runtime reads it.
//! - **Late by at most one tick** (1 ms by default), and by two under a load of very many
//!   operations, besides tokio's own rounding to a millisecond and scheduling.
//! - **Exactly one outcome.** A reset that returns `true` moved the deadline; one that returns
//!   `false` came after it had expired or was cancelled.
//! - **Drop is cancel.** In O(1); the timer's memory is used again at once, the waker is let go,
//!   and no lock is held while a waker is woken or dropped.
//! - **Any duration.** Zero, now and the past are ready at the first poll; [`Duration::MAX`]
//!   saturates; uptime has no bound that a process reaches.
//! - **Runtime gone.** When the runtime that drives a timer shuts down, its own tasks are dropped
//!   while they are pending, and are told nothing, as with tokio's timers. Whoever waits from
//!   elsewhere is woken then: [`Sleep`], [`Timeout`] and [`Interval`] panic, as tokio's do; a
//!   [`Deadline`] resolves to [`Cancelled`](error::Cancelled), and the stream of a [`DelayMap`]
//!   ends. Nothing hangs.
//! - **Isolation.** A waker that panics, a panicking `Hash` or `Eq` of a key, or a task that blocks
//!   its worker, does not stop the driver or lose another timer. Wakers run where tokio's own
//!   timers run theirs, so one that blocks holds up tokio's time driver.
//! - **What is told is true.** A deadline that is told is never before the call plus its duration,
//!   the time that is left never more than the timeout, and neither changes by itself.
//! - **Paused clock.** Under tokio's `test-util` everything is deterministic, follows `pause`,
//!   `advance` and auto-advance, and never makes virtual time run by itself.
//! - **Idle is idle.** With nothing armed there are no wake-ups at all, and with 100,000 deadlines
//!   an hour away fewer than ten a second.
//!
//! # How it works
//!
//! ```text
//!  timer.timeout(30 s, future)          nothing is armed yet: no lock, no wheel
//!     | first poll: the future is ready --> done
//!     | first poll: it is pending
//!     v
//!  shard: lock, insert into the wheel   one lock for each worker, a few instructions
//!     | the future completes, or the Timeout is dropped --> lock, remove: O(1), memory back now
//!     v
//!  driver: its alarm fires at the next due; turn the wheel, collect wakers, unlock, wake them
//! ```
//!
//! A [`Timer`] has a shard for each worker of its runtime, each a [hierarchy of timing
//! wheels](wheel) behind a lock of its own, and one driver that turns them all. The driver is no
//! task: it is the waker of one tokio timer, its alarm, which turns the wheels where tokio's own
//! timers fire and sets the alarm for the next due. With nothing armed it wakes nobody. Under a
//! load at which reading the clock costs more than that, it *ticks*: it publishes the current tick,
//! and arming and resetting take that in place of reading the clock. It keeps a log of when it was
//! late, so that no timer fires early for it. A [`Deadline`]'s reset does not touch the wheel: it
//! writes the moment into an atomic word, and when the timer's slot comes the driver asks the word
//! for the true due.
//!
//! To read the source, begin with `tick`, then `wheel`, `due`, `clock`, `shard`, `driver` (its
//! `bell` and its `alarm` first), `sleep`, `word`, `deadline` and `delay_map`.
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `test-util` | re-exports tokio's `pause`, `advance` and `resume`, for tests that reach them through `time::` |

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod atomic;
mod clock;
mod deadline;
mod deadline_state;
mod delay_map;
mod driver;
mod due;
pub mod error;
pub mod global;
mod grid;
mod hashing;
mod interval;
mod late_windows;
mod metrics;
mod mode;
mod places;
mod shard;
mod shrinking;
mod sleep;
mod snapshot;
mod table;
mod tick;
pub mod time;
mod timeout;
mod timer;
mod waking;
pub mod wheel;
mod word;

use std::future::IntoFuture;

#[doc(no_inline)]
pub use tokio::time::{Duration, Instant, MissedTickBehavior};
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
#[doc(no_inline)]
pub use tokio::time::{advance, pause, resume};

pub use crate::deadline::{Deadline, DeadlineMap, KeyedDeadline, ResetHandle};
pub use crate::delay_map::{DelayMap, Expirations, Expired, WeakDelayMap};
pub use crate::hashing::DefaultHashBuilder;
pub use crate::interval::Interval;
pub use crate::metrics::Metrics;
pub use crate::sleep::Sleep;
pub use crate::snapshot::{LevelSnapshot, ShardSnapshot, Snapshot};
pub use crate::timeout::Timeout;
pub use crate::timer::{Builder, Timer};

use crate::timer::current;

/// Waits until `duration` has passed, on the current runtime's own timer.
///
/// As [`tokio::time::sleep`]. Zero is ready at the first poll; a duration that is too long to be
/// counted saturates. See [`Sleep`] for its guarantees.
///
/// # Panics
///
/// Outside a tokio runtime, and in one without a time driver. In an `async` block it is called when
/// that is polled.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// tickwheel::sleep(tickwheel::Duration::from_millis(100)).await;
/// # }
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::after(current::hold(), duration)
}

/// Waits until `deadline`, on the current runtime's own timer.
///
/// As [`tokio::time::sleep_until`]. A deadline that has passed is ready at the first poll. See
/// [`Sleep`].
///
/// # Panics
///
/// Outside a tokio runtime, and in one without a time driver.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, sleep_until};
///
/// sleep_until(Instant::now() + Duration::from_millis(100)).await;
/// # }
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(current::hold(), deadline)
}

/// Bounds the time of a future: gives its output, or [`Elapsed`](error::Elapsed) if it is not ready
/// in time.
///
/// As [`tokio::time::timeout`]; on the current runtime's own timer. The future is polled first, so
/// if it is ready at the first poll nothing is armed, and it wins over a deadline that has passed.
/// See [`Timeout`].
///
/// # Panics
///
/// Outside a tokio runtime, and in one without a time driver.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, timeout};
///
/// let (sender, receiver) = tokio::sync::oneshot::channel::<u8>();
/// assert!(timeout(Duration::from_millis(100), receiver).await.is_err());
/// # drop(sender);
/// # }
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep(duration))
}

/// Bounds the time of a future by an instant; else as [`timeout`].
///
/// As [`tokio::time::timeout_at`].
///
/// # Panics
///
/// Outside a tokio runtime, and in one without a time driver.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, timeout_at};
///
/// let deadline = Instant::now() + Duration::from_millis(100);
/// assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// Ticks with a period, the first time at once, on the current runtime's own timer.
///
/// As [`tokio::time::interval`]. See [`Interval`] for an example.
///
/// # Panics
///
/// If `period` is zero; outside a tokio runtime, and in one without a time driver.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval::assert_period(period);
    Interval::starting_now(current::hold(), period)
}

/// Ticks with a period, the first time at `start`, on the current runtime's own timer.
///
/// As [`tokio::time::interval_at`].
///
/// # Panics
///
/// If `period` is zero; outside a tokio runtime, and in one without a time driver.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, interval_at};
///
/// let start = Instant::now() + Duration::from_secs(1);
/// let mut beat = interval_at(start, Duration::from_secs(15));
/// assert_eq!(beat.tick().await, start);
/// # }
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    interval::assert_period(period);
    Interval::starting_at(current::hold(), start, period)
}

/// The documents of the repository. This module exists in the documentation only.
#[cfg(any(doc, doctest))]
pub mod docs {
    // In the repository these names lead to the files. Here they lead to the pages: of two
    // definitions of a name, the first one counts.
    #[doc = "[COMPARE.md]: crate::docs::compare\n[SIZING.md]: crate::docs::sizing\n"]
    #[doc = include_str!("../docs/DESIGN.md")]
    pub mod design {}

    #[doc = "[DESIGN.md]: crate::docs::design\n[COMPARE.md]: crate::docs::compare\n"]
    #[doc = include_str!("../docs/SIZING.md")]
    pub mod sizing {}

    #[doc = "[DESIGN.md]: crate::docs::design\n[SIZING.md]: crate::docs::sizing\n"]
    #[doc = include_str!("../docs/COMPARE.md")]
    pub mod compare {}
}

/// The README's examples, compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
