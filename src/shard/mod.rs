//! One shard of a timer: a wheel behind a lock, and when the driver next comes to it.
//!
//! The states of a timer's entry, and what moves it, always under the shard's lock:
//!
//! ```text
//!   arm --> armed --(the driver finds it due)-------------> fired: the entry is gone, the key is
//!             |                                             stale, the waker is woken after the lock
//!             +-----(the future is dropped, is reset, ----> the entry is gone, or linked elsewhere
//!             |      or is polled after its deadline)
//!             +-----(the runtime has shut down: close)----> the entry is gone, its waker is woken;
//!                                                           the shard is closed for ever
//! ```
//!
//! Ground rules: which thread may touch which field of a shard, and when.
//!
//! | field | rule |
//! |---|---|
//! | `state`: the wheel, and whether it is closed | only with the lock, through [`locked::Locked`] |
//! | `next_expiry` | any thread reads it; only a thread with the lock writes it ([`next_expiry`]) |
//! | a deadline's [`word`] | a reset to a later due needs no lock; see [`locked_word`] for the rest |
//! | `readings` | any thread, at any time: nothing but speed hangs on them |
//! | `clock`, `driver`, `number` | never written |
//!
//! Invariant: no user code runs under the lock. A thread clones a waker before it takes the lock,
//! and wakes or drops one after it has let the lock go. A key of a map never comes here. Hence a
//! poisoned lock means nothing, and poison is ignored.

mod deadlines;
mod locked;
mod locked_word;
mod next_expiry;
#[cfg(test)]
mod next_expiry_tests;
pub(crate) mod word;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::driver::{Driver, Passed};
use crate::time::clock::Clock;
use crate::time::stamp::{Due, Stamp, StampedDue, Start};
use crate::time::tick::{Moment, Span, TickLength};
use crate::wheel::{SlotCounter, SlotCounts};
pub(crate) use deadlines::{By, Reported};
use locked::ShardState;
pub(crate) use locked::{BATCH, Moved, NotArmed, Polled, ShardTurned};
pub(crate) use locked_word::LockedWord;
use next_expiry::{Change, NextExpiry};

/// It lies on cache lines of its own, because each worker writes its own shard all the time.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<ShardState>,
    next_expiry: NextExpiry,
    clock: Arc<Clock>,
    driver: Arc<Driver>,
    readings: Readings,
    /// Which of its timer's shards it is.
    number: usize,
}

/// What a shard has done so far and holds now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pending: usize,
    pub(crate) armed: u64,
    pub(crate) fired: u64,
    pub(crate) spared: u64,
    pub(crate) put_off: u64,
}

impl Shard {
    pub(crate) fn new(
        slots: usize,
        clock: Arc<Clock>,
        driver: Arc<Driver>,
        readings: Readings,
        number: usize,
    ) -> Shard {
        Shard {
            state: Mutex::new(ShardState::with_slots(slots)),
            next_expiry: NextExpiry::never(),
            clock,
            driver,
            readings,
            number,
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Whether both are shards of one timer.
    #[cfg(feature = "hyper")]
    pub(crate) fn is_of(&self, same: &Shard) -> bool {
        Arc::ptr_eq(&self.driver, &same.driver)
    }

    /// The tick at which the driver comes next.
    pub(crate) fn next_expiry(&self) -> u64 {
        self.next_expiry.tick()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts()
    }

    /// How many timers lie in each slot. It takes the lock again and again, each time for no longer
    /// than a turn does.
    ///
    /// Whoever waits for the lock can take it between two looks, because the counting of what a
    /// look has seen takes about as long as the look.
    pub(crate) fn slot_counts(&self) -> SlotCounts {
        let mut counter = SlotCounter::with_budget(BATCH);
        loop {
            let is_finished = self.lock().look(&mut counter);
            counter.count();
            if is_finished {
                return counter.into_counts();
            }
        }
    }

    /// Tells the driver what became of the next expiry. The caller holds no lock. `true` if tokio's
    /// time driver has already worked up to the tick of the new expiry.
    #[inline]
    fn tell(&self, change: Change) -> bool {
        match change {
            Change::None => false,
            Change::Earlier(tick) => self
                .defer_after(self.driver.come_by(tick))
                .is_some_and(|passed| passed >= tick),
            Change::Later(tick) => {
                self.defer_after(self.driver.need_not_come_at(tick));
                false
            }
        }
    }

    /// Where a tick has passed for which the driver was to come, it comes only after that. The next
    /// expiry says so. Otherwise whoever arms something for such a tick would take it for expected,
    /// and a wheel with a cascade to do in the past goes on naming one.
    ///
    /// Returns the tick up to which tokio's time driver has worked.
    #[inline]
    fn defer_after(&self, passed: Option<Passed>) -> Option<u64> {
        let Passed { up_to, comes_from } = passed?;
        self.lock().defer_to(comes_from);
        Some(up_to)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { pending, .. } = self.counts();
        f.debug_struct("Shard")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}

// From when a timer counts. While the driver rests, it counts from a reading of the clock. While
// the driver ticks, it counts from the driver's stamp.
//
// Invariant: a call that reads the clock because there is no stamp counts its reading. So the
// driver learns when it had better tick. Counting may wake the driver, so no call counts with a
// lock held.

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

// How often callers read the clock while the driver rests. This decides when the driver ticks.
//
// A reading costs tens of nanoseconds. A tick of the driver costs many microseconds: for the time
// driver of the runtime, for a poll, and for a wake-up of the worker. Once the readings in a tick
// cost more than a tick, ticking is cheaper for all.
//
// Invariant: this is a gauge. If two threads read at once, its count may miss some readings.
// Nothing but speed hangs on it, and so its atomic operations are Relaxed.

/// It pays to tick if each of two stretches in a row has this many counted readings.
///
/// A reading costs 23 ns. A tick that wakes a parked worker costs 50 to 75 us. It costs a fraction
/// of that where workers are awake anyway, as they are under a load that lasts.
const WORTH_A_TICK: u64 = 512;

/// A burst is over before the first tick has paid, unless it is this many times as large.
const LARGE_BURST: u64 = 4;

#[derive(Debug)]
pub(crate) struct Readings {
    /// The number of a stretch of time, whether the stretch before it had many readings, and how
    /// many readings fell into it. A stretch is about half as long as a tick.
    counted: AtomicU64,
    stretch_bits: u32,
    many: u64,
}

const COUNT_BITS: u32 = 15;
const MOST: u64 = (1 << COUNT_BITS) - 1;
/// The stretch before had many readings.
const SECOND: u64 = 1 << COUNT_BITS;

impl Readings {
    /// The readings of one shard, for a timer that has this many shards.
    pub(crate) fn new(tick: TickLength, shards: usize) -> Readings {
        let nanos = u64::try_from(tick.as_duration().as_nanos()).unwrap_or(u64::MAX);
        let many = WORTH_A_TICK / (shards as u64).max(1);
        Readings {
            counted: AtomicU64::new(0),
            stretch_bits: nanos.ilog2(),
            many: many.max(16),
        }
    }

    /// Counts a reading. `true` if this one makes the readings many in a second stretch, or a large
    /// burst. Each happens once in a stretch.
    pub(crate) fn count(&self, now: Moment) -> bool {
        let stretch = now.to_bits() >> self.stretch_bits;
        let counted = self.counted.load(Ordering::Relaxed);
        let before = counted >> (COUNT_BITS + 1);
        let (second, readings) = if stretch == before {
            (counted & SECOND, (counted & MOST) + 1)
        } else {
            let had_many = stretch == before + 1 && counted & MOST >= self.many;
            (if had_many { SECOND } else { 0 }, 1)
        };
        let counted = stretch << (COUNT_BITS + 1) | second | readings.min(MOST);
        self.counted.store(counted, Ordering::Relaxed);
        let is_lasting = readings == self.many && second == SECOND;
        is_lasting || readings == LARGE_BURST * self.many
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn many_lasting_readings_are_told_but_few_or_bursts_are_not() {
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let readings = Readings::new(tick, 1);
        let at = |nanos| Moment::after_epoch(Duration::from_nanos(nanos));
        let told = |from: u64, step: u64| {
            (0..100_000)
                .filter(|n| readings.count(at(from + n * step)))
                .count()
        };
        assert_eq!(told(0, 0), 1, "a clock that stands still");
        assert_eq!(told(1 << 40, 5_000), 0, "five microseconds apart");
        assert!(told(1 << 41, 500) > 10, "half a microsecond apart");
        // Each burst is followed by a pause.
        let bursts = (0..100_000_u64).map(|n| (1 << 42) + n / 2_000 * 2_000_000 + n % 2_000);
        assert_eq!(bursts.filter(|&nanos| readings.count(at(nanos))).count(), 0);
    }
}
