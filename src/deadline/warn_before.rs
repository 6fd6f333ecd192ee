//! Warnings before a deadline: [`WarnBefore`] and [`Stage`].

// A second timer warns, without the deadline's knowledge. A sleep, the *check*, is set for when the
// notice begins. When it fires, the handle returns the present due. If the check was set for this
// due, the task is warned, once; otherwise the check is set again.
//
// Invariant: a check fires no later than the known due, and is gone once the end is seen. After the
// warning it lies ahead. So no check spins, and none pulls a virtual clock beyond the deadline.
//
// A reset after a check was set makes it too early. A call that moves the deadline earlier makes it
// late. If the deadline ends after its poll, the handle has no due, and the end wakes the task that
// has polled. The check is in the same shard, so a shutdown ends both at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::{Deadline, ResetHandle};
use crate::error::Cancelled;
use crate::future::sleep::Sleep;

/// The state of a deadline: [`WarnBefore::wait`].
///
/// A deadline has one warning and one end, so the enum is exhaustive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The notice has begun. The deadline is pending, and a reset is in time.
    Warning,
    /// The deadline has expired, and is over unless it is [restarted](WarnBefore::restart).
    Expired,
}

/// A deadline with a warning before it: [`Deadline::warn_before`](crate::Deadline::warn_before).
///
/// It serves a keepalive that asks before it closes: an idle connection gets a ping, and has the
/// notice in which to answer. A heartbeat within it is simply a reset that returns `true`.
///
/// - The notice is the end of the timeout: of 60 s with a notice of 10 s it begins after 50 s. With
///   a notice of the whole timeout the warning comes within a tick.
/// - A warning is never early, and no later than the deadline may be. Each due time has at most one
///   warning. The one after a reset may come an eighth of the timeout late if the notice is more
///   than seven eighths of it.
/// - A deadline that a call moves earlier may expire without a warning. If a call other than a
///   reset postpones it within its notice, the next warning may come as late as the previous due.
/// - After a [stall](Deadline) the warning comes first, and then the grace of the stall. If the
///   driver is late by the whole notice, but by less than a stall, there is no warning.
/// - It takes a second timer, which wakes the task about once before the notice, and a few times
///   within a long notice, however often the deadline is reset. A reset costs no more.
#[must_use = "the deadline is cancelled when it is dropped; call `wait`"]
#[derive(Debug)]
pub struct WarnBefore<D = Deadline> {
    deadline: D,
    handle: ResetHandle,
    notice: Duration,
    /// Elapsed if the next poll sets it.
    check: Sleep,
    /// The due for which it was set.
    checked_due: Option<Instant>,
    /// The due of the last warning.
    warned_of: Option<Instant>,
}

impl Deadline {
    /// Adds a warning, `notice` before the deadline expires. A reset is then still in time.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer, warn_before::Stage};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(60));
    /// let mut idle = idle.warn_before(Duration::from_secs(10));
    /// assert_eq!(idle.wait().await?, Stage::Warning); // after 50 seconds
    /// assert!(idle.handle().reset(), "the pong");
    /// assert_eq!(idle.wait().await?, Stage::Warning, "of the next idle time");
    /// assert_eq!(idle.wait().await?, Stage::Expired);
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    pub fn warn_before(self, notice: Duration) -> WarnBefore<Deadline> {
        let handle = self.handle();
        WarnBefore::new(self, handle, notice)
    }
}

impl<D: Future<Output = Result<(), Cancelled>> + Unpin> WarnBefore<D> {
    pub(crate) fn new(deadline: D, handle: ResetHandle, notice: Duration) -> WarnBefore<D> {
        let shard = handle.shard.clone();
        let long_ago = shard.clock().long_ago();
        WarnBefore {
            deadline,
            handle,
            notice,
            check: Sleep::until(shard, long_ago),
            checked_due: None,
            warned_of: None,
        }
    }

    /// Waits for the next warning, or for the end of the deadline, which it returns again and again
    /// until the deadline is restarted. Returns [`Cancelled`] as the deadline itself does.
    ///
    /// # Cancel safety
    ///
    /// Dropping it before it completes loses nothing. The task that waited last is woken.
    pub async fn wait(&mut self) -> Result<Stage, Cancelled> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stage, Cancelled>> {
        if let Poll::Ready(outcome) = Pin::new(&mut self.deadline).poll(cx) {
            self.forget();
            return Poll::Ready(outcome.map(|()| Stage::Expired));
        }
        // A check that is shut down waits for the deadline, which is about to end.
        while ready!(self.check.poll_after_inner(true, cx)).is_ok() {
            let Some(due) = self.handle.deadline() else {
                break;
            };
            if self.checked_due.replace(due) != Some(due) {
                let begins = due.checked_sub(self.notice);
                let begins = begins.unwrap_or_else(|| self.handle.shard.clock().long_ago());
                self.check.reset_at(begins);
            } else {
                self.check.reset_after(self.until_next_check());
                if self.warned_of.replace(due) != Some(due) {
                    return Poll::Ready(Ok(Stage::Warning));
                }
            }
        }
        Poll::Pending
    }

    /// After a warning: the time until the notice of a reset made now would begin, or until the due
    /// if that is earlier. A long notice has a few checks.
    fn until_next_check(&self) -> Duration {
        let timeout = self.handle.timeout();
        let idle = timeout.saturating_sub(self.notice).max(timeout / 8);
        // In the grace of a stall no time is left.
        let left = self.handle.remaining().filter(|left| !left.is_zero());
        let left = left.unwrap_or(idle);
        idle.max(left / 8).min(left).max(Duration::from_millis(1))
    }

    /// For the deadline of a restart. Nothing stays armed.
    fn forget(&mut self) {
        self.check.elapse();
        (self.checked_due, self.warned_of) = (None, None);
    }

    /// The deadline.
    pub fn get_ref(&self) -> &D {
        &self.deadline
    }

    /// Makes the deadline pending again, like [`Deadline::restart`](crate::Deadline::restart).
    pub fn restart(&mut self) {
        self.forget();
        self.handle.as_ref().restart();
    }

    /// The handle that resets the deadline from anywhere.
    pub fn handle(&self) -> ResetHandle {
        self.handle.clone()
    }
}
