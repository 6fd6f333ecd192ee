//! `WallClock::now`, beside the two clocks that it reads.

use std::time::SystemTime;

use tickwheel::{Duration, Instant, wall_clock::WallClock};

/// Nobody sets the clock of a machine by so much within this test.
const MUCH: Duration = Duration::from_secs(10 * 60);

#[test]
fn a_reading_of_now_is_of_both_clocks_now() {
    let (instant, time) = (Instant::now(), SystemTime::now());
    let read = WallClock::now();
    assert!(read.instant(time) < instant + MUCH);
    assert!(read.instant(time + 2 * MUCH) > instant + MUCH);
    assert!(read.system_time(instant) < time + MUCH);
    assert!(read.system_time(instant + 2 * MUCH) > time + MUCH);
}

/// The other order of the two readings, right after it, can only name an instant that is earlier.
/// Elsewhere the wall clock may be too coarse to show that.
#[cfg(target_os = "linux")]
#[test]
fn a_translated_instant_is_never_early() {
    for _ in 0..200_000 {
        let read = WallClock::now();
        let (instant, time) = (Instant::now(), SystemTime::now());
        assert!(read.instant(time) >= instant);
    }
}
