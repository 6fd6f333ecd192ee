//! Timers for tokio programs that hold very many deadlines, almost none of which ever fires.
//!
//! Typical cases are the deadlines of connections and the timeouts of requests in a server. The
//! names and semantics are those of `tokio::time`. By default each worker arms timers in wheels of
//! its own. Other pages:
//!
//! - [`guarantees`]: what each promise covers, what a stall is, and where the tests are.
//! - [Moving to tickwheel](docs::migration): from another Rust timer, before and after.
//! - [Testing](docs::testing): a paused clock and which libraries follow it, `expire`, a stall.
//! - [Recipes](docs::recipes): servers and their stop, sessions, retries, queues, to copy.
//! - [Compared with other timers](docs::compare): which timer does what.
//! - [Operations](docs::operations): the choice of a tick, memory, metrics, alerts, what to do when
//!   something goes wrong, forks and plugins.
//! - [The design](docs::design): how it works, with a drawing, and why no timer fires early.
//! - [Reasons](docs::reasons): why the public surface is as it is, and what was left out.
//!
//! # Uses
//!
//! **A timeout.** Swap the import, and check [what that does not
//! cover](docs::migration#what-the-import-does-not-cover).
//!
//! ```
//! use tickwheel::time::{Duration, timeout}; // was: use tokio::time::{Duration, timeout};
//!
//! # async fn request() -> u8 { 7 }
//! # tokio_test::block_on(async {
//! let answer = timeout(Duration::from_secs(30), request()).await?;
//! # assert_eq!(answer, 7);
//! # Ok::<(), tickwheel::error::Elapsed>(()) }).unwrap();
//! ```
//!
//! **A deadline that is passed on.** [`with_deadline()`] bounds a future and every timeout made
//! within it in the same task, so that no such call outlives its caller's deadline. [`time_left`]
//! returns the budget for the next call, for example for its
//! [header](docs::recipes#passing-a-deadline-on-in-a-header).
//!
//! **A keepalive deadline that other tasks push back.** One task awaits the [`Deadline`]. Any other
//! task resets it through a [`ResetHandle`], without a lock, and learns whether it was in time.
//! [`Deadline::warn_before`] is for [a ping before the
//! close](docs::recipes#a-server-that-pings-and-then-closes).
//!
//! ```
//! use tickwheel::{Duration, Timer, sleep};
//!
//! # tokio_test::block_on(async { tokio::time::pause();
//! let idle = Timer::current().deadline(Duration::from_secs(60));
//! let keepalive = idle.handle();
//! tokio::spawn(async move {
//!     sleep(Duration::from_secs(20)).await; // then a heartbeat comes
//!     assert!(keepalive.reset(), "in time");
//! });
//! idle.await.expect("no task cancels it"); // no heartbeat for a minute
//! # });
//! ```
//!
//! **Timers by key.** Any task resets or removes a timer by its key. A [`DeadlineMap`] is for keys
//! that each have a task, such as connections: the task awaits the deadline of its key. A
//! [`DelayMap`] is for values without a task, such as sessions and jobs: they come out of one
//! stream when they are due. tokio-util's `DelayQueue`, for one owner and without keys of your own,
//! is in [tickwheel-util].
//!
//! ```
//! use tickwheel::{DeadlineMap, DelayMap, Duration, Timer};
//!
//! # tokio_test::block_on(async { tokio::time::pause();
//! let connections = DeadlineMap::new(&Timer::current());
//! let idle = connections.insert("10.0.0.7:4711", Duration::from_secs(60))?;
//! assert!(connections.reset("10.0.0.7:4711"), "from any task");
//! idle.await?;
//!
//! let (retries, mut due) = DelayMap::new(&Timer::current());
//! retries.insert("job 1", "payload", Duration::from_secs(5))?;
//! assert_eq!(due.recv().await.map(|retry| retry.value), Some("payload"));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! **Jobs that survive a crash.** [A queue](docs::recipes#a-queue-whose-jobs-survive-a-crash) that
//! stores each job first loses none. A [`WallClock`](wall_clock::WallClock) translates due times.
//!
//! **A time of day.** [`wall_clock::sleep_until`] follows the system's clock over a suspension and
//! over a clock that is set: [a job at nine each
//! morning](docs::recipes#a-job-at-nine-each-morning).
//!
//! **A timer of your own**, with a different resolution: [`Timer::builder`]. **One for the
//! process**, on a thread of its own and under any executor whose wakers may be used on other
//! threads: [`Timer::global`]. **In other crates**, such as hyper, tower, axum and tonic: [where it
//! plugs in](docs::migration#where-it-plugs-in). **The wheel alone**, without async, clock or lock:
//! [`wheel`].
//!
//! # Guarantees
//!
//! Never early, and at most one tick late, on top of tokio's rounding and scheduling. After a
//! [stall](guarantees#what-a-stall-is) of the process, tasks have up to 100 ms to read what has
//! arrived before a timer fires, and that takes the import alone. A stall does not count against a
//! [`Deadline`]. You can [switch both off](timer::Builder::stall_grace), for leases. A reset and an
//! expiry have exactly one outcome. Dropping a timer cancels it, in O(1). [`guarantees`] has all
//! promises, what each covers, and where the tests are.
//!
//! # What a reset does
//!
//! | call | new deadline | once it has ended |
//! |---|---|---|
//! | [`ResetHandle::reset`], [`DeadlineMap::reset`] | now plus its timeout, never earlier than it was | returns `false` |
//! | [`ResetHandle::reset_after`], [`ResetHandle::reset_at`] | what you pass, earlier or later | returns `false` |
//! | [`DelayMap::set`] | what you pass, earlier or later, within the longest life | returns `false`, from the due on |
//! | [`Sleep::reset`], and its `reset_after` and `reset_at` | what you pass, earlier or later | the sleep is pending again |
//! | [`Interval::reset`] | now plus its period, earlier or later | a tick that is due and not taken is dropped |
//! | [`wheel::Wheel::reset`] | what you pass, earlier or later | returns `false` |
//! | `DelayQueue::reset` of [tickwheel-util] | now plus what you pass, earlier or later | panics once the value has come out |
//!
//! # When not to use it
//!
//! - **For a handful of timers.** tokio's own are as good.
//! - **To serve more requests per second.** With few workers, timers are a small share of each.
//! - **For one owner that needs no keys of its own.** There a `DelayQueue` of [tickwheel-util]
//!   takes less memory and CPU than a [`DelayMap`].
//! - **For a resolution below a millisecond.** tokio's timers have none.
//! - **For another runtime's own clock.** [`Timer::global`] goes by the system's.
//! - **As a cache.** Use [moka](https://docs.rs/moka). A [`DelayMap`] does not evict to make room.
//!
//! # Two crates
//!
//! tickwheel and [tickwheel-util] are divided as tokio and tokio-util are: in the paths to their
//! timers `tokio` becomes `tickwheel`, and `tokio_util` becomes `tickwheel_util`. tickwheel-util
//! has `DelayQueue`, and the adapters for streams, HTTP bodies and tower. An idle timeout for
//! sockets, [`io::IdleTimeout`], is here.
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `hyper` | [`hyper`](https://docs.rs/tickwheel/latest/tickwheel/hyper/): a [`Timer`] is a `hyper::rt::Timer`, for hyper's servers and clients, and for hyper-util's pool |
//! | `serde` | `Serialize` for [`Metrics`](metrics::Metrics) and [`DelayMapMetrics`](metrics::DelayMapMetrics): each field under its name, a [`Duration`] as `{"secs":1,"nanos":0}` |
//! | `tracing` | events with the target `tickwheel` and the name of the `timer`: a stalled driver (`WARN`, `late_ms`), and a waker that panicked (`ERROR`) |
//! | `test-util` | tokio's `test-util`, and its `pause`, `advance` and `resume` at the root and under [`time`] |
//!
//! The public interface uses types of std and tokio, and with the features `hyper` and `serde`
//! types of those crates, all of them 1.x. The one exception is `futures-core` 0.3, whose `Stream`
//! and `FusedStream` a release of its 1.0 would replace.
//!
//! [tickwheel-util]: https://docs.rs/tickwheel-util

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod deadline;
mod driver;
pub mod error;
mod functions;
mod future {
    //! The futures that wait. Each waits by at most one armed timer.

    pub(crate) mod access;
    pub(crate) mod interval;
    pub(crate) mod open_deadline;
    pub(crate) mod sleep;
    pub(crate) mod timeout;
    pub(crate) mod with_deadline;
}
#[cfg(feature = "hyper")]
pub mod hyper;
pub mod io;
mod keyed;
#[cfg(test)]
mod lines;
pub mod metrics;
mod report;
mod runtime;
mod shard;
mod sync;
pub mod time;
pub mod timer;
pub mod wall_clock;
pub mod wheel;

#[doc(no_inline)]
pub use tokio::time::{Duration, Instant, MissedTickBehavior};
#[cfg(feature = "test-util")]
#[doc(no_inline)]
pub use tokio::time::{advance, pause, resume};

pub use crate::deadline::{Deadline, ResetHandle, warn_before};
pub use crate::functions::{
    interval, interval_at, sleep, sleep_until, timeout, timeout_at, with_deadline,
};
pub use crate::future::interval::Interval;
pub use crate::future::sleep::Sleep;
pub use crate::future::timeout::Timeout;
pub use crate::future::with_deadline::{WithDeadline, current_deadline, time_left};
pub use crate::keyed::deadline_map::{DeadlineMap, KeyedDeadline};
pub use crate::keyed::delay_map::{DelayMap, Expirations, Expired, Expiry, WeakDelayMap};
pub use crate::keyed::table::DefaultHashBuilder;
pub use crate::timer::handle::Timer;

#[cfg(any(doc, doctest))]
pub mod guarantees;

/// The documents of the repository. This module exists in the documentation only.
#[cfg(any(doc, doctest))]
pub mod docs {
    // In the repository the names of the links lead to the files. Here they lead to the pages: of
    // two definitions of a name, the first one counts.
    macro_rules! pages {
        ($($(#[$built:meta])* $name:ident $file:literal)*) => {$(
            $(#[$built])*
            #[doc = "[COMPARE.md]: crate::docs::compare\n[DESIGN.md]: crate::docs::design\n"]
            #[doc = "[MIGRATION.md]: crate::docs::migration\n[RECIPES.md]: crate::docs::recipes\n"]
            #[doc = "[OPERATIONS.md]: crate::docs::operations\n"]
            #[doc = "[the guarantees]: crate::guarantees\n"]
            #[doc = "[stall]: crate::guarantees#what-a-stall-is\n"]
            #[doc = "[how to read a snapshot]: crate::docs::operations#how-to-read-a-snapshot\n"]
            #[doc = "[plugins and forks]: crate::docs::operations#plugins-and-forks\n"]
            #[doc = "[paused clocks]: crate::docs::testing#which-libraries-follow-a-paused-clock\n"]
            #[doc = "[a graceful stop]: crate::docs::recipes#event-streams-that-end-at-a-graceful-stop\n"]
            #[doc = "[tonic's clients]: crate::docs::recipes#a-deadline-for-tonics-clients\n"]
            #[doc = "[tonic's timeout]: crate::docs::migration#from-tonics-timeout\n"]
            #[doc = include_str!(concat!("../docs/", $file))]
            pub mod $name {}
        )*};
    }

    pages! {
        design "DESIGN.md"
        reasons "REASONS.md"
        compare "COMPARE.md"
        // For tokio's maintainers and not for users. Its programs are tests.
        #[cfg(doctest)]
        upstream "UPSTREAM.md"
        // The examples of the others need other crates. The package `integrations` compiles them.
        #[cfg(not(doctest))]
        testing "TESTING.md"
        #[cfg(not(doctest))]
        recipes "RECIPES.md"
        #[cfg(not(doctest))]
        migration "MIGRATION.md"
        #[cfg(not(doctest))]
        operations "OPERATIONS.md"
    }
}

/// The README's examples, compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
