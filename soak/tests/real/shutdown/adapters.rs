//! The adapters, and `try_poll`, which they are made of, in another runtime than the one that
//! drives their timer, when that one has shut down.
//!
//! Invariant: each reports it in its own way, none panics, and none hangs.

use std::future::{pending, poll_fn};
use std::io;
use std::time::Duration;

use futures::stream::FusedStream;
use futures::{Stream, StreamExt, stream};
use hyper::rt::Timer as HyperTimer;
use tickwheel::error::{Elapsed, ShutDown};
use tickwheel::{Instant, Timer};
use tickwheel_util::stream::{IdleTimeout, IntervalStream, Throttle};
use tickwheel_util::tower::{BoxError, TimeoutLayer};
use tower::{Layer, ServiceExt, service_fn};

use crate::common::{HOUR, MS, PATIENCE, current_thread, multi_thread};

/// Runs `scenario` on the timer of a runtime that shuts down: before it begins, and while it waits.
fn run<F: Future>(scenario: impl Fn(Timer) -> F, check: impl Fn(F::Output)) {
    let here = current_thread();
    for while_it_waits in [false, true] {
        let elsewhere = multi_thread(2);
        let timer = elsewhere.block_on(async { Timer::current() });
        let mut elsewhere = Some(elsewhere);
        if !while_it_waits {
            elsewhere.take().unwrap().shutdown_timeout(PATIENCE);
        }
        let scenario = scenario(timer.clone());
        let shut_down = async {
            if let Some(elsewhere) = elsewhere {
                while timer.metrics().pending() == 0 {
                    tokio::time::sleep(MS).await;
                }
                elsewhere.shutdown_background();
            }
        };
        let both = async { tokio::join!(scenario, shut_down).0 };
        let output = here.block_on(async { tokio::time::timeout(PATIENCE, both).await });
        check(output.expect("it hangs"));
    }
}

async fn never(_: ()) -> Result<&'static str, io::Error> {
    pending().await
}

fn assert_shut_down(answer: Result<&str, BoxError>) {
    let error = answer.unwrap_err();
    assert!(error.is::<ShutDown>(), "{error}");
}

#[test]
fn a_call_with_a_timeout_is_cancelled() {
    let fixed = |timer: Timer| {
        let layer = TimeoutLayer::new_on(&timer, HOUR);
        layer.layer(service_fn(never)).oneshot(())
    };
    run(fixed, assert_shut_down);
    let per_request = |timer: Timer| {
        let layer = TimeoutLayer::per_request_on(&timer, |()| Some(HOUR));
        layer.layer(service_fn(never)).oneshot(())
    };
    run(per_request, assert_shut_down);
}

#[test]
fn a_closure_answers_for_a_call_too() {
    let call = |timer: Timer| {
        let layer = TimeoutLayer::new_on(&timer, HOUR).on_elapsed(|Elapsed { .. }| Ok("no answer"));
        layer.layer(service_fn(never)).oneshot(())
    };
    run(call, |answer| assert_eq!(answer.unwrap(), "no answer"));
}

#[test]
fn an_idle_timeout_is_told_once_and_items_pass() {
    let items = |timer: Timer| async move {
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let mut items = IdleTimeout::new_on(&timer, receiver, HOUR);
        let first = items.next().await;
        let later = async {
            for item in [1, 2] {
                tokio::time::sleep(20 * MS).await;
                sender.unbounded_send(item).unwrap();
            }
            drop(sender);
        };
        let rest = async { items.by_ref().collect::<Vec<_>>().await };
        (first, tokio::join!(rest, later).0)
    };
    run(items, |(first, rest)| {
        assert!(matches!(first, Some(Err(Elapsed { .. }))));
        assert_eq!(rest, [Ok(1), Ok(2)]);
    });
}

#[test]
fn a_throttle_of_an_ended_runtime_passes_all_items() {
    let items = |timer: Timer| Throttle::new_on(&timer, stream::iter(0..3), HOUR).collect();
    run(items, |items: Vec<_>| assert_eq!(items, [0, 1, 2]));
}

#[test]
fn a_stream_of_ticks_ends() {
    let ticks = |timer: Timer| async move {
        let mut ticks = IntervalStream::new(timer.interval_at(Instant::now() + HOUR, HOUR));
        let first = ticks.next().await;
        let end = (ticks.is_terminated(), ticks.size_hint());
        (first, ticks.next().await, end)
    };
    run(ticks, |(first, next, end)| {
        assert_eq!((first, next), (None, None));
        assert_eq!(end, (true, (0, Some(0))));
    });
}

#[test]
fn try_poll_reports_the_end_each_time_it_is_asked() {
    let ends = |timer: Timer| async move {
        let mut sleep = timer.sleep(HOUR);
        let mut ends = Vec::new();
        for _ in 0..2 {
            ends.push(poll_fn(|cx| sleep.try_poll(cx)).await);
        }
        ends
    };
    run(ends, |ends| {
        assert!(ends.iter().all(Result::is_err));
    });
}

#[test]
fn a_sleep_of_hypers_goes_on_for_what_is_left() {
    const SHORT: Duration = Duration::from_millis(300);
    let sleep = |timer: Timer| async move {
        let start = Instant::now();
        HyperTimer::sleep(&timer, SHORT).await;
        let first = start.elapsed();

        let start = Instant::now();
        let mut sleep = HyperTimer::sleep(&timer, HOUR);
        timer.reset(&mut sleep, HyperTimer::now(&timer) + SHORT);
        sleep.as_mut().await;
        let second = start.elapsed();

        let start = Instant::now();
        timer.reset(&mut sleep, HyperTimer::now(&timer) + SHORT);
        sleep.await;
        (first, second, start.elapsed())
    };
    run(sleep, |(first, second, third)| {
        assert!(first >= SHORT && second >= SHORT && third >= SHORT);
    });
}

#[test]
fn a_sleep_of_hypers_goes_on_outside_of_a_runtime_too() {
    let elsewhere = multi_thread(2);
    let timer = elsewhere.block_on(async { Timer::current() });
    elsewhere.shutdown_timeout(PATIENCE);
    let start = Instant::now();
    futures::executor::block_on(HyperTimer::sleep(&timer, 20 * MS));
    assert!(start.elapsed() >= 20 * MS);
}
