//! The time that one waiting operation has: a deadline that is armed while the operation waits.
//!
//! Invariant: the deadline is pending from the poll in which an operation first has to wait until
//! the operation ends or is told that its time is over, and at no other time.

use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{cancelled, poll_deadline, timed_out};
use crate::{Deadline, ResetHandle, Timer};

#[derive(Debug)]
pub(super) struct Countdown {
    timer: Timer,
    timeout: Option<Duration>,
    /// Made when an operation has to wait for the first time, and used again for all others.
    deadline: Option<(Deadline, ResetHandle)>,
    is_running: bool,
}

impl Countdown {
    pub(super) fn new(timer: &Timer) -> Countdown {
        Countdown {
            timer: timer.clone(),
            timeout: None,
            deadline: None,
            is_running: false,
        }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Holds from the next operation that has to wait.
    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.stop();
        self.timeout = timeout;
    }

    /// What every poll of the I/O ends with.
    #[inline]
    pub(super) fn after<R>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if result.is_pending() {
            return self.poll(cx).map(Err);
        }
        self.stop();
        result
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(timeout) = self.timeout else {
            return Poll::Pending;
        };
        let deadline = match &mut self.deadline {
            Some((deadline, _)) if self.is_running => deadline,
            Some((deadline, handle)) => {
                if handle.timeout() != timeout {
                    handle.set_timeout(timeout);
                }
                deadline.restart();
                deadline
            }
            none => {
                let deadline = self.timer.deadline(timeout);
                let handle = deadline.handle();
                &mut none.insert((deadline, handle)).0
            }
        };
        let end = poll_deadline(deadline, cx);
        self.is_running = end.is_pending();
        end.map(|end| end.map_or_else(cancelled, |()| timed_out()))
    }

    #[inline]
    fn stop(&mut self) {
        if !std::mem::take(&mut self.is_running) {
            return;
        }
        if let Some((deadline, handle)) = &mut self.deadline {
            // A cancelled deadline wakes its task, which has nothing to do with it any more.
            let mut cx = Context::from_waker(Waker::noop());
            if poll_deadline(deadline, &mut cx).is_pending() {
                handle.cancel();
            }
        }
    }
}
