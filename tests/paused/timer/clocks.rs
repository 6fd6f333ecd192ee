//! Each timer goes by the clock of its own runtime, wherever it is used, and pulls none along that
//! is paused.

use std::thread;

use tickwheel::{DelayMap, Duration, Instant, Timer, sleep, timeout};
use tokio::task::spawn_blocking;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, current_thread, idle_for_a_moment, paused, settle};

#[test]
fn another_runtimes_time_counts_for_nothing() {
    let (frozen, real) = (paused(), current_thread());
    let timer = Timer::builder().build_on(frozen.handle()).unwrap();
    let (mut nap, mut deadline) = (
        task::spawn(timer.sleep(5 * MS)),
        task::spawn(timer.deadline(5 * MS)),
    );
    real.block_on(async {
        tokio::time::sleep(10 * MS).await;
        assert_pending!(nap.poll());
        assert_pending!(deadline.poll());
    });
    assert_pending!(nap.poll());
    frozen.block_on(tokio::time::advance(5 * MS));
    real.block_on(async {
        assert_ready!(nap.poll());
        assert_eq!(assert_ready!(deadline.poll()), Ok(()));
    });
    // Awaited there, while the time passes here.
    let (nap, deadline) = (timer.sleep(HOUR), timer.deadline(HOUR));
    let waiting = thread::spawn(move || real.block_on(async { (nap.await, deadline.await) }));
    frozen.block_on(async {
        tokio::time::sleep(HOUR + MS).await;
        settle().await;
    });
    assert_eq!(waiting.join().unwrap(), ((), Ok(())));
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
        let elsewhere = thread::spawn(move || {
            assert_eq!(handle.remaining(), Some(HOUR / 2));
            assert!(handle.reset());
            assert_eq!(handle.remaining(), Some(HOUR));
            assert_eq!(timer.sleep(MS).deadline(), now + MS);
            assert!(handle.reset_after(2 * HOUR));
        });
        elsewhere.join().unwrap();
        deadline.await.unwrap();
        assert_eq!(start.elapsed(), HOUR / 2 + 2 * HOUR);
    });
}

/// A new map comes while the old one is still on its way out. That is no end of the runtime.
#[tokio::test(start_paused = true)]
async fn a_map_that_follows_another_does_not_run_the_paused_clock() {
    let timer = Timer::new();
    let start = Instant::now();
    for _ in 0..3 {
        drop(DelayMap::<u8, u8>::new(&timer));
        let map = DelayMap::<u8, u8>::new(&timer);
        spawn_blocking(|| thread::sleep(MS)).await.unwrap();
        // A thread wakes the runtime: it waits without a timer, and no time passes.
        idle_for_a_moment().await;
        drop(map);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn blocking_work_holds_the_paused_clock_off() {
    let deadline = Timer::new().deadline(HOUR);
    let start = Instant::now();
    spawn_blocking(|| thread::sleep(20 * MS)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    deadline.await.unwrap();
    assert_eq!(start.elapsed(), HOUR);
}

#[test]
fn a_clock_that_is_paused_later_stands_when_nothing_is_left() {
    for is_left in [false, true] {
        current_thread().block_on(pause_after_a_cancel(is_left));
    }
}

/// The last timer is cancelled before the pause, or one is left until after it.
async fn pause_after_a_cancel(is_left: bool) {
    let timer = Timer::new();
    let handle = timer.deadline(HOUR).handle();
    timeout(HOUR, tokio::task::yield_now()).await.unwrap();
    timer.timeout(HOUR, sleep(5 * MS)).await.unwrap();
    let deadline = timer.deadline(HOUR);
    assert!(!handle.cancel() && deadline.handle().cancel());
    // Many in one slot, which is then planned for by its start.
    let mut naps: Vec<_> = (0..40)
        .map(|n| task::spawn(timer.sleep(HOUR + n * MS)))
        .collect();
    for nap in &mut naps {
        assert_pending!(nap.poll());
    }
    settle().await;
    drop(naps);
    let mut moved = task::spawn(timer.sleep(HOUR));
    assert_pending!(moved.poll());
    settle().await;
    moved.reset_after(2 * HOUR);
    let moved = is_left.then_some(moved);
    tokio::time::pause();
    let start = Instant::now();
    drop(moved);
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}
