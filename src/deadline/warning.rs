//! A warning before a deadline: [`WarnBefore`].
//!
//! ```text
//!             the deadline is within `grace`                  it has passed
//!   idle ------------------------------------> in the grace ----------------> expired
//!    ^                                              |
//!    +----------(a reset, which is in time)---------+
//! ```
//!
//! The deadline stays one deadline, and knows nothing of the warning. So a reset costs what it
//! costs without one, and its answer is exact in the grace too. A second timer, the *look*, wakes
//! the task when the grace would begin if nothing reset the deadline. If something has, the look is
//! set anew. So it comes at most once in the time that the deadline is idle before its grace.
//!
//! Invariant: while the task waits, the look is set for no later than the moment in which the next
//! grace can begin. A plain reset begins one no earlier than after the idle time. Every other move
//! takes the lock of the shard, marks the word as moved and wakes the task, because the word is
//! *watched*.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The deadline is moved while the task sets its look.* The task registers its waker under the
//!   lock of the shard, then takes the mark, then asks under the lock when the deadline is due. A
//!   move that comes before the question is seen by it. One that comes later finds the waker.
//! - *The deadline ends between its poll and the question.* The question is answered `None`, and
//!   the deadline is polled again.
//! - *A stall.* The look comes late, and so does the deadline's own turn. Where stalls do not
//!   count, the deadline is still pending then, and the warning comes first.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Deadline, ResetHandle};
use crate::error::Cancelled;
use crate::future::sleep::{Ended, Sleep};
use crate::time::tick::{Moment, Span};

/// How far a deadline has come: [`WarnBefore::wait`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tickwheel::{Duration, Stage, Timer};
///
/// let idle = Timer::current().deadline(Duration::from_secs(60));
/// let mut idle = idle.warn_before(Duration::from_secs(10));
/// assert_eq!(idle.wait().await?, Stage::Warning);
/// assert_eq!(idle.wait().await?, Stage::Expired);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The grace has begun. The deadline is pending, and a reset is in time.
    Warning,
    /// The deadline has expired. It is over, unless it is
    /// [restarted](crate::Deadline::restart).
    Expired,
}

/// A deadline with a warning before it: [`Deadline::warn_before`](crate::Deadline::warn_before) and
/// [`KeyedDeadline::warn_before`](crate::KeyedDeadline::warn_before).
///
/// It is for a keepalive that asks before it closes. A connection that is idle gets a ping, and has
/// a grace in which to answer. Any heartbeat of the grace is simply a reset that returns `true`:
/// there is no moment between the two stages in which it would be too late.
///
/// - The grace is the end of the deadline's timeout, and not beside it. With a timeout of 60 s and
///   a grace of 10 s, the warning comes after 50 s.
/// - A warning is never early. It is late by as much as the deadline itself may be. So let the
///   grace be longer than a few ticks of the timer.
/// - There is one warning for each time at which the deadline is due. A deadline that is reset, or
///   moved in any other way, warns again when its next grace begins, and at once if it is in that
///   already.
/// - After a [stall](Deadline) the warning comes first, and then the grace of the stall. There is
///   no warning where the driver was held up over the whole grace and that is no stall: because it
///   took less than 50 ms or 16 ticks, or because the timer [counts
///   stalls](crate::Builder::count_stalls). Nor is there one before an end by
///   [`expire`](ResetHandle::expire).
/// - A grace of more than seven eighths of the timeout is of little use: after a reset its warning
///   may come an eighth of the timeout late. The warning of a grace that is no less than the
///   timeout comes at once.
///
/// It takes a second timer. A task that awaits it is woken once in the idle time, however often the
/// deadline was reset. A [`reset`](ResetHandle::reset) costs nothing more. Each other move takes
/// the lock of the deadline's shard, and wakes the task.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tickwheel::error::Cancelled> {
/// use tickwheel::{Duration, Instant, Stage, Timer, sleep};
///
/// let start = Instant::now();
/// let idle = Timer::current().deadline(Duration::from_secs(60));
/// let heartbeat = idle.handle();
/// let mut idle = idle.warn_before(Duration::from_secs(10));
///
/// assert_eq!(idle.wait().await?, Stage::Warning);
/// assert_eq!(start.elapsed(), Duration::from_secs(50));
/// // Here a server sends a ping. The pong comes within the grace:
/// tokio::spawn(async move {
///     sleep(Duration::from_secs(9)).await;
///     assert!(heartbeat.reset());
/// });
/// assert_eq!(idle.wait().await?, Stage::Warning, "of the next idle time");
/// assert_eq!(start.elapsed(), Duration::from_secs(59 + 50));
/// // And now nobody answers.
/// assert_eq!(idle.wait().await?, Stage::Expired);
/// assert_eq!(start.elapsed(), Duration::from_secs(59 + 60));
/// # Ok(())
/// # }
/// ```
#[must_use = "the deadline is cancelled when it is dropped; call `wait`"]
pub struct WarnBefore<D = Deadline> {
    deadline: D,
    handle: ResetHandle,
    grace: Duration,
    look: Sleep,
    /// The deadline of the last warning.
    warned_of: Option<Moment>,
}

impl<D> WarnBefore<D>
where
    D: Future<Output = Result<(), Cancelled>> + Unpin,
{
    /// `handle` is the deadline's own.
    pub(crate) fn new(deadline: D, handle: ResetHandle, grace: Duration) -> WarnBefore<D> {
        WarnBefore {
            // It is ready, so the first poll looks.
            look: Sleep::after(handle.shard().clone(), Duration::ZERO),
            deadline,
            handle,
            grace,
            warned_of: None,
        }
    }

    /// Waits for the warning or the end of the deadline, whatever comes first. After a warning it
    /// waits for the end, or for the next warning if the deadline is reset.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] as the deadline itself. Called again after the end, it returns the same
    /// outcome, until the deadline is restarted.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it completes, nothing is lost. So it can be a branch of a `select!`.
    pub async fn wait(&mut self) -> Result<Stage, Cancelled> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    /// Polls as [`wait`](WarnBefore::wait) waits. The task that polled last is the one that is
    /// woken.
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stage, Cancelled>> {
        loop {
            if let Poll::Ready(outcome) = Pin::new(&mut self.deadline).poll(cx) {
                return Poll::Ready(outcome.map(|()| Stage::Expired));
            }
            // The deadline has the waker from here on.
            {
                match ready!(self.look.poll_timer(cx)) {
                    Ended::Elapsed => {}
                    Ended::ShutDown => return Poll::Ready(Err(Cancelled::SHUTDOWN)),
                }
            }
            match self.look() {
                Some(true) => return Poll::Ready(Ok(Stage::Warning)),
                Some(false) => {}
                None => {
                    // Its poll comes next. The budget of this one may be used up.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }

    /// Whether a warning is due. `None` if the deadline has ended. Sets the next look.
    fn look(&mut self) -> Option<bool> {
        let told = self.handle.reported()?;
        let clock = self.handle.shard().clock();
        let now = clock.now();
        let left = told.deadline.since(now);
        if left > self.grace {
            let grace_begins = now.after(Span::from(left - self.grace));
            self.look.reset_to_moment(grace_begins);
            return Some(false);
        }
        // A plain reset from now on begins its grace no earlier than after this, and each other
        // move wakes this task. With a grace that leaves hardly any idle time, the look does not
        // come all the time.
        let timeout = self.handle.timeout();
        let idle = timeout.saturating_sub(self.grace).max(timeout / 8);
        let next = now.after(Span::from(idle).max(clock.tick().span(1)));
        self.look.reset_to_moment(next);
        let before = self.warned_of.replace(told.deadline);
        Some(before != Some(told.deadline))
    }

    /// How long before the deadline the warning comes.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The deadline.
    pub fn get_ref(&self) -> &D {
        &self.deadline
    }

    /// The deadline, without the warning.
    pub fn into_inner(self) -> D {
        self.deadline
    }

    /// Makes the deadline pending again after any outcome, as
    /// [`Deadline::restart`](crate::Deadline::restart).
    pub fn restart(&mut self) {
        self.handle.restart();
    }

    /// The handle that resets the deadline from anywhere.
    pub fn handle(&self) -> ResetHandle {
        self.handle.clone()
    }
}

impl<D: fmt::Debug> fmt::Debug for WarnBefore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarnBefore")
            .field("deadline", &self.deadline)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
