//! The [`ResetHandle`], which any task uses to push a deadline back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Cancelled;
use crate::shard::word::{EXPIRED, Word};
use crate::shard::{Change, DeadlineRef, Shard};

/// Resets, cancels or expires a [`Deadline`](crate::Deadline) from any task or thread.
///
/// Clones refer to one deadline and stay valid while it lives, also after a
/// [`restart`](crate::Deadline::restart). Each method takes `&self` and returns at once. If the
/// deadline has ended or was dropped, or its runtime has shut down, the methods that can fail
/// return `false` or `None`.
///
/// | call | cost |
/// |---|---|
/// | [`reset`](ResetHandle::reset) in time | a reading of the clock, and a compare-exchange if it is the first in its millisecond |
/// | the others | one short lock of the deadline's shard |
///
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let deadline = Timer::current().deadline(Duration::from_secs(30));
/// let handle = deadline.handle();
/// assert!(handle.reset() && handle.set_timeout(Duration::from_secs(5)));
/// assert!(handle.extend(Duration::from_secs(600)), "an operator is looking at it");
/// assert_eq!(handle.remaining(), Some(Duration::from_secs(605)));
/// assert!(handle.cancel());
/// assert!(!handle.reset(), "too late");
/// # });
/// ```
#[derive(Clone)]
pub struct ResetHandle {
    pub(super) shard: Arc<Shard>,
    pub(super) word: Arc<Word>,
}

impl ResetHandle {
    pub(crate) fn of(deadline: DeadlineRef<'_>) -> ResetHandle {
        ResetHandle {
            shard: deadline.shard.clone(),
            word: deadline.word.clone(),
        }
    }

    /// Pushes the deadline to now plus its timeout. `false` if it has expired or was cancelled.
    ///
    /// It takes no lock, and makes at most one successful compare-exchange in a millisecond: on the
    /// system's clock it counts from the next whole millisecond, or the next tick where that comes
    /// sooner. After a stall a reset is in time for as long as the deadline has its grace.
    ///
    /// Two kinds of reset take the lock of the deadline's shard: one that comes too late, and the
    /// first one after a call that moved the deadline once, because it may move it earlier.
    #[inline]
    pub fn reset(&self) -> bool {
        let deadline = self.as_ref();
        deadline.reset(deadline.now())
    }

    /// Moves the deadline, once, to now plus `delay`, earlier or later. The next
    /// [`reset`](ResetHandle::reset) counts the timeout again. This deadline gets a stall's
    /// grace only if it passes during the stall. `false` if the deadline has expired or was
    /// cancelled.
    pub fn reset_after(&self, delay: Duration) -> bool {
        let deadline = self.as_ref();
        deadline.change(Change::MoveTo(deadline.now().after(delay)))
    }

    /// As [`reset_after`](ResetHandle::reset_after), to an instant. An instant that has passed
    /// expires the deadline here and now, and the call returns `true`.
    pub fn reset_at(&self, deadline: Instant) -> bool {
        let due = self.shard.clock().moment(deadline);
        self.as_ref().change(Change::MoveTo(due))
    }

    /// Moves the deadline `by` later than it is due now, once. The next
    /// [`reset`](ResetHandle::reset) counts the timeout again. `false` if the deadline has expired
    /// or was cancelled.
    ///
    /// It is atomic beside resets from other tasks: the call extends the deadline as it is at
    /// that moment. A deadline that has passed, and is in its grace after a stall, is extended from
    /// now, and ends no earlier than its grace.
    pub fn extend(&self, by: Duration) -> bool {
        self.as_ref().change(Change::Extend(by))
    }

    /// Changes the timeout. A pending deadline counts it from its last
    /// [`reset`](ResetHandle::reset), and expires at once if that makes it due already. A due that
    /// was set by [`reset_after`](ResetHandle::reset_after) or [`reset_at`](ResetHandle::reset_at)
    /// stands, and the new timeout counts from the next `reset` on. A timeout that is no shorter
    /// ends no deadline that is in its grace after a stall. `false` if the deadline has expired or
    /// was cancelled. Then the new timeout holds from the next
    /// [`restart`](crate::Deadline::restart) on.
    pub fn set_timeout(&self, timeout: Duration) -> bool {
        self.as_ref().change(Change::SetTimeout(timeout))
    }

    /// The timeout that a reset counts.
    pub fn timeout(&self) -> Duration {
        self.word.timeout()
    }

    /// Cancels the deadline, which resolves to `Err(Cancelled)`. `false` if it has expired or was
    /// cancelled before.
    pub fn cancel(&self) -> bool {
        self.as_ref().settle(Err(Cancelled::BY_HANDLE)).is_some()
    }

    /// Expires the deadline now, which resolves to `Ok(())`. `false` if it has expired or was
    /// cancelled before.
    pub fn expire(&self) -> bool {
        self.as_ref().settle(EXPIRED).is_some()
    }

    /// Whether the deadline has neither expired nor been cancelled.
    pub fn is_pending(&self) -> bool {
        self.as_ref().is_pending()
    }

    /// When the deadline expires if nothing resets it. This is never before the last reset plus the
    /// timeout. `None` once the deadline is no longer pending.
    pub fn deadline(&self) -> Option<Instant> {
        self.as_ref().deadline()
    }

    /// The time that is left. It is zero if the deadline is just about to expire. After a
    /// [`reset`](ResetHandle::reset) it is never more than the timeout. `None` once the deadline is
    /// no longer pending.
    pub fn remaining(&self) -> Option<Duration> {
        self.as_ref().remaining()
    }

    /// Whether both handles are of the same [`Deadline`](crate::Deadline). A deadline stays the
    /// same when it is [restarted](crate::Deadline::restart).
    ///
    /// ```
    /// # use tickwheel::{DeadlineMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let sessions = DeadlineMap::new(&Timer::current());
    /// let older = sessions.insert("alice", Duration::from_secs(60))?;
    /// let of_alice = || sessions.handle("alice").expect("she is in the map");
    /// assert!(of_alice().same_deadline(&older.handle()));
    /// let newer = sessions.insert("alice", Duration::from_secs(60))?;
    /// assert!(!of_alice().same_deadline(&older.handle()));
    /// # drop(newer);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn same_deadline(&self, other: &ResetHandle) -> bool {
        Arc::ptr_eq(&self.word, &other.word)
    }

    pub(crate) fn as_ref(&self) -> DeadlineRef<'_> {
        DeadlineRef {
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
