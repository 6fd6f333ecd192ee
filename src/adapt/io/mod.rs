//! Timeouts for anything that reads and writes: [`IdleTimeout`], and [`TimeoutStream`] for separate
//! read and write timeouts.
//!
//! Invariant: the I/O itself is polled first, and a deadline is polled only when that has to wait.
//! Ready I/O wins over a deadline that has passed, and pays for no poll of a timer. An
//! operation that was not even tried, because its task had used up its cooperative budget, is tried
//! again before it reports that its time is over. So the bytes win also where many streams are
//! polled in one task, as by a `FuturesUnordered`.
//!
//! | type | times out | typical use |
//! |---|---|---|
//! | [`IdleTimeout`] | when no byte was moved for its timeout, in either direction | idle connections of a server or a proxy |
//! | [`TimeoutStream`] | when one read, or one write, has waited for its timeout | a client that waits for an answer; tokio-io-timeout's users |
//! | [`TimeoutReader`], [`TimeoutWriter`] | the same for one direction | the halves of a socket |
//!
//! # Errors
//!
//! | error | when |
//! |---|---|
//! | kind [`TimedOut`](std::io::ErrorKind::TimedOut) | the time is over |
//! | kind [`Other`](std::io::ErrorKind::Other), with a [`Cancelled`] within | a [`ResetHandle`] cancelled the deadline, or the runtime that drives the timer has shut down |
//!
//! The operating system also reports `TimedOut`, for a peer that acknowledges nothing. Its error
//! has a [`raw_os_error`](std::io::Error::raw_os_error), and the one of this module has none.
//!
//! [`Cancelled`]: crate::error::Cancelled
//! [`ResetHandle`]: crate::ResetHandle

mod idle;
mod idle_timeout;
mod timeout_half;
mod timeout_stream;
mod waiters;

use std::io;

pub use idle_timeout::IdleTimeout;
pub use timeout_half::{TimeoutHalf, TimeoutReader, TimeoutWriter};
pub use timeout_stream::TimeoutStream;

use crate::error::{Cancelled, Elapsed};

fn timed_out() -> io::Error {
    Elapsed::new().into()
}

fn cancelled(cancelled: Cancelled) -> io::Error {
    io::Error::other(cancelled)
}
