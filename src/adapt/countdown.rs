//! The time that one waiting operation has: a sleep that is armed while the operation waits.
//!
//! A plain [`Sleep`] is enough, because one task alone waits and nobody pushes the deadline back.
//! It takes one lock to arm and one to disarm, and it allocates nothing.
//!
//! Invariant: a timer is armed only from the poll in which an operation first has to wait until
//! [`stop`](Countdown::stop), or until the operation is told that its time is over. A change of the
//! timeout keeps the task that waits registered.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::error::Cancelled;
use crate::{Sleep, Timer};

#[derive(Debug)]
pub(super) struct Countdown {
    timer: Timer,
    timeout: Option<Duration>,
    /// There is one while an operation waits.
    wait: Option<Sleep>,
}

impl Countdown {
    pub(super) fn new(timer: &Timer) -> Countdown {
        Countdown {
            timer: timer.clone(),
            timeout: None,
            wait: None,
        }
    }

    #[cfg(feature = "io")]
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// An operation that waits has the whole of it from now on.
    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
        match (&mut self.wait, timeout) {
            // The sleep keeps the waker of the task that waits, and wakes it at the new time.
            (Some(wait), Some(timeout)) => wait.reset_after(timeout),
            _ => self.stop(),
        }
    }

    /// An operation has to wait. Ready if its time is over.
    ///
    /// It polls outside of the task's budget. The operation may have used the budget up, and the
    /// time must be looked at all the same.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let Some(timeout) = self.timeout else {
            return Poll::Pending;
        };
        let wait = self.wait.get_or_insert_with(|| self.timer.sleep(timeout));
        let end = ready!(wait.poll_timer(cx)).or_cancelled();
        self.stop();
        Poll::Ready(end)
    }

    /// The operation has ended.
    #[inline]
    pub(super) fn stop(&mut self) {
        self.wait = None;
    }
}
