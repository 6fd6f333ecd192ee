//! tokio's grid: the instants, a millisecond apart, at which its time driver fires. It begins with
//! the runtime.
//!
//! A timer's ticks begin on that grid if they are whole milliseconds long. So a deadline is rounded
//! up once, and under a paused clock the instants are tokio's own, even when the clock stands
//! between two whole milliseconds.
//!
//! tokio does not publish its grid, but a sleep shows it. A reset sleep rounds its deadline up to
//! the grid, and has elapsed if that is no later than the millisecond up to which the time driver
//! has worked. So the last deadline that has elapsed lies on the grid, and bisection finds it.
//!
//! tokio's alternative timer shows no grid: a sleep there elapses only when its worker comes round
//! next. Ticks begin somewhere between two lines there, and timers are late by the time to the next
//! line, under 1 ms.
//!
//! Invariant: only the rounding depends on this. If no grid is found, ticks begin somewhere else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::long_before;
use super::pausable::can_be_paused;
use crate::runtime::{Handle, told_worker_index};

/// How far apart the lines of the grid are.
pub(super) const LINE: Duration = Duration::from_millis(1);

/// Whether the calling thread drives the runtime of `handle`, as far as tokio tells. Call this
/// before entering that runtime: the thread may be a worker of another one.
pub(crate) fn is_driven_here(handle: &Handle) -> bool {
    let is_current = |current: Handle| current.id() == handle.id();
    let is_worker = |told: Option<usize>| told.is_some_and(|index| may_be_worker(handle, index));
    told_worker_index().is_none_or(is_worker) && Handle::try_current().is_ok_and(is_current)
}

/// A worker of one runtime may have entered another one, and only unstable builds of tokio tell.
#[cfg_attr(not(tokio_unstable), allow(unused_variables))]
fn may_be_worker(handle: &Handle, index: usize) -> bool {
    #[cfg(tokio_unstable)]
    {
        let (metrics, here) = (handle.metrics(), std::thread::current().id());
        index < metrics.num_workers() && metrics.worker_thread_id(index) == Some(here)
    }
    #[cfg(not(tokio_unstable))]
    true
}

/// The instant from which ticks are counted, no later than now. The caller is in the runtime's
/// context.
pub(crate) fn epoch(handle: &Handle, is_driven_here: bool) -> Instant {
    let now = Instant::now();
    // A pausable clock would run to a timer that a thread outside the runtime touches.
    if can_be_paused(handle) && !is_driven_here {
        return now;
    }
    // The time driver may work meanwhile, and once more because this has disturbed it.
    const TRIES: usize = 4;
    let mut sleep = pin!(sleep_until(now));
    // A reset may panic at the moment at which the runtime ends.
    let found = catch_unwind(AssertUnwindSafe(|| {
        (0..TRIES).find_map(|_| find(sleep.as_mut(), now))
    }));
    found.ok().flatten().unwrap_or(now)
}

/// The line of the grid up to which the time driver has worked, no later than `now`.
fn find(mut sleep: Pin<&mut Sleep>, now: Instant) -> Option<Instant> {
    let mut has_elapsed = |deadline: Instant| {
        sleep.as_mut().reset(deadline);
        sleep.is_elapsed()
    };
    let (mut elapsed, mut ahead) = (long_before(now), now + LINE);
    if !has_elapsed(elapsed) {
        return None;
    }
    while ahead - elapsed > Duration::from_nanos(1) {
        let middle = elapsed + (ahead - elapsed) / 2;
        if has_elapsed(middle) {
            elapsed = middle;
        } else {
            ahead = middle;
        }
    }
    // In this order: an elapsed line stays elapsed, so it has not moved in between.
    let is_line = has_elapsed(elapsed) && !has_elapsed(ahead);
    is_line.then_some(elapsed)
}
