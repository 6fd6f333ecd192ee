//! The [`IdleTimeout`]: one idle deadline for both directions of a stream.
//!
//! Invariant: each poll polls the stream first, and gives what it was given to [`Idle::after`].
//! That alone knows the deadline.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{cancelled, poll_deadline, timed_out};
use crate::adapt::budget::poll_tried;
use crate::runtime::coop;
use crate::waking::wake;
use crate::{Deadline, ResetHandle, Timer};

pin_project! {
    /// A stream that fails with [`TimedOut`](io::ErrorKind::TimedOut) when it was idle for too
    /// long.
    ///
    /// It is for bytes. For a stream of items see `stream::IdleTimeout`.
    ///
    /// It wraps an [`AsyncRead`], an [`AsyncWrite`], or a type that is both. The two directions
    /// share one deadline. Every byte moved, in either direction, pushes it back. The deadline runs
    /// from the making of the stream on. If the stream is first used later than that, call
    /// [`restart`](IdleTimeout::restart) then.
    ///
    /// - **The I/O is polled first.** What is ready wins, also over a deadline that has passed: the
    ///   bytes may have come in time while the process was stalled. They start the deadline anew.
    /// - **Only bytes count.** The end of the stream, an error, an empty write, a flush and a
    ///   shutdown push nothing back.
    /// - **Nothing hangs.** A read, write, flush or shutdown that has to wait fails when the
    ///   deadline expires. Both halves of [`tokio::io::split`] do, also in two tasks.
    /// - **Never early**, and late as a [`Deadline`](crate::Deadline) is. A stall does not count:
    ///   the bytes that lie unread when a stopped process goes on are read first.
    /// - **Zero** lets only those operations pass that need not wait. [`Duration::MAX`] never times
    ///   out.
    ///
    /// # After the time is over
    ///
    /// Each direction that had an operation waiting fails once, unless a byte is moved before it
    /// is polled again. After that the stream is as usable as before, for a goodbye: a protocol's
    /// last message, or a shutdown. The goodbye has the whole timeout again, from its first byte
    /// moved or from when it first has to wait. Until then nothing is armed, and
    /// [`reset`](ResetHandle::reset) of the handle answers `false`.
    ///
    /// An operation that was dropped while it waited counts as one that waits, because a stream
    /// cannot see the drop. So the first read after a failed [`copy_bidirectional`] may fail at
    /// once, with the error that was meant for the copy's own read. A byte moved clears that error,
    /// and a `reset()` of the handle does not. Before a goodbye that begins with a read, call
    /// [`restart`](IdleTimeout::restart).
    ///
    /// [`copy_bidirectional`]: tokio::io::copy_bidirectional
    ///
    /// # The handle
    ///
    /// Any task may act on the deadline through a [`handle`](IdleTimeout::handle):
    ///
    /// | call | what the stream does |
    /// |---|---|
    /// | `reset()` | as if a byte was moved |
    /// | `expire()` | as if it was idle for too long; bytes that are ready at once win over that too |
    /// | `cancel()` | everything that has to wait fails with [`Cancelled`](crate::error::Cancelled), until [`restart`](IdleTimeout::restart) |
    /// | `set_timeout(Duration::MAX)` | it never times out |
    ///
    /// # Errors
    ///
    /// Those of the stream, and those [of the deadline](crate::io#errors). When the runtime that
    /// drives the timer has shut down, what has to wait fails. It neither hangs nor panics.
    ///
    /// # Cancel safety
    ///
    /// As the stream within: nothing is buffered here. The deadline does not change when a read or
    /// a write is dropped.
    ///
    /// # Cost
    ///
    /// A poll that moves bytes adds one [`reset`](ResetHandle::reset), which takes no lock. A poll
    /// that has to wait adds one lock that is nearly always free, to keep the waker. The
    /// timer itself is polled only at first, and after it has woken. No poll allocates.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::ErrorKind;
    /// use tickwheel::{Duration, io::IdleTimeout};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (server, mut client) = tokio::io::duplex(64);
    /// let mut server = IdleTimeout::new(server, Duration::from_secs(60));
    ///
    /// client.write_all(b"ping").await?;
    /// let mut request = [0; 4];
    /// server.read_exact(&mut request).await?;
    ///
    /// let silence = server.read(&mut request).await.unwrap_err();
    /// assert_eq!(silence.kind(), ErrorKind::TimedOut);
    /// server.write_all(b"bye").await?;
    /// server.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct IdleTimeout<T> {
        #[pin]
        stream: T,
        idle: Idle,
    }
}

impl<T> IdleTimeout<T> {
    /// Gives `stream` an idle timeout, on the current runtime's own timer.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    #[track_caller]
    pub fn new(stream: T, timeout: Duration) -> IdleTimeout<T> {
        IdleTimeout::with_timer(&Timer::current(), stream, timeout)
    }

    /// Gives `stream` an idle timeout, on this timer.
    ///
    /// A server that holds a [`Timer`] saves the look-up of the runtime's own for each connection.
    pub fn with_timer(timer: &Timer, stream: T, timeout: Duration) -> IdleTimeout<T> {
        IdleTimeout {
            stream,
            idle: Idle::new(timer, timeout),
        }
    }

    /// A handle to the deadline, for any task. See [above](IdleTimeout#the-handle) for what its
    /// calls do here.
    pub fn handle(&self) -> ResetHandle {
        self.idle.handle().clone()
    }

    /// The timeout.
    pub fn timeout(&self) -> Duration {
        self.idle.handle().timeout()
    }

    /// Changes the timeout, which counts from the last byte moved.
    ///
    /// If that makes the deadline due already, it expires at once. A deadline that has expired
    /// stays so: the new timeout holds from the next byte moved, or from a
    /// [`restart`](IdleTimeout::restart).
    pub fn set_timeout(&self, timeout: Duration) {
        self.idle.handle().set_timeout(timeout);
    }

    /// Lets the whole timeout count from now on, whatever happened before.
    ///
    /// It clears an expiry that was not reported yet, to one direction or to both. It undoes a
    /// [`cancel`](ResetHandle::cancel). After the timer's runtime has shut down it changes nothing.
    pub fn restart(&mut self) {
        self.idle.restart();
    }

    /// As [`restart`](IdleTimeout::restart), for a stream that is pinned.
    pub fn restart_pinned(self: Pin<&mut Self>) {
        self.project().idle.restart();
    }

    /// The stream within.
    pub fn get_ref(&self) -> &T {
        &self.stream
    }

    /// The stream within, to be changed. Bytes that are moved through it do not push the deadline
    /// back.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.stream
    }

    /// As [`get_mut`](IdleTimeout::get_mut), for a stream that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.project().stream
    }

    /// Returns the stream and drops the deadline.
    pub fn into_inner(self) -> T {
        self.stream
    }
}

impl<T: AsyncRead> AsyncRead for IdleTimeout<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let before = buf.filled().len();
        let had_budget = coop::has_budget_remaining();
        let result = this.stream.poll_read(cx, buf);
        let moved = |()| buf.filled().len() > before;
        this.idle
            .after(Direction::Read, had_budget, cx, result, moved)
    }
}

impl<T: AsyncWrite> AsyncWrite for IdleTimeout<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        let result = this.stream.poll_write(cx, buf);
        this.idle
            .after(Direction::Write, had_budget, cx, result, |written| {
                written > 0
            })
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        let result = this.stream.poll_flush(cx);
        this.idle
            .after(Direction::Write, had_budget, cx, result, |()| false)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        let result = this.stream.poll_shutdown(cx);
        this.idle
            .after(Direction::Write, had_budget, cx, result, |()| false)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        let result = this.stream.poll_write_vectored(cx, bufs);
        this.idle
            .after(Direction::Write, had_budget, cx, result, |written| {
                written > 0
            })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

// The deadline of an `IdleTimeout`, and which direction has heard of its
// expiry.
//
// Two tasks may poll one stream, one for each direction: the halves of `tokio::io::split`. The
// deadline belongs to both. Each direction that has to wait polls it, always with the waker of
// `Waiters`, which wakes both.
//
// ```text
//             a byte was moved: reset, lock-free
//               +----+
//               |    v
//   new ----> pending --(expiry)--> expired --(a poll that has to wait)--> reported
//               ^                      |                                    |
//               |                      | (a byte was moved)                 | (a byte was moved, or
//               +----------------------+------------------------------------+  a poll has to wait)
//
//   any --(cancelled, or the runtime has shut down)--> cancelled --(restart)--> pending
// ```
//
// - *Expired*: it was not reported to either direction yet. If a byte is moved first, the
//   connection was not idle: the bytes may have come in time, while the process was stalled.
// - *Reported*: one direction got `TimedOut`. If the other was waiting too, the same error is
//   pending for it. Nothing is armed. The next byte moved, or the next poll that has to wait,
//   starts the deadline anew, for a goodbye.
// - *Cancelled*: every poll that has to wait fails, until the deadline is restarted.
//
// # What is still to be reported
//
// A direction with a pending error gets `TimedOut` when it is polled and still has to wait. The
// error is true for as long as no byte is moved. So a byte that is moved in either direction clears
// it, and so does a restart. A reset through the handle cannot, because only the timer knows of
// it.
//
// - *Why nothing hangs then.* The direction's task was woken when the other got the error. So
//   it polls after the byte was moved, or it polled before and took the error. If it polls after,
//   the deadline is pending and takes its waker. It gets the next expiry.
// - *Why a pending error may not stay for ever.* The operation that waited may have been dropped,
//   which no stream can see. A later operation would fail for an idle time that ended long before.
// - *Why a poll that has to wait clears nothing.* A direction that gets the error, and waits again
//   in the same poll of its task, would always come first. The other would never get it.
//
// Invariants:
//
// - While the deadline is pending and `is_registered`, its timer holds the waker of `Waiters`. So
//   a poll that has to wait need not poll the deadline again, unless that waker was woken.
// - A direction waits with its waker in `Waiters`, or was woken since it put it there, or since it
//   was polled without a budget.
// - An expiry is reported to a direction at most once, and never after a byte was moved.
//
// Orders that could go wrong, and why they do not:
//
// - *The poll of one direction finds the expiry before the driver does.* Then the deadline wakes
//   no task, because it knows only the task that polls. So the other one is woken here.
// - *The deadline wakes after a poll has registered and taken `woken`.* The wake finds the waker
//   of that poll and wakes its task, and `woken` is left for the next poll.
// - *One direction takes `woken` away from the other.* It polls the deadline. A pending deadline
//   is then registered for both. Of one that has ended, the other direction is woken and polls it
//   too, or has the error pending.

#[derive(Debug)]
pub(super) struct Idle {
    deadline: Deadline,
    handle: ResetHandle,
    waiters: Arc<Waiters>,
    /// The waker of `waiters`, made once.
    waker: Waker,
    is_registered: bool,
    is_reported: bool,
    waits: PerDirection<Wait>,
}

/// What a direction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wait {
    /// Its last poll did not have to wait, or it got the error.
    #[default]
    No,
    Waits,
    /// It waited when the expiry was reported to the other direction. No byte was moved since then.
    HasPendingError,
}

impl Idle {
    pub(super) fn new(timer: &Timer, timeout: Duration) -> Idle {
        let deadline = timer.deadline(timeout);
        let waiters = Arc::new(Waiters::default());
        Idle {
            handle: deadline.handle(),
            deadline,
            waker: waiters.clone().into(),
            waiters,
            is_registered: false,
            is_reported: false,
            waits: PerDirection::default(),
        }
    }

    pub(super) fn handle(&self) -> &ResetHandle {
        &self.handle
    }

    /// Makes the deadline pending again, counting from now, and clears the pending error.
    pub(super) fn restart(&mut self) {
        self.start_anew();
        self.forgive(Direction::Read);
        self.forgive(Direction::Write);
    }

    /// The direction waits on, if it has a pending error.
    #[inline]
    fn forgive(&mut self, direction: Direction) {
        let wait = self.waits.of(direction);
        if *wait == Wait::HasPendingError {
            *wait = Wait::Waits;
        }
    }

    /// The task of each direction that waits was woken when the deadline came to its end. It
    /// registers again when it polls.
    fn start_anew(&mut self) {
        self.deadline.restart();
        self.is_registered = false;
        self.is_reported = false;
    }

    /// What every poll of the I/O ends with. `had_budget` says whether the task had a budget
    /// before it, and `has_moved` whether a result moved a byte.
    #[inline]
    pub(super) fn after<R: Copy>(
        &mut self,
        direction: Direction,
        had_budget: bool,
        cx: &mut Context<'_>,
        result: Poll<io::Result<R>>,
        has_moved: impl FnOnce(R) -> bool,
    ) -> Poll<io::Result<R>> {
        let Poll::Ready(result) = result else {
            return self.poll_wait(direction, had_budget, cx).map(Err);
        };
        *self.waits.of(direction) = Wait::No;
        if matches!(result, Ok(value) if has_moved(value)) {
            self.forgive(direction.other());
            if !self.handle.reset() {
                self.move_on();
            }
        }
        Poll::Ready(result)
    }

    /// A byte was moved after the deadline had come to its end.
    #[cold]
    fn move_on(&mut self) {
        let mut cx = Context::from_waker(&self.waker);
        if poll_deadline(&mut self.deadline, &mut cx) == Poll::Ready(Ok(())) {
            self.start_anew();
        }
    }

    /// The I/O has to wait: ready with the error if the time is over.
    fn poll_wait(
        &mut self,
        direction: Direction,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Error> {
        let wait = self.waits.of(direction);
        if poll_tried(had_budget, cx).is_pending() {
            // It waits like any other and keeps its pending error, but it was not tried yet.
            if *wait == Wait::No {
                *wait = Wait::Waits;
            }
            return Poll::Pending;
        }
        if *wait == Wait::HasPendingError {
            *wait = Wait::No;
            return Poll::Ready(timed_out());
        }
        *wait = Wait::Waits;
        let woken = self.waiters.register(direction, cx.waker());
        if self.is_registered && !woken {
            return Poll::Pending;
        }
        if self.is_reported {
            self.start_anew();
        }
        self.poll_end(direction)
    }

    fn poll_end(&mut self, direction: Direction) -> Poll<io::Error> {
        let mut cx = Context::from_waker(&self.waker);
        let end = poll_deadline(&mut self.deadline, &mut cx);
        self.is_registered = end.is_pending();
        let Poll::Ready(end) = end else {
            return Poll::Pending;
        };
        *self.waits.of(direction) = Wait::No;
        let other = self.waits.of(direction.other());
        let error = match end {
            Ok(()) => {
                self.is_reported = true;
                if *other == Wait::Waits {
                    *other = Wait::HasPendingError;
                }
                timed_out()
            }
            Err(cause) => cancelled(cause),
        };
        Waiters::wake(&self.waiters, direction.other());
        Poll::Ready(error)
    }
}

// The wakers of the two tasks that may wait for one stream, behind one waker for its deadline.
//
// A deadline wakes the task that polled last. The halves of a stream may be polled by two tasks,
// and the end of the deadline concerns both. So the deadline is given a waker of its own, which
// wakes whoever waits in either direction.
//
// Invariant: no waker is cloned, woken or dropped under the lock, because a waker is its user's
// code and may come back here.

/// Which way bytes go. Flushing and shutting down belong to writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(super) fn other(self) -> Direction {
        match self {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        }
    }
}

/// One value for each direction.
#[derive(Debug, Default)]
pub(super) struct PerDirection<V> {
    read: V,
    write: V,
}

impl<V> PerDirection<V> {
    pub(super) fn of(&mut self, direction: Direction) -> &mut V {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Waiters {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    wakers: PerDirection<Option<Waker>>,
    /// Whether the deadline has woken since a direction looked last.
    woken: bool,
}

impl Waiters {
    /// Keeps the waker of the task that waits in a direction. Gives whether the deadline has woken
    /// since a direction looked last.
    pub(super) fn register(&self, direction: Direction, waker: &Waker) -> bool {
        let mut slots = self.lock();
        if !slots.holds(direction, waker) {
            drop(slots);
            let waker = waker.clone();
            slots = self.lock();
            let before = slots.wakers.of(direction).replace(waker);
            let woken = std::mem::take(&mut slots.woken);
            drop(slots);
            drop(before);
            return woken;
        }
        std::mem::take(&mut slots.woken)
    }

    /// Wakes whoever waits in a direction.
    pub(super) fn wake(&self, direction: Direction) {
        let waker = self.lock().wakers.of(direction).take();
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn holds(&mut self, direction: Direction, waker: &Waker) -> bool {
        let held = self.wakers.of(direction).as_ref();
        held.is_some_and(|held| held.will_wake(waker))
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut slots = self.lock();
        slots.woken = true;
        let PerDirection { read, write } = std::mem::take(&mut slots.wakers);
        drop(slots);
        // A panic in one of the wakers does not keep the other from being woken.
        for waker in [read, write].into_iter().flatten() {
            wake(waker);
        }
    }
}
