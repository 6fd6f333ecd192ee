//! The limit of the scopes that are open on this thread: what bounds each timeout that is made.
//!
//! Invariant: a limit is set only while [`within`] runs, which puts the former one back, also if
//! what it runs panics. A limit never ends after the one that it is set within. It bounds only what
//! the task does that set it: on the same thread, other tasks of tokio's may be polled meanwhile.
//!
//! # Whose time
//!
//! A limit is an instant of the clock that `Instant::now()` reads where the scope is polled. A
//! timer that is driven elsewhere may have another clock, if either was ever paused. For such a
//! timer the limit is translated once: into its clock's present time plus what is left. For a
//! timeout that is when it is made, for a scope when it is first polled.
//!
//! # Who gives its `Elapsed` first
//!
//! A scope and the timeouts that it bounds are due at one instant. What the scope's future polls is
//! to hear of it first, and it must not go on for ever: a loop that tries again on each [`Elapsed`]
//! would find every new timeout elapsed at once, and the scope would never end. So:
//!
//! - *The scope looks at the clock.* Its own timer only wakes it. It may come later than those of
//!   the timeouts within, because it may have coarser ticks. Each poll that finds the deadline
//!   passed is the last one.
//! - *The last poll.* A scope that finds its deadline passed polls the code within once more, under
//!   a limit that tells so. Timeouts that are polled then look at the clock, whether or not the
//!   driver has come to them. What polls only the futures that were woken, such as a
//!   `FuturesUnordered`, may leave them out. Then the scope ends without them.
//! - *Never at the first poll.* Once the limit has passed, no timeout is elapsed when it is polled
//!   for the first time. It is at the next poll, which is the scope's last one at the latest. One
//!   that is made during the last poll stays pending, and ends with the scope.
//!
//! [`Elapsed`]: crate::error::Elapsed

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::future::sleep::Ended;
use crate::future::sleep::FirstPoll;
use crate::future::sleep::Sleep;
use crate::runtime::{TaskId, try_id};
use crate::shard::Shard;
use crate::time::clock::Clock;
use crate::time::due::Due;

/// What bounds the timeouts that are made on this thread now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeDeadline {
    deadline: Instant,
    /// A scope that ends here or earlier makes its last poll.
    is_over: bool,
    /// The task that polls the scope. A `LocalSet` or an inner runtime polls other tasks meanwhile.
    task: Option<TaskId>,
}

thread_local! {
    /// Without a destructor and without lazy initialisation, so that to look is to read a word.
    static LIMIT: Cell<Option<ScopeDeadline>> = const { Cell::new(None) };
}

/// The limit of the innermost scope; `None` where this task has no scope open.
#[inline]
pub(crate) fn current() -> Option<ScopeDeadline> {
    match LIMIT.get() {
        None => None,
        Some(limit) => limit.if_of_this_task(),
    }
}

/// Runs `run` under `limit`.
pub(crate) fn within<R>(limit: ScopeDeadline, run: impl FnOnce() -> R) -> R {
    struct PutBack(Option<ScopeDeadline>);

    impl Drop for PutBack {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }

    let _put_back = PutBack(LIMIT.replace(Some(limit)));
    run()
}

impl ScopeDeadline {
    /// The limit that ends at `deadline`, or with the current one if that ends earlier.
    pub(crate) fn until(deadline: Instant) -> ScopeDeadline {
        let outer = current();
        ScopeDeadline {
            deadline: outer.map_or(deadline, |outer| outer.deadline.min(deadline)),
            is_over: outer.is_some_and(|outer| outer.is_over),
            task: try_id(),
        }
    }

    #[cold]
    fn if_of_this_task(self) -> Option<ScopeDeadline> {
        (self.task == try_id()).then_some(self)
    }

    /// This limit during the last poll.
    pub(crate) fn over(self) -> ScopeDeadline {
        ScopeDeadline {
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

    /// What is left. It reads the clock, but not during the last poll.
    pub(crate) fn remaining(self) -> Duration {
        if self.is_over {
            return Duration::ZERO;
        }
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether its deadline has passed, or a scope that ends here or earlier makes its last poll.
    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }
}

/// The deadline of a scope that is made now: its own, or the limit's if that comes first.
#[inline]
pub(crate) fn bounded(deadline: Instant) -> Instant {
    current().map_or(deadline, |limit| limit.deadline.min(deadline))
}

/// The sleep of a timeout: for `duration`, or until the limit if that comes first.
// Always inlined, as is the next one, and the due is found in a function of its own. So the
// compiler makes the sleep where it stays, and does not move the timeout's future for it.
#[inline(always)]
pub(crate) fn sleep_after(shard: Arc<Shard>, duration: Duration) -> Sleep {
    let due = due_after(&shard, duration);
    Sleep::new(shard, due, FirstPoll::after(duration))
}

/// The sleep of a timeout: until `deadline`, or until the limit if that comes first.
#[inline(always)]
pub(crate) fn sleep_until(shard: Arc<Shard>, deadline: Instant) -> Sleep {
    let due = due_at(&shard, deadline);
    Sleep::new(shard, due, FirstPoll::Looks)
}

#[inline(never)]
fn due_after(shard: &Shard, duration: Duration) -> Due {
    let within = LIMIT
        .get()
        .and_then(|limit| due_after_within(limit, shard, duration));
    within.unwrap_or_else(|| shard.due_after(duration))
}

#[inline(never)]
fn due_at(shard: &Shard, deadline: Instant) -> Due {
    let deadline = match current() {
        None => deadline,
        Some(limit) => deadline.min(by(shard.clock(), limit.deadline)),
    };
    Due::At(shard.clock().moment(deadline))
}

#[cold]
fn due_after_within(limit: ScopeDeadline, shard: &Shard, duration: Duration) -> Option<Due> {
    let limit = limit.if_of_this_task()?;
    let clock = shard.clock();
    let own = clock.now().after(duration.into());
    let limit = clock.moment(by(clock, limit.deadline));
    Some(Due::At(own.min(limit)))
}

/// A deadline of a limit, in the time of `clock`.
pub(crate) fn by(clock: &Clock, deadline: Instant) -> Instant {
    if clock.is_callers() {
        return deadline;
    }
    let before = clock.now_instant();
    let here = Instant::now();
    let after = clock.now_instant();
    if before <= here && here <= after {
        return deadline;
    }
    // What is left is counted from the later reading, so that it is not too little.
    let left = deadline.saturating_duration_since(here);
    clock.instant(clock.moment(after).after(left.into()))
}

/// What a timeout or a scope makes of a poll of its sleep, under the limit that it is within.
#[inline]
pub(crate) fn judge(
    sleep: &Sleep,
    is_first_poll: bool,
    polled: Poll<Ended>,
    cx: &mut Context<'_>,
) -> Poll<Ended> {
    match current() {
        None => polled,
        Some(limit) => judge_within(limit, sleep, is_first_poll, polled, cx),
    }
}

#[cold]
fn judge_within(
    limit: ScopeDeadline,
    sleep: &Sleep,
    is_first_poll: bool,
    polled: Poll<Ended>,
    cx: &mut Context<'_>,
) -> Poll<Ended> {
    match polled {
        Poll::Ready(Ended::Elapsed) if is_first_poll && limit.has_passed() => {
            // Not all code within is polled by the scope: some may be in a `block_on`.
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Pending if limit.is_over && !is_first_poll && sleep.has_passed() => {
            Poll::Ready(Ended::Elapsed)
        }
        polled => polled,
    }
}
