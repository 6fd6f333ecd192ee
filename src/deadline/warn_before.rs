//! Warnings before a deadline: [`WarnBefore`] and [`Stage`].

// A second timer warns, without the deadline's knowledge. A sleep, the *check*, is set for when the
// notice begins. When it fires, the handle returns the present due. Within its notice the task is
// warned; otherwise the check is set again.
//
// Invariant: a check lies ahead when it is set, no later than the known due, and is gone once the
// end is seen. So no check spins, and none pulls a virtual clock beyond the deadline.
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
    /// `None` if the next poll sets it.
    check: Option<Sleep>,
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
        WarnBefore {
            deadline,
            handle,
            notice,
            check: None,
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
            (self.check, self.warned_of) = (None, None);
            return Poll::Ready(outcome.map(|()| Stage::Expired));
        }
        // A check that is shut down waits for the deadline, which is about to end.
        if let Some(check) = &mut self.check {
            if ready!(check.poll_timer(cx)).is_err() {
                return Poll::Pending;
            }
        }
        while let Some(due) = self.handle.deadline() {
            let is_new = self.warned_of != Some(due);
            let check = self.check.insert(self.check_for(due));
            if ready!(check.poll_timer(cx)).is_err() {
                return Poll::Pending;
            }
            if is_new {
                self.warned_of = Some(due);
                self.check = Some(self.check_for(due));
                return Poll::Ready(Ok(Stage::Warning));
            }
            // The check passed while this thread was held up.
        }
        Poll::Pending
    }

    /// Ready when the notice of this due has begun. After its warning: when the notice of a reset
    /// made now would begin, by the due at the latest. A long notice has a few checks.
    fn check_for(&self, due: Instant) -> Sleep {
        let (shard, timeout) = (self.handle.shard.clone(), self.handle.timeout());
        if self.warned_of != Some(due) {
            let begins = due.checked_sub(self.notice);
            let begins = begins.unwrap_or_else(|| shard.clock().long_ago());
            return Sleep::until(shard, begins);
        }
        let idle = timeout.saturating_sub(self.notice).max(timeout / 8);
        // In the grace of a stall no time is left.
        let left = self.handle.remaining().filter(|left| !left.is_zero());
        let left = left.unwrap_or(idle);
        Sleep::after(
            shard,
            idle.max(left / 8).min(left).max(Duration::from_millis(1)),
        )
    }

    /// The deadline.
    pub fn get_ref(&self) -> &D {
        &self.deadline
    }

    /// Makes the deadline pending again, like [`Deadline::restart`](crate::Deadline::restart).
    pub fn restart(&mut self) {
        (self.check, self.warned_of) = (None, None);
        self.handle.as_ref().restart();
    }

    /// The handle that resets the deadline from anywhere.
    pub fn handle(&self) -> ResetHandle {
        self.handle.clone()
    }
}
