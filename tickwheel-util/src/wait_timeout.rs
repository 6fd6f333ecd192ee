//! The timeout of one operation that waits: a sleep that is armed only during the wait.
//!
//! Invariants:
//!
//! - A timer is armed only from the first poll in which the operation has to wait until
//!   [`stop`](WaitTimeout::stop), or until its timeout has elapsed.
//! - The waiting task is kept in `waiting`, or was woken.
//! - A timeout that is set counts from the next poll, for which a waiting task is woken. If its
//!   operation was dropped, which cannot be seen here, the next one has the whole timeout.

use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tickwheel::error::ShutDown;
use tickwheel::{Sleep, Timer};

use crate::budget::poll_after_inner;

#[derive(Debug)]
pub(crate) struct WaitTimeout {
    timer: Timer,
    timeout: Option<Duration>,
    waiting: Option<Waker>,
    /// Present while an operation waits and has a timeout.
    sleep: Option<Sleep>,
}

impl WaitTimeout {
    pub(crate) fn new(timer: &Timer) -> WaitTimeout {
        WaitTimeout {
            timer: timer.clone(),
            timeout: None,
            waiting: None,
            sleep: None,
        }
    }

    #[cfg(feature = "io")]
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
        // Not armed here, because the operation may have been dropped.
        self.sleep = None;
        if timeout.is_some() {
            if let Some(waiting) = self.waiting.take() {
                waiting.wake();
            }
        }
    }

    /// The operation has to wait. Ready if its timeout has elapsed. `had_budget`: whether the task
    /// had a budget before the operation was polled; if not, it is tried again first.
    pub(crate) fn poll(
        &mut self,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ShutDown>> {
        let is_kept = |waiting: &Waker| waiting.will_wake(cx.waker());
        if !self.waiting.as_ref().is_some_and(is_kept) {
            self.waiting = Some(cx.waker().clone());
        }
        let Some(timeout) = self.timeout else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| self.timer.sleep(timeout));
        let end = ready!(poll_after_inner(had_budget, cx, |cx| sleep.try_poll(cx)));
        self.stop();
        Poll::Ready(end)
    }

    #[inline]
    pub(crate) fn stop(&mut self) {
        self.waiting = None;
        self.sleep = None;
    }
}
