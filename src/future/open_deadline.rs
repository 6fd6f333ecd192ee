//! The deadline that is open on a thread. It bounds each timeout that its task makes there.
//!
//! Invariant: a deadline is open only while an [`Opened`] lives, which opens the former one again
//! even after a panic. It belongs to one task: a `LocalSet` or an inner runtime may poll other
//! tasks meanwhile. It never ends after the one that its task has opened around it.
//!
//! It is an instant of the clock that `Instant::now()` reads where the
//! [`WithDeadline`](super::with_deadline::WithDeadline) is polled. A timer on the system's clock
//! may be used there while the caller's clock is paused. For such a timer it is translated once, to
//! the present time of that timer's clock plus the time left. A timeout does so when it is made,
//! and a `WithDeadline` at its first pending poll.
//!
//! A loop that retries on each `Elapsed` must not spin once the deadline has passed. So a timeout
//! made then is due a tick later, and meanwhile the `WithDeadline` ends.

use std::cell::Cell;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::runtime::{TaskId, try_id};

/// What bounds the timeouts that a task makes on this thread.
#[derive(Clone, Copy)]
struct OpenDeadline {
    /// By the clock that `Instant::now()` reads where it was opened. No later than the one that its
    /// task has opened around it.
    deadline: Instant,
    /// The task that has opened it; `None` for code that no task polls. It bounds no other task.
    task: Option<TaskId>,
}

thread_local! {
    /// Without a destructor and without lazy initialisation, so that a look is one read of a word.
    static INNERMOST: Cell<Option<OpenDeadline>> = const { Cell::new(None) };
}

/// The innermost open deadline; `None` where this task has none open.
#[inline]
pub(super) fn current() -> Option<Instant> {
    let innermost = INNERMOST.get()?;
    (innermost.task == try_id()).then_some(innermost.deadline)
}

/// Opens `deadline`, or the one around it if that comes first, until the guard is dropped.
// A guard and no closure, because a closure that makes a large future would move it once more.
#[must_use = "the deadline is closed when the guard is dropped"]
pub(crate) fn open(deadline: Instant) -> Opened {
    let innermost = OpenDeadline {
        deadline: earlier(deadline),
        task: try_id(),
    };
    Opened(INNERMOST.replace(Some(innermost)))
}

/// Holds the deadline that is open around the innermost one.
pub(crate) struct Opened(Option<OpenDeadline>);

impl Drop for Opened {
    fn drop(&mut self) {
        INNERMOST.set(self.0);
    }
}

/// When a timeout ends whose open deadline has passed, so that a retrying loop lets the deadline
/// end.
pub(super) fn next_tick(clock: &Clock) -> Instant {
    clock.now_instant() + clock.tick().as_duration()
}

/// The earlier one of a deadline and the one that is open.
#[inline]
pub(crate) fn earlier(deadline: Instant) -> Instant {
    current().map_or(deadline, |open| open.min(deadline))
}

/// Whether this task has a deadline open.
#[inline]
pub(crate) fn is_open() -> bool {
    // Where none is open on the thread, for any task, this is one read of a word.
    INNERMOST.get().is_some() && is_of_this_task()
}

#[cold]
fn is_of_this_task() -> bool {
    current().is_some()
}

/// The deadline of a timeout that is made on a timer with this clock: its own, or the one that is
/// open if that comes first.
#[cold]
pub(crate) fn bound(own: Instant, clock: &Clock) -> Instant {
    let Some(open) = current() else {
        return own;
    };
    let end = clock.translate(open);
    if end <= clock.now_instant() {
        // Also where its own deadline has passed: a loop may well take `time_left` for its
        // timeouts.
        next_tick(clock)
    } else {
        end.min(own)
    }
}
