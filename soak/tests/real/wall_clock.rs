//! `WallClock::now`, next to the two clocks that it reads, and a sleep until a time, made and
//! polled in several places.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use futures::executor;
use tickwheel::wall_clock::{SleepUntil, WallClock, sleep_until};
use tickwheel::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::{block_in_place, spawn_blocking};

use crate::common::{HOUR, MS, current_thread, multi_thread, poll_once};

/// The clock of a machine is not set by so much within this test.
const MUCH: Duration = Duration::from_secs(10 * 60);

#[test]
fn now_is_the_same_moment_on_both_clocks() {
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

/// Makes it in a task.
fn made_on(runtime: &Runtime, time: SystemTime) -> SleepUntil {
    let make = async move { tokio::spawn(async move { [sleep_until(time)] }).await };
    let [made] = runtime.block_on(make).unwrap();
    made
}

#[test]
fn a_sleep_until_a_time_is_polled_by_any_thread() {
    let (one, other) = (multi_thread(1), multi_thread(1));
    let time = SystemTime::now() + 20 * MS;
    let is_over = || assert!(SystemTime::now() >= time, "it is early");
    let made = {
        let _context = one.enter();
        [(); 2].map(|()| sleep_until(time))
    };
    let [here, there] = made;
    other.block_on(here);
    is_over();
    executor::block_on(there);
    let wait = || executor::block_on(sleep_until(SystemTime::now() + MS));
    one.block_on(async move {
        spawn_blocking(wait).await.unwrap();
        let in_place = tokio::spawn(async move { block_in_place(wait) });
        in_place.await.unwrap();
    });
}

#[test]
fn once_its_runtime_has_shut_down_a_pending_one_panics() {
    for runtime in [multi_thread(1), current_thread()] {
        let mut armed = made_on(&runtime, SystemTime::now() + HOUR);
        let mut ready = made_on(&runtime, SystemTime::now());
        runtime.block_on(async {
            assert!(poll_once(&mut armed).is_pending());
            assert!(poll_once(&mut ready).is_ready());
        });
        drop(runtime);
        assert!(poll_once(&mut ready).is_ready());
        for _ in 0..2 {
            let poll = AssertUnwindSafe(|| poll_once(&mut armed).is_pending());
            assert!(catch_unwind(poll).is_err());
        }
    }
}
