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

/// Reads and writes by the `poll_io` of a wrapper, which is told whether a result moved a byte.
macro_rules! reads_and_writes {
    ($wrapper:ident) => {
        impl<T: AsyncRead> AsyncRead for $wrapper<T> {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let before = buf.filled().len();
                let poll = |stream: Pin<&mut T>, cx: &mut Context<'_>| {
                    let result = stream.poll_read(cx, buf);
                    result.map_ok(|()| buf.filled().len() > before)
                };
                let result = self.poll_io(Direction::Read, cx, poll, |has_moved| has_moved);
                result.map_ok(|_| ())
            }
        }

        impl<T: AsyncWrite> AsyncWrite for $wrapper<T> {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                let poll = |stream: Pin<&mut T>, cx: &mut Context<'_>| stream.poll_write(cx, buf);
                self.poll_io(Direction::Write, cx, poll, |written| written > 0)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_io(Direction::Write, cx, T::poll_flush, |()| false)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_io(Direction::Write, cx, T::poll_shutdown, |()| false)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let poll = |stream: Pin<&mut T>, cx: &mut Context<'_>| {
                    stream.poll_write_vectored(cx, bufs)
                };
                self.poll_io(Direction::Write, cx, poll, |written| written > 0)
            }

            fn is_write_vectored(&self) -> bool {
                self.stream.is_write_vectored()
            }
        }
    };
}

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
