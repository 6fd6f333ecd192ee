//! The paused clock: it jumps to what is armed, to nothing else, and each run is the same.

use futures::future::join_all;
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, idle_for_a_moment, is_forced_to_tick, paused, settle};

#[tokio::test(start_paused = true)]
async fn an_hour_under_the_paused_clock_takes_no_real_time() {
    let real = std::time::Instant::now();
    let start = Instant::now();
    sleep(HOUR).await;
    assert_eq!(
        start.elapsed(),
        HOUR,
        "the clock jumps straight to the deadline"
    );
    assert!(real.elapsed() < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn nothing_armed_leaves_the_paused_clock_alone() {
    let timer = Timer::new();
    timer.sleep(MS).await;
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_sleep_does_not_pull_the_paused_clock_along() {
    let start = Instant::now();
    let timer = Timer::new();
    let mut short = task::spawn(timer.sleep(HOUR));
    let mut other = task::spawn(timer.sleep(HOUR));
    assert_pending!(short.poll());
    assert_pending!(other.poll());
    settle().await;
    drop(short);
    drop(other);
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_timer_does_not_pull_the_paused_clock_along() {
    let start = Instant::now();
    let timer = Timer::new();
    let mut nap = task::spawn(timer.sleep(HOUR));
    let deadline = timer.deadline(HOUR);
    assert_pending!(nap.poll());
    settle().await;
    drop((timer, nap, deadline));
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_cancelled_sleep_pulls_no_clock_along_that_is_paused_later() {
    if is_forced_to_tick() {
        return;
    }
    let timer = Timer::new();
    let mut nap = task::spawn(timer.sleep(HOUR));
    assert_pending!(nap.poll());
    settle().await;
    tokio::time::pause();
    let start = Instant::now();
    drop(nap);
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_clock_that_is_paused_after_a_cancel_is_not_pulled_along() {
    if is_forced_to_tick() {
        return;
    }
    let timer = Timer::new();
    let handle = timer.deadline(HOUR).handle();
    tickwheel::timeout(HOUR, tokio::task::yield_now())
        .await
        .unwrap();
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
    drop(moved);
    tokio::time::pause();
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn blocking_work_holds_the_paused_clock_off() {
    let timer = Timer::new();
    let deadline = timer.deadline(HOUR);
    let start = Instant::now();
    tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(20)))
        .await
        .unwrap();
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "a pending deadline does not make time run"
    );
    deadline.await.unwrap();
    assert_eq!(start.elapsed(), HOUR);
}

#[tokio::test(start_paused = true)]
async fn advance_moves_the_clock_exactly_and_fires_what_is_due() {
    let start = Instant::now();
    let mut nap = task::spawn(sleep(5 * MS));
    let mut later = task::spawn(sleep(50 * MS));
    assert_pending!(nap.poll());
    assert_pending!(later.poll());
    tokio::time::advance(10 * MS).await;
    assert_eq!(start.elapsed(), 10 * MS);
    assert_ready!(nap.poll());
    assert_pending!(later.poll());
    tokio::time::resume();
    later.into_inner().await;
    assert!(start.elapsed() >= 50 * MS);
}

/// The order in which sleeps of these durations complete.
fn completion_order(durations: &[u64]) -> Vec<u64> {
    let runtime = paused();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    runtime.block_on(async {
        let sleeps = durations.iter().map(|&duration| {
            let order = order.clone();
            tokio::spawn(async move {
                sleep(duration as u32 * MS).await;
                order.lock().unwrap().push(duration);
            })
        });
        for done in join_all(sleeps).await {
            done.unwrap();
        }
    });
    std::sync::Arc::into_inner(order)
        .unwrap()
        .into_inner()
        .unwrap()
}

#[test]
fn random_sleeps_complete_in_order_and_twice_the_same() {
    let mut seed = 42_u64;
    let durations: Vec<u64> = (0..10_000)
        .map(|_| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % 1_000_000
        })
        .collect();
    let first = completion_order(&durations);
    let mut sorted = durations.clone();
    sorted.sort_unstable();
    assert_eq!(first, sorted);
    assert_eq!(completion_order(&durations), first);
}
