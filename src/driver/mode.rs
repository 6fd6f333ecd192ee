//! Whether the driver rests or ticks: the policy; `clock` and `driver` are the mechanism.
//!
//! ```text
//!   resting --(callers' readings were many: `Readings`)--> ticking --(after some ticks)--> resting
//! ```
//!
//! Once in a while the driver goes back to rest, to find out whether there is still reason to tick.
//! If there is, callers ask for it again within a fraction of a tick. Then the driver ticks twice
//! as long before it rests again, up to `MOST_TICKS`. So a short burst costs few ticks, and a
//! lasting load costs few rests.
//!
//! Invariant: the driver never ticks on a virtual clock.

use std::time::Duration;

use crate::time::tick::TickLength;

/// When it is asked for the first time, the driver makes this many ticks before it rests.
const FEWEST_TICKS: u64 = 1;

/// Under a lasting load the driver makes at most this many ticks before it rests. This bounds the
/// useless ticks after the load has ended.
const MOST_TICKS: u64 = 128;

/// If callers ask again at most this many ticks after a rest began, the load is a lasting one.
/// Bursts that are further apart buy few ticks each, because most of those would be useless.
const SOON_AFTER_REST: u64 = 3;

/// tokio's timers have this grid. A driver that had to tick faster would always be late.
const SHORTEST_TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Mode {
    policy: Policy,
    /// Whether the tick is long enough.
    may_tick: bool,
    /// The tick at which to rest. It lies in the past while the driver rests.
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

    /// Whether a test makes the driver tick without being asked to.
    pub(crate) fn always_ticks(&self) -> bool {
        self.policy == Policy::AlwaysTick
    }

    /// Whether the driver is to tick from this turn, at tick `now`, to the next.
    ///
    /// `is_wanted` says whether callers have asked for it since the last turn. `is_virtual` says
    /// whether the clock is or was paused. The decision depends on these and on the ticks granted
    /// before, and on nothing else.
    pub(crate) fn ticks(
        &mut self,
        now: u64,
        is_wanted: bool,
        is_virtual: impl FnOnce() -> bool,
    ) -> bool {
        let ticks = match self.policy {
            Policy::AlwaysTick => true,
            Policy::AlwaysRest => false,
            Policy::Measured => now < self.until || is_wanted && self.may_tick,
        };
        if !ticks || is_virtual() {
            self.until = self.until.min(now);
            return false;
        }
        if now >= self.until {
            let at_once = now - self.until <= SOON_AFTER_REST;
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

/// Whether the driver of a timer with that tick may tick at all. If not, nobody needs to ask.
pub(crate) fn may_tick(tick: TickLength) -> bool {
    tick.as_duration() >= SHORTEST_TICK
}

/// What the environment forces, for this crate's own tests, which must pass in both modes. Only a
/// build with `--cfg tickwheel_test_mode`, or with the hidden feature of these tests, looks at it.
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

    /// Each row is a tick, whether ticking was wanted, and whether the driver is then to tick.
    fn assert_decisions(mode: &mut Mode, table: &[(u64, bool, bool)]) {
        for &(now, is_wanted, ticks) in table {
            let decided = mode.ticks(now, is_wanted, || false);
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
            assert!(mode.ticks(now, true, || false));
            let ticks = (now + 1..).take_while(|&now| mode.ticks(now, false, || false));
            let ticks = ticks.count() as u64 + 1;
            granted.push(ticks);
            // The driver rests for one tick, and callers ask again within that.
            now += ticks + 1;
        }
        assert_eq!(granted, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
    }

    #[test]
    fn a_virtual_clock_never_ticks_and_ends_what_was_granted() {
        let mut mode = measured(SHORTEST_TICK);
        assert!(!mode.ticks(5, true, || true));
        assert!(mode.ticks(6, true, || false));
        assert!(!mode.ticks(6, true, || true));
        assert!(!mode.ticks(6, false, || false));
        mode.policy = Policy::AlwaysTick;
        assert!(!mode.ticks(7, true, || true));
    }

    #[test]
    fn a_tick_below_a_millisecond_never_ticks() {
        let mut mode = measured(SHORTEST_TICK / 2);
        assert_decisions(&mut mode, &[(1, true, false), (2, true, false)]);
    }
}
