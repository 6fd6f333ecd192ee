//! The guarantees of tickwheel: what is promised, where it is tested, [what a stall
//! is](#what-a-stall-is), and [what each promise covers](#what-each-covers).
//!
//! The files are of the repository. A test in each fails when the code breaks the promise.
//! [RESULTS.md] has the measurements.
//!
//! | promise | tested in |
//! |---|---|
//! | **Never early**, as the clock of its runtime reads it | `tests/oracle/main.rs`, `soak/tests/histories.rs`, `soak/tests/held_up.rs` |
//! | **At most one tick late**, on top of tokio's rounding and scheduling, and of a wait after a stall | `tests/oracle/main.rs`, `tests/paused/timer/metrics.rs`, `soak/tests/held_up.rs` |
//! | **Stalls do not count** against a [`Deadline`]: after a stall live connections get time to show that they are alive | `src/clock/stalls_tests.rs`, `soak/tests/stalls.rs`, `examples/keepalive-server/tests/process.rs` |
//! | **After a stall what lies unread is read first**, and wins over a timer, by the import alone, for what the spawned tasks of the timer's runtime read, unless the one that reads first awaits something else, or they need longer than 100 ms | `soak/tests/unread.rs`, `soak/tests/held_up.rs`, `examples/keepalive-server/tests/process.rs` |
//! | **Exactly one outcome**: a reset that returns `true` came before the end of the deadline, and one that returns `false` after it | `tests/loom/models/word.rs`, `soak/tests/threads.rs` |
//! | **Dropping a future of a timer cancels it**, in O(1), and the next one can use its memory at once | `src/wheel/tests/memory.rs`, `soak/tests/real/isolation.rs` |
//! | **Any duration**, from zero to [`Duration::MAX`], after a century of uptime | `soak/tests/histories.rs`, `tests/paused/parity/where_made.rs`, `tests/paused/timer/mod.rs` |
//! | **The end of the runtime is reported** to all that waits elsewhere | `soak/tests/real/shutdown/hook.rs`, `soak/tests/real/shutdown/adapters.rs`, `soak/tests/real/shutdown/abort.rs`, `soak/tests/threads.rs` |
//! | **Isolation**: a panic in a waker or a key harms no other timer | `tests/oracle/main.rs`, `soak/tests/real/isolation.rs` |
//! | **Reports are true**: no deadline is reported too early, no remaining time too long, and no deadline moves by itself | `soak/tests/stalls.rs`, `soak/tests/real/map_threads.rs` |
//! | **Memory follows what is pending, and work is bounded** | `tests/oracle/memory/mod.rs`, `src/wheel/tests/even.rs`, `src/keyed/linear_hash_table.rs` |
//! | **A paused clock** is deterministic, and without `test-util` no clock can be paused | `tests/oracle/main.rs`, `tests/paused/maps/delay_map.rs`, `soak/tests/clock.rs` |
//! | **Idle costs nothing**: with nothing armed, nothing wakes up, except once for a timer that was disarmed | `tests/cost.rs`, `tests/global.rs` |
//!
//! # What a stall is
//!
//! A stall is a time of **more than 50 ms and one tick** in which something armed on a [`Timer`] is
//! due and the driver of that timer cannot run: the process is stopped, its virtual machine is
//! migrated, its container is throttled, or tasks block all workers. The driver's own work is no
//! stall, and on a clock that is or was paused nothing is one.
//!
//! It counts from the first tick at which a timer was due, even one that was disarmed or reset
//! shortly before, because only a due timer shows the driver that it was held up. If nothing falls
//! due before its last 50 ms and tick, no stall is seen. **Make a timeout longer than the time
//! between two heartbeats by at least 50 ms and two ticks.**
//!
//! Two things follow from a stall:
//!
//! - **Tasks run first.** The driver lets the tasks run before it fires any timer, in rounds, until
//!   a round drops or resets no timer that is due. This takes some milliseconds, and 100 ms and a
//!   tick at most. If no round ends for 100 ms meanwhile, because the process is held up once more
//!   or tasks keep the workers busy for so long, it takes 100 ms and a tick longer. The rounds go
//!   through the run queue of the timer's runtime. What else polls its timers has no turn of its
//!   own in them: the future of a `block_on` on a multi-thread runtime, a `LocalSet` there, another
//!   runtime or a plain thread. It reads first if it gets a processor within these milliseconds.
//!   After a wait of some length the driver does not wait again for four times that length, so the
//!   timers of a thread that blocks again and again go on. [`Timer::global`], a timer without a
//!   [grace](timer::Builder::stall_grace) and tokio's alternative timer do not wait. A timer that
//!   fired just before the stall has fired. A task that it woke, and that comes to run after the
//!   stall, finds by the clock that its time is over.
//! - **A deadline has a grace.** A deadline that comes due during a stall, or within 100 ms after
//!   it, even if a call after the stall moved it there, is postponed by the length of the stall. It
//!   then ends 100 ms after the stall at the earliest, or its timeout after it if that is shorter,
//!   and its timeout after the stall at the latest. It gets at most one grace until it is reset. So
//!   spared deadlines keep their spacing, except those due in the first 100 ms of the stall. If the
//!   tasks are still running their rounds at the end of its grace, the deadline goes on until they
//!   are through, and at most until its timeout after the stall. A [`Deadline`], a [`DeadlineMap`],
//!   and the idle timeouts of sockets and streams have a grace, on [`Timer::global`] too, and
//!   nothing else has.
//!
//! [`stall_grace(false)`](timer::Builder::stall_grace) switches both off, for leases.
//!
//! # What each covers
//!
//! - **Never early** holds under a stalled driver and a blocked worker, and for a reset that races
//!   with the expiry. It holds for wake-ups too: a [`Sleep`] that was reset to later does not
//!   wake its task at the old deadline.
//! - **One tick** is 1 ms by default. A pass of the driver wakes all that is due. Apart from that,
//!   for each tick it moves about a thousand timers of each level, or a 32nd of those due in the
//!   next 64 ticks if that is more, because wheels cascade ahead of time. After a jump of the clock
//!   a pass may take longer.
//! - **The past** is ready at the first poll, unless a stall has made the driver late. Then an
//!   instant is left to the driver, which fires it once its runtime runs. A sleep, a timeout, an
//!   interval, or a deadline that is made or restarted, of **zero or now** waits for the next line
//!   of tokio's grid, a millisecond at most, like tokio's timers. It waits for the next tick if
//!   that is longer. So a loop of zero sleeps paces, and does not spin. A value of a [`DelayMap`],
//!   a [`ResetHandle::reset_after`] of zero and a `with_deadline` until now are due at once.
//! - **A runtime that ends** drops its own tasks while they are pending, as with tokio's
//!   timers. Waits elsewhere are woken. A [`Sleep`], a [`Timeout`] and an [`Interval`] then panic
//!   where tokio's do, and [`Sleep::try_poll`] reports the end. A [`Deadline`] resolves to
//!   [`Cancelled`](crate::error::Cancelled), and the stream of a [`DelayMap`] ends. Join threads
//!   that arm timers first: in the moment of the end tokio may panic. That is caught, unless `panic
//!   = "abort"` is set. On tokio's alternative timer the moment ends when each worker has come
//!   round. Two waits hang, as they do on tokio's timers. One is in a task that calls
//!   `block_in_place` just after its runtime was told to shut down ([tokio#6463]). The other is in
//!   a `Drop` on the thread that shuts the runtime down. In a `Drop`, wait by [`Timer::global`].
//! - **A waker that blocks** holds up the driver that wakes it: tokio's time driver, as with
//!   tokio's own timers, or the thread of [`Timer::global`].
//! - **Memory** comes back in segments of 16 to 32 KiB. One survivor keeps one segment.
//! - **A single insert, reset or removal moves a bounded number of entries**, at any number of
//!   timers. There is one exception to its time: with glibc's allocator, one drop among millions
//!   that go at once can take long, because glibc then joins the small blocks that were freed
//!   ([what to do about it](docs::operations#memory)). `drain`, `close`, `expire_all`, `for_each`
//!   and `retain` visit every key, and have no bound.
//!
//! [RESULTS.md]: https://github.com/tickwheel/tickwheel/blob/main/benches/RESULTS.md
//! [tokio#6463]: https://github.com/tokio-rs/tokio/issues/6463

#[allow(unused_imports)] // The links above lead through it.
use crate::*;
