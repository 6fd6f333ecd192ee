//! The clock of a timer, and its readings.
//!
//! The clock is the system's, with one exception. In builds with tokio's `test-util` a
//! current-thread runtime may be paused at any moment, without notice. Its timer reads the clock
//! where the call is made, as tokio's own timers do: the runtime's clock in the runtime, the
//! system's on a plain thread. Without that feature, [`pausable`] compiles to nothing.
//!
//! Invariants:
//!
//! - On one thread of the runtime, readings never go back. After a pause, another thread's
//!   reading can differ by any amount, in either direction.
//! - The epoch belongs to the timer, and lies on its runtime's grid where `grid` finds one. So two
//!   equal runs under a paused clock see equal moments.

pub(crate) mod grid;
pub(crate) mod next_check;
pub(crate) mod pausable;
pub(crate) mod stalls;
#[cfg(test)]
mod stalls_tests;
pub(crate) mod tick;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::{Handle, Id};
use pausable::{HAS_TEST_UTIL, can_be_paused};
use stalls::Stalls;
use tick::{AtomicTick, Moment, Tick, TickLength};

/// The clock of one timer, shared by its driver and its shards.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The instant of [`Moment::EPOCH`], at which the first tick begins.
    epoch: Instant,
    /// How long a tick is.
    tick: TickLength,
    /// The runtime whose clock it is, if that can be paused. Otherwise it is the system's.
    pausable: Option<Id>,
    /// Whether a thread has seen that the clock is not the system's. Never cleared.
    was_seen_virtual: AtomicBool,
    /// The stalls of the timer's driver.
    stalls: Stalls,
    /// The latest tick that some thread found too late to set the alarm for. What is armed for it
    /// is due at once, as with tokio. `NEVER` after the end, once that is written.
    missed: AtomicTick,
    /// When the runtime ended. Written before any shard is closed, never cleared.
    ended: OnceLock<Moment>,
}

impl Clock {
    /// The system's clock, which begins now.
    pub(crate) fn of_system(tick: TickLength, has_grace: bool) -> Clock {
        Clock::new(None, tick, system_now(), has_grace)
    }

    /// The clock of the runtime of `handle`, or the system's, from `epoch` on. Call this in its
    /// context.
    pub(crate) fn new(
        handle: Option<&Handle>,
        tick: TickLength,
        epoch: Instant,
        has_grace: bool,
    ) -> Clock {
        let clock = Clock {
            epoch,
            tick,
            pausable: handle.filter(|&of| can_be_paused(of)).map(Handle::id),
            was_seen_virtual: AtomicBool::new(false),
            stalls: Stalls::new(tick, has_grace),
            missed: AtomicTick::new(Tick::FIRST),
            ended: OnceLock::new(),
        };
        // So that a plain thread learns of a clock that is paused by now.
        clock.is_virtual();
        clock
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.moment(self.now_instant())
    }

    /// Like `now`, for a thread that may read another clock: the epoch there.
    pub(crate) fn now_or_epoch(&self) -> Moment {
        if self.is_read_here() {
            self.now()
        } else {
            Moment::EPOCH
        }
    }

    #[inline]
    pub(crate) fn now_instant(&self) -> Instant {
        if self.is_pausable() && is_context_alive() {
            Instant::now()
        } else {
            system_now()
        }
    }

    /// The instant `duration` from now, or the end of time for an excessive duration.
    #[inline]
    pub(crate) fn instant_after(&self, duration: Duration) -> Instant {
        let instant = self.now_instant().checked_add(duration);
        instant.unwrap_or_else(|| self.instant(Moment::MAX))
    }

    #[inline]
    pub(crate) fn is_pausable(&self) -> bool {
        // A constant, so the compiler removes the rest where there is no pausable clock.
        HAS_TEST_UTIL && self.pausable.is_some()
    }

    /// Whether the calling thread reads this clock. Otherwise it reads that of another runtime, or
    /// the system's where this one may be paused.
    pub(crate) fn is_read_here(&self) -> bool {
        !self.is_pausable() || Handle::try_current().is_ok_and(|current| self.is_of(current.id()))
    }

    /// Whether it is the clock of that runtime, and can be paused.
    pub(crate) fn is_of(&self, runtime: Id) -> bool {
        self.pausable == Some(runtime)
    }

    /// Translates `instant` from the clock of `Instant::now()` to this one, at the same distance
    /// from now. The two can differ where the caller's can be paused and this one is the system's.
    pub(crate) fn translate(&self, instant: Instant) -> Instant {
        if !HAS_TEST_UTIL || self.pausable.is_some() {
            return instant;
        }
        let Some((here, systems)) = readings_apart() else {
            return instant;
        };
        let left = instant.saturating_duration_since(here);
        self.instant(self.moment(systems).after(left))
    }

    /// Whether the clock is or was paused, and so is not the system's. Plain threads learn it from
    /// the runtime's.
    pub(crate) fn is_virtual(&self) -> bool {
        if !self.is_pausable() {
            return false;
        }
        // Relaxed: nothing else depends on it.
        let was_seen = self.was_seen_virtual.load(Ordering::Relaxed);
        if was_seen || !self.is_read_here() {
            return was_seen;
        }
        // A stopped clock may happen to show the system's time once, but not twice.
        let is_virtual = readings_apart().or_else(readings_apart).is_some();
        if is_virtual {
            self.was_seen_virtual.store(true, Ordering::Relaxed);
        }
        is_virtual
    }

    #[inline]
    pub(crate) fn tick(&self) -> TickLength {
        self.tick
    }

    pub(crate) fn current_tick(&self) -> Tick {
        self.tick.current(self.now())
    }

    /// Whether an unarmed deadline is due, at any tick length: at the line of the grid at which
    /// tokio's timers are. After a stall it is the driver that says so.
    #[inline]
    pub(crate) fn is_due_now(&self, due: Moment) -> bool {
        const LINE: u64 = grid::LINE.as_nanos() as u64;
        let now = self.now();
        due.to_bits().div_ceil(LINE) <= now.to_bits() / LINE
            && (!self.stalls.is_left_to_driver(now) || self.is_virtual())
    }

    pub(crate) fn start_of(&self, tick: Tick) -> Instant {
        self.instant(self.tick.start_of(tick))
    }

    /// The last tick that any clock reaches.
    pub(crate) fn last_tick(&self) -> Tick {
        self.tick.current(Moment::MAX)
    }

    /// An instant before the runtime was built, as far as the platform can represent one.
    pub(crate) fn long_ago(&self) -> Instant {
        long_before(self.epoch)
    }

    #[inline]
    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        match instant.checked_duration_since(self.epoch) {
            Some(distance) => Moment::after_epoch(distance),
            None => Moment::before_epoch(self.epoch.duration_since(instant)),
        }
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        let before = Moment::EPOCH.since(moment);
        if before > Duration::ZERO {
            return self.epoch.checked_sub(before).unwrap_or(self.epoch);
        }
        self.epoch
            .checked_add(moment.since(Moment::EPOCH))
            .unwrap_or_else(|| self.epoch + FAR)
    }

    pub(crate) fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// When the grace of a pending deadline ends. `None` if it has none at `now`.
    pub(crate) fn grace_end(&self, due: Tick, timeout: Duration, now: Moment) -> Option<Tick> {
        self.stalls
            .grace_end(due, timeout, now, || self.is_virtual())
    }

    #[inline]
    pub(crate) fn ended(&self) -> Option<Moment> {
        self.ended.get().copied()
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    pub(crate) fn end(&self, ended: Moment) {
        self.ended.get_or_init(|| ended);
        self.missed.raise_to(Tick::NEVER);
    }

    /// Notes a tick that has begun, and for which it is too late to set the alarm.
    pub(crate) fn note_missed(&self, tick: Tick) {
        self.missed.raise_to(tick);
    }

    /// Whether the alarm was found too late for `tick`, or the runtime has ended.
    #[inline]
    pub(crate) fn has_missed_or_ended(&self, tick: Tick) -> bool {
        tick <= self.missed.get()
    }

    /// Whether the alarm was found too late for `tick`. `false` once the runtime has ended.
    #[inline]
    pub(crate) fn has_missed(&self, tick: Tick) -> bool {
        let missed = self.missed.get();
        tick <= missed && missed != Tick::NEVER
    }
}

/// Stands for a time that overflows an instant, on platforms where such a time exists. The figure
/// is tokio's.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

fn long_before(instant: Instant) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let mut earlier = (0..32).map(|halvings| instant.checked_sub(YEAR / (1 << halvings)));
    earlier.find_map(|instant| instant).unwrap_or(instant)
}

fn system_now() -> Instant {
    Instant::from_std(std::time::Instant::now())
}

/// The calling thread's clock and the system's, if the two differ. The system's is read last, so
/// that no distance from now is too short.
fn readings_apart() -> Option<(Instant, Instant)> {
    let (before, here, after) = (system_now(), Instant::now(), system_now());
    (here < before || here > after).then_some((here, after))
}

/// Whether tokio's thread-locals are alive. Otherwise a reading of its clock panics.
fn is_context_alive() -> bool {
    !Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn of_runtime() -> Clock {
        let tick = TickLength::new(MILLISECOND).unwrap();
        Clock::new(Some(&Handle::current()), tick, Instant::now(), true)
    }

    #[test]
    fn instants_and_moments_turn_into_each_other() {
        let clock = Clock::of_system(TickLength::new(MILLISECOND).unwrap(), true);
        for instant in [
            clock.epoch,
            clock.epoch + HOUR,
            clock.epoch.checked_sub(MILLISECOND).unwrap(),
        ] {
            assert_eq!(clock.instant(clock.moment(instant)), instant);
        }
        assert!(clock.instant(Moment::MAX) > clock.epoch + HOUR);
        assert!(clock.long_ago() < clock.epoch);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_multi_thread_runtime_has_the_systems_clock() {
        let clock = of_runtime();
        assert!(!clock.is_pausable() && !clock.is_virtual());
    }

    #[tokio::test]
    async fn a_clock_is_virtual_for_ever_after_a_pause() {
        let clock = of_runtime();
        assert!(clock.is_pausable() && !clock.is_virtual());
        tokio::time::pause();
        tokio::time::advance(HOUR).await;
        assert!(clock.is_virtual());
        tokio::time::resume();
        assert!(clock.is_virtual());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_is_read_where_the_call_is_made() {
        let clock = of_runtime();
        assert_eq!(clock.now(), Moment::EPOCH);
        tokio::time::advance(HOUR).await;
        assert_eq!(clock.now(), Moment::after_epoch(HOUR));
        assert_eq!(clock.current_tick(), Tick::new(3_600_000));
        let (of_thread, is_virtual) = thread::scope(|scope| {
            let read = || (clock.now(), clock.is_virtual());
            scope.spawn(read).join().unwrap()
        });
        assert!(of_thread < Moment::after_epoch(HOUR / 2), "the system's");
        assert!(is_virtual, "it was seen in the runtime");
    }

    #[tokio::test(start_paused = true)]
    async fn an_instant_that_has_passed_is_translated_to_now() {
        let clock = Clock::of_system(TickLength::new(MILLISECOND).unwrap(), true);
        tokio::time::advance(HOUR).await;
        assert!(clock.translate(Instant::now() - HOUR / 2) <= system_now());
    }
}
