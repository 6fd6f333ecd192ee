//! The clock of a timer, and the published tick. The clock is that of the runtime which drives the
//! timer, wherever a caller reads it.
//!
//! A multi-thread runtime has the system's clock. A current-thread runtime may be paused under
//! tokio's `test-util`, at any moment, and nobody is told. Then time is what that runtime says. A
//! caller outside of it, such as a plain thread, has to enter its context to read it.
//!
//! Invariants:
//!
//! - A clock's readings never go back.
//! - The epoch belongs to the timer and lies on its runtime's grid, which is found further below.
//!   So two equal runs under a paused clock see equal moments.
//! - The clock of a runtime that has shut down stands still.
//! - Whatever is published follows the rules of the proof in `time`. The steps of the proof have
//!   the labels P1 to P4. They stand beside the code here.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::runtime::{self, Handle, RuntimeFlavor, worker_index};
use crate::time::stamp::{Due, Log, Stamp, Start, Windows};
use crate::time::tick::{Moment, TickLength};

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
    /// returned where that cannot be known without a reading.
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
        let line_before = line_before(self.tick.start_of(tick));
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
            Due::At(due) => has_come_to_line(due, now),
            // A virtual clock has no stamps.
            Due::Stamped(_) => true,
        };
        self.has_passed(due, now) && (!self.is_virtual() || is_on_grid(due))
    }

    /// What to report as the moment from which a timer counts that has a stamp. It is the end of
    /// the stamp's window, or now if that comes first.
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

    /// The runtime has shut down. A clock of its own stops. Returns when that was.
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
    /// Returns when the clock stopped.
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

// tokio's grid: the instants at which its time driver fires. They lie a millisecond apart, counted
// from when the runtime was built.
//
// A timer's ticks begin on that grid. So a deadline is rounded up once, and not first to a tick
// and then to a millisecond. Under a paused clock the instants are then tokio's own. This holds
// also when the clock stands between two whole milliseconds.
//
// tokio does not tell its grid, but a sleep shows it. A sleep that is reset rounds its deadline up
// to the grid. It has elapsed at once if that is no later than the millisecond up to which the
// time driver has worked. So the last deadline that has elapsed lies on the grid. The code finds
// it by halving.
//
// Invariant: nothing but the rounding hangs on what is found here. If no grid is found, ticks
// begin somewhere else.

const MILLISECOND: Duration = Duration::from_millis(1);

/// The instant from which ticks are counted, which is not in the future. The caller is in the
/// context of the runtime of `handle`.
pub(crate) fn epoch(handle: &Handle) -> Instant {
    let now = Instant::now();
    // A thread outside a current-thread runtime must not touch the runtime's timers. Its clock may
    // be paused, and would run to them.
    if handle.runtime_flavor() == RuntimeFlavor::CurrentThread && worker_index().is_none() {
        return now;
    }
    // The time driver may work meanwhile, and once more because this has disturbed it.
    const TRIES: usize = 4;
    let mut sleep = pin!(sleep_until(now));
    (0..TRIES)
        .find_map(|_| find(sleep.as_mut(), now))
        .unwrap_or(now)
}

/// Whether the grid has come to `due` at `now`. Both count from an epoch that lies on it.
fn has_come_to_line(due: Moment, now: Moment) -> bool {
    let line = MILLISECOND.as_nanos() as u64;
    due.to_bits().div_ceil(line) <= now.to_bits() / line
}

/// The last line of the grid before the one at which `due` fires. Both count from an epoch that
/// lies on it.
pub(crate) fn line_before(due: Moment) -> Option<Moment> {
    let line = MILLISECOND.as_nanos() as u64;
    let number = due.to_bits().div_ceil(line).checked_sub(1)?;
    Some(Moment::from_bits(number * line))
}

/// Looks for a line of the grid, and returns the last line up to `now`.
fn find(mut sleep: Pin<&mut Sleep>, now: Instant) -> Option<Instant> {
    let mut has_elapsed = |deadline: Instant| {
        sleep.as_mut().reset(deadline);
        sleep.is_elapsed()
    };
    // A deadline that lies a millisecond ahead has not elapsed. From there the search goes back, in
    // doubling steps, until it finds one that has elapsed.
    let mut elapsed = now;
    let mut ahead = now + MILLISECOND;
    let mut step = MILLISECOND;
    while !has_elapsed(elapsed) {
        (elapsed, ahead) = (elapsed.checked_sub(step)?, elapsed);
        step *= 2;
    }
    while ahead - elapsed > Duration::from_nanos(1) {
        let middle = elapsed + (ahead - elapsed) / 2;
        if has_elapsed(middle) {
            elapsed = middle;
        } else {
            ahead = middle;
        }
    }
    // This looks at both again, in this order. What has elapsed stays elapsed. So the line has not
    // moved in between.
    let is_line = has_elapsed(elapsed) && !has_elapsed(ahead);
    let since = now.checked_duration_since(elapsed)?;
    let past_line = since.as_nanos() % MILLISECOND.as_nanos();
    is_line.then(|| now - Duration::from_nanos(past_line as u64))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::time::stamp::StampedDue;
    use crate::time::tick::Span;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const MILLISECOND: Duration = Duration::from_millis(1);

    /// How long ago the epoch of the system's clock is here. A machine has been up for that long.
    const PAST: Duration = Duration::from_secs(1);

    /// The system's clock, whose epoch lies in the past.
    fn system(tick: Duration) -> Clock {
        let tick = TickLength::new(tick).unwrap();
        let epoch = system_now().checked_sub(PAST).unwrap();
        Clock::from(Source::System, tick, epoch)
    }

    /// The clock of the current runtime, which begins now.
    fn of_runtime() -> Clock {
        let tick = TickLength::new(MILLISECOND).unwrap();
        Clock::new(&Handle::current(), tick, Instant::now())
    }

    fn after_epoch(nanos: u64) -> Moment {
        Moment::after_epoch(Duration::from_nanos(nanos))
    }

    fn stamped(stamp: u64, ticks: u64) -> StampedDue {
        StampedDue::new(Stamp::of(stamp), ticks)
    }

    #[test]
    fn a_stamp_is_what_was_published_last() {
        let clock = system(HOUR);
        assert_eq!(clock.stamp(), None);
        clock.publish(Some(0));
        assert_eq!(clock.stamp(), Some(Stamp::of(0)));
        clock.publish(Some(7));
        assert_eq!(clock.stamp(), Some(Stamp::of(7)));
        clock.publish(None);
        assert_eq!(clock.stamp(), None);
    }

    #[test]
    fn readings_do_not_go_back() {
        let clock = system(MILLISECOND);
        let mut last = clock.now();
        assert!(last >= Moment::after_epoch(PAST));
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn an_exact_due_passes_at_its_moment() {
        let clock = system(MILLISECOND);
        let due = Due::At(after_epoch(1_000));
        assert!(!clock.has_passed(due, after_epoch(999)));
        assert!(clock.has_passed(due, after_epoch(1_000)));
        assert!(clock.has_passed_by(due, Start::At(after_epoch(1_000))));
    }

    #[test]
    fn a_due_by_an_open_window_is_not_known() {
        let clock = system(MILLISECOND);
        clock.publish(Some(3));
        let due = stamped(3, 10);
        assert_eq!(clock.log().true_due(due), None);
        assert_eq!(clock.log().window_end(due.stamp), None);
        // To publish the same tick again keeps the window open.
        clock.publish(Some(3));
        assert_eq!(clock.log().true_due(due), None);
        assert!(!clock.has_passed(Due::Stamped(due), Moment::MAX));
        assert!(!clock.is_due_now(Due::Stamped(due)));
    }

    #[test]
    fn a_window_that_ends_in_time_leaves_the_due_where_it_is() {
        let clock = system(HOUR);
        clock.publish(Some(0));
        clock.publish(Some(1));
        let due = stamped(0, 10);
        assert_eq!(clock.log().window_end(due.stamp), Some(2));
        assert_eq!(clock.log().true_due(due), Some(due.scheduled_tick));
        let passes_at = clock.tick().start_of(due.scheduled_tick);
        assert!(!clock.has_passed(Due::Stamped(due), passes_at.just_before()));
        assert!(clock.has_passed(Due::Stamped(due), passes_at));
    }

    #[test]
    fn a_window_that_ends_late_moves_the_due_by_that() {
        let clock = system(MILLISECOND);
        clock.publish(Some(0));
        let before = clock.now();
        clock.publish(None);
        let after = clock.now();
        let end = clock.log().window_end(Stamp::of(0)).unwrap();
        assert!(clock.tick().due(before) <= end && end <= clock.tick().due(after));
        assert_eq!(clock.log().true_due(stamped(0, 10)), Some(end + 10));
        let due = Due::Stamped(stamped(0, 10));
        let passes_at = clock.tick().start_of(end + 10);
        assert!(!clock.has_passed(due, passes_at.just_before()));
        assert!(clock.has_passed(due, passes_at));
    }

    #[test]
    fn of_two_windows_of_a_stamp_the_later_end_counts() {
        let clock = system(MILLISECOND);
        clock.publish(Some(0));
        clock.publish(None);
        clock.publish(Some(0));
        assert_eq!(clock.log().window_end(Stamp::of(0)), None, "open again");
        let before = clock.now();
        clock.publish(None);
        let end = clock.log().window_end(Stamp::of(0)).unwrap();
        assert!(clock.tick().due(before) <= end);
    }

    #[test]
    fn by_a_stamp_a_due_passes_when_the_driver_has_come_to_it() {
        let clock = system(MILLISECOND);
        let due = Due::At(after_epoch(5_000_000));
        assert!(!clock.has_passed_by(due, Start::Stamp(Stamp::of(4))));
        assert!(clock.has_passed_by(due, Start::Stamp(Stamp::of(5))));
        // The stamp is ahead of the clock. Then the clock tells.
        let ahead = Due::At(Moment::after_epoch(1_000 * HOUR));
        assert!(!clock.has_passed_by(ahead, Start::Stamp(Stamp::of(u64::MAX / 2))));
    }

    #[test]
    fn what_is_reported_lies_between_the_call_and_the_true_due() {
        let clock = system(MILLISECOND);
        clock.publish(Some(0));
        let ten_ticks = Span::from(10 * MILLISECOND);
        let due = stamped(0, 10);
        let call = clock.now();
        let told_early = clock.reported_start(due.stamp);
        clock.publish(None);
        let told_late = clock.reported_start(due.stamp);
        let true_due = clock.log().true_due(due).unwrap();
        for told in [told_early, told_late].map(|start| start.after(ten_ticks)) {
            assert!(told >= call.after(ten_ticks));
            assert!(told <= clock.tick().start_of(true_due));
        }
    }

    #[test]
    fn what_is_reported_after_the_window_counts_from_its_end() {
        let clock = system(MILLISECOND);
        clock.publish(Some(0));
        clock.publish(None);
        let end = clock.log().window_end(Stamp::of(0)).unwrap();
        let end = clock.tick().start_of(end);
        while clock.now() < end {
            thread::yield_now();
        }
        assert_eq!(clock.reported_start(Stamp::of(0)), end);
    }

    #[test]
    fn ticking_that_is_wanted_is_taken_once() {
        let clock = system(MILLISECOND);
        assert!(!clock.take_ticking_wanted());
        clock.want_ticking();
        clock.want_ticking();
        assert!(clock.take_ticking_wanted());
        assert!(!clock.take_ticking_wanted());
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
        assert!(!clock.is_pausable() && !clock.is_virtual() && !clock.was_virtual());
    }

    #[tokio::test]
    async fn a_clock_is_virtual_for_ever_after_a_pause() {
        let clock = of_runtime();
        assert!(clock.is_pausable() && !clock.is_virtual() && !clock.was_virtual());
        tokio::time::pause();
        tokio::time::advance(HOUR).await;
        assert!(clock.is_virtual());
        tokio::time::resume();
        assert!(clock.is_virtual() && clock.was_virtual());
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_reads_the_same_on_every_thread() {
        let clock = of_runtime();
        assert_eq!(clock.now(), Moment::EPOCH);
        tokio::time::advance(5 * MILLISECOND).await;
        let here = clock.now();
        assert_eq!(here, Moment::after_epoch(5 * MILLISECOND));
        assert_eq!(clock.current_tick(), 5);
        let elsewhere = thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap());
        assert_eq!(elsewhere, here);
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_paused_clock_a_due_waits_for_its_tick() {
        let clock = of_runtime();
        let due = Due::At(after_epoch(500_000));
        tokio::time::advance(Duration::from_micros(600)).await;
        assert!(clock.has_passed(due, clock.now()));
        assert!(!clock.is_due_now(due), "its tick has not begun");
        tokio::time::advance(Duration::from_micros(400)).await;
        assert!(clock.is_due_now(due));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_stopped_stands_still() {
        let clock = of_runtime();
        clock.publish(Some(0));
        tokio::time::advance(3 * MILLISECOND).await;
        let stopped = clock.stop();
        assert_eq!(stopped, Moment::after_epoch(3 * MILLISECOND));
        assert_eq!(clock.stamp(), None);
        tokio::time::advance(HOUR).await;
        assert_eq!(clock.now(), stopped);
        assert_eq!(clock.stop(), stopped);
        let elsewhere = thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap());
        assert_eq!(elsewhere, stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn an_instant_lies_ahead_until_the_clock_has_come_to_it() {
        let clock = of_runtime();
        let instant = Instant::now() + MILLISECOND;
        assert_eq!(clock.is_ahead(instant), Some(true));
        tokio::time::advance(MILLISECOND).await;
        assert_eq!(clock.is_ahead(instant), Some(false));
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
        of_one.stop();
        assert_eq!(one.block_on(known()), (false, false), "it stands still");
    }
}
