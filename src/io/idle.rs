//! The deadline of an [`IdleTimeout`](super::IdleTimeout), and the direction to which its expiry
//! was reported.
//!
//! Two tasks may poll one stream, as the halves of `tokio::io::split`, and share the deadline. A
//! deadline wakes one waker. So each direction polls it with the waker of [`Waiters`], which wakes
//! both. Its states, beside *pending*:
//!
//! - *Expired*: not reported yet. If a byte is moved first, the connection was not idle: the bytes
//!   may have come in time, while the process was stalled.
//! - *Reported*: one direction got `TimedOut`. If the other was waiting too, the same error is
//!   pending for it, until it is polled and still has to wait. Nothing is armed. The next byte
//!   moved, or the next poll that has to wait, restarts the deadline, for a goodbye.
//! - *Cancelled*: every poll that has to wait fails, until the deadline is restarted.
//!
//! A byte moved in either direction clears a pending error, and so does a restart: the operation
//! that waited may have been dropped. A poll that has to wait clears nothing: a direction that gets
//! the error and waits again at once would always come first. Nor does a reset through the handle,
//! because the stream does not learn of that.
//!
//! Invariants:
//!
//! - While the deadline is pending and `is_registered`, its timer holds the waker of `Waiters`. So
//!   a poll that has to wait polls the deadline again only if that waker was woken.
//! - A waiting direction has its waker in `Waiters`, or was woken since it stored it there, or
//!   since it was polled without a budget.
//! - An expiry is reported to a direction at most once, and never after a byte was moved.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The poll of one direction finds the expiry before the driver does.* The deadline then wakes
//!   no task, so the poll wakes the other direction.
//! - *One direction takes `woken` away from the other.* It polls the deadline, which is then
//!   registered for both, or has ended: the other is woken and polls it too, or has the error
//!   pending.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::coop;

use super::error_of;
use super::waiters::{Direction, Waiters};
use crate::error::Cancelled;
use crate::runtime::spend_budget;
use crate::{Deadline, ResetHandle, Timer};

#[derive(Debug)]
pub(super) struct Idle {
    deadline: Deadline,
    handle: ResetHandle,
    waiters: Arc<Waiters>,
    waker: Waker,
    is_registered: bool,
    is_reported: bool,
    /// By [`Direction`].
    waits: [Wait; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Its last poll did not have to wait, or it got the error.
    No,
    Waits,
    /// It waited when the expiry was reported to the other direction, and no byte was moved since.
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
            waits: [Wait::No; 2],
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

    #[inline]
    fn forgive(&mut self, direction: Direction) {
        let wait = &mut self.waits[direction as usize];
        if *wait == Wait::HasPendingError {
            *wait = Wait::Waits;
        }
    }

    /// The end of the deadline woke the task of each waiting direction, which registers again when
    /// it polls.
    fn start_anew(&mut self) {
        self.deadline.restart();
        self.is_registered = false;
        self.is_reported = false;
    }

    /// Ends every poll of the I/O. `had_budget`: whether the task had a budget before it.
    /// `has_moved`: whether a result moved a byte.
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
        self.waits[direction as usize] = Wait::No;
        if matches!(result, Ok(value) if has_moved(value)) {
            self.forgive(direction.other());
            if !self.handle.reset() && self.poll_deadline() == Poll::Ready(Ok(())) {
                self.start_anew();
            }
        }
        Poll::Ready(result)
    }

    /// The I/O has to wait: ready with the error if the time is over.
    fn poll_wait(
        &mut self,
        direction: Direction,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Error> {
        let wait = &mut self.waits[direction as usize];
        if !had_budget && coop::poll_proceed(cx).is_pending() {
            // It waits and keeps its pending error, but it was not tried yet.
            if *wait == Wait::No {
                *wait = Wait::Waits;
            }
            return Poll::Pending;
        }
        if *wait == Wait::HasPendingError {
            *wait = Wait::No;
            return Poll::Ready(error_of(Ok(())));
        }
        *wait = Wait::Waits;
        let woken = self.waiters.register(direction, cx.waker());
        if self.is_registered && !woken {
            return Poll::Pending;
        }
        if self.is_reported {
            self.start_anew();
        }
        let end = ready!(self.poll_end(direction));
        // A loop that goes on after errors lets other tasks run.
        spend_budget(cx);
        Poll::Ready(end)
    }

    fn poll_end(&mut self, direction: Direction) -> Poll<io::Error> {
        let end = self.poll_deadline();
        self.is_registered = end.is_pending();
        let Poll::Ready(end) = end else {
            return Poll::Pending;
        };
        self.waits[direction as usize] = Wait::No;
        let other = &mut self.waits[direction.other() as usize];
        if end.is_ok() {
            self.is_reported = true;
            if *other == Wait::Waits {
                *other = Wait::HasPendingError;
            }
        }
        self.waiters.wake(direction.other());
        Poll::Ready(error_of(end))
    }

    /// Outside of the budget, because the I/O may use that up in every poll.
    fn poll_deadline(&mut self) -> Poll<Result<(), Cancelled>> {
        let mut cx = Context::from_waker(&self.waker);
        pin!(coop::unconstrained(&mut self.deadline)).poll(&mut cx)
    }
}
