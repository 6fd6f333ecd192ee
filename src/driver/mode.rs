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
    /// Whether the tick is long enough.
    may_tick: bool,
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
    pub(crate) fn new(tick: TickLength) -> Mode {
        Mode {
            policy: forced().unwrap_or(Policy::Measured),
            may_tick: may_tick(tick),
            until: 0,
            granted: FEWEST_TICKS,
        }
    }

    /// Whether a test has the driver tick without being asked to.
    pub(crate) fn always_ticks(&self) -> bool {
        self.policy == Policy::AlwaysTick
    }

    /// Whether the driver is to tick from this turn, at tick `now`, to the next.
    ///
    /// `is_wanted` says whether callers have asked for it since the last turn, `is_virtual` whether
    /// the clock is or was paused. It hangs on these and on the ticks granted before, and on
    /// nothing else.
    pub(crate) fn ticks(&mut self, now: u64, is_wanted: bool, is_virtual: bool) -> bool {
        let ticks = match self.policy {
            Policy::AlwaysTick => true,
            Policy::AlwaysRest => false,
            Policy::Measured => now < self.until || is_wanted && self.may_tick,
        };
        if !ticks || is_virtual {
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

/// For this crate's own tests, which are to be run in both modes: what the environment forces. Only
/// a build with `--cfg tickwheel_test_mode` or the hidden feature of this crate's own tests looks.
fn forced() -> Option<Policy> {
    if !cfg!(any(tickwheel_test_mode, feature = "__test-mode")) {
        return None;
    }
    match std::env::var("TICKWHEEL_TEST_MODE").ok()?.as_str() {
        "ticking" => Some(Policy::AlwaysTick),
        "resting" => Some(Policy::AlwaysRest),
        other => panic!("TICKWHEEL_TEST_MODE is {other:?}; it is for `ticking` or `resting`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(tick: Duration) -> Mode {
        Mode {
            policy: Policy::Measured,
            ..Mode::new(TickLength::new(tick).unwrap())
        }
    }

    /// At each tick: whether it was wanted, and whether the driver is then to tick.
    fn assert_decisions(mode: &mut Mode, table: &[(u64, bool, bool)]) {
        for &(now, is_wanted, ticks) in table {
            let decided = mode.ticks(now, is_wanted, false);
            assert_eq!(decided, ticks, "at {now}, wanted: {is_wanted}: {mode:?}");
        }
    }

    #[test]
    fn a_short_burst_is_granted_one_tick() {
        let mut mode = measured(SHORTEST_TICK);
        assert_decisions(
            &mut mode,
            &[
                (100, false, false),
                (101, true, true),
                (102, false, false),
                (103, false, false),
                (200, true, true),
                (201, false, false),
            ],
        );
    }

    #[test]
    fn a_lasting_load_is_granted_twice_as_many_each_time() {
        let mut mode = measured(SHORTEST_TICK);
        let mut granted = Vec::new();
        let mut now = 1_000;
        for _ in 0..10 {
            assert!(mode.ticks(now, true, false));
            let ticks = (now + 1..).take_while(|&now| mode.ticks(now, false, false));
            let ticks = ticks.count() as u64 + 1;
            granted.push(ticks);
            // It rests for one tick, and is asked again within that.
            now += ticks + 1;
        }
        assert_eq!(granted, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
    }

    #[test]
    fn a_virtual_clock_is_never_ticked_on_and_ends_what_was_granted() {
        let mut mode = measured(SHORTEST_TICK);
        assert!(!mode.ticks(5, true, true));
        assert!(mode.ticks(6, true, false));
        assert!(!mode.ticks(6, true, true));
        assert!(!mode.ticks(6, false, false));
        mode.policy = Policy::AlwaysTick;
        assert!(!mode.ticks(7, true, true));
    }

    #[test]
    fn a_tick_below_a_millisecond_never_ticks() {
        let mut mode = measured(SHORTEST_TICK / 2);
        assert_decisions(&mut mode, &[(1, true, false), (2, true, false)]);
    }
}
