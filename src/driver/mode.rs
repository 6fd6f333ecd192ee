//! Whether the driver rests or ticks: the policy; `clock` and `driver` are the mechanism.
//!
//! ```text
//!   resting --(callers' readings were many: `Readings`)--> ticking --(a tick with few calls)--> resting
//! ```
//!
//! While the driver rests, callers count their readings of the clock, and ask for ticks when there
//! are very many. While it ticks, some of the calls look at the clock (`time::stamp`), and these
//! looks tell how many calls there are. So a burst costs one useless tick at its end, and a lasting
//! load costs none.
//!
//! Invariant: the driver never ticks on a virtual clock.

use std::time::Duration;

use crate::time::tick::TickLength;

/// A tick with fewer looks is the last one. So many looks stand for some 250 calls, each of which
/// has saved a reading of 23 ns or more. That is what a tick costs where a worker is awake.
const FEWEST_LOOKS: u64 = 4;

/// tokio's timers have this grid. A driver that had to tick faster would always be late.
const SHORTEST_TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Mode {
    policy: Policy,
    /// Whether the tick is long enough.
    may_tick: bool,
    is_ticking: bool,
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
            is_ticking: false,
        }
    }

    /// For a driver that never ticks.
    pub(crate) fn resting() -> Mode {
        Mode {
            policy: Policy::AlwaysRest,
            may_tick: false,
            is_ticking: false,
        }
    }

    /// Whether a test makes the driver tick without being asked to.
    pub(crate) fn always_ticks(&self) -> bool {
        self.policy == Policy::AlwaysTick
    }

    /// Whether the driver is to tick from this turn to the next.
    ///
    /// `is_wanted` says whether callers have asked for it since the last turn, and `looks` how many
    /// calls have looked at the clock since then. `is_virtual` says whether the clock is or was
    /// paused.
    pub(crate) fn ticks(
        &mut self,
        is_wanted: bool,
        looks: u64,
        is_virtual: impl FnOnce() -> bool,
    ) -> bool {
        let ticks = match self.policy {
            Policy::AlwaysTick => true,
            Policy::AlwaysRest => false,
            Policy::Measured => {
                self.may_tick && (is_wanted || self.is_ticking && looks >= FEWEST_LOOKS)
            }
        };
        self.is_ticking = ticks && !is_virtual();
        self.is_ticking
    }
}

/// Whether the driver of a timer with that tick may tick at all. If not, nobody needs to ask.
pub(crate) fn may_tick(tick: TickLength) -> bool {
    tick.as_duration() >= SHORTEST_TICK
}

/// What the environment forces, for this crate's own tests, which must pass in both modes. Only a
/// build with `--cfg tickwheel_test_mode` looks at it.
fn forced() -> Option<Policy> {
    if !cfg!(tickwheel_test_mode) {
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

    #[test]
    fn the_driver_ticks_from_being_asked_to_a_tick_with_few_calls() {
        let mut mode = measured(SHORTEST_TICK);
        // What is wanted, how many looks there were, and whether the driver is then to tick.
        for (is_wanted, looks, ticks) in [
            (false, 0, false),
            (false, 1_000, false),
            (true, 0, true),
            (false, FEWEST_LOOKS, true),
            (false, 1_000, true),
            (false, FEWEST_LOOKS - 1, false),
            (false, 1_000, false),
        ] {
            assert_eq!(mode.ticks(is_wanted, looks, || false), ticks, "{mode:?}");
        }
    }

    #[test]
    fn on_a_virtual_clock_the_driver_never_ticks() {
        let mut mode = measured(SHORTEST_TICK);
        assert!(!mode.ticks(true, 0, || true));
        assert!(mode.ticks(true, 0, || false));
        assert!(!mode.ticks(false, 1_000, || true));
        assert!(!mode.ticks(false, 1_000, || false), "it has ended");
        mode.policy = Policy::AlwaysTick;
        assert!(!mode.ticks(false, 0, || true));
    }

    #[test]
    fn the_driver_never_ticks_faster_than_each_millisecond() {
        let mut mode = measured(SHORTEST_TICK / 2);
        assert!(!mode.ticks(true, 1_000, || false));
    }
}
