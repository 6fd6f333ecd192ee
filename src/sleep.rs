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
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use crate::shard::{Closed, Polled, Shard};
use crate::tick::Moment;
use crate::wheel::Key;

/// A future that is ready once its deadline has passed: [`sleep`](crate::sleep), [`sleep_until`](crate::sleep_until).
///
/// It behaves as [`tokio::time::Sleep`] does, and is `Unpin` besides: `&mut sleep` can be awaited, in a `select!`
/// say, without pinning.
///
/// - Never early; late by at most one tick of its timer, besides tokio's rounding to a millisecond and scheduling.
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
    shard: Arc<Shard>,
    deadline: Moment,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Unarmed,
    /// Unarmed, but it was reset; only `is_elapsed` makes a difference of it, as tokio's does.
    Reset,
    Armed(Key),
    Elapsed,
}

impl Sleep {
    pub(crate) fn after(shard: Arc<Shard>, duration: Duration) -> Sleep {
        let deadline = shard.clock().deadline_after(duration);
        Sleep {
            shard,
            deadline,
            state: State::Unarmed,
        }
    }

    pub(crate) fn until(shard: Arc<Shard>, deadline: Instant) -> Sleep {
        let deadline = shard.clock().moment(deadline);
        Sleep {
            shard,
            deadline,
            state: State::Unarmed,
        }
    }

    /// The instant from which the sleep is ready. One that is too far away to be counted, 146 years from the
    /// making of the timer, is taken to be there.
    pub fn deadline(&self) -> Instant {
        self.shard.clock().instant(self.deadline)
    }

    /// Whether the sleep has elapsed: its deadline has passed, and it was polled or reset before.
    pub fn is_elapsed(&self) -> bool {
        match self.state {
            State::Unarmed => false,
            State::Reset | State::Armed(_) => self.has_passed(),
            State::Elapsed => true,
        }
    }

    /// Moves the deadline, earlier or later; a sleep that has elapsed is pending again.
    ///
    /// A task that waits for this sleep stays registered, and is woken at the new deadline: at once, if that has
    /// passed. Costs one lock of the timer's shard if the sleep is armed, else nothing.
    pub fn reset(&mut self, deadline: Instant) {
        self.reset_to(self.shard.clock().moment(deadline));
    }

    /// Moves the deadline to `duration` from now; else as [`reset`](Sleep::reset).
    pub fn reset_after(&mut self, duration: Duration) {
        self.reset_to(self.shard.clock().deadline_after(duration));
    }

    fn reset_to(&mut self, deadline: Moment) {
        self.deadline = deadline;
        self.state = match self.state {
            State::Armed(key) if self.shard.move_to(key, self.shard.clock().due(deadline)) => {
                State::Armed(key)
            }
            _ => State::Reset,
        };
    }

    fn has_passed(&self) -> bool {
        self.shard.clock().now() >= self.deadline
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.state {
            State::Elapsed => {}
            State::Unarmed | State::Reset if self.has_passed() => {}
            State::Unarmed | State::Reset => {
                let due = self.shard.clock().due(self.deadline);
                match self.shard.arm(due, cx.waker().clone()) {
                    Ok(key) => {
                        self.state = State::Armed(key);
                        return Poll::Pending;
                    }
                    Err(Closed) => panic_shut_down(),
                }
            }
            State::Armed(key) => match self.shard.poll_armed(key, self.deadline, cx.waker()) {
                Polled::Fired => {}
                // The driver may not have come round yet.
                Polled::Pending if self.has_passed() => self.shard.disarm(key),
                Polled::Pending => return Poll::Pending,
                Polled::Closed => panic_shut_down(),
            },
        }
        self.state = State::Elapsed;
        Poll::Ready(())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let coop = ready!(coop::poll_proceed(cx));
        ready!(self.poll_elapsed(cx));
        coop.made_progress();
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let State::Armed(key) = self.state {
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
