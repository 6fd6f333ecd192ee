//! An idle timeout for anything that reads and writes: [`IdleTimeout`].
//!
//! It needs tokio alone. Separate timeouts for one read and one write, under the names of
//! tokio-io-timeout, are in tickwheel-util: `io::TimeoutStream`.
//!
//! The I/O is polled first, so ready I/O wins over a deadline that has passed. Before the deadline,
//! ready I/O does not pay for the poll of a timer. An operation that was not tried, because its
//! task had used up its cooperative budget, is tried again before its time is checked.
//!
//! # Errors
//!
//! | error | when |
//! |---|---|
//! | kind [`TimedOut`](std::io::ErrorKind::TimedOut), without a [`raw_os_error`](std::io::Error::raw_os_error) | the time is over; the operating system's own `TimedOut` has a `raw_os_error` |
//! | kind [`Other`](std::io::ErrorKind::Other), with a [`Cancelled`] within | a [`ResetHandle`](crate::ResetHandle) cancelled the deadline, or the timer's runtime has shut down |

mod idle;
mod idle_timeout;
mod waiters;

use std::io;

pub use idle_timeout::IdleTimeout;

use crate::error::{Cancelled, Elapsed};

fn error_of(end: Result<(), Cancelled>) -> io::Error {
    end.map_or_else(Into::into, |()| Elapsed::new().into())
}
