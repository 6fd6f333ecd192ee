//! Separate timeouts for reading and writing: [`TimeoutStream`], with the name and the methods of
//! the crate tokio-io-timeout.
//!
//! Invariant: each poll goes through `poll_io`, which polls the stream first.

use std::io;
use std::io::{IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tokio::task::coop;

use super::error_of;
use super::waiters::Direction;
use crate::Timer;
use crate::adapt::wait_timeout::WaitTimeout;
use crate::future::access::access_within;

pin_project! {
    /// A stream whose reads and writes fail with [`TimedOut`](io::ErrorKind::TimedOut) when they
    /// wait too long.
    ///
    /// It has the methods of tokio-io-timeout's, and starts without a timeout. The time of an
    /// operation begins when it first has to wait. A connection that is neither read nor written
    /// never times out: see [`IdleTimeout`](super::IdleTimeout).
    ///
    /// - **Zero** lets only operations pass that wait for less than a tick. [`Duration::MAX`] never
    ///   times out.
    /// - **Each operation has the whole time**, even after one that timed out.
    /// - **A flush and a shutdown are writes**, and time out like one.
    /// - **Dropping a read or a write that waits** does not end its time. The next operation of
    ///   that direction has the time left.
    /// - **Setting a timeout** counts in full for the next operation. It bounds one that waits too,
    ///   from then on, by waking its task.
    ///
    /// Its errors are the stream's, and those [of the deadline](super#errors). It buffers nothing,
    /// so it is as cancel safe as the stream. Only an operation that waits costs: two short locks
    /// of the timer's shard, and one for each further poll. Nothing is allocated.
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
    pub struct TimeoutStream<T> {
        #[pin]
        stream: T,
        read: WaitTimeout,
        write: WaitTimeout,
    }
}

impl<T> TimeoutStream<T> {
    /// Wraps a stream, without a timeout, on the current runtime's own timer. It panics as
    /// [`Timer::current`] does.
    #[track_caller]
    pub fn new(stream: T) -> TimeoutStream<T> {
        TimeoutStream::new_on(&Timer::current(), stream)
    }

    /// Like [`new`](TimeoutStream::new), on this timer.
    pub fn new_on(timer: &Timer, stream: T) -> TimeoutStream<T> {
        TimeoutStream {
            stream,
            read: WaitTimeout::new(timer),
            write: WaitTimeout::new(timer),
        }
    }

    access_within!(pinned stream: T);

    /// Polls the stream, and the timeout too if that has to wait.
    #[inline]
    fn poll_io<R>(
        self: Pin<&mut Self>,
        direction: Direction,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
        _: impl FnOnce(R) -> bool,
    ) -> Poll<io::Result<R>> {
        let this = self.project();
        let timeout = match direction {
            Direction::Read => this.read,
            Direction::Write => this.write,
        };
        let had_budget = coop::has_budget_remaining();
        let result = poll(this.stream, cx);
        if result.is_pending() {
            return timeout.poll(had_budget, cx).map(|end| Err(error_of(end)));
        }
        timeout.stop();
        result
    }
}

macro_rules! timeout_methods {
    ($direction:ident: $get:ident, $set:ident, $set_pinned:ident) => {
        impl<T> TimeoutStream<T> {
            /// The timeout of an operation; `None` if it has none.
            pub fn $get(&self) -> Option<Duration> {
                self.$direction.timeout()
            }

            /// Changes the timeout, also of a waiting operation, whose task is woken.
            pub fn $set(&mut self, timeout: Option<Duration>) {
                self.$direction.set_timeout(timeout);
            }

            /// The same, pinned.
            pub fn $set_pinned(self: Pin<&mut Self>, timeout: Option<Duration>) {
                self.project().$direction.set_timeout(timeout);
            }
        }
    };
}

timeout_methods!(read: read_timeout, set_read_timeout, set_read_timeout_pinned);
timeout_methods!(write: write_timeout, set_write_timeout, set_write_timeout_pinned);

reads_and_writes!(TimeoutStream);

/// A seek has no timeout.
impl<T: AsyncSeek> AsyncSeek for TimeoutStream<T> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().stream.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().stream.poll_complete(cx)
    }
}
