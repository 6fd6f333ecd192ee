//! tokio's grid: the instants at which its time driver fires, a millisecond apart since the runtime
//! was built.
//!
//! A timer's ticks begin on that grid, so that a deadline is rounded up once, and not to a tick and
//! then to a millisecond. Under a paused clock the instants are then tokio's own, also when that
//! stands between two whole milliseconds.
//!
//! tokio does not tell its grid, but shows it: a sleep that is reset has elapsed at once if its
//! deadline, rounded up to the grid, is no later than the millisecond that the time driver has
//! worked up to. So the last deadline that has elapsed lies on the grid, and is found by halving.
//!
//! Invariant: nothing but the rounding hangs on what is found here. Where it is not found, ticks
//! begin somewhere else.

use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor, worker_index};
use tokio::time::{Instant, Sleep, sleep_until};

const MILLISECOND: Duration = Duration::from_millis(1);

/// The instant from which ticks are to be counted, not in the future. To be called in the context
/// of the runtime of `handle`.
pub(crate) fn epoch(handle: &Handle) -> Instant {
    let now = Instant::now();
    // A thread outside a current-thread runtime must not touch its timers: its clock may be paused,
    // and run to them.
    if handle.runtime_flavor() == RuntimeFlavor::CurrentThread && worker_index().is_none() {
        return now;
    }
    // The time driver may come by meanwhile, and once more because it was disturbed by this.
    const TRIES: usize = 4;
    let mut sleep = pin!(sleep_until(now));
    (0..TRIES)
        .find_map(|_| find(sleep.as_mut(), now))
        .unwrap_or(now)
}

/// Looks for a line of the grid and gives the last one up to `now`.
fn find(mut sleep: Pin<&mut Sleep>, now: Instant) -> Option<Instant> {
    let mut has_elapsed = |deadline: Instant| {
        sleep.as_mut().reset(deadline);
        sleep.is_elapsed()
    };
    // Within a millisecond after what the time driver has worked up to, and that is at most so long
    // ago.
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
    // Both are looked at again, in this order. What has elapsed stays so; so the line has not moved
    // in between.
    let is_line = has_elapsed(elapsed) && !has_elapsed(ahead);
    let since = now.checked_duration_since(elapsed)?;
    let part = since.as_nanos() % MILLISECOND.as_nanos();
    is_line.then(|| now - Duration::from_nanos(part as u64))
}
