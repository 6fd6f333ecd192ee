//! Timers for tokio programs that hold very many deadlines which almost never fire.
//!
//! A server may hold an idle deadline for each of 100,000 connections. It may put a timeout around
//! each of a million requests a second. Nearly all of these timers are armed, pushed back and
//! dropped, and never fire. tickwheel makes that cheap on every core, with the names and semantics
//! of `tokio::time`.
//!
//! On this page: [uses](#uses), [guarantees](#guarantees), [when not to use
//! it](#when-not-to-use-it), [the cost of the free functions](#the-cost-of-the-free-functions),
//! [features](#features). Beside it:
//!
//! - [Moving to tickwheel](docs::migration): from another Rust timer, before and after; and a table
//!   of the crates that take this timer, from hyper to backon.
//! - [Compared with other timers](docs::compare): which timer does what.
//! - [Ten million connections](docs::sizing): memory, CPU, and the choice of a tick.
//! - [Operations](docs::operations): metrics, alerts, and what happens when something goes wrong.
//! - [The design](docs::design): how it works, with a drawing, and why no timer fires early.
//!
//! # Uses
//!
//! **A timeout.** Change the `use` line. Nothing else changes, but for [what a `use` does not
//! reach](docs::migration#what-a-change-of-use-does-not-reach).
//!
//! ```
//! use tickwheel::time::{Duration, timeout}; // was: use tokio::time::{Duration, timeout};
//!
//! # async fn request() -> u8 { 7 }
//! # tokio_test::block_on(async {
//! match timeout(Duration::from_secs(30), request()).await {
//!     Ok(answer) => println!("{answer}"),
//!     Err(elapsed) => println!("{elapsed}"),
//! }
//! # });
//! ```
//!
//! **A deadline that is passed on.** A call that is made within another call must not outlive its
//! caller's deadline. A [`scope`] bounds a future and each timeout that is made within it, and
//! [`remaining`] tells what is left, for the header of the next call.
//!
//! ```
//! use tickwheel::{Duration, Instant, remaining, scope, timeout};
//!
//! # async fn query() -> u8 { 7 }
//! # tokio_test::block_on(async { tokio::time::pause();
//! let deadline = Instant::now() + Duration::from_secs(2);
//! let answer = scope(deadline, async {
//!     assert_eq!(remaining(), Some(Duration::from_secs(2)));
//!     timeout(Duration::from_secs(30), query()).await // two seconds at most
//! });
//! assert_eq!(answer.await, Ok(Ok(7)));
//! # });
//! ```
//!
//! **A keepalive deadline that other tasks push back.** One task awaits the [`Deadline`]. Any other
//! task resets it through a [`ResetHandle`], by `&self` and without a lock. The answer tells
//! whether the reset was in time.
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
//! idle.await.expect("nobody cancels it");
//! println!("no heartbeat for a minute");
//! # });
//! ```
//!
//! **A ping before the close.** [`Deadline::warn_before`] wakes the task for a ping while a
//! heartbeat is still in time.
//!
//! **Timers by key.** A [`DeadlineMap`] has one awaited deadline for each key. A [`DelayMap`] has
//! one stream of delayed values. Any task resets or removes a timer by its key alone.
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
//! let retry = due.recv().await.expect("the map is open");
//! assert_eq!((retry.key, retry.value), ("job 1", "payload"));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! **Due times that outlive the process.** [`DelayMap::for_each`] shows all values and their dues
//! at one moment, and a [`WallClock`] translates the dues for a store.
//!
//! **A timer of your own**, with another accuracy. A program that holds a timer also saves the
//! look-up of the runtime's own.
//!
//! ```
//! use tickwheel::{Duration, Timer};
//!
//! # tokio_test::block_on(async {
//! let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
//! let answer = timer.timeout(Duration::from_secs(1), async { "pong" }).await;
//! println!("{answer:?}; {}", timer.snapshot()); // a line for each level of its wheels
//! # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
//! ```
//!
//! **One timer for the process**, on a thread of its own: [`global`]. It works under any executor,
//! and fires even while a runtime is stalled or after it has shut down.
//!
//! **In other crates.** Features make the timer one of hyper's, a layer of tower's, and a timeout
//! for sockets, streams and HTTP bodies. Many crates take one of these, or a closure. The
//! [guide](docs::migration#where-it-plugs-in) has them in a table.
//!
//! **The wheel alone**, without async, clock or lock: [`wheel`]. It is for simulations and for
//! other runtimes.
//!
//! # Guarantees
//!
//! Each of these has tests that fail when the code is broken on purpose.
//!
//! - **Never early.** No timer completes before its deadline, as the clock of its runtime reads it.
//!   This holds under a stalled driver, a blocked worker, an idle runtime and a paused clock. It
//!   holds for offsets below a millisecond, and for a reset that races with the expiry.
//! - **Late by at most one tick**, which is 1 ms by default, at every load. tokio's rounding to a
//!   millisecond and the scheduling of tasks come on top.
//! - **Stalls do not count.** A [`Deadline`] that passes while the driver cannot run stays pending
//!   for a grace as long as that stall, so that the heartbeats which lie unread are read first. So
//!   a process that is stopped for some seconds closes none of the live connections whose time
//!   passed meanwhile. A stall is more than 50 ms and 16 ticks, counted from the first tick at
//!   which the driver had something to do. The grace is at least 100 ms and at most the timeout,
//!   and there is one between two resets. A deadline that was last reset before the stall, and is
//!   due before that grace ends, has it too. A stop that ends before anything of the timer was due
//!   is no stall. All this holds for a [`DeadlineMap`] and an idle timeout for sockets too, but not
//!   for a [`Sleep`], a [`Timeout`], an [`Interval`] or a [`DelayMap`]. [`Builder::count_stalls`]
//!   switches it off, for leases.
//! - **Exactly one outcome.** A reset that returns `true` moved the deadline. A reset that returns
//!   `false` came after the deadline had expired or was cancelled. Both never hold for one expiry.
//! - **Drop is cancel.** It takes O(1). The next timer may use the memory at once, and the waker is
//!   let go. No lock is held while a waker is woken or dropped.
//! - **Any duration.** Zero, now and the past are ready at the first poll. Under a paused clock
//!   that stands between two milliseconds, now and what passed in this millisecond wait for its
//!   end, as with tokio, whose grid that is. [`Duration::MAX`] saturates. Nothing panics or wraps,
//!   even after a hundred years of uptime.
//! - **The runtime has shut down.** A runtime that shuts down drops its own tasks while they are
//!   pending and reports nothing to them, as with tokio's timers. After that, everything that waits
//!   from elsewhere is woken. A [`Sleep`], a [`Timeout`] and an [`Interval`] panic when they are
//!   polled then, as tokio's do, and their `try_poll` reports it. A [`Deadline`] resolves to
//!   [`Cancelled`](error::Cancelled), and the stream of a [`DelayMap`] ends. The adapters for other
//!   crates do not panic either: each reports an error, or goes on without the timer, as its page
//!   says. Nothing hangs. A thread outside of the runtime that arms a timer in the very moment in
//!   which the runtime ends may meet a panic of tokio's. It is caught here, but a panic hook sees
//!   it, and with `panic = "abort"` it ends the process. So join such threads before the runtime is
//!   dropped.
//! - **Isolation.** A waker that panics does not stop the driver or lose another timer. Nor does a
//!   panic in a key's own code, or a task that blocks its worker. Wakers run where tokio's own
//!   timers run theirs, and one pass wakes all that is due. So a waker that blocks holds up tokio's
//!   time driver. A waker that belongs to no task of tokio's is woken as early as by tokio's
//!   timers.
//! - **What is reported is true.** A reported deadline is never before the call plus its duration,
//!   and a reported remaining time is never more than the timeout. Neither changes by itself.
//! - **Memory follows what is pending.** It comes back as timers and keys go, in segments, whatever
//!   order they go in. One survivor keeps one segment.
//! - **Paused clock.** Under tokio's `test-util` everything is deterministic, and follows `pause`,
//!   `advance` and auto-advance. No timer makes virtual time run by itself, and a cancelled one
//!   does not pull it along.
//! - **Idle is idle.** With nothing armed there are no wake-ups at all. With 100,000 deadlines an
//!   hour away there are fewer than ten a second.
//!
//! # When not to use it
//!
//! - **For a handful of timers, or timers that nearly all fire.** tokio's own are as good. One task
//!   that sleeps a millisecond again and again takes
//!   <!-- figure times by-task-lone drop-in tokio -->0.9<!-- end --> times as much CPU here as
//!   with tokio: its timer is tokio's and this crate's in one.
//! - **For one owner that needs no keys.** A place in tokio-util's `DelayQueue` takes
//!   <!-- figure median memory-sleep delay-queue -->58 bytes<!-- end -->, a value of a
//!   [`DelayMap`] of 16 bytes
//!   <!-- figure median memory-delay-map tickwheel -->83 bytes<!-- end -->, and values come
//!   out of the queue with less CPU.
//! - **For an accuracy below a millisecond.** tokio's clock has that grid, and so has all that
//!   stands on it.
//! - **For another runtime's own clock.** [`global`] runs under any executor, but it goes by the
//!   system's clock. Or turn a [`wheel`] yourself.
//! - **As a cache.** A [`DelayMap`] evicts nothing by itself. A map with a limit refuses new keys,
//!   and [`pop_first`](DelayMap::pop_first) makes room by what is due first, not by what is used
//!   least.
//!
//! # The cost of the free functions
//!
//! [`sleep`], and a [`timeout`] that has to arm, ask tokio for the current runtime, which changes a
//! reference count that all its threads share. A timeout whose future is ready at once asks
//! nothing. To save the look-up, hold a [`Timer`] and call its methods, or use those of [`global`].
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `full` | all of these but `test-util` |
//! | `http-body` | [`http_body::TimeoutBody`](crate::http_body): an idle timeout between the frames of a body, and a total one |
//! | `hyper` | [`hyper`]: a [`Timer`] is a `hyper::rt::Timer`, for hyper's servers and clients and for hyper-util's pool |
//! | `io` | [`io::IdleTimeout`](crate::io): an idle timeout for sockets, and separate timeouts for reading and writing |
//! | `serde` | serde's `Serialize` and `Deserialize` for [`Metrics`], [`Snapshot`] and its parts; each field by its name, a [`Duration`] as serde has it: `{"secs":1,"nanos":0}` |
//! | `stream` | [`stream::StreamExt`](crate::stream): an idle timeout and a throttle for streams, and the ticks of an interval as a stream |
//! | `tower` | [`tower`]: timeouts for services, also by what the request says, and deadlines in headers |
//! | `tracing` | events with the target `tickwheel`: a stalled driver (`WARN`, `late_ms`), and a waker that panicked (`ERROR`) |
//! | `test-util` | re-exports tokio's `pause`, `advance` and `resume`, for tests that reach them through `time::` |
//!
//! Four of these crates have no 1.0 yet: `tower-layer` and `tower-service` 0.3, `tracing` 0.1, and
//! `futures-core` 0.3, whose `Stream` is that of a [`DelayMap`], without a feature. If one of them
//! goes to a next version, a breaking release of this crate follows.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapt;
mod clock;
mod current;
mod deadline;
mod driver;
pub mod error;
pub mod future;
pub mod global;
mod keyed;
mod runtime;
mod shard;
mod sync;
pub mod time;
mod timer;
mod waking;
mod wall_clock;
mod warn_before;
pub mod wheel;

#[doc(no_inline)]
pub use tokio::time::{Duration, Instant, MissedTickBehavior};
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
#[doc(no_inline)]
pub use tokio::time::{advance, pause, resume};

#[cfg(feature = "http-body")]
#[cfg_attr(docsrs, doc(cfg(feature = "http-body")))]
pub use crate::adapt::http_body;
#[cfg(feature = "hyper")]
#[cfg_attr(docsrs, doc(cfg(feature = "hyper")))]
pub use crate::adapt::hyper;
#[cfg(feature = "io")]
#[cfg_attr(docsrs, doc(cfg(feature = "io")))]
pub use crate::adapt::io;
#[cfg(feature = "stream")]
#[cfg_attr(docsrs, doc(cfg(feature = "stream")))]
pub use crate::adapt::stream;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub use crate::adapt::tower;
pub use crate::current::{interval, interval_at, scope, sleep, sleep_until, timeout, timeout_at};
pub use crate::deadline::{Deadline, ResetHandle};
pub use crate::future::interval::Interval;
pub use crate::future::scope::{Scope, remaining, scope_deadline};
pub use crate::future::sleep::Sleep;
pub use crate::future::timeout::Timeout;
pub use crate::keyed::deadline_map::{DeadlineMap, KeyedDeadline};
pub use crate::keyed::delay_map::{DelayMap, Expirations, Expired, WeakDelayMap};
pub use crate::keyed::table::DefaultHashBuilder;
pub use crate::timer::metrics::Metrics;
pub use crate::timer::snapshot::{LevelSnapshot, ShardSnapshot, Snapshot};
pub use crate::timer::{Builder, Timer};
pub use crate::wall_clock::{Jump, WallClock};
pub use crate::warn_before::{Stage, WarnBefore};

/// The documents of the repository. This module exists in the documentation only.
#[cfg(any(doc, doctest))]
pub mod docs {
    // In the repository these names lead to the files. Here they lead to the pages: of two
    // definitions of a name, the first one counts.
    #[doc = "[COMPARE.md]: crate::docs::compare\n[SIZING.md]: crate::docs::sizing\n"]
    #[doc = include_str!("../docs/DESIGN.md")]
    pub mod design {}

    #[doc = "[DESIGN.md]: crate::docs::design\n[COMPARE.md]: crate::docs::compare\n"]
    #[doc = "[OPERATIONS.md]: crate::docs::operations\n"]
    #[doc = include_str!("../docs/SIZING.md")]
    pub mod sizing {}

    #[doc = "[DESIGN.md]: crate::docs::design\n[MIGRATION.md]: crate::docs::migration\n"]
    #[doc = "[SIZING.md]: crate::docs::sizing\n"]
    #[doc = include_str!("../docs/COMPARE.md")]
    pub mod compare {}

    // Its examples need the crates that it moves from. `integrations/src/lib.rs` compiles them.
    #[cfg(not(doctest))]
    #[doc = "[COMPARE.md]: crate::docs::compare\n"]
    #[doc = include_str!("../docs/MIGRATION.md")]
    pub mod migration {}

    // Its recipes need the crates that they export to. `integrations/src/lib.rs` compiles them.
    #[cfg(not(doctest))]
    #[doc = "[DESIGN.md]: crate::docs::design\n[SIZING.md]: crate::docs::sizing\n"]
    #[doc = include_str!("../docs/OPERATIONS.md")]
    pub mod operations {}
}

/// The README's examples, compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
