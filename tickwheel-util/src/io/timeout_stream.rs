//! Separate timeouts for reading and writing: [`TimeoutStream`], with the name and the methods of
//! the crate tokio-io-timeout.
//!
//! Invariant: each poll but a seek's polls the stream first, and ends by `within`.

use std::io;
use std::io::{IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickwheel::Timer;
use tickwheel::error::Elapsed;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tokio::task::coop;

use crate::access::access_within;
use crate::wait_timeout::WaitTimeout;

pin_project! {
    /// A stream whose reads and writes fail with [`TimedOut`](io::ErrorKind::TimedOut) when they
    /// wait too long.
    ///
    /// It has the methods of tokio-io-timeout's type, and starts without a timeout. The time of an
    /// operation begins when it first has to wait. A connection that is neither read nor written
    /// never times out: see [`tickwheel::io::IdleTimeout`].
    ///
    /// - **Zero** lets only operations pass that wait for less than a tick. [`Duration::MAX`] never
    ///   times out.
    /// - **Each operation has the whole time**, even after one that timed out, but not after one
    ///   that was dropped.
    /// - **A flush and a shutdown are writes**, and time out like one.
    /// - **Dropping a read or a write that waits** does not end its time. The next operation of
    ///   that direction has the time left.
    /// - **Setting a timeout** counts in full for the next operation. It bounds one that waits too,
    ///   from then on, by waking its task.
    ///
    /// Its errors are the stream's, and those [of the deadline](super#errors). It buffers nothing,
    /// so it is as cancel safe as the stream. Only an operation that waits costs: two short locks
    /// of the timer's shard, to arm and to disarm. Further polls by one task take none. Nothing is
    /// allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
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
    pub struct TimeoutStream<T> {
        #[pin]
        stream: T,
        read: WaitTimeout,
        write: WaitTimeout,
    }
}

impl<T> TimeoutStream<T> {
    /// Wraps a stream, without a timeout, on the current runtime's own timer.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// # tokio_test::block_on(async {
    /// let (stream, mut peer) = tokio::io::duplex(64);
    /// let mut stream = TimeoutStream::new(stream);
    /// stream.set_read_timeout(Some(Duration::from_secs(5)));
    /// peer.write_u8(7).await?;
    /// assert_eq!(stream.read_u8().await?, 7);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn new(stream: T) -> TimeoutStream<T> {
        TimeoutStream::new_on(&Timer::current(), stream)
    }

    /// Like [`new`](TimeoutStream::new), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::executor::block_on;
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::io::TimeoutStream;
    /// use tokio::io::AsyncReadExt;
    ///
    /// // Under an executor that is not tokio's.
    /// let (stream, _silent_peer) = tokio::io::duplex(64);
    /// let mut stream = TimeoutStream::new_on(Timer::global(), stream);
    /// stream.set_read_timeout(Some(Duration::from_millis(1)));
    /// assert!(block_on(stream.read_u8()).is_err());
    /// ```
    pub fn new_on(timer: &Timer, stream: T) -> TimeoutStream<T> {
        TimeoutStream {
            stream,
            read: WaitTimeout::new(timer),
            write: WaitTimeout::new(timer),
        }
    }

    /// The timeout of each read, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
    ///
    /// # tokio_test::block_on(async {
    /// let mut stream = TimeoutStream::new(tokio::io::empty());
    /// assert_eq!(stream.read_timeout(), None);
    /// stream.set_read_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(stream.read_timeout(), Some(Duration::from_secs(5)));
    /// # });
    /// ```
    pub fn read_timeout(&self) -> Option<Duration> {
        self.read.timeout()
    }

    /// Sets the timeout of a read. `None` takes it away.
    ///
    /// It counts in full for the next operation. One that waits has it from now on: its task is
    /// woken.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::ErrorKind;
    ///
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
    /// use tokio::io::AsyncReadExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (stream, _silent_peer) = tokio::io::duplex(64);
    /// let mut stream = TimeoutStream::new(stream);
    /// stream.set_read_timeout(Some(Duration::from_secs(5)));
    /// assert_eq!(stream.read_u8().await.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # });
    /// ```
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.read.set_timeout(timeout);
    }

    /// Like [`set_read_timeout`](TimeoutStream::set_read_timeout), where the stream is pinned.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
    /// use tokio::io::AsyncReadExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (stream, _silent_peer) = tokio::io::duplex(64);
    /// let mut stream = pin!(TimeoutStream::new(stream));
    /// stream.as_mut().set_read_timeout_pinned(Some(Duration::from_secs(5)));
    /// assert!(stream.read_u8().await.is_err());
    /// # });
    /// ```
    pub fn set_read_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        self.project().read.set_timeout(timeout);
    }

    /// The timeout of each write, flush or shutdown, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
    ///
    /// # tokio_test::block_on(async {
    /// let mut stream = TimeoutStream::new(tokio::io::empty());
    /// stream.set_write_timeout(Some(Duration::from_secs(10)));
    /// assert_eq!(stream.write_timeout(), Some(Duration::from_secs(10)));
    /// assert_eq!(stream.read_timeout(), None);
    /// # });
    /// ```
    pub fn write_timeout(&self) -> Option<Duration> {
        self.write.timeout()
    }

    /// Sets the timeout of a write, a flush or a shutdown. `None` takes it away.
    ///
    /// It counts in full for the next operation. One that waits has it from now on: its task is
    /// woken.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::ErrorKind;
    ///
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
    /// use tokio::io::AsyncWriteExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (stream, _peer_that_reads_nothing) = tokio::io::duplex(4);
    /// let mut stream = TimeoutStream::new(stream);
    /// stream.set_write_timeout(Some(Duration::from_secs(10)));
    /// let error = stream.write_all(b"more than fits").await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::TimedOut);
    /// # });
    /// ```
    pub fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.write.set_timeout(timeout);
    }

    /// Like [`set_write_timeout`](TimeoutStream::set_write_timeout), where the stream is pinned.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// use tickwheel::Duration;
    /// use tickwheel_util::io::TimeoutStream;
    /// use tokio::io::AsyncWriteExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (stream, _peer_that_reads_nothing) = tokio::io::duplex(4);
    /// let mut stream = pin!(TimeoutStream::new(stream));
    /// stream.as_mut().set_write_timeout_pinned(Some(Duration::from_secs(10)));
    /// assert!(stream.write_all(b"more than fits").await.is_err());
    /// # });
    /// ```
    pub fn set_write_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        self.project().write.set_timeout(timeout);
    }

    access_within!(pinned stream: T);
}

/// Ends a poll of the stream. A result ends the time of the operation, and one that has to wait
/// fails once its timeout has elapsed.
#[inline]
fn within<R>(
    timeout: &mut WaitTimeout,
    had_budget: bool,
    cx: &mut Context<'_>,
    result: Poll<io::Result<R>>,
) -> Poll<io::Result<R>> {
    if result.is_ready() {
        timeout.stop();
        return result;
    }
    let end = ready!(timeout.poll(had_budget, cx));
    let error = end.map_or_else(Into::into, |()| Elapsed::new().into());
    Poll::Ready(Err(error))
}

impl<T: AsyncRead> AsyncRead for TimeoutStream<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let had_budget = coop::has_budget_remaining();
        let this = self.project();
        let result = this.stream.poll_read(cx, buf);
        within(this.read, had_budget, cx, result)
    }
}

impl<T: AsyncWrite> AsyncWrite for TimeoutStream<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let had_budget = coop::has_budget_remaining();
        let this = self.project();
        let result = this.stream.poll_write(cx, buf);
        within(this.write, had_budget, cx, result)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let had_budget = coop::has_budget_remaining();
        let this = self.project();
        let result = this.stream.poll_flush(cx);
        within(this.write, had_budget, cx, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let had_budget = coop::has_budget_remaining();
        let this = self.project();
        let result = this.stream.poll_shutdown(cx);
        within(this.write, had_budget, cx, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let had_budget = coop::has_budget_remaining();
        let this = self.project();
        let result = this.stream.poll_write_vectored(cx, bufs);
        within(this.write, had_budget, cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Seeks are not bounded.
impl<T: AsyncSeek> AsyncSeek for TimeoutStream<T> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().stream.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().stream.poll_complete(cx)
    }
}
