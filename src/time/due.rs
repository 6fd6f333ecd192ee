//! When a timer is due. This is known exactly, or is counted from a stamp.
//!
//! A *stamp* is the tick that the driver has published. A call that takes a stamp has read no
//! clock. It knows only that it falls into the stamp's window (see `time`). So a timer that counts
//! from stamp `s` is scheduled at `s + 2` plus its ticks. Its true due is later than that by as
//! many ticks as the window of `s` ended late.
//!
//! Invariant: the tick at which a timer is scheduled is never later than its true due.

use crate::time::tick::{Moment, TickLength};

/// How many ticks after its stamp a window ends, unless the driver was late.
pub(crate) const WINDOW: u64 = 2;

/// The published tick, which a caller took instead of a reading of the clock. Of two stamps the
/// greater one was published later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
    #[inline]
    pub(crate) fn of(tick: u64) -> Stamp {
        Stamp(tick)
    }

    /// The tick that was published.
    #[inline]
    pub(crate) fn tick(self) -> u64 {
        self.0
    }

    /// The tick before which its window ends, unless the driver was late.
    #[inline]
    pub(crate) fn window_end(self) -> u64 {
        self.0 + WINDOW
    }
}

/// From when a timer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The caller read the clock.
    At(Moment),
    /// The caller took the published tick.
    Stamp(Stamp),
}

/// When a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    At(Moment),
    Stamped(StampedDue),
}

/// The due of a timer that counts from a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StampedDue {
    pub(crate) stamp: Stamp,
    /// The tick at which the timer is scheduled. It is the true due if the window of the stamp did
    /// not end late.
    pub(crate) scheduled_tick: u64,
}

impl StampedDue {
    #[inline]
    pub(crate) fn new(stamp: Stamp, ticks: u64) -> StampedDue {
        StampedDue {
            stamp,
            scheduled_tick: stamp.window_end().saturating_add(ticks),
        }
    }
}

impl Due {
    /// Whether this due may have passed for a call that began at `start`. By a stamp it counts as
    /// passed only if the driver has come to that time.
    pub(crate) fn may_have_passed(self, start: Start, tick: TickLength) -> bool {
        match (self, start) {
            (Due::At(due), Start::At(now)) => due <= now,
            (Due::At(due), Start::Stamp(stamp)) => due <= tick.start_of(stamp.tick()),
            (Due::Stamped(due), Start::At(now)) => due.scheduled_tick <= tick.current(now),
            (Due::Stamped(due), Start::Stamp(stamp)) => due.scheduled_tick <= stamp.tick(),
        }
    }

    /// The tick at which a timer with this due is scheduled.
    #[inline]
    pub(crate) fn scheduled_tick(self, tick: TickLength) -> u64 {
        match self {
            Due::At(moment) => tick.due(moment),
            Due::Stamped(due) => due.scheduled_tick,
        }
    }
}

/// A [`Due`] in sixteen bytes, for code that keeps very many of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedDue {
    /// A moment, or the tick at which a stamped timer is scheduled.
    at: u64,
    /// `EXACT`, or the stamp.
    stamp: u64,
}

const EXACT: u64 = u64::MAX;

impl From<Due> for PackedDue {
    #[inline]
    fn from(due: Due) -> PackedDue {
        match due {
            Due::At(moment) => PackedDue {
                at: moment.to_signed_bits(),
                stamp: EXACT,
            },
            Due::Stamped(due) => PackedDue {
                at: due.scheduled_tick,
                stamp: due.stamp.tick(),
            },
        }
    }
}

impl From<PackedDue> for Due {
    #[inline]
    fn from(packed: PackedDue) -> Due {
        match packed.stamp {
            EXACT => Due::At(Moment::from_signed_bits(packed.at)),
            stamp => Due::Stamped(StampedDue {
                stamp: Stamp::of(stamp),
                scheduled_tick: packed.at,
            }),
        }
    }
}
