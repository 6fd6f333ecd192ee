//! The limit of a thread: the deadline that is open there. It bounds each timeout that its task
//! makes there.
//!
//! Invariant: a limit is set only while an [`Open`] lives, which restores the former one even after
//! a panic. A limit belongs to one task: a `LocalSet` or an inner runtime may poll other tasks
//! meanwhile. It never ends after its task's limit around it.
//!
//! A limit is an instant of the clock that `Instant::now()` reads where the
//! [`WithDeadline`](super::with_deadline::WithDeadline) is polled. A timer on the system's clock
//! may be used there while the caller's clock is paused. For such a timer the limit is translated
//! once, to the present time of that timer's clock plus the time left. A timeout does so when it is
//! made, and a deadline at its first pending poll.
//!
//! A loop that retries on each `Elapsed` must not spin once the limit has passed. So a timeout made
//! then is due a tick later, and meanwhile the deadline ends.

use std::cell::Cell;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::runtime::{TaskId, try_id};

/// The limit of the timeouts that a task makes on this thread.
#[derive(Clone, Copy)]
struct Limit {
    /// By the clock that `Instant::now()` reads where it was opened. No later than its task's limit
    /// around it.
    deadline: Instant,
    /// The task that has opened it; `None` for code that no task polls. It bounds no other task.
    task: Option<TaskId>,
}

thread_local! {
    /// Without a destructor and without lazy initialisation, so that a look is one read of a word.
    static LIMIT: Cell<Option<Limit>> = const { Cell::new(None) };
}

/// The innermost open deadline; `None` where this task has none open.
#[inline]
pub(super) fn current() -> Option<Instant> {
    let limit = LIMIT.get()?;
    (limit.task == try_id()).then_some(limit.deadline)
}

/// Opens `deadline`, or the one around it if that comes first, until the guard is dropped.
// A guard and no closure, because a closure that makes a large future would move it once more.
#[must_use = "the deadline is closed when the guard is dropped"]
pub(crate) fn open(deadline: Instant) -> Open {
    let limit = Limit {
        deadline: capped(deadline),
        task: try_id(),
    };
    Open(LIMIT.replace(Some(limit)))
}

/// An open deadline. It holds the limit around it.
pub(crate) struct Open(Option<Limit>);

impl Drop for Open {
    fn drop(&mut self) {
        LIMIT.set(self.0);
    }
}

/// When a timeout ends whose limit has passed, so that a retrying loop lets the deadline end.
pub(super) fn next_tick(clock: &Clock) -> Instant {
    clock.now_instant() + clock.tick().as_duration()
}

/// A deadline to open: its own, or the limit if that comes first.
#[inline]
pub(crate) fn capped(deadline: Instant) -> Instant {
    current().map_or(deadline, |limit| limit.min(deadline))
}

/// Whether this task has a deadline open.
#[inline]
pub(crate) fn is_open() -> bool {
    // Where none is open on the thread, for any task, this is one read of a word.
    LIMIT.get().is_some() && is_of_this_task()
}

#[cold]
fn is_of_this_task() -> bool {
    current().is_some()
}

/// The deadline of a timeout made where one is open, on a timer with this clock: its own, or
/// the limit if that comes first.
#[cold]
pub(crate) fn cap(own: Instant, clock: &Clock) -> Instant {
    let Some(limit) = current() else {
        return own;
    };
    let end = clock.translate(limit);
    if end <= clock.now_instant() {
        // Also where its own deadline has passed: a loop may well take `time_left` for its
        // timeouts.
        next_tick(clock)
    } else {
        end.min(own)
    }
}
