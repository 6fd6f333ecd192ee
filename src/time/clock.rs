//! The clock of a timer, and the published tick. The clock is that of the runtime which drives the
//! timer, wherever a caller reads it.
//!
//! A multi-thread runtime has the system's clock. A current-thread runtime may be paused under
//! tokio's `test-util`, at any moment, and nobody is told. Then time is what that runtime says. A
//! caller outside of it, such as a plain thread, has to enter its context to read it. That is in
//! `runtime_clock`.
//!
//! Invariants:
//!
//! - A clock's readings never go back.
//! - The epoch belongs to the timer and lies on its runtime's grid (see `grid`). So two equal runs
//!   under a paused clock see equal moments.
//! - The clock of a runtime that has shut down stands still.
//! - Whatever is published follows the rules of the proof in `time`. The steps of the proof have
//!   the labels P1 to P4. They stand beside the code here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::{self, Handle, RuntimeFlavor};
use crate::time::due::{Due, Stamp, Start};
use crate::time::grid;
use crate::time::tick::{Moment, TickLength};
use crate::time::windows::{Log, Windows};

#[derive(Debug)]
pub(crate) struct Clock {
    windows: Windows,
    epoch: Instant,
    tick: TickLength,
    source: Source,
    ticking_wanted: AtomicBool,
}

#[derive(Debug)]
enum Source {
    System,
    Pausable(RuntimeClock),
}

impl Clock {
    /// The clock of the runtime of `handle`, which begins at `epoch`. The caller is in the context
    /// of that runtime.
    pub(crate) fn new(handle: &Handle, tick: TickLength, epoch: Instant) -> Clock {
        let source = match handle.runtime_flavor() {
            RuntimeFlavor::CurrentThread => Source::Pausable(RuntimeClock::new(handle, epoch)),
            _ => Source::System,
        };
        Clock::from(source, tick, epoch)
    }

    /// The system's clock, which begins now.
    pub(crate) fn of_system(tick: TickLength) -> Clock {
        Clock::from(Source::System, tick, system_now())
    }

    fn from(source: Source, tick: TickLength, epoch: Instant) -> Clock {
        Clock {
            windows: Windows::new(),
            epoch,
            tick,
            source,
            ticking_wanted: AtomicBool::new(false),
        }
    }

    /// The published tick; `None` while the driver rests.
    #[inline]
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.windows.stamp()
    }

    /// The published tick, for a call that is going to count from it. Some of these calls look at
    /// the clock, and close the window if it should have ended.
    #[inline]
    pub(crate) fn take_stamp(&self) -> Option<Stamp> {
        let stamp = self.windows.stamp()?;
        if Windows::is_to_look() {
            return self.look_at_window(stamp);
        }
        Some(stamp)
    }

    #[cold]
    fn look_at_window(&self, stamp: Stamp) -> Option<Stamp> {
        self.windows.count_look();
        if self.current_tick() < stamp.window_end() {
            return Some(stamp);
        }
        self.windows.close(stamp, || self.tick.due(self.now()));
        None
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.moment(self.now_instant())
    }

    #[inline]
    pub(crate) fn now_instant(&self) -> Instant {
        match &self.source {
            Source::System => system_now(),
            Source::Pausable(clock) => clock.read().unwrap_or_else(|| {
                // The calling thread cannot read it. Then time stands still.
                self.instant(clock.last_reading())
            }),
        }
    }

    /// Whether the clock can ever be paused.
    #[inline]
    pub(crate) fn is_pausable(&self) -> bool {
        matches!(self.source, Source::Pausable(_))
    }

    /// Whether it is the clock that `Instant::now()` reads in the caller's context. `false` is also
    /// told where that cannot be known without a reading.
    pub(crate) fn is_callers(&self) -> bool {
        let Ok(caller) = Handle::try_current() else {
            return matches!(self.source, Source::System); // Outside of all runtimes.
        };
        match &self.source {
            Source::System => caller.runtime_flavor() != RuntimeFlavor::CurrentThread,
            Source::Pausable(clock) => clock.is_of(&caller),
        }
    }

    /// Whether the clock is paused, or was once paused, and so is not the system's.
    pub(crate) fn is_virtual(&self) -> bool {
        let Source::Pausable(clock) = &self.source else {
            return false;
        };
        let before = system_now();
        let reading = self.now_instant();
        let is_virtual = reading < before || reading > system_now();
        if is_virtual {
            clock.note_virtual();
        }
        is_virtual
    }

    /// Whether the clock was seen to be virtual. It stays virtual for ever, because it goes on from
    /// where it was paused.
    pub(crate) fn was_virtual(&self) -> bool {
        match &self.source {
            Source::System => false,
            Source::Pausable(clock) => clock.was_virtual(),
        }
    }

    #[inline]
    pub(crate) fn tick(&self) -> TickLength {
        self.tick
    }

    /// The first tick that begins at the same line of tokio's grid as this one, and so fires with
    /// it.
    pub(crate) fn first_tick_with(&self, tick: u64) -> u64 {
        let line_before = grid::line_before(self.tick.start_of(tick));
        line_before.map_or(0, |line| self.tick.current(line) + 1)
    }

    pub(crate) fn current_tick(&self) -> u64 {
        self.tick.current(self.now())
    }

    /// Whether `due` has passed at `now`.
    pub(crate) fn has_passed(&self, due: Due, now: Moment) -> bool {
        match due {
            Due::At(moment) => moment <= now,
            // Its true due is no earlier than the tick at which it is scheduled.
            Due::Stamped(due) if due.scheduled_tick > self.tick.current(now) => false,
            Due::Stamped(due) => self
                .log()
                .true_due(due)
                .is_some_and(|tick| tick <= self.tick.current(now)),
        }
    }

    /// The moment at which a due passes. By a stamp whose window has not ended, that may still move
    /// later.
    pub(crate) fn passes_at(&self, due: Due) -> Moment {
        match due {
            Due::At(moment) => moment,
            Due::Stamped(due) => {
                let tick = self.log().true_due(due).unwrap_or(due.scheduled_tick);
                self.tick.start_of(tick)
            }
        }
    }

    /// Whether `due` has passed for a call that began at `start`. By a stamp it counts as passed
    /// only if the driver has come to that time.
    pub(crate) fn has_passed_by(&self, due: Due, start: Start) -> bool {
        match start {
            Start::At(now) => self.has_passed(due, now),
            Start::Stamp(stamp) => {
                due.scheduled_tick(self.tick) <= stamp.tick() && self.has_passed(due, self.now())
            }
        }
    }

    /// Whether a deadline that was not armed yet is due. On a virtual clock it is due on tokio's
    /// grid, as tokio's are, however long a tick is.
    pub(crate) fn is_due_now(&self, due: Due) -> bool {
        if matches!(due, Due::Stamped(due) if self.stamp() == Some(due.stamp)) {
            // It lies ahead, unless the driver is stalled. Then the driver finds it.
            return false;
        }
        let now = self.now();
        let is_on_grid = |due| match due {
            Due::At(due) => grid::has_come(due, now),
            // A virtual clock has no stamps.
            Due::Stamped(_) => true,
        };
        self.has_passed(due, now) && (!self.is_virtual() || is_on_grid(due))
    }

    /// What to tell as the moment from which a timer counts that has a stamp. It is the end of the
    /// stamp's window, or now if that comes first.
    pub(crate) fn reported_start(&self, stamp: Stamp) -> Moment {
        let end = self.log().window_end(stamp);
        let now = self.now();
        end.map_or(now, |end| self.tick.start_of(end).min(now))
    }

    /// When `tick` begins.
    pub(crate) fn start_of(&self, tick: u64) -> Instant {
        self.instant(self.tick.start_of(tick))
    }

    /// The last tick that any clock comes to.
    pub(crate) fn last_tick(&self) -> u64 {
        self.tick.current(Moment::MAX)
    }

    /// An instant before the runtime was built, as far as the platform can name one.
    pub(crate) fn long_ago(&self) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        let mut earlier = (0..32).map(|halvings| self.epoch.checked_sub(YEAR / (1 << halvings)));
        earlier.find_map(|instant| instant).unwrap_or(self.epoch)
    }

    #[inline]
    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        match instant.checked_duration_since(self.epoch) {
            Some(distance) => Moment::after_epoch(distance),
            None => self.moment_before(instant),
        }
    }

    #[cold]
    fn moment_before(&self, instant: Instant) -> Moment {
        Moment::before_epoch(self.epoch.duration_since(instant))
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        /// Some platforms cannot name an instant as far away as `Moment::MAX`. 30 years is tokio's
        /// bound too.
        const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
        let before = moment.until_epoch();
        if before > Duration::ZERO {
            return self.epoch.checked_sub(before).unwrap_or(self.epoch);
        }
        self.epoch
            .checked_add(moment.since_epoch())
            .unwrap_or_else(|| self.epoch + FAR_FUTURE)
    }

    /// The log, locked, in which true dues are found.
    pub(crate) fn log(&self) -> Log<'_> {
        self.windows.log()
    }

    /// Asks the driver, at its next turn, to tick.
    pub(crate) fn want_ticking(&self) {
        // Relaxed: the caller submits a request after it, and the running thread that answers takes
        // it.
        self.ticking_wanted.store(true, Ordering::Relaxed);
    }
}

/// For the driver.
impl Clock {
    /// Whether ticking was asked for since this was last called.
    pub(crate) fn take_ticking_wanted(&self) -> bool {
        // Relaxed: as in `want_ticking`.
        self.ticking_wanted.swap(false, Ordering::Relaxed)
    }

    /// How many calls have looked at the clock since this was last called.
    pub(crate) fn take_looks(&self) -> u64 {
        self.windows.take_looks()
    }

    /// Publishes a tick, or that the driver rests. Closes the window of the stamp that was
    /// published before.
    pub(crate) fn publish(&self, tick: Option<u64>) {
        self.windows.publish(tick, || self.tick.due(self.now()));
    }

    /// The runtime has shut down. A clock of its own stops. Gives when that was.
    pub(crate) fn stop(&self) -> Moment {
        self.publish(None);
        let at = match &self.source {
            Source::System => None,
            Source::Pausable(clock) => clock.stop(),
        };
        at.map_or_else(|| self.now(), |at| self.moment(at))
    }

    /// Whether an instant surely lies ahead. `None` if the calling thread cannot read the clock.
    pub(crate) fn is_ahead(&self, instant: Instant) -> Option<bool> {
        let now = match &self.source {
            Source::System => system_now(),
            Source::Pausable(clock) => clock.read()?,
        };
        Some(now < instant)
    }
}

fn system_now() -> Instant {
    Instant::from_std(std::time::Instant::now())
}

#[cfg(test)]
mod tests;

// The clock of one current-thread runtime, for a caller on any thread.
//
// Invariant: time is what that runtime says. Once the clock was stopped, it stands still.

/// The clock of a current-thread runtime.
#[derive(Debug)]
pub(super) struct RuntimeClock {
    runtime: runtime::Id,
    epoch: Instant,
    /// The latest reading, as a moment's bits.
    last_reading: AtomicU64,
    /// Whether the clock was seen to be paused, or to have been paused.
    was_virtual: AtomicBool,
    /// When the clock stopped, once the runtime has shut down.
    stopped: OnceLock<Instant>,
    /// `None` once the clock has stopped. Nothing panics under this lock, and its content is whole
    /// at any time. So poison is ignored.
    handle: RwLock<Option<Handle>>,
}

impl RuntimeClock {
    pub(super) fn new(handle: &Handle, epoch: Instant) -> RuntimeClock {
        RuntimeClock {
            runtime: handle.id(),
            epoch,
            last_reading: AtomicU64::new(0),
            was_virtual: AtomicBool::new(false),
            stopped: OnceLock::new(),
            handle: RwLock::new(Some(handle.clone())),
        }
    }

    /// The present reading. `None` if the calling thread cannot read the clock.
    pub(super) fn read(&self) -> Option<Instant> {
        if let Some(stopped) = self.stopped.get() {
            return Some(*stopped);
        }
        let now = match Handle::try_current() {
            Ok(current) if current.id() == self.runtime => Instant::now(),
            Err(error) if error.is_thread_local_destroyed() => self.read_on_another_thread()?,
            // Where tokio drops a future that it refuses to spawn, no code can enter another
            // context. The only sign of it is that this looks like a task outside of any runtime.
            _ if runtime::try_id().is_some() && runtime::worker_index().is_none() => {
                self.read_on_another_thread()?
            }
            _ => self.read_from_outside(),
        };
        let since = now.saturating_duration_since(self.epoch);
        let reading = Moment::after_epoch(since).to_bits();
        // AcqRel: pairs with the Acquire in `last_reading`. Nothing but the number counts.
        self.last_reading.fetch_max(reading, Ordering::AcqRel);
        Some(now)
    }

    /// Whether it is the clock of that runtime, and runs.
    pub(super) fn is_of(&self, runtime: &Handle) -> bool {
        runtime.id() == self.runtime && self.stopped.get().is_none()
    }

    /// The latest reading.
    pub(super) fn last_reading(&self) -> Moment {
        // Acquire: pairs with the AcqRel in `read`.
        Moment::from_bits(self.last_reading.load(Ordering::Acquire))
    }

    /// Notes that the clock was seen to be paused, or to have been paused.
    pub(super) fn note_virtual(&self) {
        // Relaxed, here and below: a thread that sees it late counts some readings for nothing.
        self.was_virtual.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn was_virtual(&self) -> bool {
        self.was_virtual.load(Ordering::Relaxed)
    }

    fn read_from_outside(&self) -> Instant {
        let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
        match (&*handle, self.stopped.get()) {
            (Some(handle), _) => {
                let _context = handle.enter();
                Instant::now()
            }
            (None, Some(stopped)) => *stopped,
            (None, None) => self.epoch,
        }
    }

    fn read_on_another_thread(&self) -> Option<Instant> {
        thread::scope(|scope| {
            let reading = thread::Builder::new().spawn_scoped(scope, || self.read_from_outside());
            reading.ok()?.join().ok()
        })
    }

    /// Stops the clock and forgets the runtime, so that its timers keep nothing of it in memory.
    /// Gives when the clock stopped.
    pub(super) fn stop(&self) -> Option<Instant> {
        let now = self.read()?;
        let at = *self.stopped.get_or_init(|| now);
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        let forgotten = handle.take();
        drop(handle);
        drop(forgotten);
        Some(at)
    }
}
