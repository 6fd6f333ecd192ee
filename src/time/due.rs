//! When a timer is due. This is known exactly, or is counted from a stamp.
//!
//! A *stamp* is the tick that the driver has published. A call that takes a stamp has read no
//! clock. It knows only that it falls into the stamp's window (see `time`). So a timer that counts
//! from stamp `s` is scheduled at `s + 2` plus its ticks. Its true due is later than that by as
//! many ticks as the window of `s` ended late.
//!
//! Invariant: the tick at which a timer is scheduled is never later than its true due.

use std::fmt;
use std::num::NonZeroU64;

use crate::time::tick::{Moment, TickLength};

/// How many ticks after its stamp a window ends, unless the driver was late.
pub(crate) const WINDOW: u64 = 2;

/// The published tick, which a caller took instead of a reading of the clock. Of two stamps the
/// greater one was published later.
///
/// It is one more than the tick. So no stamp is zero, which is published while the driver rests, and
/// by which the compiler keeps a [`Due`] in sixteen bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(NonZeroU64);

impl Stamp {
    #[inline]
    pub(crate) fn of(tick: u64) -> Stamp {
        Stamp(NonZeroU64::MIN.saturating_add(tick))
    }

    /// The tick that was published.
    #[inline]
    pub(crate) fn tick(self) -> u64 {
        self.0.get() - 1
    }

    /// The tick before which its window ends, unless the driver was late.
    #[inline]
    pub(crate) fn window_end(self) -> u64 {
        (self.0.get() - 1).saturating_add(WINDOW)
    }

    /// What is published while this is the stamp.
    pub(crate) fn to_published(self) -> u64 {
        self.0.get()
    }

    /// The stamp that is published; `None` while the driver rests.
    #[inline]
    pub(crate) fn from_published(published: u64) -> Option<Stamp> {
        NonZeroU64::new(published).map(Stamp)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stamp").field(&self.tick()).finish()
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

    /// How many ticks after the stamp's window it is due.
    pub(crate) fn ticks(self) -> u64 {
        self.scheduled_tick - self.stamp.window_end()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_due_takes_sixteen_bytes() {
        // Very many of them are kept. The number that no stamp has tells the two kinds apart.
        assert_eq!(size_of::<Due>(), 16);
    }

    #[test]
    fn a_stamp_is_published_and_read_again() {
        for tick in [0, 1, 7, u64::MAX - 1] {
            let stamp = Stamp::of(tick);
            assert_eq!(stamp.tick(), tick);
            assert_eq!(Stamp::from_published(stamp.to_published()), Some(stamp));
        }
        assert_eq!(Stamp::from_published(0), None);
    }
}
