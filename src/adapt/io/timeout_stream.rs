//! The [`TimeoutStream`]: a timeout for reading and another one for writing, with the names and the
//! methods of the crate tokio-io-timeout.
//!
//! Invariant: it only joins a [`TimeoutReader`] and a [`TimeoutWriter`]. It knows nothing of time.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{TimeoutReader, TimeoutWriter};
use crate::Timer;

pin_project! {
    /// A stream whose reads and writes fail with [`TimedOut`](io::ErrorKind::TimedOut) when they
    /// wait too long.
    ///
    /// It has the names and the methods of tokio-io-timeout's, and starts without a timeout. The
    /// time of an operation begins when it first has to wait, and ends with the operation. A
    /// connection on which nobody reads or writes never times out: for that there is
    /// [`IdleTimeout`](super::IdleTimeout).
    ///
    /// - **The I/O is polled first.** What is ready wins, even when the time is over.
    /// - **Armed only while it waits.** An operation that need not wait costs nothing. A timeout of
    ///   zero lets pass only such operations, and [`Duration::MAX`] never times out.
    /// - **A new operation has the whole time again**, also after one that timed out. The timeouts
    ///   of a blocking socket do so too.
    /// - **A flush and a shutdown are writes.** One that hangs times out.
    /// - **A read or write that is dropped while it waits** does not end its time, because a stream
    ///   cannot see that. The next one of its direction has what is left. To set the timeout again
    ///   starts anew.
    /// - **A timeout that is set while an operation waits** bounds it, and the whole of it counts
    ///   from then on. If the operation waited without a timeout, its task is woken to poll,
    ///   because only a poll can arm the timer.
    ///
    /// Its errors are those of the stream, and those [of the deadline](crate::io#errors). It is as
    /// cancel safe as the stream within: nothing is buffered here. An operation that has to wait
    /// takes two short locks of the timer's shard, and one for each further poll. It allocates
    /// nothing.
    ///
    /// ```
    /// use tickwheel::{Duration, io::TimeoutStream};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (stream, _silent_peer) = tokio::io::duplex(64);
    /// let mut stream = TimeoutStream::new(stream);
    /// stream.set_read_timeout(Some(Duration::from_secs(5)));
    /// stream.write_all(b"request").await?;
    /// assert_eq!(stream.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[derive(Debug)]
    pub struct TimeoutStream<S> {
        #[pin]
        stream: TimeoutReader<TimeoutWriter<S>>,
    }
}

impl<S> TimeoutStream<S> {
    /// Wraps a stream, without timeouts, on the current runtime's own timer.
    /// It panics as [`Timer::current`] does.
    #[track_caller]
    pub fn new(stream: S) -> TimeoutStream<S> {
        TimeoutStream::new_on(&Timer::current(), stream)
    }

    /// Wraps a stream, without timeouts, on this timer.
    pub fn new_on(timer: &Timer, stream: S) -> TimeoutStream<S> {
        let writer = TimeoutWriter::new_on(timer, stream);
        TimeoutStream {
            stream: TimeoutReader::new_on(timer, writer),
        }
    }

    /// The timeout of a read; `None` if it has none.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.stream.timeout()
    }

    /// Changes the timeout of a read, as [`super::TimeoutHalf::set_timeout`] does.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.stream.set_timeout(timeout);
    }

    /// As [`set_read_timeout`](TimeoutStream::set_read_timeout), for a stream that is pinned.
    pub fn set_read_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        self.project().stream.set_timeout_pinned(timeout);
    }

    /// The timeout of a write; `None` if it has none.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.stream.get_ref().timeout()
    }

    /// As [`set_read_timeout`](TimeoutStream::set_read_timeout), for a write.
    pub fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.stream.get_mut().set_timeout(timeout);
    }

    /// As [`set_write_timeout`](TimeoutStream::set_write_timeout), for a stream that is pinned.
    pub fn set_write_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        let writer = self.project().stream.get_pin_mut();
        writer.set_timeout_pinned(timeout);
    }

    /// The stream within.
    pub fn get_ref(&self) -> &S {
        self.stream.get_ref().get_ref()
    }

    /// The stream within, to be changed.
    pub fn get_mut(&mut self) -> &mut S {
        self.stream.get_mut().get_mut()
    }

    /// As [`get_mut`](TimeoutStream::get_mut), for a stream that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream.get_pin_mut().get_pin_mut()
    }

    /// Returns the stream.
    pub fn into_inner(self) -> S {
        self.stream.into_inner().into_inner()
    }
}

impl<S: AsyncRead> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().stream.poll_read(cx, buf)
    }
}

impl<S: AsyncWrite> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
