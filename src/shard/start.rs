//! From when a timer counts: from a reading of the clock while the driver rests, from its stamp
//! while it ticks.
//!
//! Invariant: whoever reads the clock in place of a stamp, because there is none, counts as one of
//! many readings; so the driver learns when it had better tick. Counting may wake the driver, so it
//! is not done with a lock held.

use std::time::Duration;

use super::Shard;
use crate::time::due::{Due, StampedDue, Start};
use crate::time::tick::{Moment, Span};

impl Shard {
    /// From when a timer counts that is made or reset now. It counts from the stamp only if
    /// `is_stampable` says that it may; while the driver rests that is not asked. Not to be called
    /// with a lock held.
    #[inline]
    pub(crate) fn start(&self, is_stampable: impl FnOnce() -> bool) -> Start {
        match self.clock.stamp() {
            Some(stamp) if is_stampable() => Start::Stamp(stamp),
            Some(_) => Start::At(self.clock.now()),
            None => Start::At(self.read_clock()),
        }
    }

    /// As `start`, with a lock held: it does not count as one of many readings.
    pub(crate) fn start_under_lock(&self, is_stampable: bool) -> Start {
        match self.clock.stamp() {
            Some(stamp) if is_stampable => Start::Stamp(stamp),
            _ => Start::At(self.clock.now()),
        }
    }

    /// When a timer is due that is made now. Not to be called with a lock held.
    #[inline]
    pub(crate) fn due_after(&self, duration: Duration) -> Due {
        let mut ticks = None;
        let start = self.start(|| {
            ticks = self.clock.tick().stampable_ticks(duration);
            ticks.is_some()
        });
        match (start, ticks) {
            (Start::Stamp(stamp), Some(ticks)) => Due::Stamped(StampedDue::new(stamp, ticks)),
            (Start::At(now), _) => Due::At(now.after(Span::from(duration))),
            (Start::Stamp(_), None) => unreachable!("a stamp is given only to what is stampable"),
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
