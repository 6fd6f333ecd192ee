//! The limit of the scopes that are open on a thread. It bounds each timeout made there.
//!
//! Invariant: a limit is set only while [`within`] runs, which restores the former one even after a
//! panic. A limit never ends after the one around it. It belongs to one task: a `LocalSet` or an
//! inner runtime may poll other tasks meanwhile.
//!
//! A limit is an instant of the clock that `Instant::now()` reads where the scope is polled. A
//! timer on the system's clock may be used there while the caller's clock is paused. For such a
//! timer the limit is translated once, to its clock's present time plus the time left: for a
//! timeout when it is made, for a scope when it is first polled.
//!
//! A loop within the scope that retries on each `Elapsed` must not spin once the limit has passed.
//! So a timeout made then is due a tick later, and meanwhile the scope ends.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::future::sleep::Sleep;
use crate::runtime::{TaskId, try_id};
use crate::shard::Shard;

/// The limit of the timeouts that are now made on this thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeDeadline {
    deadline: Instant,
    task: Option<TaskId>,
}

thread_local! {
    /// Without a destructor and without lazy initialisation, so that a look is one read of a word.
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
    pub(crate) fn until(deadline: Instant) -> ScopeDeadline {
        let outer = current();
        ScopeDeadline {
            deadline: outer.map_or(deadline, |outer| outer.deadline.min(deadline)),
            task: try_id(),
        }
    }

    #[cold]
    fn if_of_this_task(self) -> Option<ScopeDeadline> {
        (self.task == try_id()).then_some(self)
    }

    pub(crate) fn deadline(self) -> Instant {
        self.deadline
    }

    /// When a timeout under this limit ends, in the time of `clock`. Once the limit has passed that
    /// is a tick from now, so that a retrying loop lets the scope end.
    pub(super) fn end(self, clock: &Clock, now: Instant) -> Instant {
        let deadline = clock.translate(self.deadline);
        if deadline <= now {
            now + clock.tick().as_duration()
        } else {
            deadline
        }
    }

    pub(crate) fn remaining(self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// The deadline of a scope made now: its own, or the limit's if that comes first.
#[inline]
pub(crate) fn capped(deadline: Instant) -> Instant {
    current().map_or(deadline, |limit| limit.deadline.min(deadline))
}

/// Whether a scope may be open on this thread, maybe for another task.
#[inline]
pub(crate) fn may_be_open() -> bool {
    LIMIT.get().is_some()
}

/// The sleep of a timeout on this shard: for `duration`, or until the limit if that comes first.
#[inline(always)] // So that the compiler makes the sleep where it stays, here and below.
pub(crate) fn sleep_after(shard: Arc<Shard>, duration: Duration) -> Sleep {
    if may_be_open() {
        return capped_sleep_after(shard, duration);
    }
    Sleep::after(shard, duration)
}

/// The sleep of a timeout on this shard: until `deadline`, or until the limit if that comes first.
#[inline(always)]
pub(crate) fn sleep_until(shard: Arc<Shard>, deadline: Instant) -> Sleep {
    if may_be_open() {
        return capped_sleep(Sleep::until(shard, deadline));
    }
    Sleep::until(shard, deadline)
}

#[cold]
fn capped_sleep_after(shard: Arc<Shard>, duration: Duration) -> Sleep {
    capped_sleep(Sleep::after(shard, duration))
}

#[cold]
fn capped_sleep(mut own: Sleep) -> Sleep {
    let Some(limit) = current() else {
        return own;
    };
    let deadline = own.deadline();
    let shard = own.attach();
    let now = shard.clock().now_instant();
    let end = limit.end(shard.clock(), now);
    let has_passed = shard.clock().translate(limit.deadline) <= now;
    // Also in place of a passed deadline of its own: a loop may well take `remaining`.
    if has_passed || end < deadline {
        return Sleep::until(shard.clone(), end);
    }
    own
}
