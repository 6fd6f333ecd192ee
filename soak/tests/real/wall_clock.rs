//! `WallClock::now`, beside the two clocks that it reads.

use std::time::SystemTime;

use tickwheel::{Duration, Instant, wall_clock::WallClock};

/// Nobody sets the clock of a machine by so much within this test.
const MUCH: Duration = Duration::from_secs(10 * 60);

#[test]
fn a_reading_of_now_is_of_both_clocks_now() {
    let (instant, time) = (Instant::now(), SystemTime::now());
    let read = WallClock::now();
    assert!(read.jump_since(&WallClock::at(instant, time)).by() < MUCH);
    assert!(read.instant(time) < instant + MUCH);
    assert!(read.instant(time + 2 * MUCH) > instant + MUCH);
    assert!(read.system_time(instant) < time + MUCH);
    assert!(read.system_time(instant + 2 * MUCH) > time + MUCH);
}
