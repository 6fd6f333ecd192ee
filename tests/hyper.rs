//! hyper's timer trait, by itself. The package `integrations` has the tests with real connections.
//!
//! Invariant: whatever hyper does with a sleep, nothing stays armed after it has let it go.

#![cfg(feature = "hyper")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep as HyperSleep, Timer as HyperTimer};
use tickwheel::{Instant, Sleep, Timer};
use tokio_test::{assert_pending, assert_ready, task};

type Boxed = Pin<Box<dyn HyperSleep>>;

const SECOND: Duration = Duration::from_secs(1);

/// Where the box points to, which tells whether it is still the same one.
fn address(sleep: &Boxed) -> *const () {
    (&raw const **sleep).cast()
}

/// A sleep of some other crate.
struct Foreign;

impl Future for Foreign {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl HyperSleep for Foreign {}

#[tokio::test(start_paused = true)]
async fn sleeps_end_at_their_deadline_by_tokios_clock() {
    let timer = Timer::new();
    let hyper: &dyn HyperTimer = &timer;
    let start = hyper.now();
    assert_eq!(Instant::from_std(start), Instant::now());

    hyper.sleep(SECOND).await;
    assert_eq!(hyper.now(), start + SECOND);
    hyper.sleep_until(start + 5 * SECOND).await;
    assert_eq!(hyper.now(), start + 5 * SECOND);
    hyper.sleep_until(start).await;
    hyper.sleep(Duration::ZERO).await;
    assert_eq!(
        hyper.now(),
        start + 5 * SECOND,
        "the past and zero are ready at once"
    );
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn now_is_the_clock_of_the_timers_runtime() {
    let timer = Timer::new();
    tokio::time::advance(3600 * SECOND).await;
    let here = HyperTimer::now(&timer);
    let elsewhere = timer.clone();
    let there = std::thread::spawn(move || HyperTimer::now(&elsewhere));
    assert_eq!(
        there.join().unwrap(),
        here,
        "a plain thread is told the paused time"
    );
    let ahead = here.saturating_duration_since(std::time::Instant::now());
    assert!(
        ahead > 3500 * SECOND,
        "the clock is the paused one, {ahead:?} ahead"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reset_moves_the_sleep_where_it_is() {
    let timer = Timer::new();
    let start = HyperTimer::now(&timer);
    let mut sleep = HyperTimer::sleep(&timer, SECOND);
    let before = address(&sleep);
    assert_pending!(task::spawn(&mut sleep).poll());
    assert_eq!(timer.metrics().pending, 1);

    timer.reset(&mut sleep, start + 10 * SECOND);
    assert_eq!(address(&sleep), before);
    assert_eq!((timer.metrics().pending, timer.metrics().armed), (1, 1));
    sleep.as_mut().await;
    assert_eq!(HyperTimer::now(&timer), start + 10 * SECOND);

    timer.reset(&mut sleep, start + 20 * SECOND);
    assert_eq!(address(&sleep), before, "one that has elapsed, too");
    sleep.as_mut().await;
    assert_eq!(HyperTimer::now(&timer), start + 20 * SECOND);

    timer.reset(&mut sleep, start);
    assert_ready!(task::spawn(&mut sleep).poll());
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reset_wakes_the_task_that_waits_already() {
    let timer = Timer::new();
    let start = HyperTimer::now(&timer);
    let mut sleep = task::spawn(HyperTimer::sleep(&timer, 60 * SECOND));
    assert_pending!(sleep.poll());
    timer.reset(&mut sleep, start + SECOND);
    tokio::time::sleep(SECOND).await;
    assert!(sleep.is_woken(), "without another poll");
    assert_ready!(sleep.poll());
}

#[tokio::test(start_paused = true)]
async fn a_reset_replaces_a_foreign_sleep() {
    let timer = Timer::new();
    let start = HyperTimer::now(&timer);
    let mut sleep: Boxed = Box::pin(Foreign);
    assert_pending!(task::spawn(&mut sleep).poll());

    timer.reset(&mut sleep, start + SECOND);
    assert!(
        sleep
            .as_mut()
            .downcast_mut_pin::<tickwheel::Sleep>()
            .is_some()
    );
    sleep.await;
    assert_eq!(HyperTimer::now(&timer), start + SECOND);
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reset_moves_a_boxed_sleep_of_the_crate() {
    let timer = Timer::new();
    let start = HyperTimer::now(&timer);
    let mut sleep: Boxed = Box::pin(timer.sleep(60 * SECOND));
    let before = address(&sleep);
    timer.reset(&mut sleep, start + SECOND);
    assert_eq!(address(&sleep), before);
    sleep.await;
    assert_eq!(HyperTimer::now(&timer), start + SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_sleep_leaves_nothing_armed() {
    let timer = Timer::new();
    let mut sleeps: Vec<Boxed> = (0..100)
        .map(|_| HyperTimer::sleep(&timer, Duration::MAX))
        .collect();
    for sleep in &mut sleeps {
        assert_pending!(task::spawn(sleep).poll());
    }
    assert_eq!(timer.metrics().pending, 100);
    drop(sleeps);
    assert_eq!(timer.metrics().pending, 0);
}

#[test]
fn the_process_timer_serves_without_a_runtime() {
    let timer = Timer::global();
    let start = HyperTimer::now(&timer);
    futures::executor::block_on(HyperTimer::sleep(&timer, Duration::from_millis(20)));
    assert!(HyperTimer::now(&timer) >= start + Duration::from_millis(20));
}

#[test]
fn the_types_are_what_hyper_asks_for() {
    fn is_timer<T: HyperTimer + Send + Sync + 'static>() {}
    fn is_sleep<T: HyperSleep + Send + Sync + Unpin + 'static>() {}
    is_timer::<Timer>();
    is_sleep::<Sleep>();
}
