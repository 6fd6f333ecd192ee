//! A timeout for one direction: [`TimeoutHalf`], which is a [`TimeoutReader`] or a
//! [`TimeoutWriter`], with the methods of the crate tokio-io-timeout.
//!
//! Invariant: each poll goes through `poll_io`, which polls the I/O first. That alone knows the
//! [`WaitTimeout`].

use std::io;
use std::io::{IoSlice, SeekFrom};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tokio::task::coop;

use super::{cancelled, timed_out};
use crate::Timer;
use crate::adapt::budget::poll_tried;
use crate::adapt::wait_timeout::WaitTimeout;
use crate::future::access::access_within;

/// A reader whose reads fail with [`TimedOut`](io::ErrorKind::TimedOut) when they wait too long.
///
/// [`TimeoutStream`](super::TimeoutStream) describes both of the two directions. Writes and seeks
/// go through to what is within, without a timeout.
///
/// ```
/// # use tickwheel::{Duration, io::TimeoutReader};
/// # use tokio::io::AsyncReadExt;
/// # tokio_test::block_on(async { tokio::time::pause();
/// let (reader, _silent_peer) = tokio::io::duplex(64);
/// let mut reader = TimeoutReader::new(reader);
/// reader.set_timeout(Some(Duration::from_secs(5)));
/// assert_eq!(reader.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
/// # });
/// ```
pub type TimeoutReader<R> = TimeoutHalf<R, Reads>;

/// A writer whose writes fail with [`TimedOut`](io::ErrorKind::TimedOut) when they wait too long.
///
/// [`TimeoutStream`](super::TimeoutStream) describes both of the two directions. A flush and a
/// shutdown are bounded as a write is. Reads and seeks go through to what is within, without a
/// timeout.
///
/// ```
/// # use tickwheel::{Duration, io::TimeoutWriter};
/// # use tokio::io::AsyncWriteExt;
/// # tokio_test::block_on(async { tokio::time::pause();
/// let (writer, _peer_that_never_reads) = tokio::io::duplex(4);
/// let mut writer = TimeoutWriter::new(writer);
/// writer.set_timeout(Some(Duration::from_secs(5)));
/// assert_eq!(writer.write_all(b"hello").await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
/// # });
/// ```
pub type TimeoutWriter<W> = TimeoutHalf<W, Writes>;

/// Whether a half bounds reading, and not writing. The two types above alone name what does so.
pub trait Bounds {
    const READS: bool;
}

#[derive(Debug)]
pub enum Reads {}

#[derive(Debug)]
pub enum Writes {}

impl Bounds for Reads {
    const READS: bool = true;
}

impl Bounds for Writes {
    const READS: bool = false;
}

pin_project! {
    /// A [`TimeoutReader`] or a [`TimeoutWriter`].
    #[derive(Debug)]
    pub struct TimeoutHalf<T, D> {
        #[pin]
        io: T,
        timeout: WaitTimeout,
        direction: PhantomData<D>,
    }
}

impl<T, D> TimeoutHalf<T, D> {
    /// Wraps a reader or a writer, without a timeout, on the current runtime's own timer.
    /// It panics as [`Timer::current`] does.
    #[track_caller]
    pub fn new(io: T) -> Self {
        Self::new_on(&Timer::current(), io)
    }

    /// Wraps a reader or a writer, without a timeout, on this timer.
    pub fn new_on(timer: &Timer, io: T) -> Self {
        TimeoutHalf {
            io,
            timeout: WaitTimeout::new(timer),
            direction: PhantomData,
        }
    }

    /// The timeout of a read, or of a write; `None` if it has none.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout.timeout()
    }

    /// Changes the timeout. An operation that waits has the whole of it from now on. If it waited
    /// without a timeout, its task is woken, and it has the whole of it from that poll on.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout.set_timeout(timeout);
    }

    /// As [`set_timeout`](TimeoutHalf::set_timeout), for one that is pinned.
    pub fn set_timeout_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
        self.project().timeout.set_timeout(timeout);
    }

    access_within!(pinned io: T);

    /// Polls the I/O. If it has to wait and `is_bounded`, it polls the time too.
    #[inline]
    fn poll_io<R>(
        self: Pin<&mut Self>,
        is_bounded: bool,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let this = self.project();
        if !is_bounded {
            return poll(this.io, cx);
        }
        let had_budget = coop::has_budget_remaining();
        let result = poll(this.io, cx);
        if result.is_pending() {
            ready!(poll_tried(had_budget, cx));
            let end = this.timeout.poll(cx);
            return end.map(|end| Err(end.map_or_else(cancelled, |()| timed_out())));
        }
        this.timeout.stop();
        result
    }
}

impl<T: AsyncRead, D: Bounds> AsyncRead for TimeoutHalf<T, D> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_io(D::READS, cx, |io, cx| io.poll_read(cx, buf))
    }
}

impl<T: AsyncWrite, D: Bounds> AsyncWrite for TimeoutHalf<T, D> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(!D::READS, cx, |io, cx| io.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_io(!D::READS, cx, T::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_io(!D::READS, cx, T::poll_shutdown)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(!D::READS, cx, |io, cx| io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// A seek has no timeout.
impl<T: AsyncSeek, D> AsyncSeek for TimeoutHalf<T, D> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().io.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().io.poll_complete(cx)
    }
}
