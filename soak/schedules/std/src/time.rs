//! The clock: it passes by a nanosecond with each reading, as the system's does at least, and else
//! only when somebody lets time pass. Each reading is a point at which shuttle may switch threads,
//! so time may pass right before it.
//!
//! A program may make it a worse clock: one that steps back, or that differs between threads.

use std::cell::Cell;
use std::ops::{Add, Sub};

pub use std::time::*;

std::thread_local! {
    /// How much time has passed. All threads of a schedule run on one thread of the system's.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static GRAIN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// How far all readings are behind.
    static BEHIND: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

shuttle::thread_local! {
    /// How much further those of this thread are.
    static BEHIND_HERE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The clock's reading at the beginning of a schedule. There is time before it, for instants in the
/// past.
const ORIGIN: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A schedule begins, and with it time.
pub fn begin() {
    PASSED.set(Duration::ZERO);
    BEHIND.set(Duration::ZERO);
}

/// From now on all readings are so far behind the time that has passed. So the clock steps back or
/// ahead.
pub fn fall_behind(by: Duration) {
    BEHIND.set(by);
}

/// As `fall_behind`, for the readings of this thread.
pub fn fall_behind_here(by: Duration) {
    BEHIND_HERE.with(|here| here.set(by));
}

/// Lets time pass.
pub fn pass(time: Duration) {
    shuttle::thread::sleep(time); // shuttle may switch here.
    let (passed, grain) = (PASSED.get() + time, GRAIN.get());
    // A coarse clock stands still, and then jumps.
    let steps = passed.as_nanos().div_ceil(grain.as_nanos().max(1)) as u32;
    PASSED.set(if grain.is_zero() {
        passed
    } else {
        grain * steps
    });
}

/// From now on the clock has readings that are so far apart, as old systems' clocks do. Zero is a
/// fine one.
pub fn set_grain(grain: Duration) {
    GRAIN.set(grain);
}

pub fn is_coarse() -> bool {
    !GRAIN.get().is_zero()
}

/// How much time has passed, for a program's own records: shuttle does not switch here.
pub fn passed() -> Duration {
    PASSED.get()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Instant {
        let now = Instant::now_standing();
        if !is_coarse() {
            PASSED.set(passed() + Duration::from_nanos(1));
        }
        now
    }

    /// The reading of a clock that stands.
    pub fn now_standing() -> Instant {
        shuttle::thread::sleep(Duration::ZERO); // shuttle may switch here.
        let behind = BEHIND.get() + BEHIND_HERE.with(Cell::get);
        Instant(ORIGIN + passed() - behind)
    }

    pub fn elapsed(&self) -> Duration {
        Instant::now() - *self
    }

    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }

    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}
