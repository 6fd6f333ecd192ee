//! `Interval`, beside tokio's own: both tick at the same moments.

use tickwheel::{Duration, Instant, MissedTickBehavior, Timer, interval, interval_at};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::MS;

#[tokio::test(start_paused = true)]
async fn the_first_tick_is_at_once_and_the_others_a_period_apart() {
    let start = Instant::now();
    let mut beat = interval(100 * MS);
    for tick in 0..5 {
        assert_eq!(beat.tick().await, start + tick * 100 * MS);
        assert_eq!(start.elapsed(), tick * 100 * MS);
    }
    assert_eq!(beat.period(), 100 * MS);
}

#[tokio::test(start_paused = true)]
async fn interval_at_begins_at_its_start() {
    let start = Instant::now() + 30 * MS;
    let mut beat = Timer::current().interval_at(start, 100 * MS);
    assert_eq!(beat.tick().await, start);
    assert_eq!(beat.tick().await, start + 100 * MS);
    assert_eq!(
        interval_at(Instant::now() - MS, MS).tick().await,
        Instant::now() - MS
    );
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_dealt_with_as_tokio_does() {
    let behaviors = [
        MissedTickBehavior::Burst,
        MissedTickBehavior::Delay,
        MissedTickBehavior::Skip,
    ];
    for behavior in behaviors {
        // On both sides of the 5 ms from which a tick counts as missed, and of whole periods.
        for stall in [
            0, 4, 5, 6, 9, 10, 11, 25, 49, 50, 51, 120, 1_000, 86_400_000,
        ] {
            let start = Instant::now();
            let mut ours = interval_at(start, 10 * MS);
            let mut tokios = tokio::time::interval_at(start, 10 * MS);
            assert_eq!(ours.missed_tick_behavior(), MissedTickBehavior::Burst);
            ours.set_missed_tick_behavior(behavior);
            tokios.set_missed_tick_behavior(behavior);
            assert_eq!(ours.missed_tick_behavior(), behavior);
            for round in 0..20 {
                let expected = tokios.tick().await;
                assert_eq!(
                    ours.tick().await,
                    expected,
                    "{behavior:?} after {stall} ms, round {round}"
                );
                if round == 3 {
                    tokio::time::advance(stall * MS).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_reset_moves_the_next_tick() {
    let mut beat = interval(100 * MS);
    beat.tick().await;
    tokio::time::advance(70 * MS).await;
    let now = Instant::now();
    beat.reset();
    assert_eq!(beat.tick().await, now + 100 * MS);
    beat.reset_immediately();
    assert_eq!(beat.tick().await, now + 100 * MS);
    beat.reset_after(7 * MS);
    assert_eq!(beat.tick().await, now + 107 * MS);
    beat.reset_at(now + 500 * MS);
    assert_eq!(beat.tick().await, now + 500 * MS);
    assert_eq!(beat.tick().await, now + 600 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_reset_of_a_polled_interval_wakes_its_task() {
    let mut beat = interval(100 * MS);
    beat.tick().await;
    let mut polled = task::spawn(beat);
    polled.enter(|cx, mut beat| assert_pending!(beat.poll_tick(cx)));
    polled.reset_immediately();
    tickwheel::sleep(MS).await;
    assert!(polled.is_woken());
    polled.enter(|cx, mut beat| assert_ready!(beat.poll_tick(cx)));
}

#[tokio::test(start_paused = true)]
async fn no_tick_is_lost_when_a_tick_is_dropped() {
    let start = Instant::now();
    let mut beat = interval(10 * MS);
    beat.tick().await;
    for _ in 0..5 {
        assert!(tickwheel::timeout(MS, beat.tick()).await.is_err());
    }
    assert_eq!(beat.tick().await, start + 10 * MS);
}

#[tokio::test(start_paused = true)]
async fn the_longest_period_does_not_panic() {
    let mut beat = interval(Duration::MAX);
    beat.tick().await;
    let mut next = task::spawn(beat.tick());
    assert_pending!(next.poll());
    drop(next);
    beat.reset();
    let mut next = task::spawn(beat.tick());
    assert_pending!(next.poll());
}
