//! The clock of a timer: that of the runtime which drives it, wherever a caller reads it.
//!
//! That is the system's clock, with one exception. In builds with tokio's `test-util` a
//! current-thread runtime may be paused at any moment, without notice. A caller outside of it has
//! to enter its context to read its time. Without that feature, [`pausable`] leaves no trace of
//! this in the compiled program.
//!
//! Invariants:
//!
//! - A clock's readings never go back.
//! - The epoch belongs to the timer and lies on its runtime's grid, which `grid` finds.
//!   So two equal runs under a paused clock see equal moments.
//! - The clock of a runtime that has shut down stands still.

pub(crate) mod grid;
pub(crate) mod next_check;
pub(crate) mod pausable;
pub(crate) mod stalls;
#[cfg(test)]
mod stalls_tests;
pub(crate) mod tick;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, RwLock};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::{self, Handle};
use crate::sync::unpoisoned;
use grid::has_come_to_line;
use pausable::{HAS_TEST_UTIL, can_be_paused};
use stalls::Stalls;
use tick::{Moment, Tick, TickLength};

#[derive(Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    tick: TickLength,
    /// The runtime whose clock it is, if that can be paused. Else it is the system's.
    runtime: Option<RuntimeClock>,
    stalls: Stalls,
    /// When its runtime shut down. Written before any shard is closed, never cleared.
    ended: OnceLock<Moment>,
}

impl Clock {
    /// The system's clock, which begins now.
    pub(crate) fn of_system(tick: TickLength, has_grace: bool) -> Clock {
        Clock::new(None, tick, system_now(), has_grace)
    }

    /// The clock of the runtime of `handle`, or the system's, which begins at `epoch`. The caller
    /// is in the context of that runtime.
    pub(crate) fn new(
        handle: Option<&Handle>,
        tick: TickLength,
        epoch: Instant,
        has_grace: bool,
    ) -> Clock {
        let pausable = handle.filter(|handle| can_be_paused(handle));
        Clock {
            epoch,
            tick,
            runtime: pausable.map(|handle| RuntimeClock {
                id: handle.id(),
                last_reading: AtomicU64::new(0),
                handle: RwLock::new(Some(handle.clone())),
            }),
            stalls: Stalls::new(tick, has_grace),
            ended: OnceLock::new(),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.moment(self.now_instant())
    }

    #[inline]
    pub(crate) fn now_instant(&self) -> Instant {
        match self.pausable() {
            None => system_now(),
            // Where the calling thread cannot read it, time stands still. Acquire: pairs with the
            // AcqRel in `try_now`.
            Some(clock) => self.try_now().unwrap_or_else(|| {
                let last = clock.last_reading.load(Ordering::Acquire);
                self.instant(Moment::from_bits(last & !ENDED))
            }),
        }
    }

    /// `None` if the calling thread cannot read the clock.
    pub(crate) fn try_now(&self) -> Option<Instant> {
        let Some(clock) = self.pausable() else {
            return Some(system_now());
        };
        if let Some(&ended) = self.ended.get() {
            return Some(self.instant(ended));
        }
        let now = clock.read()?;
        let moment = self.moment(now).to_bits();
        let last = clock.last_reading.fetch_max(moment, Ordering::AcqRel);
        // Another thread may have ended the clock since then, and a third one may know of it.
        Some(match last & ENDED {
            0 => now,
            _ => self.instant(Moment::from_bits(last & !ENDED)),
        })
    }

    /// Whether the clock can ever be paused.
    #[inline]
    pub(crate) fn is_pausable(&self) -> bool {
        self.pausable().is_some()
    }

    #[inline]
    fn pausable(&self) -> Option<&RuntimeClock> {
        // The compiler knows where none is.
        self.runtime.as_ref().filter(|_| HAS_TEST_UTIL)
    }

    /// Whether it is the clock that `Instant::now()` reads in the caller's context. `false` is also
    /// returned where that cannot be known without a reading.
    pub(crate) fn is_callers(&self) -> bool {
        match (Handle::try_current(), self.pausable()) {
            (Ok(caller), Some(clock)) => clock.id == caller.id() && !self.has_ended(),
            (Ok(caller), None) => !can_be_paused(&caller),
            (Err(_), clock) => clock.is_none(), // Outside of all runtimes.
        }
    }

    /// Whether the clock is paused, or was once paused, and so is not the system's.
    pub(crate) fn is_virtual(&self) -> bool {
        if !self.is_pausable() {
            return false;
        }
        // A clock that stands may happen to show the system's time once, but not twice.
        let mut last = system_now();
        let mut is_late = || {
            let reading = self.now_instant();
            let before = std::mem::replace(&mut last, system_now());
            reading < before || reading > last
        };
        is_late() || is_late()
    }

    #[inline]
    pub(crate) fn tick(&self) -> TickLength {
        self.tick
    }

    pub(crate) fn current_tick(&self) -> Tick {
        self.tick.current(self.now())
    }

    /// Whether a deadline that was not armed yet is due. It is due on tokio's grid, as tokio's are,
    /// however long a tick is.
    pub(crate) fn is_due_now(&self, due: Moment) -> bool {
        has_come_to_line(due, self.now())
    }

    /// When `tick` begins.
    pub(crate) fn start_of(&self, tick: Tick) -> Instant {
        self.instant(self.tick.start_of(tick))
    }

    /// Whether an instant comes before `tick` begins, or as it begins.
    #[inline]
    pub(crate) fn is_by(&self, instant: Instant, tick: Tick) -> bool {
        let distance = self.tick.start_of(tick).since(Moment::EPOCH);
        let start = self.epoch.checked_add(distance);
        start.is_some_and(|start| instant <= start)
    }

    /// The last tick that any clock comes to.
    pub(crate) fn last_tick(&self) -> Tick {
        self.tick.current(Moment::MAX)
    }

    /// An instant before the runtime was built, as far as the platform can name one.
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
        /// For platforms that cannot name an instant as far away as `Moment::MAX`. As tokio's.
        const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
        let before = Moment::EPOCH.since(moment);
        if before > Duration::ZERO {
            return self.epoch.checked_sub(before).unwrap_or(self.epoch);
        }
        self.epoch
            .checked_add(moment.since(Moment::EPOCH))
            .unwrap_or_else(|| self.epoch + FAR_FUTURE)
    }

    /// The stalls of the driver that goes by this clock.
    pub(crate) fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// The grace that a stall gives, at `now`, to a pending deadline of this due and this timeout:
    /// the tick at which it ends. `None` if the deadline has none, or none any more.
    pub(crate) fn grace_end(&self, due: Tick, timeout: Duration, now: Moment) -> Option<Tick> {
        self.stalls
            .grace_end(due, timeout, now, || self.is_virtual())
    }

    /// When its runtime shut down, as far as any thread has noticed.
    #[inline]
    pub(crate) fn ended(&self) -> Option<Moment> {
        self.ended.get().copied()
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// The runtime has shut down, at that moment. A clock of its own stands still from now on, and
    /// keeps nothing of the runtime in memory.
    pub(crate) fn end(&self, ended: Moment) {
        let last = self.pausable().map(|clock| {
            let last = clock.last_reading.fetch_or(ENDED, Ordering::AcqRel);
            Moment::from_bits(last & !ENDED)
        });
        self.ended.get_or_init(|| last.unwrap_or(ended));
        if let Some(clock) = &self.runtime {
            let handle = unpoisoned(clock.handle.write()).take();
            // Under no lock: the last reference to a runtime drops what it still has.
            drop(handle);
        }
    }
}

fn long_before(instant: Instant) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let mut earlier = (0..32).map(|halvings| instant.checked_sub(YEAR / (1 << halvings)));
    earlier.find_map(|instant| instant).unwrap_or(instant)
}

fn system_now() -> Instant {
    Instant::from_std(std::time::Instant::now())
}

/// A bit that no moment has: the clock has ended, and its latest reading stays what it is.
const ENDED: u64 = 1 << 63;

/// The clock of a current-thread runtime, for a caller on any thread.
#[derive(Debug)]
struct RuntimeClock {
    id: runtime::Id,
    /// The latest reading, as a moment's bits, and `ENDED`.
    last_reading: AtomicU64,
    /// `None` once the runtime has shut down. Nothing panics under this lock.
    handle: RwLock<Option<Handle>>,
}

impl RuntimeClock {
    /// The present reading. `None` if the calling thread cannot read the clock.
    fn read(&self) -> Option<Instant> {
        let read_from_outside = || {
            let handle = unpoisoned(self.handle.read());
            let _context = handle.as_ref()?.enter();
            Some(Instant::now())
        };
        let can_enter = match Handle::try_current() {
            Ok(current) if current.id() == self.id => return Some(Instant::now()),
            Err(error) if error.is_thread_local_destroyed() => false,
            // Where tokio drops a future that it refuses to spawn, no code can enter another
            // context. The only sign is that this seems to be a task outside of any runtime.
            _ => runtime::try_id().is_none() || runtime::worker_index().is_some(),
        };
        if can_enter {
            return read_from_outside();
        }
        thread::scope(|scope| {
            let reading = thread::Builder::new().spawn_scoped(scope, read_from_outside);
            reading.ok()?.join().ok()?
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const MILLISECOND: Duration = Duration::from_millis(1);

    /// How long ago the epoch of the system's clock is here. A machine has been up for that long.
    const PAST: Duration = Duration::from_secs(1);

    /// The system's clock, whose epoch lies in the past.
    fn system(tick: Duration) -> Clock {
        let tick = TickLength::new(tick).unwrap();
        let epoch = system_now().checked_sub(PAST).unwrap();
        Clock::new(None, tick, epoch, true)
    }

    /// The clock of the current runtime, which begins now.
    fn of_runtime() -> Clock {
        let tick = TickLength::new(MILLISECOND).unwrap();
        Clock::new(Some(&Handle::current()), tick, Instant::now(), true)
    }

    fn after_epoch(nanos: u64) -> Moment {
        Moment::after_epoch(Duration::from_nanos(nanos))
    }

    #[tokio::test(start_paused = true)]
    async fn where_it_cannot_be_read_it_shows_the_latest_reading() {
        let clock = of_runtime();
        tokio::time::advance(HOUR).await;
        let latest = clock.now_instant();
        // As for a thread that can start no other one, or that comes as the clock ends.
        *clock.runtime.as_ref().unwrap().handle.write().unwrap() = None;
        assert_eq!(
            thread::scope(|scope| scope.spawn(|| clock.now_instant()).join().unwrap()),
            latest
        );
    }

    #[test]
    fn instants_and_moments_turn_into_each_other() {
        let clock = system(MILLISECOND);
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
    async fn a_paused_clock_reads_the_same_on_every_thread() {
        let clock = of_runtime();
        assert_eq!(clock.now(), Moment::EPOCH);
        tokio::time::advance(5 * MILLISECOND).await;
        let here = clock.now();
        assert_eq!(here, Moment::after_epoch(5 * MILLISECOND));
        assert_eq!(clock.current_tick(), Tick::new(5));
        let elsewhere = thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap());
        assert_eq!(elsewhere, here);
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_paused_clock_a_due_waits_for_its_tick() {
        let clock = of_runtime();
        let due = after_epoch(500_000);
        tokio::time::advance(Duration::from_micros(600)).await;
        assert!(due <= clock.now());
        assert!(!clock.is_due_now(due), "its tick has not begun");
        tokio::time::advance(Duration::from_micros(400)).await;
        assert!(clock.is_due_now(due));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_stopped_stands_still() {
        let clock = of_runtime();
        tokio::time::advance(3 * MILLISECOND).await;
        assert_eq!(clock.ended(), None);
        clock.end(clock.now());
        let stopped = clock.ended().unwrap();
        assert_eq!(stopped, Moment::after_epoch(3 * MILLISECOND));
        tokio::time::advance(HOUR).await;
        assert_eq!(clock.now(), stopped);
        clock.end(clock.now());
        assert_eq!(clock.ended(), Some(stopped));
        let elsewhere = thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap());
        assert_eq!(elsewhere, stopped);
    }

    /// The end is as late as any reading, and a reading that was under way at the end is no later.
    #[tokio::test(start_paused = true)]
    async fn no_reading_is_later_than_the_end_of_its_clock() {
        let clock = of_runtime();
        let runtime = clock.runtime.as_ref().unwrap();
        let of_another_thread = after_epoch(5_000_000);
        let bits = of_another_thread.to_bits();
        runtime.last_reading.fetch_max(bits, Ordering::AcqRel);
        clock.end(clock.now());
        assert_eq!(clock.ended(), Some(of_another_thread));

        let clock = of_runtime();
        tokio::time::advance(3 * MILLISECOND).await;
        let end = clock.now();
        // The thread that ends the clock has yet to say so.
        let runtime = clock.runtime.as_ref().unwrap();
        runtime.last_reading.fetch_or(ENDED, Ordering::AcqRel);
        tokio::time::advance(HOUR).await;
        assert_eq!((clock.ended(), clock.now()), (None, end));
    }

    #[test]
    fn the_callers_clock_is_known_without_a_reading() {
        let build = |mut builder: tokio::runtime::Builder| builder.enable_time().build().unwrap();
        let current_thread = || build(tokio::runtime::Builder::new_current_thread());
        let (one, other) = (current_thread(), current_thread());
        let several = build(tokio::runtime::Builder::new_multi_thread());

        let system = system(MILLISECOND);
        let of_one = one.block_on(async { of_runtime() });
        assert!(system.is_callers() && !of_one.is_callers(), "outside");
        let known = async || (system.is_callers(), of_one.is_callers());
        assert_eq!(several.block_on(known()), (true, false));
        assert_eq!(one.block_on(known()), (false, true));
        assert_eq!(other.block_on(known()), (false, false));
        of_one.end(of_one.now());
        assert_eq!(one.block_on(known()), (false, false), "it stands still");
    }
}
