//! Warnings before a deadline: [`WarnBefore`] and [`Stage`].

// A second timer warns. A sleep, the *check*, is set for when the notice of the known due begins.
// When it has fired, the task looks at the present due. If the check was set for this due, the task
// is warned, once. Otherwise the check is set again.
//
// Invariants:
//
// - A check fires no later than the due that the last look saw, and is gone once the end is seen.
//   After the warning it lies ahead. So a check does not spin, and virtual time does not run to it
//   beyond the deadline.
// - A poll registers its waker with the deadline before it looks. The look holds the shard's lock.
//
// Orders that could go wrong, and why they do not:
//
// - *A reset, or any move to later, while the task waits.* The check is too early, and the look
//   sets it again. The call does not wake the task. After a warning, though, the notice of the new
//   due may begin before the previous due. So within a notice there is a check every eighth of it,
//   and a poll for another reason looks too if the due has changed.
// - *A move to earlier while the task waits.* The check is too late. The word asks for a wake-up in
//   this case alone, and the call, which holds the lock anyway, takes the waker. The poll finds a
//   due earlier than the check's, drops the check and looks. A deadline without a warning does not
//   ask: its own timer was moved, so a wake-up would be spurious.
// - *A move between the look and the wait.* There is no such moment, because the registration comes
//   first: a move before it is seen by the look, and one after it wakes the task.
// - *A move beside a reset, which needs no lock.* Since the look, the due has only become later, or
//   a move has woken the task. So the call compares with the due that it finds under the lock.
// - *A move to within the notice.* The look sets a check that has fired, and the poll warns at once
//   if the deadline has not passed by then.
// - *A move that expires the deadline, or one after a warning.* The former is an end like any
//   other. The latter sets another due, which gets its own warning: the call may have come with a
//   heartbeat whose reset changed nothing, and a ping too many closes no live connection.
// - *Two moves before the poll.* The first takes the waker, and the second finds none. One poll
//   sees both. If the due is then no earlier than the check's, the check stays.
// - *A move to earlier, and back while the poll runs.* The check was dropped for the earlier due,
//   and the look finds the former one. The poll has forgotten it, so it sets the check again: a
//   check that was dropped must not count as fired, or the warning would be early.
// - *The grace of a stall.* The due stays, and no call makes it earlier. The notice has begun, so
//   the warning comes first.
// - *The end after the deadline's poll.* The look finds no due, and the end wakes the task.
// - *A shutdown.* The check is in the same shard, so both end at once. A task that a move has woken
//   polls, and finds the end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Deadline, ResetHandle};
use crate::clock::tick::Tick;
use crate::error::Cancelled;
use crate::future::sleep::Sleep;

/// The longest time between two looks in the grace of a stall, in which no time is left.
const LONGEST_IN_GRACE: Duration = Duration::from_millis(100);

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
/// - It warns whenever the notice has begun and the deadline is pending, once for each due time: so
///   once between two resets, unless another call moves the deadline too.
/// - A call that moves the deadline earlier wakes the task that waits. If the notice of the new due
///   time has begun, the warning comes at once. A call that makes the deadline expire, as a move to
///   a moment that has passed does, gives no warning.
/// - A warning is never early, and late by at most as much as a deadline. There are two exceptions,
///   each by at most an eighth of the notice: after a warning, the next one may be late if a call
///   other than a reset postpones the deadline, or if the notice is more than seven eighths of the
///   timeout.
/// - After a [stall](Deadline) that gives a grace, the warning comes first, and then the grace. If
///   the driver is late by the whole notice, and no grace follows, there is no warning. A notice
///   shorter than a tick may have none either.
/// - It takes a second timer. While resets come, this wakes the task about once in each timeout
///   less the notice, however many resets there are. Within the notice it wakes the task each
///   eighth of that, or of the timeout if that is shorter, and in the grace of a stall at least
///   each 100 ms. A reset costs no more.
///
/// ```
/// # use tickwheel::{Duration, Timer, warn_before::Stage};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let idle = Timer::current().deadline(Duration::from_secs(60));
/// let mut idle = idle.warn_before(Duration::from_secs(5));
/// let peer = idle.handle();
/// tokio::spawn(async move { peer.set_timeout(Duration::from_secs(20)) }); // it asks for less
/// assert_eq!(idle.wait().await?, Stage::Warning); // after 15 seconds
/// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
/// ```
#[must_use = "the deadline is cancelled when it is dropped; call `wait`"]
#[derive(Debug)]
pub struct WarnBefore<D = Deadline> {
    deadline: D,
    /// How the deadline itself is restarted.
    restart: fn(&mut D),
    handle: ResetHandle,
    notice: Duration,
    /// Elapsed if the next poll sets it.
    check: Sleep,
    /// The due for which it was set.
    checked_due: Option<Tick>,
    /// The due of the last warning.
    warned_of: Option<Tick>,
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
        WarnBefore::new(self, Deadline::restart, handle, notice)
    }
}

impl<D: Future<Output = Result<(), Cancelled>> + Unpin> WarnBefore<D> {
    pub(crate) fn new(
        deadline: D,
        restart: fn(&mut D),
        handle: ResetHandle,
        notice: Duration,
    ) -> WarnBefore<D> {
        handle.word.wake_if_earlier();
        let shard = handle.shard.clone();
        let long_ago = shard.clock().long_ago();
        WarnBefore {
            deadline,
            restart,
            handle,
            notice,
            check: Sleep::until(shard, long_ago),
            checked_due: None,
            warned_of: None,
        }
    }

    /// Waits for the next warning, or for the end of the deadline, which it returns again and again
    /// until the deadline is restarted.
    ///
    /// # Errors
    ///
    /// [`Cancelled`], where the deadline itself would return it.
    ///
    /// # Cancel safety
    ///
    /// Dropping it before it completes loses nothing. The task that waited last is woken.
    ///
    /// # Examples
    ///
    /// In `tokio::select!` it stands as it is. `futures::select!` takes only fused futures, so call
    /// [`fuse`] there:
    ///
    /// ```
    /// # use futures::{FutureExt, StreamExt, channel::mpsc};
    /// # use tickwheel::{Duration, Timer, warn_before::Stage};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let (sender, mut messages) = mpsc::unbounded::<&str>();
    /// # sender.unbounded_send("hello").unwrap();
    /// # let mut pings = 0;
    /// let idle = Timer::current().deadline(Duration::from_secs(60));
    /// let mut idle = idle.warn_before(Duration::from_secs(10));
    /// let handle = idle.handle();
    /// loop {
    ///     futures::select! {
    ///         message = messages.select_next_some() => {
    ///             assert!(handle.reset(), "in time for {message}");
    ///         }
    ///         stage = idle.wait().fuse() => match stage? {
    ///             Stage::Warning => pings += 1, // after 50 seconds
    ///             Stage::Expired => break,
    ///         },
    ///     }
    /// }
    /// assert_eq!(pings, 1);
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    ///
    /// [`fuse`]: https://docs.rs/futures/0.3/futures/future/trait.FutureExt.html#method.fuse
    pub async fn wait(&mut self) -> Result<Stage, Cancelled> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stage, Cancelled>> {
        if let Poll::Ready(outcome) = Pin::new(&mut self.deadline).poll(cx) {
            self.forget();
            return Poll::Ready(outcome.map(|()| Stage::Expired));
        }
        if self.is_check_late() {
            self.drop_check();
        }
        // A check that is shut down waits for the deadline, which is about to end.
        while ready!(self.check.poll_after_inner(true, cx)).is_ok() {
            let Some(due) = self.handle.as_ref().due() else {
                break;
            };
            if self.checked_due.replace(due) != Some(due) {
                let clock = self.handle.shard.clock();
                let begins = clock.start_of(due).checked_sub(self.notice);
                self.check
                    .reset_at(begins.unwrap_or_else(|| clock.long_ago()));
            } else {
                self.check.reset_after(self.until_next_check());
                if self.warned_of.replace(due) != Some(due) {
                    return Poll::Ready(Ok(Stage::Warning));
                }
            }
        }
        Poll::Pending
    }

    /// Whether the notice of the present due may begin before the check. It takes no lock, because
    /// a task may poll often, and most often the due has only become later.
    fn is_check_late(&self) -> bool {
        let (Some(checked), Some(due)) = (self.checked_due, self.handle.word.due()) else {
            return false;
        };
        let is_warned = self.warned_of == Some(checked);
        due < checked || is_warned && due != checked
    }

    /// After a warning: an eighth of the notice, or the time until the due if that is less. So no
    /// reset is missed: the notice of its due begins later than that, unless the notice is nearly
    /// the whole timeout. If the due is far, an eighth of the time until then.
    ///
    /// A call after the look may shorten the timeout, and then set a due that is later than the
    /// present one. Such a call wakes no task. So a check never lies far behind the due, however
    /// long the timeout was at the look.
    fn until_next_check(&self) -> Duration {
        let eighth = self.notice.min(self.handle.timeout()) / 8;
        let left = self.handle.remaining().unwrap_or(Duration::ZERO);
        let next = if !left.is_zero() {
            eighth.max(left / 8).min(left)
        } else if self.is_in_grace() {
            eighth.min(LONGEST_IN_GRACE)
        } else {
            Duration::ZERO // less than a millisecond is left
        };
        next.max(Duration::from_millis(1))
    }

    fn is_in_grace(&self) -> bool {
        let clock = self.handle.shard.clock();
        let due = self.handle.word.due();
        due.is_some_and(|due| clock.start_of(due) <= clock.now_instant())
    }

    /// For the deadline of a restart. Nothing stays armed.
    fn forget(&mut self) {
        self.drop_check();
        self.warned_of = None;
    }

    /// The next poll looks at the due, and sets the check.
    fn drop_check(&mut self) {
        self.check.elapse();
        self.checked_due = None;
    }

    /// The handle that resets the deadline from anywhere.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let idle = Timer::current().deadline(Duration::from_secs(60));
    /// let idle = idle.warn_before(Duration::from_secs(10));
    /// let handle = idle.handle();
    /// let reader = std::thread::spawn(move || handle.reset());
    /// assert!(reader.join().unwrap());
    /// # });
    /// ```
    pub fn handle(&self) -> ResetHandle {
        self.handle.clone()
    }

    /// Makes the deadline pending again, like [`Deadline::restart`](crate::Deadline::restart), and
    /// warns before it again.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer, warn_before::Stage};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(60));
    /// let mut idle = idle.warn_before(Duration::from_secs(10));
    /// assert!(idle.handle().expire());
    /// assert_eq!(idle.wait().await?, Stage::Expired);
    /// idle.restart(); // the peer connects again
    /// assert_eq!(idle.wait().await?, Stage::Warning); // after 50 seconds
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    pub fn restart(&mut self) {
        self.forget();
        (self.restart)(&mut self.deadline);
    }

    /// Changes the notice, for the present due time too. If the new notice has begun and there was
    /// no warning of this due time, the next [`wait`](WarnBefore::wait) warns at once.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer, sleep, warn_before::Stage};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let idle = Timer::current().deadline(Duration::from_secs(60));
    /// let mut idle = idle.warn_before(Duration::from_secs(1));
    /// sleep(Duration::from_secs(30)).await;
    /// // A ping takes long on this connection.
    /// idle.set_notice(Duration::from_secs(40));
    /// assert_eq!(idle.wait().await?, Stage::Warning); // at once
    /// assert_eq!(idle.wait().await?, Stage::Expired); // after 60 seconds
    /// # Ok::<(), tickwheel::error::Cancelled>(()) }).unwrap();
    /// ```
    pub fn set_notice(&mut self, notice: Duration) {
        self.notice = notice;
        self.drop_check();
    }
}

/// The deadline, for example to read the key of a [`KeyedDeadline`](crate::KeyedDeadline).
impl<D> AsRef<D> for WarnBefore<D> {
    fn as_ref(&self) -> &D {
        &self.deadline
    }
}
