//! Each timer goes by the clock of its own runtime, wherever it is used.

use std::thread;

use tickwheel::{Duration, Instant, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, current_thread, idle_for_a_moment, paused};

#[test]
fn two_equal_runs_under_the_paused_clock_see_equal_moments() {
    let run = || {
        paused().block_on(async {
            let start = Instant::now();
            let mut moments = Vec::new();
            for nanos in [1, 1_000, 300_000, 999_999, 1_000_001, 1_700_000] {
                sleep(Duration::from_nanos(nanos)).await;
                moments.push(start.elapsed());
            }
            moments
        })
    };
    let first = run();
    thread::sleep(Duration::from_micros(1_300));
    assert_eq!(run(), first);
}

#[test]
fn a_sleep_goes_by_its_own_runtimes_clock_wherever_it_is_polled() {
    let (frozen, real) = (paused(), current_thread());
    let timer = Timer::builder().build_on(frozen.handle()).unwrap();
    let (nap, deadline) = (timer.sleep(HOUR), timer.deadline(HOUR));
    let handle = deadline.handle();
    let waiting = thread::spawn(move || {
        real.block_on(async {
            nap.await;
            deadline.await.unwrap();
        });
    });
    // An hour has passed on the clock of the frozen runtime, but not in real time.
    frozen.block_on(async { tokio::time::sleep(HOUR + MS).await });
    frozen.block_on(async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
    waiting.join().unwrap();
    assert!(!handle.reset());
}

#[test]
fn another_runtimes_real_time_makes_no_frozen_sleep_early() {
    let (frozen, real) = (paused(), current_thread());
    let timer = Timer::builder().build_on(frozen.handle()).unwrap();
    let mut nap = task::spawn(timer.sleep(5 * MS));
    let mut deadline = task::spawn(timer.deadline(5 * MS));
    real.block_on(async {
        tokio::time::sleep(10 * MS).await;
        assert_pending!(nap.poll());
        assert_pending!(deadline.poll());
    });
    assert_pending!(nap.poll());
    frozen.block_on(async { tokio::time::advance(5 * MS).await });
    real.block_on(async {
        assert_ready!(nap.poll());
        assert_eq!(assert_ready!(deadline.poll()), Ok(()));
    });
}

#[test]
fn a_plain_thread_goes_by_the_clock_of_the_timers_runtime() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let deadline = timer.deadline(HOUR);
    let handle = deadline.handle();
    runtime.block_on(async {
        let start = Instant::now();
        tokio::time::advance(HOUR / 2).await;
        let now = Instant::now();
        thread::spawn({
            let timer = timer.clone();
            move || {
                assert_eq!(handle.remaining(), Some(HOUR / 2));
                assert!(handle.reset());
                assert_eq!(handle.remaining(), Some(HOUR));
                assert_eq!(timer.sleep(MS).deadline(), now + MS);
                assert!(handle.reset_after(2 * HOUR));
            }
        })
        .join()
        .unwrap();
        deadline.await.unwrap();
        assert_eq!(start.elapsed(), HOUR / 2 + 2 * HOUR);
    });
}

/// A new map comes while the old one is still on its way out. That is no end of the runtime.
#[test]
fn a_map_that_follows_another_does_not_run_the_paused_clock() {
    let runtime = paused();
    runtime.block_on(async {
        let timer = Timer::new();
        let start = Instant::now();
        for _ in 0..3 {
            drop(tickwheel::DelayMap::<u8, u8>::new(&timer));
            let map = tickwheel::DelayMap::<u8, u8>::new(&timer);
            tokio::task::spawn_blocking(|| thread::sleep(MS))
                .await
                .unwrap();
            // A thread wakes the runtime: it waits without a timer, and no time passes.
            idle_for_a_moment().await;
            drop(map);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}
