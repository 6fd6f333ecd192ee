//! The promises of tickwheel, in full. Each promise has tests that fail when the code is broken.
//!
//! - **Never early.** No timer completes before its deadline, as the clock of its runtime reads it.
//!   This holds under a stalled driver, a blocked worker, an idle runtime and a paused clock. It
//!   holds for offsets below a millisecond, and for a reset that races with the expiry.
//! - **Late by at most one tick**, which is 1 ms by default, at every load. tokio's rounding to a
//!   millisecond and the scheduling of tasks come on top.
//! - **Stalls do not count.** A process that is stopped for some seconds closes none of the live
//!   connections whose time passed meanwhile, because their heartbeats lie unread. A stall is more
//!   than 50 ms and one tick in which the driver cannot run while something is due. The driver's
//!   own work is none. A [`Deadline`] that passes within it ends later by its length, at least
//!   100 ms and at most its timeout after the stall, once between two resets. So such deadlines end
//!   in their order, as far apart as they were due. One that was last reset before the end of the
//!   stall and is due soon after is moved too, by less the later it is due. All this holds for a
//!   [`DeadlineMap`] and an idle timeout for sockets too, but not for a [`Sleep`], a [`Timeout`],
//!   an [`Interval`], a [`DelayMap`] or a [`DelayQueue`]. [`Builder::stall_grace`](crate::timer::Builder::stall_grace) switches it off,
//!   for leases.
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
//!   [`Cancelled`](crate::error::Cancelled), and the stream of a [`DelayMap`] ends. The adapters
//!   for other crates do not panic either: each reports an error, or goes on without the timer, as
//!   its page says. Nothing hangs. A thread outside of the runtime that arms a timer in the very
//!   moment in which the runtime ends may meet a panic of tokio's. It is caught here, but a panic
//!   hook sees it, and with `panic = "abort"` it ends the process. So join such threads before the
//!   runtime is dropped.
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

#[allow(unused_imports)]
use crate::*;
