//! The [`IdleTimeout`]: one idle deadline for both directions of a stream.
//!
//! Invariant: each poll polls the stream first, and passes the result to [`Idle::after`]. Only
//! `Idle` knows the deadline.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

use super::idle::Idle;
use super::waiters::Direction;
use crate::future::access::access_within;
use crate::{ResetHandle, Timer};

pin_project! {
    /// A stream that fails with [`TimedOut`](io::ErrorKind::TimedOut) when it was idle for too
    /// long. For a stream of items see tickwheel-util's `stream::IdleTimeout`.
    ///
    /// Every byte moved in either direction pushes one [`Deadline`](crate::Deadline) back. It runs
    /// from the construction: call [`restart`](IdleTimeout::restart) if the stream is first used
    /// later.
    ///
    /// - **Ready I/O wins** over a deadline that has passed, and its bytes reset the deadline.
    /// - **Only bytes count.** The end of the stream, an error, an empty write, a flush and a
    ///   shutdown push nothing back.
    /// - **Nothing hangs.** Each operation that has to wait fails when the deadline expires, in
    ///   both halves of [`tokio::io::split`], even in two tasks.
    /// - **A stall does not count**: a process that resumes first reads the bytes that arrived.
    /// - **Zero** lets only operations pass that wait for less than a tick. [`Duration::MAX`] never
    ///   times out.
    ///
    /// # Where to put it
    ///
    /// - **Around both sides of a relay.** With one side wrapped,
    ///   [`copy_bidirectional`](tokio::io::copy_bidirectional) may wait for the other one alone,
    ///   and so for ever.
    /// - **Not around the connections of a server whose answers take longer.** No byte moves while
    ///   hyper or axum waits for a handler. Bound the heads and the bodies instead:
    ///   `header_read_timeout` of hyper, and tickwheel-util's `http_body::TimeoutBody`.
    /// - **Not around the socket of an HTTP/2 client whose reader works.** No byte moves while the
    ///   windows are full. Bound each wait in its place: `timeout(d, body.frame())`.
    /// - **Around the reading half of a server that only pushes**, to clients that send heartbeats
    ///   or pongs. What is written into the kernel's buffer counts as moved. So around the whole
    ///   socket, a peer that has gone is found only when that buffer is full. Call `into_split`
    ///   first and wrap the half that reads, or let each read reset a
    ///   [`Deadline`](crate::Deadline).
    ///
    /// # After the time is over
    ///
    /// | event | what follows |
    /// |---|---|
    /// | an operation waits when the time is over | its direction fails once, unless a byte is moved before its next poll |
    /// | a waiting operation was dropped, as by a failed [`copy_bidirectional`](tokio::io::copy_bidirectional) | the next one of that direction may fail at once in its place; [`restart`](IdleTimeout::restart) prevents that |
    /// | both have failed | the stream is usable again, for a goodbye; nothing is armed, and [`reset`](ResetHandle::reset) returns `false` |
    /// | the goodbye moves a byte, or has to wait | it has the whole timeout from then on |
    ///
    /// # The handle
    ///
    /// Any task may act on the deadline through a [`handle`](IdleTimeout::handle):
    ///
    /// | call | effect on the stream |
    /// |---|---|
    /// | `reset()` | while the deadline is pending, as if a byte was moved, but an error that the other half has yet to see stays: a byte or a `restart` clears that |
    /// | `expire()` | as if it was idle for too long; bytes that are ready still win |
    /// | `cancel()` | everything that has to wait fails with [`Cancelled`](crate::error::Cancelled), until [`restart`](IdleTimeout::restart) |
    /// | `set_timeout(..)` | the new timeout counts from the next byte moved; a deadline beyond the new timeout from now moves there, so a shorter one takes effect at once; one that has expired stays so until the next byte moved, the next wait after its report, or a [`restart`](IdleTimeout::restart) |
    /// | `set_timeout(Duration::MAX)`, then `reset()` | it never times out |
    ///
    /// # Errors, cancel safety and cost
    ///
    /// Its errors are the stream's, and those [of the deadline](crate::io#errors). It buffers
    /// nothing, so it is as cancel safe as the stream. Dropping a read or a write does not change
    /// the deadline. A poll that moves bytes adds one [`reset`](ResetHandle::reset), which takes no
    /// lock before the deadline. One that has to wait adds a lock that is nearly always free. A
    /// poll allocates at most for a [`Cancelled`](crate::error::Cancelled) that it returns, or when
    /// it arms the deadline again.
    ///
    /// ```
    /// use tickwheel::{Duration, io::IdleTimeout};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (server, _client) = tokio::io::duplex(64);
    /// let mut server = IdleTimeout::new(server, Duration::from_secs(60));
    /// let silence = server.read_u8().await.unwrap_err();
    /// assert_eq!(silence.kind(), std::io::ErrorKind::TimedOut);
    /// server.write_all(b"bye").await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[derive(Debug)]
    pub struct IdleTimeout<T> {
        #[pin]
        stream: T,
        idle: Idle,
    }
}

impl<T> IdleTimeout<T> {
    /// Wraps a stream, on the current runtime's own timer. The idle time begins now.
    ///
    /// # Panics
    ///
    /// Where [`Timer::current`] does: outside a tokio runtime, and in one without a time driver.
    ///
    /// ```
    /// use tickwheel::{Duration, io::IdleTimeout};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let minute = Duration::from_secs(60);
    /// let (client, server) = tokio::io::duplex(64);
    /// // A relay closes if both sides are silent. Here the client sends, and the server listens.
    /// let mut sides = [client, server].map(|side| IdleTimeout::new(side, minute));
    /// let [client, server] = &mut sides;
    /// client.write_all(b"ping").await?;
    /// assert_eq!(server.read(&mut [0; 64]).await?, 4);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn new(stream: T, timeout: Duration) -> IdleTimeout<T> {
        IdleTimeout::new_on(&Timer::current(), stream, timeout)
    }

    /// Like [`new`](IdleTimeout::new), on this timer, which saves a look-up.
    ///
    /// ```
    /// use tickwheel::{Duration, Timer, io::IdleTimeout};
    ///
    /// # tokio_test::block_on(async {
    /// let timer = Timer::current(); // kept by the server
    /// let (connection, _client) = tokio::io::duplex(64);
    /// let connection = IdleTimeout::new_on(&timer, connection, Duration::from_secs(60));
    /// assert!(connection.handle().is_pending());
    /// # });
    /// ```
    pub fn new_on(timer: &Timer, stream: T, timeout: Duration) -> IdleTimeout<T> {
        IdleTimeout {
            stream,
            idle: Idle::new(timer, timeout),
        }
    }

    /// Returns a handle to the deadline: [the effect of its calls](IdleTimeout#the-handle).
    ///
    /// ```
    /// # use tickwheel::{Duration, io::IdleTimeout};
    /// # tokio_test::block_on(async {
    /// # let (connection, _client) = tokio::io::duplex(64);
    /// let connection = IdleTimeout::new(connection, Duration::from_secs(60));
    /// let handle = connection.handle();
    /// // The peer has asked for a shorter keepalive.
    /// assert!(handle.set_timeout(Duration::from_secs(20)));
    /// assert_eq!(handle.timeout(), Duration::from_secs(20));
    /// # });
    /// ```
    pub fn handle(&self) -> ResetHandle {
        self.idle.handle().clone()
    }

    /// Restarts the deadline: the whole timeout counts from now. This clears an expiry that was not
    /// reported yet, and undoes a [`cancel`](ResetHandle::cancel). After the timer's runtime has
    /// shut down it does nothing.
    ///
    /// ```
    /// # use tickwheel::{Duration, io::IdleTimeout};
    /// use tokio::io::AsyncReadExt;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let (pooled, _server) = tokio::io::duplex(64);
    /// let mut pooled = IdleTimeout::new(pooled, Duration::from_secs(60));
    /// assert!(pooled.read_u8().await.is_err()); // nobody has used it for a minute
    /// pooled.restart(); // it is taken from the pool
    /// assert!(pooled.handle().is_pending());
    /// # });
    /// ```
    pub fn restart(&mut self) {
        self.idle.restart();
    }

    access_within!(pinned stream: T);

    /// Polls the stream, and then the deadline. `has_moved`: whether a result moved a byte.
    #[inline]
    fn poll_io<R: Copy>(
        self: Pin<&mut Self>,
        direction: Direction,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
        has_moved: impl FnOnce(R) -> bool,
    ) -> Poll<io::Result<R>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        let result = poll(this.stream, cx);
        let idle = this.idle;
        idle.after(direction, had_budget, cx, result, has_moved)
    }
}

impl<T: AsyncRead> AsyncRead for IdleTimeout<T> {
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

impl<T: AsyncWrite> AsyncWrite for IdleTimeout<T> {
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
        let poll = |stream: Pin<&mut T>, cx: &mut Context<'_>| stream.poll_write_vectored(cx, bufs);
        self.poll_io(Direction::Write, cx, poll, |written| written > 0)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
