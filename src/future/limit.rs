//! The limit of the scopes that are open on this thread: what bounds each timeout that is made.
//!
//! Invariant: a limit is set only while [`within`] runs, which puts the former one back, also if
//! what it runs panics. A limit never ends after the one that it is set within. It bounds only what
//! the task does that set it: on the same thread, other tasks of tokio's may be polled meanwhile.
//!
//! # Who gives its `Elapsed` first
//!
//! A scope and the timeouts that it bounds are due at one instant. What the scope's future polls is
//! to hear of it first, and it must not go on for ever: a loop that tries again on each [`Elapsed`]
//! would find every new timeout elapsed at once, and the scope would never end. So:
//!
//! - *The last poll.* A scope that finds its deadline passed polls the code within once more, under
//!   a limit that tells so. Timeouts that are polled then look at the clock, whether or not the
//!   driver has come to them. What polls only the futures that were woken, such as a
//!   `FuturesUnordered`, may leave them out. Then the scope ends without them.
//! - *Never at the first poll.* A timeout that ends with the limit is not elapsed when it is polled
//!   for the first time. It is at the next poll, which is the scope's last one at the latest. One
//!   that is made during the last poll stays pending, and ends with the scope.
//!
//! [`Elapsed`]: crate::error::Elapsed

use std::cell::Cell;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::future::ended::Ended;
use crate::future::sleep::Sleep;
use crate::runtime::{TaskId, try_id};
use crate::shard::Hold;
use crate::time::clock::Clock;

/// What bounds the timeouts that are made on this thread now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    deadline: Instant,
    /// A scope that ends here or earlier makes its last poll.
    is_over: bool,
    /// The task that polls the scope. A `LocalSet` or an inner runtime polls other tasks meanwhile.
    task: Option<TaskId>,
}

thread_local! {
    /// Without a destructor and without lazy initialisation, so that to look is to read a word.
    static LIMIT: Cell<Option<Limit>> = const { Cell::new(None) };
}

/// The limit of the innermost scope; `None` where this task has no scope open.
#[inline]
pub(crate) fn current() -> Option<Limit> {
    match LIMIT.get() {
        None => None,
        Some(limit) => limit.if_of_this_task(),
    }
}

/// Runs `run` under `limit`.
pub(crate) fn within<R>(limit: Limit, run: impl FnOnce() -> R) -> R {
    struct PutBack(Option<Limit>);

    impl Drop for PutBack {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }

    let _put_back = PutBack(LIMIT.replace(Some(limit)));
    run()
}

impl Limit {
    /// The limit that ends at `deadline`, or with the current one if that ends earlier.
    pub(crate) fn until(deadline: Instant) -> Limit {
        let outer = current();
        Limit {
            deadline: outer.map_or(deadline, |outer| outer.deadline.min(deadline)),
            is_over: outer.is_some_and(|outer| outer.is_over),
            task: try_id(),
        }
    }

    #[cold]
    fn if_of_this_task(self) -> Option<Limit> {
        (self.task == try_id()).then_some(self)
    }

    /// This limit during the last poll.
    pub(crate) fn over(self) -> Limit {
        Limit {
            is_over: true,
            ..self
        }
    }

    pub(crate) fn is_over(self) -> bool {
        self.is_over
    }

    pub(crate) fn deadline(self) -> Instant {
        self.deadline
    }

    /// The limit's deadline, if `clock` reads time as the caller's runtime does.
    ///
    /// A limit is in the time of the runtime that polls the scope. A timer that is driven elsewhere
    /// may have another one, if either clock was ever paused. Then this gives what is left.
    fn by(self, clock: &Clock) -> Result<Instant, Duration> {
        if clock.is_callers() {
            return Ok(self.deadline);
        }
        let before = clock.now_instant();
        let here = Instant::now();
        let after = clock.now_instant();
        if before <= here && here <= after {
            Ok(self.deadline)
        } else {
            Err(self.deadline.saturating_duration_since(here))
        }
    }
}

/// The sleep of a timeout: for `duration`, or until the limit if that comes first.
#[inline(always)]
pub(crate) fn sleep_after(shard: Hold, duration: Duration) -> Sleep {
    match LIMIT.get() {
        None => Sleep::after(shard, duration),
        Some(limit) => sleep_after_within(limit, shard, duration),
    }
}

/// The sleep of a timeout: until `deadline`, or until the limit if that comes first.
#[inline]
pub(crate) fn sleep_until(shard: Hold, deadline: Instant) -> Sleep {
    match LIMIT.get() {
        None => Sleep::until(shard, deadline),
        Some(limit) => sleep_until_within(limit, shard, deadline),
    }
}

#[cold]
fn sleep_after_within(limit: Limit, shard: Hold, duration: Duration) -> Sleep {
    let Some(limit) = limit.if_of_this_task() else {
        return Sleep::after(shard, duration);
    };
    match limit.by(shard.clock()) {
        Ok(limit) => {
            let left = limit.saturating_duration_since(shard.clock().now_instant());
            if left <= duration {
                Sleep::until(shard, limit)
            } else {
                Sleep::after(shard, duration)
            }
        }
        Err(left) => Sleep::after(shard, duration.min(never_at_once(left))),
    }
}

#[cold]
fn sleep_until_within(limit: Limit, shard: Hold, deadline: Instant) -> Sleep {
    let Some(limit) = limit.if_of_this_task() else {
        return Sleep::until(shard, deadline);
    };
    match limit.by(shard.clock()) {
        Ok(limit) => Sleep::until(shard, limit.min(deadline)),
        Err(left) => {
            let now = shard.clock().now_instant();
            let own = deadline.saturating_duration_since(now);
            if own <= left {
                Sleep::until(shard, deadline)
            } else {
                Sleep::after(shard, never_at_once(left))
            }
        }
    }
}

/// By another clock nobody can tell which sleep is the limit's. So it is never ready at once.
fn never_at_once(left: Duration) -> Duration {
    left.max(Duration::from_millis(1))
}

/// What a timeout makes of a poll of its sleep, under the rules above.
#[cold]
pub(crate) fn judge(
    limit: Limit,
    sleep: &Sleep,
    is_first_poll: bool,
    polled: Poll<Ended>,
    cx: &mut Context<'_>,
) -> Poll<Ended> {
    match polled {
        Poll::Ready(Ended::Elapsed) if is_first_poll && sleep.deadline() == limit.deadline => {
            // The scope's own sleep need not have fired yet, and not all code within is polled by
            // the scope: some may be in a `block_on`.
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Pending if limit.is_over && !is_first_poll && sleep.has_passed() => {
            Poll::Ready(Ended::Elapsed)
        }
        polled => polled,
    }
}
