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
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let deadline = Timer::current().deadline(Duration::from_secs(30));
/// let handle = deadline.handle();
/// assert!(handle.reset() && handle.set_timeout(Duration::from_secs(5)));
/// assert!(handle.extend(Duration::from_secs(600)), "an operator is looking at it");
/// assert!(handle.reset(), "a heartbeat does not undo that");
/// assert_eq!(handle.remaining(), Some(Duration::from_secs(605)));
/// assert!(handle.cancel());
/// assert!(!handle.reset(), "too late");
/// # });
/// ```
///
/// # Usage
///
/// | call | moves the deadline to |
/// |---|---|
/// | [`reset`](ResetHandle::reset) | now plus the timeout, never earlier than it is |
/// | [`reset_from`](ResetHandle::reset_from) | a past instant plus the timeout, never earlier than it is |
/// | [`reset_after`](ResetHandle::reset_after), [`reset_at`](ResetHandle::reset_at) | where the argument says, earlier or later |
/// | [`extend`](ResetHandle::extend) | that much later |
/// | [`set_timeout`](ResetHandle::set_timeout) | now plus the new timeout, if it lies beyond that; else it stays |
///
/// Clones refer to one deadline while it lives, even after a [`restart`](crate::Deadline::restart).
/// Each method takes `&self` and returns at once. Once the deadline has ended, by a drop or a
/// shutdown too, methods that can fail return `false` or `None`.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | [`reset`](ResetHandle::reset), [`reset_from`](ResetHandle::reset_from) before the deadline | a reading of the clock, and a compare-exchange if it is the first in its tick |
/// | [`reset_after`](ResetHandle::reset_after), [`reset_at`](ResetHandle::reset_at) to later | the same |
/// | the others, except [`timeout`](ResetHandle::timeout) | one short lock of the deadline's shard |
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

    /// Moves the deadline to now plus its timeout, never earlier than it is. Returns `false` if it
    /// has expired or was cancelled.
    ///
    /// So a reset takes back no call that has moved the deadline further. To go back to the usual
    /// timeout, call `reset_after(handle.timeout())`.
    ///
    /// A reset before the deadline takes no lock, and makes at most one successful compare-exchange
    /// in a tick. One after the deadline takes the lock of its shard. After a stall a reset is in
    /// time while the deadline has its grace.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// let handle = idle.handle();
    /// sleep(Duration::from_secs(20)).await;
    /// assert!(handle.reset(), "a heartbeat, in time");
    /// idle.await?; // after 50 seconds
    /// assert!(!handle.reset(), "a heartbeat, too late");
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    #[inline]
    pub fn reset(&self) -> bool {
        let deadline = self.as_ref();
        deadline.reset(deadline.now(), None)
    }

    /// Moves the deadline to `since` plus its timeout, never earlier than it is, like
    /// [`reset`](ResetHandle::reset). A future instant counts as now.
    ///
    /// A lease counts from the sending of its renewal, not from the answer: otherwise its holder
    /// believes in it for longer than the server. Answers may come out of order, because the
    /// deadline is never made earlier. `true` means only that the deadline was pending: an answer
    /// that took longer than the timeout moves nothing.
    ///
    /// A new deadline counts from the answer to its first request. Move it to the end of that term
    /// by [`reset_at`](ResetHandle::reset_at), because this call never makes it earlier. See [the
    /// whole recipe](crate::docs::operations#when-stalls-should-count).
    ///
    /// It takes no lock, like a reset. After a [stall](crate::Deadline) it takes one if the instant
    /// lies before the end of the stall, and never ends a grace early.
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let answer = || tickwheel::sleep(Duration::from_secs(2));
    /// const TERM: Duration = Duration::from_secs(10);
    /// let sent = Instant::now();
    /// answer().await; // after two seconds
    /// let leases = Timer::builder().stall_grace(false).build().unwrap();
    /// let lease = leases.deadline(TERM);
    /// let handle = lease.handle();
    /// assert!(handle.reset_at(sent + TERM), "the first term");
    ///
    /// let sent = Instant::now();
    /// answer().await; // to the renewal
    /// assert!(handle.reset_from(sent));
    /// let ends = handle.deadline().expect("it is pending");
    /// assert_eq!((ends - sent).as_secs(), 10);
    /// # });
    /// ```
    #[inline]
    pub fn reset_from(&self, since: Instant) -> bool {
        let (deadline, since) = (self.as_ref(), self.shard.clock().moment(since));
        deadline.reset(deadline.now(), Some(since))
    }

    /// Moves the deadline to now plus `delay`, earlier or later. Later resets push it on from
    /// there. Returns `false` if the deadline has expired or was cancelled.
    ///
    /// A move to later takes no lock, like a [`reset`](ResetHandle::reset). A move to earlier takes
    /// the lock of the deadline's shard, and wakes the task if that waits for a
    /// [warning](crate::Deadline::warn_before). A deadline moved into the 100 ms after a
    /// [stall](crate::Deadline) may get its grace.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// let handle = idle.handle();
    /// assert!(handle.reset_after(Duration::from_secs(5)), "the peer says goodbye");
    /// assert_eq!(handle.remaining(), Some(Duration::from_secs(5)));
    /// assert_eq!(handle.timeout(), Duration::from_secs(30), "of later resets");
    /// # });
    /// ```
    #[inline]
    pub fn reset_after(&self, delay: Duration) -> bool {
        let deadline = self.as_ref();
        let now = deadline.now();
        deadline.move_to(now, now.after(delay))
    }

    /// Moves the deadline to `deadline`, earlier or later, like
    /// [`reset_after`](ResetHandle::reset_after). A past instant expires it at once, and the call
    /// returns `true`.
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let token = Timer::current().deadline(Duration::from_secs(30));
    /// let expires_at = Instant::now() + Duration::from_secs(3600); // as the issuer says
    /// assert!(token.handle().reset_at(expires_at));
    /// token.await?;
    /// assert!(Instant::now() >= expires_at);
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    #[inline]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        let (moved, due) = (self.as_ref(), self.shard.clock().moment(deadline));
        moved.move_to(moved.now(), due)
    }

    /// Moves the deadline later by `by`, and no reset takes that back. Returns `false` if the
    /// deadline has expired or was cancelled.
    ///
    /// A deadline counts in ticks, so each call rounds `by` up to a tick: a hundred calls of a
    /// hundredth of a tick move it by a hundred ticks.
    ///
    /// The call is atomic with respect to resets from other tasks. A deadline in its grace after a
    /// stall is extended from now, and ends no earlier than its grace.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// let handle = idle.handle();
    /// assert!(handle.extend(Duration::from_secs(60)), "a long job has begun");
    /// assert!(handle.reset(), "a heartbeat");
    /// assert_eq!(handle.remaining(), Some(Duration::from_secs(90)));
    /// # });
    /// ```
    pub fn extend(&self, by: Duration) -> bool {
        self.as_ref().change(Change::Extend(by))
    }

    /// Changes the timeout that later resets count. A deadline that is due beyond now plus the new
    /// timeout moves there; any other stays. So a shorter timeout takes effect at once, and a
    /// longer one with the next [`reset`](ResetHandle::reset).
    ///
    /// A task that waits for a [warning](crate::Deadline::warn_before) is woken if the deadline
    /// becomes earlier. A deadline in its grace after a stall stays pending, unless the stall ended
    /// at least the new timeout ago.
    ///
    /// Returns `false` if the deadline has expired or was cancelled; the new timeout then holds
    /// from the next [`restart`](crate::Deadline::restart) on.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(60));
    /// let handle = idle.handle();
    /// assert!(handle.set_timeout(Duration::from_secs(20)), "the peer has negotiated it");
    /// assert_eq!(handle.remaining(), Some(Duration::from_secs(20)));
    /// assert!(handle.set_timeout(Duration::from_secs(90)));
    /// assert_eq!(handle.remaining(), Some(Duration::from_secs(20)), "until the next reset");
    /// assert!(handle.reset());
    /// assert_eq!(handle.remaining(), Some(Duration::from_secs(90)));
    /// # });
    /// ```
    pub fn set_timeout(&self, timeout: Duration) -> bool {
        self.as_ref().change(Change::SetTimeout(timeout))
    }

    /// The timeout that a reset counts. One of 584 years or more is [`Duration::MAX`].
    pub fn timeout(&self) -> Duration {
        self.word.timeout()
    }

    /// Cancels the deadline, which resolves to `Err(Cancelled)`. `false` if it had already ended.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// let handle = idle.handle();
    /// assert!(handle.cancel());
    /// assert!(idle.await.is_err());
    /// assert!(!handle.cancel());
    /// # });
    /// ```
    pub fn cancel(&self) -> bool {
        self.as_ref().end(Err(Cancelled::BY_HANDLE)).is_some()
    }

    /// Expires the deadline now, which resolves to `Ok(())`. `false` if it had already ended.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// assert!(idle.handle().expire());
    /// assert_eq!(idle.await, Ok(())); // at once
    /// # });
    /// ```
    pub fn expire(&self) -> bool {
        self.as_ref().end(EXPIRED).is_some()
    }

    /// Whether the deadline has neither expired nor been cancelled.
    pub fn is_pending(&self) -> bool {
        self.as_ref().is_pending()
    }

    /// When the deadline expires if it is not reset: the start of a tick. Unless another call has
    /// moved it, this is the last reset plus the timeout, rounded up to a tick. In a grace after a
    /// stall this stays the due, which has passed. `None` once the deadline is no longer pending.
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// let ends = idle.handle().deadline().expect("it is pending");
    /// assert_eq!((ends - Instant::now()).as_secs(), 30);
    /// assert!(idle.handle().cancel());
    /// assert_eq!(idle.handle().deadline(), None);
    /// # });
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.as_ref().deadline()
    }

    /// The time left until [`deadline`](ResetHandle::deadline), rounded down to a millisecond, or
    /// the timeout if that is shorter and no call has moved the deadline further. Zero if the
    /// deadline is about to expire, and in a grace. `None` once the deadline is no longer pending.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(30));
    /// assert_eq!(idle.handle().remaining(), Some(Duration::from_secs(30)));
    /// assert!(idle.handle().expire());
    /// assert_eq!(idle.handle().remaining(), None);
    /// # });
    /// ```
    pub fn remaining(&self) -> Option<Duration> {
        self.as_ref().remaining()
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
