//! tokio's grid: the instants at which its time driver fires. They lie a millisecond apart, counted
//! from when the runtime was built.
//!
//! A timer's ticks begin on that grid. So a deadline is rounded up once, and under a paused clock
//! the instants are tokio's own, also when the clock stands between two whole milliseconds.
//!
//! tokio does not publish its grid, but a sleep shows it. A sleep that is reset rounds its deadline
//! up to the grid, and has elapsed if that is no later than the millisecond up to which the time
//! driver has worked. So the last deadline that has elapsed lies on the grid. The code finds it by
//! halving.
//!
//! tokio's alternative timer shows no grid: there a sleep elapses only when its worker comes round
//! next. Ticks begin somewhere between two lines there, and timers are late by what is left to the
//! next line, which is less than a millisecond.
//!
//! Invariant: nothing but the rounding hangs on what is found here. If no grid is found, ticks
//! begin somewhere else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::long_before;
use super::pausable::can_be_paused;
use super::tick::Moment;
use crate::runtime::{Handle, TELLS_WORKERS, worker_index};

const MILLISECOND: Duration = Duration::from_millis(1);

/// How far two lines of the grid lie apart, in nanoseconds.
const LINE: u64 = MILLISECOND.as_nanos() as u64;

/// Whether the calling thread drives the runtime of `handle`, as far as tokio tells that. Call this
/// before the thread enters that runtime: it may be a worker of another one.
pub(crate) fn is_driven_here(handle: &Handle) -> bool {
    let is_current = |current: Handle| current.id() == handle.id();
    Handle::try_current().is_ok_and(is_current) && (worker_index().is_some() || !TELLS_WORKERS)
}

/// The instant from which ticks are counted, which is not in the future. The caller is in the
/// context of the runtime of `handle`.
pub(crate) fn epoch(handle: &Handle, is_driven_here: bool) -> Instant {
    let now = Instant::now();
    // A thread outside of a runtime whose clock may be paused must not touch the runtime's timers:
    // the clock would run to them.
    if can_be_paused(handle) && !is_driven_here {
        return now;
    }
    // The time driver may work meanwhile, and once more because this has disturbed it.
    const TRIES: usize = 4;
    let mut sleep = pin!(sleep_until(now));
    let shows_grid = |mut sleep: Pin<&mut Sleep>| {
        sleep.as_mut().reset(long_before(now));
        sleep.is_elapsed()
    };
    // A reset may panic in the moment in which the runtime ends.
    let found = catch_unwind(AssertUnwindSafe(|| {
        let tries = if shows_grid(sleep.as_mut()) { TRIES } else { 0 };
        (0..tries).find_map(|_| find(sleep.as_mut(), now))
    }));
    found.ok().flatten().unwrap_or(now)
}

/// Whether the grid has come to `due` at `now`. Both count from an epoch that lies on it.
pub(super) fn has_come_to_line(due: Moment, now: Moment) -> bool {
    due.to_bits().div_ceil(LINE) <= now.to_bits() / LINE
}

/// The line of the grid up to which the time driver has worked, which is not after `now`.
fn find(mut sleep: Pin<&mut Sleep>, now: Instant) -> Option<Instant> {
    let mut has_elapsed = |deadline: Instant| {
        sleep.as_mut().reset(deadline);
        sleep.is_elapsed()
    };
    // A deadline that lies a millisecond ahead has not elapsed. From there the search goes back, in
    // doubling steps, until it finds one that has elapsed.
    let mut elapsed = now;
    let mut ahead = now + MILLISECOND;
    let mut step = MILLISECOND;
    while !has_elapsed(elapsed) {
        (elapsed, ahead) = (elapsed.checked_sub(step)?, elapsed);
        step *= 2;
    }
    while ahead - elapsed > Duration::from_nanos(1) {
        let middle = elapsed + (ahead - elapsed) / 2;
        if has_elapsed(middle) {
            elapsed = middle;
        } else {
            ahead = middle;
        }
    }
    // In this order: a line that has elapsed stays elapsed. So it has not moved in between.
    let is_line = has_elapsed(elapsed) && !has_elapsed(ahead);
    is_line.then_some(elapsed)
}
