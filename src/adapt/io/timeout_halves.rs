//! A timeout for one direction: [`TimeoutReader`] and [`TimeoutWriter`], with the names and the
//! methods of the crate tokio-io-timeout.
//!
//! Invariant: each poll of the direction goes through [`bounded`], which polls the I/O first. That
//! alone knows the [`WaitTimeout`].

use std::io;
use std::io::{IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::{cancelled, timed_out};
use crate::Timer;
use crate::adapt::budget::poll_tried;
use crate::adapt::wait_timeout::WaitTimeout;
use crate::runtime::coop;

pin_project! {
    /// A reader whose reads fail with [`TimedOut`](io::ErrorKind::TimedOut) when they wait too
    /// long.
    ///
    /// See [`TimeoutStream`](super::TimeoutStream), which describes both of the two
    /// directions. Writes and seeks go through to what is within, without a
    /// timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::io::ErrorKind;
    /// use tickwheel::{Duration, io::TimeoutReader};
    /// use tokio::io::AsyncReadExt;
    ///
    /// let (reader, _silent_peer) = tokio::io::duplex(64);
    /// let mut reader = TimeoutReader::new(reader);
    /// reader.set_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(reader.read_u8().await.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct TimeoutReader<R> {
        #[pin]
        reader: R,
        countdown: WaitTimeout,
    }
}

pin_project! {
    /// A writer whose writes fail with [`TimedOut`](io::ErrorKind::TimedOut) when they wait too
    /// long.
    ///
    /// See [`TimeoutStream`](super::TimeoutStream), which describes both of the two
    /// directions. A flush and a shutdown are bounded as a write is. Reads and seeks go through
    /// to what is within, without a timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::io::ErrorKind;
    /// use tickwheel::{Duration, io::TimeoutWriter};
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let (writer, _peer_that_never_reads) = tokio::io::duplex(4);
    /// let mut writer = TimeoutWriter::new(writer);
    /// writer.set_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(writer.write_all(b"hello").await.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct TimeoutWriter<W> {
        #[pin]
        writer: W,
        countdown: WaitTimeout,
    }
}

impl<R> TimeoutReader<R> {
    /// Wraps a reader, without a timeout, on the current runtime's own timer.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    #[track_caller]
    pub fn new(reader: R) -> TimeoutReader<R> {
        TimeoutReader::with_timer(&Timer::current(), reader)
    }

    /// Wraps a reader, without a timeout, on this timer.
    pub fn with_timer(timer: &Timer, reader: R) -> TimeoutReader<R> {
        TimeoutReader {
            reader,
            countdown: WaitTimeout::new(timer),
        }
    }

    /// The timeout of a read; `None` if it has none.
    pub fn timeout(&self) -> Option<Duration> {
        self.countdown.timeout()
    }

    /// Changes the timeout of a read. A read that waits has the whole of it from now on. If it
    /// waited without a timeout, its task is woken, and it has the whole of it from that poll on.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.countdown.set_timeout(timeout);
    }

    /// As [`set_timeout`](TimeoutReader::set_timeout), for a reader that is pinned.
    pub fn set_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        self.project().countdown.set_timeout(timeout);
    }

    /// The reader within.
    pub fn get_ref(&self) -> &R {
        &self.reader
    }

    /// The reader within, to be changed.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// As [`get_mut`](TimeoutReader::get_mut), for a reader that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().reader
    }

    /// Returns the reader.
    pub fn into_inner(self) -> R {
        self.reader
    }
}

impl<W> TimeoutWriter<W> {
    /// Wraps a writer, without a timeout, on the current runtime's own timer.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    #[track_caller]
    pub fn new(writer: W) -> TimeoutWriter<W> {
        TimeoutWriter::with_timer(&Timer::current(), writer)
    }

    /// Wraps a writer, without a timeout, on this timer.
    pub fn with_timer(timer: &Timer, writer: W) -> TimeoutWriter<W> {
        TimeoutWriter {
            writer,
            countdown: WaitTimeout::new(timer),
        }
    }

    /// The timeout of a write; `None` if it has none.
    pub fn timeout(&self) -> Option<Duration> {
        self.countdown.timeout()
    }

    /// Changes the timeout of a write. A write that waits has the whole of it from now on. If it
    /// waited without a timeout, its task is woken, and it has the whole of it from that poll on.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.countdown.set_timeout(timeout);
    }

    /// As [`set_timeout`](TimeoutWriter::set_timeout), for a writer that is pinned.
    pub fn set_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        self.project().countdown.set_timeout(timeout);
    }

    /// The writer within.
    pub fn get_ref(&self) -> &W {
        &self.writer
    }

    /// The writer within, to be changed.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// As [`get_mut`](TimeoutWriter::get_mut), for a writer that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().writer
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.writer
    }
}

impl<R: AsyncRead> AsyncRead for TimeoutReader<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        bounded(this.countdown, cx, |cx| this.reader.poll_read(cx, buf))
    }
}

impl<W: AsyncRead> AsyncRead for TimeoutWriter<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_pin_mut().poll_read(cx, buf)
    }
}

impl<W: AsyncWrite> AsyncWrite for TimeoutWriter<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        bounded(this.countdown, cx, |cx| this.writer.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        bounded(this.countdown, cx, |cx| this.writer.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        bounded(this.countdown, cx, |cx| this.writer.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        bounded(this.countdown, cx, |cx| {
            this.writer.poll_write_vectored(cx, bufs)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }
}

/// A seek has no timeout.
impl<R: AsyncSeek> AsyncSeek for TimeoutReader<R> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().reader.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().reader.poll_complete(cx)
    }
}

/// A seek has no timeout.
impl<W: AsyncSeek> AsyncSeek for TimeoutWriter<W> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().writer.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().writer.poll_complete(cx)
    }
}

/// Polls the I/O, and the time if the I/O has to wait.
#[inline]
fn bounded<R>(
    countdown: &mut WaitTimeout,
    cx: &mut Context<'_>,
    poll_io: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<R>>,
) -> Poll<io::Result<R>> {
    let had_budget = coop::has_budget_remaining();
    let result = poll_io(cx);
    if result.is_pending() {
        ready!(poll_tried(had_budget, cx));
        let end = countdown.poll(cx);
        return end.map(|end| Err(end.map_or_else(cancelled, |()| timed_out())));
    }
    countdown.stop();
    result
}

/// Passes every call of `AsyncWrite` on to what is within.
macro_rules! pass_writes_on {
    ($type:ident, $field:ident) => {
        impl<W: AsyncWrite> AsyncWrite for $type<W> {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.project().$field.poll_write(cx, buf)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.project().$field.poll_flush(cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.project().$field.poll_shutdown(cx)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.project().$field.poll_write_vectored(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                self.$field.is_write_vectored()
            }
        }
    };
}

pass_writes_on!(TimeoutReader, reader);

// The `TimeoutStream`: a timeout for reading and another one for writing, with the names and the
// methods of the crate tokio-io-timeout.
//
// Invariant: it only joins a `TimeoutReader` and a `TimeoutWriter`. It knows nothing of time.

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
    ///   from then on. That is so too if the operation waited without a timeout. Its task is woken
    ///   then to poll, because only a poll can arm the timer.
    ///
    /// # Errors
    ///
    /// Those of the stream, and those [of the deadline](crate::io#errors).
    ///
    /// # Cancel safety
    ///
    /// As the stream within: nothing is buffered here.
    ///
    /// # Cost
    ///
    /// An operation that has to wait takes two short locks of the timer's shard, and one for each
    /// further poll. It allocates nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::ErrorKind;
    /// use tickwheel::{Duration, io::TimeoutStream};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (stream, _silent_peer) = tokio::io::duplex(64);
    /// let mut stream = TimeoutStream::new(stream);
    /// stream.set_read_timeout(Some(Duration::from_secs(5)));
    /// stream.set_write_timeout(Some(Duration::from_secs(1)));
    ///
    /// stream.write_all(b"request").await?;
    /// assert_eq!(stream.read_u8().await.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct TimeoutStream<S> {
        #[pin]
        stream: TimeoutReader<TimeoutWriter<S>>,
    }
}

impl<S> TimeoutStream<S> {
    /// Wraps a stream, without timeouts, on the current runtime's own timer.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    #[track_caller]
    pub fn new(stream: S) -> TimeoutStream<S> {
        TimeoutStream::with_timer(&Timer::current(), stream)
    }

    /// Wraps a stream, without timeouts, on this timer.
    pub fn with_timer(timer: &Timer, stream: S) -> TimeoutStream<S> {
        let writer = TimeoutWriter::with_timer(timer, stream);
        TimeoutStream {
            stream: TimeoutReader::with_timer(timer, writer),
        }
    }

    /// The timeout of a read; `None` if it has none.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.stream.timeout()
    }

    /// Changes the timeout of a read, as [`TimeoutReader::set_timeout`] does.
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

    /// Changes the timeout of a write, as [`TimeoutWriter::set_timeout`] does.
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

pass_writes_on!(TimeoutStream, stream);
