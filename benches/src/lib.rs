//! Measures tickwheel against its peers. `cargo run --release -p tickwheel-bench` runs all of it.
//!
//! ```text
//!   main.rs     what the command line asks for
//!   conductor   runs the parts, each in a process of its own, and gathers their records
//!   parts/      the parts: each sets up contenders side by side and measures some rows
//!   harness/    how a row is measured: contenders alternately, in short samples, in tasks of a running runtime
//!   rows        what each row is, in words
//!   goals       what tickwheel sets out to reach in which row
//!   report/     tables, RESULTS.md and charts
//! ```
//!
//! # What makes a comparison fair here
//!
//! - The contenders of a row run alternately in one run, so that a noisy neighbour disturbs them
//!   alike. Ratios are taken round by round, and the median is reported with its quartiles.
//! - Each part has a process of its own, so that no contender inherits another part's threads or
//!   heap.
//! - Operations run in a task on a multi-threaded runtime, with that task's waker. The task yields
//!   every 200 µs. All that happens meanwhile on that worker counts, also the driver's work.
//! - tokio's cooperative budget is off in the measured tasks ([`tokio::task::unconstrained`]).
//!   Otherwise every timer would answer "pending" after 128 polls in one go, without being armed.
//!   Then the row would measure nothing.
//! - Durations come from a table of random ones, so that timers do not all meet in one slot.
//! - Peers are used as their users use them, at the versions that RESULTS.md states.
//! - `tokio/test-util`, which slows tokio's clock, is not in the build: [`guard`].
//!
//! # What to keep in mind when reading the figures
//!
//! - The rows of one thread leave one core to the drivers, tokio's and tickwheel's. Their work
//!   there is not in the figure. `steady` and `expire` tell its cost, because they count the CPU of
//!   the whole process.
//! - The rows on several threads are worth something only if those threads really run at once. The
//!   program tells how much of the machine others took. If that was more than a tenth, do not trust
//!   the rows.
//! - Work that a contender leaves to another thread counts if the sample waits until it is done.
//!   The exceptions say so: the figure of the Notify loop is the caller's share only.
//! - To arm and disarm one more timer, over and over, is the friendliest case for the caches.
//!   `replace` is the opposite case.

#![forbid(unsafe_code)]

pub mod conductor;
pub mod goals;
pub mod guard;
pub mod harness;
pub mod parts;
pub mod report;
pub mod rows;
pub mod settings;
