//! Whether the driver rests or ticks: the policy; `clock` and `driver` are the mechanism.
//!
//! ```text
//!   resting --(callers' readings were many: `Readings`)--> ticking --(after some ticks)--> resting
//! ```
//!
//! Going back to rest, once in a while, is how it is found out whether there is still reason to
//! tick: if there is, callers ask for it again within a part of a tick, and then it ticks twice as
//! long before it rests again, up to `MOST_TICKS`. So a short burst costs few ticks, and a lasting
//! load costs few rests.
//!
//! Invariant: a virtual clock is never ticked on.

use std::time::Duration;

use crate::time::clock::Clock;
use crate::time::tick::TickLength;

/// The first time it is asked to, the driver ticks so often before it rests.
const FEWEST_TICKS: u64 = 1;

/// And so often under a lasting load; this bounds the ticks for nothing after the load has gone.
const MOST_TICKS: u64 = 128;

/// Who asks so many ticks after a rest, at most, has a lasting load. Bursts that are further apart
/// buy few ticks each, as most of those would be for nothing.
const AT_ONCE: u64 = 3;

/// tokio's timers have this grid; a driver that is to tick faster would always be late.
const SHORTEST_TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Mode {
    policy: Policy,
    /// The tick at which to rest; in the past while resting.
    until: u64,
    /// How many ticks were granted the last time.
    granted: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Policy {
    Measured,
    AlwaysTick,
    AlwaysRest,
}

impl Mode {
    pub(crate) fn new() -> Mode {
        Mode {
            policy: forced().unwrap_or(Policy::Measured),
            until: 0,
            granted: FEWEST_TICKS,
        }
    }

    /// Whether a test has the driver tick without being asked to.
    pub(crate) fn always_ticks(&self) -> bool {
        self.policy == Policy::AlwaysTick
    }

    /// Whether the driver is to tick from this turn, at tick `now`, to the next.
    pub(crate) fn ticks(&mut self, now: u64, clock: &Clock) -> bool {
        let wanted = clock.take_ticking_wanted();
        let ticks = match self.policy {
            Policy::AlwaysTick => true,
            Policy::AlwaysRest => false,
            Policy::Measured if now < self.until => true,
            Policy::Measured => wanted && may_tick(clock.tick()),
        };
        if !ticks || clock.is_virtual() {
            self.until = self.until.min(now);
            return false;
        }
        if now >= self.until {
            let at_once = now - self.until <= AT_ONCE;
            self.granted = if at_once {
                (2 * self.granted).min(MOST_TICKS)
            } else {
                FEWEST_TICKS
            };
            self.until = now + self.granted;
        }
        true
    }
}

/// Whether a timer of that tick may tick at all. If not, nobody needs to ask for it.
pub(crate) fn may_tick(tick: TickLength) -> bool {
    tick.as_duration() >= SHORTEST_TICK
}

/// For this crate's own tests and profiles, which are to be run in both modes: what the environment
/// forces, in a build with debug assertions or with `--cfg tickwheel_test_mode`.
fn forced() -> Option<Policy> {
    if !cfg!(any(debug_assertions, tickwheel_test_mode)) {
        return None;
    }
    match std::env::var("TICKWHEEL_TEST_MODE").ok()?.as_str() {
        "ticking" => Some(Policy::AlwaysTick),
        "resting" => Some(Policy::AlwaysRest),
        other => panic!("TICKWHEEL_TEST_MODE is {other:?}; it is for `ticking` or `resting`"),
    }
}
