//! `Sleep`: when it is ready, what a reset does, whom it wakes, and how long it may be.

use std::pin::pin;
use std::task::Poll;

use futures::future::poll_fn;
use proptest::prelude::*;
use tickwheel::{Duration, Instant, Sleep, Timer, sleep, sleep_until};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, move_the_clock_only, paused, settle};

#[tokio::test(start_paused = true)]
async fn zero_now_and_the_past_are_ready_at_the_first_poll() {
    let now = Instant::now();
    assert_ready!(task::spawn(sleep(Duration::ZERO)).poll());
    assert_ready!(task::spawn(sleep_until(now)).poll());
    assert_ready!(task::spawn(sleep_until(now - HOUR)).poll());
    let timer = Timer::new();
    tokio::time::advance(HOUR).await;
    assert_ready!(task::spawn(timer.sleep_until(now)).poll());
    assert_ready!(task::spawn(timer.sleep_until(now - HOUR)).poll());
    assert_eq!(timer.metrics().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn is_ready_again_when_polled_again() {
    let mut nap = task::spawn(sleep(MS));
    assert_pending!(nap.poll());
    tokio::time::advance(MS).await;
    assert_ready!(nap.poll());
    assert_ready!(nap.poll());
}

#[tokio::test(start_paused = true)]
async fn is_elapsed_only_once_the_timer_has_fired_or_a_poll_was_ready() {
    let mut nap = task::spawn(sleep(10 * MS));
    assert!(!nap.is_elapsed());
    assert_pending!(nap.poll());
    assert!(!nap.is_elapsed());
    tokio::time::advance(11 * MS).await;
    settle().await;
    assert!(nap.is_woken());
    assert!(nap.is_elapsed(), "the timer has fired");
    assert_ready!(nap.poll());
    assert!(nap.is_elapsed());
    nap.reset_after(MS);
    assert!(!nap.is_elapsed());
}

#[tokio::test(start_paused = true)]
async fn is_elapsed_after_a_reset_without_a_poll_as_tokios_is() {
    let mut ours = sleep(HOUR);
    let mut tokios = Box::pin(tokio::time::sleep(HOUR));
    let start = Instant::now();
    ours.reset_at(start + 10 * MS);
    tokios.as_mut().reset(start + 10 * MS);
    assert_eq!((ours.is_elapsed(), tokios.is_elapsed()), (false, false));
    tokio::time::sleep(11 * MS).await;
    assert_eq!((ours.is_elapsed(), tokios.is_elapsed()), (true, true));
    let untouched = sleep(Duration::ZERO);
    assert!(!untouched.is_elapsed(), "neither polled nor reset");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_armed_before_the_first_pending_poll() {
    let timer = Timer::new();
    let mut nap = task::spawn(timer.sleep(HOUR));
    assert_eq!(timer.metrics().armed, 0);
    assert_pending!(nap.poll());
    assert_eq!((timer.metrics().armed, timer.metrics().pending), (1, 1));
    assert_pending!(nap.poll());
    assert_eq!(timer.metrics().armed, 1);
    drop(nap);
    assert_eq!((timer.metrics().pending, timer.metrics().disarmed), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn reset_after_firing_makes_it_pending_again() {
    let start = Instant::now();
    let mut nap = sleep(5 * MS);
    (&mut nap).await;
    nap.reset_at(Instant::now() + 7 * MS);
    (&mut nap).await;
    assert_eq!(start.elapsed(), 12 * MS);
}

#[tokio::test(start_paused = true)]
async fn reset_to_an_earlier_time_wakes_the_waiter() {
    let mut nap = task::spawn(sleep(HOUR));
    assert_pending!(nap.poll());
    settle().await;
    nap.reset_after(5 * MS);
    sleep(4 * MS).await;
    assert!(!nap.is_woken());
    sleep(MS).await;
    settle().await;
    assert!(nap.is_woken());
    assert_ready!(nap.poll());
}

#[tokio::test(start_paused = true)]
async fn reset_to_the_past_wakes_the_waiter() {
    for back in [Duration::ZERO, MS, HOUR] {
        tokio::time::advance(2 * HOUR).await;
        let mut nap = task::spawn(sleep(HOUR));
        assert_pending!(nap.poll());
        settle().await;
        nap.reset_at(Instant::now() - back);
        settle().await;
        assert!(nap.is_woken());
        assert_ready!(nap.poll());
    }
}

#[tokio::test(start_paused = true)]
async fn reset_to_later_does_not_fire_at_the_old_deadline() {
    let start = Instant::now();
    let mut nap = task::spawn(sleep(10 * MS));
    assert_pending!(nap.poll());
    nap.reset_after(10_000 * MS);
    sleep(5_000 * MS).await;
    assert!(!nap.is_woken());
    assert_pending!(nap.poll());
    nap.into_inner().await;
    assert_eq!(start.elapsed(), 10_000 * MS);
}

#[tokio::test(start_paused = true)]
async fn reset_in_the_very_tick_that_fires_waits_for_the_new_deadline() {
    let mut nap = task::spawn(sleep(10 * MS));
    assert_pending!(nap.poll());
    tokio::time::advance(10 * MS).await;
    settle().await;
    assert!(nap.is_woken(), "fired, but not polled yet");
    nap.reset_after(10 * MS);
    assert_pending!(nap.poll());
    sleep(9 * MS).await;
    assert_pending!(nap.poll());
    sleep(MS).await;
    assert_ready!(nap.poll());
}

#[tokio::test(start_paused = true)]
async fn drop_in_the_very_tick_that_fires_disturbs_nobody() {
    let timer = Timer::new();
    let mut naps: Vec<_> = (0..100)
        .map(|_| task::spawn(timer.sleep(10 * MS)))
        .collect();
    for nap in &mut naps {
        assert_pending!(nap.poll());
    }
    settle().await;
    move_the_clock_only(10 * MS);
    naps.truncate(50);
    settle().await;
    assert!(naps.iter().all(|nap| nap.is_woken()));
    assert_eq!((timer.metrics().fired, timer.metrics().disarmed), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn the_longest_durations_saturate() {
    for duration in [
        Duration::MAX,
        Duration::from_secs(u64::MAX / 2),
        200 * 365 * 24 * HOUR,
    ] {
        let mut nap = task::spawn(sleep(duration));
        assert_pending!(nap.poll());
        assert!(nap.deadline() > Instant::now() + 30 * 365 * 24 * HOUR);
        nap.reset_after(Duration::MAX);
        sleep(MS).await;
        assert_pending!(nap.poll());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_years_of_uptime_change_nothing() {
    let year = 365 * 24 * HOUR;
    let timer = Timer::new();
    let mut forever = task::spawn(timer.sleep(Duration::MAX));
    assert_pending!(forever.poll());
    for _ in 0..100 {
        tokio::time::advance(year).await;
        for duration in [MS, 50 * MS, HOUR, 24 * HOUR] {
            let start = Instant::now();
            timer.sleep(duration).await;
            assert_eq!(start.elapsed(), duration);
        }
        assert!(!forever.is_woken());
    }
    assert_pending!(forever.poll());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_given_back_as_it_was_set() {
    let now = Instant::now();
    let timer = Timer::new();
    tokio::time::advance(HOUR).await;
    for deadline in [
        now - HOUR,
        now,
        now + Duration::from_nanos(1),
        now + 9 * HOUR,
    ] {
        assert_eq!(timer.sleep_until(deadline).deadline(), deadline);
        let mut nap = timer.sleep(HOUR);
        nap.reset_at(deadline);
        assert_eq!(nap.deadline(), deadline);
    }
    assert_eq!(timer.sleep(HOUR).deadline(), Instant::now() + HOUR);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn is_never_early_and_at_most_a_tick_and_a_millisecond_late(
        tick_micros in 1..20_000_u64,
        offsets in proptest::collection::vec((0..5_000_000_u64, 0..100_000_000_u64), 1..20),
    ) {
        let runtime = paused();
        runtime.block_on(async {
            let tick = Duration::from_micros(tick_micros);
            let timer = Timer::builder().tick(tick).build().unwrap();
            for (offset, duration) in offsets {
                tokio::time::advance(Duration::from_nanos(offset)).await;
                let duration = Duration::from_nanos(duration);
                let start = Instant::now();
                timer.sleep(duration).await;
                let late = start.elapsed().checked_sub(duration).expect("early");
                assert!(late <= tick + 2 * MS, "late by {late:?}");
            }
        });
    }
}

#[tokio::test]
async fn consumes_the_tasks_cooperative_budget() {
    tokio::spawn(async {
        let timer = Timer::current();
        let mut polls = 0;
        poll_fn(|cx| {
            let mut naps =
                std::iter::repeat_with(|| pin!(timer.sleep(Duration::ZERO)).poll_ready(cx));
            polls = naps
                .by_ref()
                .take(10_000)
                .take_while(|ready| *ready)
                .count();
            Poll::Ready(())
        })
        .await;
        assert!(polls < 1_000, "{polls} polls were ready without a pause");
    })
    .await
    .unwrap();
}

trait PollReady {
    fn poll_ready(self, cx: &mut std::task::Context<'_>) -> bool;
}

impl PollReady for std::pin::Pin<&mut Sleep> {
    fn poll_ready(self, cx: &mut std::task::Context<'_>) -> bool {
        std::future::Future::poll(self, cx).is_ready()
    }
}

#[tokio::test(start_paused = true)]
async fn the_task_that_polled_last_is_the_one_that_is_woken() {
    let mut nap = sleep(10 * MS);
    let mut first = task::spawn(());
    let mut second = task::spawn(());
    first.enter(|cx, _| assert!(!std::pin::Pin::new(&mut nap).poll_ready(cx)));
    second.enter(|cx, _| assert!(!std::pin::Pin::new(&mut nap).poll_ready(cx)));
    tokio::time::advance(10 * MS).await;
    settle().await;
    assert!(!first.is_woken());
    assert!(second.is_woken());
}

#[tokio::test(start_paused = true)]
async fn something_earlier_than_the_plan_wakes_the_driver() {
    let start = Instant::now();
    let timer = Timer::new();
    let mut late = task::spawn(timer.sleep(HOUR));
    assert_pending!(late.poll());
    settle().await;
    for duration in [300, 40, 5, 1] {
        let before = Instant::now();
        timer.sleep(duration * MS).await;
        assert_eq!(before.elapsed(), duration * MS);
    }
    assert!(!late.is_woken());
    late.into_inner().await;
    assert_eq!(start.elapsed(), HOUR);
}

#[tokio::test(start_paused = true)]
async fn shards_and_slots_of_any_number_keep_time() {
    for shards in [1, 2, 3, 8, 1024] {
        for slots in [0, 2, 3, 16, 64, 10_000] {
            let timer = Timer::builder()
                .shards(shards)
                .slots(slots)
                .build()
                .unwrap();
            for duration in [1, 63, 64, 65, 5_000] {
                let start = Instant::now();
                timer.sleep(duration * MS).await;
                assert_eq!(start.elapsed(), duration * MS);
            }
        }
    }
}
