//! The [`Sleep`] future.
//!
//! ```text
//!   unarmed --(poll: deadline passed)--------------------------> elapsed
//!      | (poll: pending)                                            ^
//!      v                                                            |
//!    armed --(poll: the timer has fired, or the deadline passed)----+      reset: unarmed, or armed elsewhere
//! ```
//!
//! Invariant: a sleep holds a key only while it is armed, and takes its timer out before it forgets the key. The
//! timer fires at a tick that begins at the deadline or later, so a fired timer is a passed deadline.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use crate::due::{Due, PackedDue};
use crate::shard::{Closed, Hold, Polled};
use crate::wheel::Key;

/// A future that is ready once its deadline has passed: [`sleep`](crate::sleep), [`sleep_until`](crate::sleep_until).
///
/// It behaves as [`tokio::time::Sleep`] does, and is `Unpin` besides: `&mut sleep` can be awaited, in a `select!`
/// say, without pinning.
///
/// - Never early; late by at most one tick of its timer, two under a load of very many operations, besides tokio's
///   rounding to a millisecond and scheduling.
/// - A deadline of now or in the past is ready at the first poll.
/// - Nothing is armed before the first poll that is pending: making and dropping a sleep takes no lock.
/// - Dropping it is cancelling it: the timer's memory and the waker are given back at once, in O(1).
/// - Polled again after it was ready it is ready again, until [`reset`](Sleep::reset).
/// - The task that polled last is the one that is woken. It goes by the clock of its timer's runtime, wherever it
///   is polled.
///
/// # Panics
///
/// When it is polled while pending and the runtime that drives its timer has shut down, as tokio's does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, sleep};
///
/// let mut nap = sleep(Duration::from_secs(10));
/// tokio::select! {
///     () = &mut nap => unreachable!("ten seconds have not passed"),
///     () = sleep(Duration::from_secs(1)) => nap.reset_after(Duration::from_millis(5)),
/// }
/// nap.await;
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    shard: Hold,
    due: PackedDue,
    key: Option<Key>,
    phase: Phase,
}

/// Where a sleep is, beside whether it is armed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    /// It was polled or reset. Only `is_elapsed` makes a difference of it, as tokio's does.
    Touched,
    Elapsed,
}

impl Sleep {
    #[inline]
    pub(crate) fn after(shard: Hold, duration: Duration) -> Sleep {
        let due = shard.due_after(duration);
        Sleep::new(shard, due)
    }

    pub(crate) fn until(shard: Hold, deadline: Instant) -> Sleep {
        let due = Due::At(shard.clock().moment(deadline));
        Sleep::new(shard, due)
    }

    #[inline]
    fn new(shard: Hold, due: Due) -> Sleep {
        Sleep {
            shard,
            due: due.into(),
            key: None,
            phase: Phase::New,
        }
    }

    /// The instant from which the sleep is ready.
    ///
    /// One that is too far away to be counted, 146 years from the making of the timer, is taken to be there. While the
    /// driver ticks, a sleep for a duration is made without reading the clock; then this is up to two ticks more than
    /// that duration from its making.
    pub fn deadline(&self) -> Instant {
        let clock = self.shard.clock();
        clock.instant(clock.moment_of(self.due.into()))
    }

    /// Whether the sleep has elapsed: its deadline has passed, and it was polled or reset before.
    pub fn is_elapsed(&self) -> bool {
        match self.phase {
            Phase::New => false,
            Phase::Touched => self.has_passed(),
            Phase::Elapsed => true,
        }
    }

    /// Moves the deadline, earlier or later; a sleep that has elapsed is pending again.
    ///
    /// A task that waits for this sleep stays registered, and is woken at the new deadline: at once, if that has
    /// passed. Costs one lock of the timer's shard if the sleep is armed, else nothing.
    pub fn reset(&mut self, deadline: Instant) {
        self.reset_to(Due::At(self.shard.clock().moment(deadline)));
    }

    /// Moves the deadline to `duration` from now; else as [`reset`](Sleep::reset).
    pub fn reset_after(&mut self, duration: Duration) {
        self.reset_to(self.shard.due_after(duration));
    }

    fn reset_to(&mut self, due: Due) {
        self.due = due.into();
        self.phase = Phase::Touched;
        self.key = self.key.filter(|&key| self.shard.move_to(key, due));
    }

    fn has_passed(&self) -> bool {
        let clock = self.shard.clock();
        clock.has_passed(self.due.into(), clock.now())
    }

    /// Whether a poll that was not woken finds the deadline passed, though the driver has not come round. One that
    /// counts from a stamp reads no clock while that stamp is still published: its deadline lies ahead, unless the
    /// driver is stalled, and then it is left to the driver.
    #[inline]
    fn is_found_passed(&self) -> bool {
        match Due::from(self.due) {
            Due::At(deadline) => deadline <= self.shard.clock().now(),
            Due::Stamped(due) => self.shard.clock().stamp() != Some(due.stamp) && self.has_passed(),
        }
    }

    /// Whether a poll of an armed timer looks at the clock. One that counts from a stamp leaves it to the driver.
    #[inline]
    fn is_found_passed_while_armed(&self) -> bool {
        matches!(Due::from(self.due), Due::At(_)) && self.is_found_passed()
    }

    pub(crate) fn shard(&self) -> &Hold {
        &self.shard
    }

    /// Polls while the task's budget is not used up. A unit of it is taken only for progress: nearly all polls stay pending,
    /// and have none to give back.
    #[inline]
    pub(crate) fn poll_within_budget(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_elapsed(cx));
        if let Poll::Ready(budget) = coop::poll_proceed(cx) {
            budget.made_progress();
        }
        Poll::Ready(())
    }

    #[inline]
    fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (self.phase, self.key) {
            (Phase::Elapsed, _) => return Poll::Ready(()),
            (_, None) => ready!(self.poll_unarmed(cx)),
            (_, Some(key)) => ready!(self.poll_armed(key, cx)),
        }
        self.key = None;
        self.phase = Phase::Elapsed;
        Poll::Ready(())
    }

    #[inline]
    fn poll_unarmed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_found_passed() {
            return Poll::Ready(());
        }
        match self.shard.arm(self.due.into(), cx.waker().clone()) {
            Ok(key) => self.key = Some(key),
            Err(Closed) => panic_shut_down(),
        }
        self.phase = Phase::Touched;
        Poll::Pending
    }

    fn poll_armed(&mut self, key: Key, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.due.into();
        if self.shard.has_surely_fired(due) {
            return Poll::Ready(());
        }
        match self.shard.poll_armed(key, due, cx.waker()) {
            Polled::Fired => Poll::Ready(()),
            Polled::Pending if self.is_found_passed_while_armed() => {
                self.shard.disarm(key);
                Poll::Ready(())
            }
            Polled::Pending => Poll::Pending,
            Polled::Closed => panic_shut_down(),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !coop::has_budget_remaining() && coop::poll_proceed(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll_within_budget(cx)
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shard.disarm(key);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

#[cold]
fn panic_shut_down() -> ! {
    panic!(
        "the tokio runtime that drives this timer has shut down while the timer was pending; \
         keep that runtime running for as long as its timers are awaited"
    )
}
