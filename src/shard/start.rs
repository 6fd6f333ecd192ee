//! From when a timer counts. While the driver rests, it counts from a reading of the clock. While
//! the driver ticks, it counts from the driver's stamp.
//!
//! Invariant: a call that reads the clock because there is no stamp counts its reading. So the
//! driver learns when it had better tick. Counting may wake the driver, so no call counts with a
//! lock held.

use std::time::Duration;

use super::Shard;
use crate::time::due::{Due, Stamp, StampedDue, Start};
use crate::time::tick::{Moment, Span};

impl Shard {
    /// From when a timer counts that is made or reset now. It counts from the stamp only if
    /// `is_stampable` says that it may. While the driver rests, `is_stampable` is not called. The
    /// caller holds no lock.
    #[inline]
    pub(crate) fn start(&self, is_stampable: impl FnOnce() -> bool) -> Start {
        self.start_by(self.clock.take_stamp(), is_stampable)
    }

    /// As `start`, for a call that has taken the stamp.
    #[inline]
    pub(crate) fn start_by(
        &self,
        stamp: Option<Stamp>,
        is_stampable: impl FnOnce() -> bool,
    ) -> Start {
        match stamp {
            Some(stamp) if is_stampable() => Start::Stamp(stamp),
            Some(_) => Start::At(self.clock.now()),
            None => Start::At(self.read_clock()),
        }
    }

    /// As `start`, for a caller that holds a lock. It does not count its reading.
    pub(crate) fn start_under_lock(&self, is_stampable: bool) -> Start {
        match self.clock.stamp() {
            Some(stamp) if is_stampable => Start::Stamp(stamp),
            _ => Start::At(self.clock.now()),
        }
    }

    /// When a timer is due that is made now. The caller holds no lock.
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

    /// Reads the clock. Asks the driver to tick if there are very many readings.
    #[inline]
    fn read_clock(&self) -> Moment {
        let now = self.clock.now();
        if self.driver.may_tick() && self.readings.count(now) {
            self.clock.want_ticking();
            self.driver.begin_to_tick();
        }
        now
    }
}
