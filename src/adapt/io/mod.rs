//! Timeouts for anything that reads and writes.
//!
//! | type | times out | typical use |
//! |---|---|---|
//! | [`IdleTimeout`] | when no byte was moved for its timeout, in either direction | idle connections of a server or a proxy |
//! | [`TimeoutStream`] | when one read, or one write, has waited for its timeout | a client that waits for an answer; tokio-io-timeout's users |
//!
//! The I/O is polled first, so ready I/O wins over a deadline that has passed, and pays for no poll
//! of a timer. An operation that was not tried, because its task had used up its cooperative
//! budget, is tried again before its time is checked.
//!
//! # Errors
//!
//! | error | when |
//! |---|---|
//! | kind [`TimedOut`](std::io::ErrorKind::TimedOut), without a [`raw_os_error`](std::io::Error::raw_os_error) | the time is over; the operating system's own `TimedOut` has a `raw_os_error` |
//! | kind [`Other`](std::io::ErrorKind::Other), with a [`Cancelled`] within | a [`ResetHandle`](crate::ResetHandle) cancelled the deadline, or the timer's runtime has shut down |

mod idle;
mod idle_timeout;
mod timeout;
mod waiters;

use std::io;

pub use idle_timeout::IdleTimeout;
pub use timeout::TimeoutStream;

use crate::error::{Cancelled, Elapsed};

fn error_of(end: Result<(), Cancelled>) -> io::Error {
    end.map_or_else(Into::into, |()| Elapsed::new().into())
}
