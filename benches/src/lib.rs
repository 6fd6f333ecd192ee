//! Measures tickwheel against its peers. `cargo run --release -p tickwheel-bench` runs all of it.
//!
//! ```text
//!   main.rs     what the command line asks for
//!   conductor   runs the parts, each in a process of its own, and gathers their records
//!   part        what a part is, and the names of the contenders
//!   parts/      the parts: each sets up contenders side by side and measures some rows
//!   idioms      loops as users write them, with tokio's timers and with ours
//!   harness/    how a row is measured: contenders in turn, in short samples, in tasks of a running runtime
//!   rows        what each row is, in words
//!   results     what comes out of a run, and the ratios between its records
//!   limits      what a row may not fall below, in limits.txt
//!   losses      the rows in which a peer is ahead
//!   pattern     which rows a line of that file is about
//!   report      RESULTS.md, whose words are in page.md, and README's table
//!   stalls      README's picture of a stall
//! ```
//!
//! # What makes a comparison fair here
//!
//! - The contenders of a row take turns in one run, so that a noisy neighbour disturbs them alike;
//!   ratios are taken round by round, and the median is reported with its quartiles.
//! - Each part has a process of its own, so that no contender inherits another part's threads or
//!   heap.
//! - Operations run in a task of a running runtime, with that task's waker, and the task yields
//!   every 200 µs. All that happens meanwhile on that worker, the driver's work included, counts.
//! - tokio's cooperative budget is off in the measured tasks ([`tokio::task::unconstrained`]):
//!   after 128 polls in one go every timer would else answer "pending" without being armed, and the
//!   row would measure nothing.
//! - The idioms are whole programs, as users write them: no budget is off there, and the CPU is the
//!   process's, with the channel's in it. On several workers there are more tasks than workers, as
//!   in a server.
//! - The durations of single operations come from a table of random ones, so that timers do not all
//!   fall into one slot.
//! - A server always has something armed. So in each turn one sleep stands next to the contender,
//!   on its own timer, unless its part says otherwise: [`harness::Standing`]. It is due after 25 s,
//!   and the timers of a row after 30 s or more, unless the row fires them. tokio wakes its driver
//!   for a timer that is due before all others, and what that costs is in rows of its own:
//!   [`idioms::ALONE`].
//! - Each part says in which state it has its contenders, and what in it is unlike a server:
//!   [`part::Part::state`], which `--list` prints.
//! - A row that needs another build of the peer, or of this crate, is in a program that is built
//!   for it, with all contenders of the row: [`part::How::Built`].
//! - Peers are used as their users use them, at the versions that RESULTS.md states. tokio has the
//!   locks of `parking_lot`, which its feature `full` turns on.
//! - `tokio/test-util`, which slows tokio's clock, is not in the build. The program refuses it.
//! - Where whole servers and clients are compared, each contender is set up again for each of its
//!   turns, with a runtime of its own: [`harness::load()`]. The timers that are compared have one
//!   thread, and its CPU alone counts. The other side of the sockets has another.
//!
//! # What to keep in mind when reading the figures
//!
//! - The one-thread rows leave one core to the drivers, tokio's and tickwheel's, whose work there
//!   is not in the figure. The rows of the current thread do not. What it costs is in `program` and
//!   `expire`, which count the CPU of the whole process.
//! - The rows on several threads are worth something only if those threads really run at once: run
//!   them on a machine that has nothing else to do.
//! - In the rows `hyper` and `proxy` the timers are a small share of a request: most of it is
//!   system calls. What others take of the machine moves the requests a second first. The CPU of a
//!   request moves far less.
//! - One thread has those timers, so they show no contention for a lock. `meet`, `pending-2`,
//!   `pending-4` and the idioms on several workers do.
//! - A ratio whose quartiles lie on both sides of 1 says nothing, and is printed as «equal».
//! - How late timers are has a table of its own, from the part `lateness`. A waker notes there when
//!   it is woken. So the table shows the timers alone, and not the wait for a worker. Another
//!   program on the machine shows in the 99 % and in the latest first.
//! - Arm and disarm of one more timer, over and over, is the friendliest case for the caches.
//!   `replace` is the other end, and `resets` has both.

pub mod conductor;
pub mod harness;
pub mod idioms;
pub mod limits;
pub mod losses;
pub mod part;
pub mod parts;
pub mod pattern;
pub mod report;
pub mod results;
pub mod rows;
pub mod settings;
pub mod stalls;
