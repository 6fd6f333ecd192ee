//! From when a timer counts: from a reading of the clock while the driver rests, from its stamp
//! while it ticks.
//!
//! Invariant: whoever reads the clock in place of a stamp, because there is none, counts as one of
//! many readings; so the driver learns when it had better tick. Counting may wake the driver, and
//! so is not to be done with a lock held.

use std::time::Duration;

use super::Shard;
use crate::shard::word::Timeout;
use crate::time::due::{Due, StampedDue, Start};
use crate::time::tick::{Moment, Span};

impl Shard {
    /// When a timer is due that is made now. Reads the clock only while the driver rests, or if the
    /// duration must not count from a stamp.
    #[inline]
    pub(crate) fn due_after(&self, duration: Duration) -> Due {
        match (
            self.clock.stamp(),
            self.clock.tick().stampable_ticks(duration),
        ) {
            (Some(stamp), Some(ticks)) => Due::Stamped(StampedDue::new(stamp, ticks)),
            (None, _) => Due::At(self.read_clock().after(Span::from(duration))),
            (Some(_), None) => Due::At(self.clock.now().after(Span::from(duration))),
        }
    }

    /// From when a deadline of that timeout counts that is made or reset now. Not to be called with
    /// a lock held.
    #[inline]
    pub(crate) fn start(&self, timeout: Timeout) -> Start {
        match self.clock.stamp() {
            Some(stamp) if timeout.is_stampable() => Start::Stamp(stamp),
            Some(_) => Start::At(self.clock.now()),
            None => Start::At(self.read_clock()),
        }
    }

    /// From when a reset counts of a deadline that is not known yet; if a stamp must not be used
    /// for that, the word takes a fresh start. Not to be called with a lock held.
    pub(crate) fn start_of_any(&self) -> Start {
        match self.clock.stamp() {
            Some(stamp) => Start::Stamp(stamp),
            None => Start::At(self.read_clock()),
        }
    }

    /// As `start`, to be called with any lock held: it does not count as one of many readings.
    pub(crate) fn start_uncounted(&self, timeout: Timeout) -> Start {
        match self.clock.stamp() {
            Some(stamp) if timeout.is_stampable() => Start::Stamp(stamp),
            _ => Start::At(self.clock.now()),
        }
    }

    /// Reads the clock, and asks the driver to tick if that is done very often.
    #[cold]
    fn read_clock(&self) -> Moment {
        let now = self.clock.now();
        if self.driver.may_tick() && self.readings.count(now) {
            self.clock.want_ticking();
            self.driver.begin_to_tick();
        }
        now
    }
}
