//! Separate timeouts for reading and writing: [`TimeoutStream`].
//!
//! | type | times out | typical use |
//! |---|---|---|
//! | [`tickwheel::io::IdleTimeout`] | when no byte was moved for its timeout, in either direction | idle connections of a server or a proxy |
//! | [`TimeoutStream`] | when one read, or one write, has waited for its timeout | a client that waits for an answer; tokio-io-timeout's users |
//!
//! The I/O is polled first, so ready I/O wins over a timeout that has elapsed, and does not poll a
//! timer. An operation that was not tried, because its task had used up its cooperative budget, is
//! tried again before its time is checked.
//!
//! # Errors
//!
//! | error | when |
//! |---|---|
//! | kind [`TimedOut`](std::io::ErrorKind::TimedOut), without a [`raw_os_error`](std::io::Error::raw_os_error) | the timeout has elapsed; the operating system's own `TimedOut` has a `raw_os_error` |
//! | kind [`Other`](std::io::ErrorKind::Other), with a [`ShutDown`](tickwheel::error::ShutDown) within | the timer's runtime has shut down |

mod timeout_stream;

pub use timeout_stream::TimeoutStream;
