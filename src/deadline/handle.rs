//! The [`ResetHandle`]: all that can be done to a deadline without awaiting it.
//!
//! Invariant: every answer is exact. `true` means that this call found the deadline pending and did
//! what it says. `false` means that the deadline had come to its end before. A deadline that has
//! passed has come to its end, whether or not the driver has come to it. The thread that looks
//! first settles it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::access::Access;
use crate::shard::Shard;
use crate::shard::word::{Outcome, Status, Word};
use crate::time::due::Stamp;

/// Resets, cancels or expires a [`Deadline`](crate::Deadline) from any task or thread.
///
/// Clones are equal, and good for as long as the deadline lives, also after a
/// [`restart`](crate::Deadline::restart). Each method takes `&self` and returns at once. All are
/// safe to call on a deadline that has ended or was dropped, or whose runtime has shut down. They
/// then answer `false` or `None`.
///
/// | call | cost |
/// |---|---|
/// | [`reset`](ResetHandle::reset) in time | while the driver ticks, two loads if it is not the first in its tick, else a compare-exchange; while the driver rests, a compare-exchange and a clock reading |
/// | [`reset_after`](ResetHandle::reset_after) and [`reset_at`](ResetHandle::reset_at) that move it later | two compare-exchanges, and a clock reading while the driver rests |
/// | the others | one short lock of the deadline's shard |
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Timer};
///
/// let deadline = Timer::current().deadline(Duration::from_secs(30));
/// let handle = deadline.handle();
/// assert!(handle.reset());
/// assert!(handle.set_timeout(Duration::from_secs(5)));
/// assert_eq!(handle.remaining(), Some(Duration::from_secs(5)));
/// assert!(handle.cancel());
/// assert!(!handle.reset(), "too late");
/// assert!(deadline.await.is_err());
/// # }
/// ```
#[derive(Clone)]
pub struct ResetHandle {
    shard: Arc<Shard>,
    word: Arc<Word>,
}

impl ResetHandle {
    pub(crate) fn new(shard: Arc<Shard>, word: Arc<Word>) -> ResetHandle {
        ResetHandle { shard, word }
    }

    /// Pushes the deadline to now plus its timeout. `false` if it has expired or was cancelled.
    ///
    /// It takes no lock of the timer's, and makes at most one successful compare-exchange. The
    /// timer in the wheel is moved when its slot comes.
    ///
    /// While the driver ticks, the call goes by the published tick. If the driver is stalled, the
    /// call may not see yet that the deadline has passed. Then it moves a deadline that has not
    /// expired. After a stall a reset is in time for as long as the deadline has its grace.
    ///
    /// Two kinds of reset take the lock of the deadline's shard: one that comes too late, and the
    /// first one after a [`reset_after`](ResetHandle::reset_after) or a
    /// [`reset_at`](ResetHandle::reset_at), because it may move the deadline earlier.
    #[inline]
    pub fn reset(&self) -> bool {
        let stamp = self.shard.clock().take_stamp();
        stamp.is_some_and(|stamp| self.word.reset_to_later_stamp(stamp)) || self.reset_from(stamp)
    }

    fn reset_from(&self, stamp: Option<Stamp>) -> bool {
        let is_stampable = || self.word.timeout().is_stampable();
        self.access()
            .reset(self.shard.start_by(stamp, is_stampable))
    }

    /// Moves the deadline, once, to now plus `delay`, earlier or later. The next
    /// [`reset`](ResetHandle::reset) counts the timeout again. `false` if the deadline has expired
    /// or was cancelled.
    ///
    /// Like [`reset`](ResetHandle::reset), a call that moves it later takes no lock. The exceptions
    /// are a driver that went to rest or to tick since the last reset, and a driver that was late.
    /// While the driver ticks, the call reads no clock if `delay` is a whole number of ticks, and
    /// less than a million ticks.
    pub fn reset_after(&self, delay: Duration) -> bool {
        self.access().reset_after(self.shard.start(|| true), delay)
    }

    /// Moves the deadline, once, to an instant, earlier or later. An instant that has passed
    /// expires the deadline here and now. `false` if the deadline has expired or was cancelled.
    ///
    /// Like [`reset_after`](ResetHandle::reset_after), a call that moves it later takes no lock,
    /// and reads no clock while the driver ticks.
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.access().reset_at(self.shard.start(|| true), deadline)
    }

    /// Changes the timeout. A pending deadline counts it from its last
    /// [`reset`](ResetHandle::reset), and expires at once if that makes it due already. A due that
    /// was set by [`reset_after`](ResetHandle::reset_after) or [`reset_at`](ResetHandle::reset_at)
    /// stands, and the new timeout counts from the next `reset` on. `false` if the deadline has
    /// expired or was cancelled. Then the new timeout holds from the next
    /// [`restart`](crate::Deadline::restart) on.
    pub fn set_timeout(&self, timeout: Duration) -> bool {
        self.access().set_timeout(timeout)
    }

    /// The timeout that a reset counts.
    pub fn timeout(&self) -> Duration {
        self.word.timeout_set()
    }

    /// Cancels the deadline, which resolves to `Err(Cancelled)`. `false` if it has expired or was
    /// cancelled before.
    pub fn cancel(&self) -> bool {
        self.access().settle(Outcome::Cancelled)
    }

    /// Expires the deadline now, which resolves to `Ok(())`. `false` if it has expired or was
    /// cancelled before.
    pub fn expire(&self) -> bool {
        self.access().settle(Outcome::Expired)
    }

    /// Whether the deadline has neither expired nor been cancelled.
    pub fn is_pending(&self) -> bool {
        self.word.status() == Status::Pending && self.access().is_pending()
    }

    /// When the deadline expires if nothing resets it. This is never before the last reset plus the
    /// timeout. `None` once the deadline is no longer pending.
    pub fn deadline(&self) -> Option<Instant> {
        let told = self.access().told()?;
        Some(self.shard.clock().instant(told.deadline))
    }

    /// The time that is left. It is zero if the deadline is just about to expire. After a
    /// [`reset`](ResetHandle::reset) it is never more than the timeout. `None` once the deadline is
    /// no longer pending.
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.access().told()?.left)
    }

    fn access(&self) -> Access<'_> {
        Access {
            shard: &self.shard,
            word: &self.word,
        }
    }
}

impl fmt::Debug for ResetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetHandle")
            .field("timeout", &self.timeout())
            .field("is_pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}
