//! Deadlines that are passed on: `scope`, `remaining`, and the timeouts within.
//!
//! Invariant: nothing within a scope outlives it, nothing outside is bounded by it, and nothing
//! stays armed after it. The oracle has scopes whose code tries again and again on timers of any
//! tick. Here are the rest.

mod clocks;
mod tasks;

use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use futures::FutureExt;
use tickwheel::error::Elapsed;
use tickwheel::{
    Duration, Instant, Scope, Timer, global, remaining, scope, scope_deadline, timeout, timeout_at,
};
use tokio_test::{assert_pending, task};

use crate::common::{SECOND, assert_nothing_armed};

fn in_seconds(seconds: u32) -> Instant {
    Instant::now() + seconds * SECOND
}

#[tokio::test(start_paused = true)]
async fn a_ready_future_wins_over_a_passed_deadline() {
    let past = Instant::now();
    tokio::time::advance(SECOND).await;
    assert_eq!(scope(past, ready(7)).await, Ok(7));
    assert_eq!(scope(in_seconds(2), async { 8 }).await, Ok(8));
    assert!(scope(past, pending::<()>()).await.is_err());
    assert_eq!(Instant::now(), past + SECOND, "at once");
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_timeout_within_is_bounded() {
    let timer = Timer::new();
    let long = 60 * SECOND;
    for kind in 0..4 {
        let start = Instant::now();
        let within = scope(in_seconds(2), async {
            let call = match kind {
                0 => timeout(long, pending::<()>()),
                1 => timeout_at(start + long, pending::<()>()),
                2 => timer.timeout(long, pending::<()>()),
                _ => timer.timeout_at(start + long, pending::<()>()),
            };
            call.await.map_err(|Elapsed { .. }| "an answer of its own")
        });
        let heard = within.await.expect("the code within hears first");
        assert_eq!(heard, Err("an answer of its own"));
        assert_eq!(start.elapsed(), 2 * SECOND, "kind {kind}");
    }
    assert_eq!(timer.metrics().pending, 0);
    assert_nothing_armed();
}

#[test]
fn code_that_tries_for_ever_ends_without_a_budget_too() {
    // No runtime bounds what one poll does here.
    let deadline = Instant::now() + Duration::from_millis(50);
    let within = global::scope(deadline, async {
        loop {
            let _ = global::timeout(Duration::from_millis(20), pending::<()>()).await;
            let _ = global::scope(deadline + SECOND, pending::<()>()).await;
        }
    });
    let ended: Result<(), Elapsed> = futures::executor::block_on(within);
    assert!(ended.is_err());
    assert!(Instant::now() >= deadline);
}

#[test]
fn loops_that_take_what_is_left_end_without_a_budget() {
    type Try = fn() -> tickwheel::Timeout<std::future::Pending<()>>;
    const TRIES: [Try; 4] = [
        || global::timeout(remaining().unwrap(), pending()),
        || global::timeout_at(scope_deadline().unwrap(), pending()),
        || global::timeout(Duration::ZERO, pending()),
        || global::timeout_at(Instant::now() - SECOND, pending()),
    ];
    for attempt in TRIES {
        let (ends, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_millis(30);
            let within = global::scope(deadline, async move {
                loop {
                    let _ = attempt().await;
                }
            });
            let ended: Result<(), Elapsed> = futures::executor::block_on(within);
            let _ = ends.send(ended.is_err());
        });
        let ended = end.recv_timeout(crate::common::PATIENCE);
        assert_eq!(ended, Ok(true), "it tries for ever");
    }
}

#[tokio::test(start_paused = true)]
async fn of_nested_scopes_the_earliest_deadline_holds() {
    for (outer, inner) in [(2, 5), (5, 2)] {
        let start = Instant::now();
        let nested = scope(in_seconds(outer), async {
            let nested = scope(in_seconds(inner), async {
                assert_eq!(remaining(), Some(2 * SECOND));
                timeout(60 * SECOND, pending::<()>()).await
            });
            assert_eq!(nested.deadline(), start + 2 * SECOND);
            let nested = nested.await;
            assert_eq!(
                remaining(),
                Some((outer - 2) * SECOND),
                "the outer one is put back"
            );
            nested
        });
        assert!(
            matches!(nested.await, Ok(Ok(Err(_)))),
            "the innermost code hears first"
        );
        assert_eq!(start.elapsed(), 2 * SECOND);
    }
    assert_eq!(remaining(), None);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_scope_made_outside_is_bounded_where_it_is_polled() {
    let start = Instant::now();
    let inner = scope(in_seconds(60), async {
        assert_eq!(remaining(), Some(2 * SECOND));
        timeout(60 * SECOND, pending::<()>()).await
    });
    let outer = scope(in_seconds(2), inner).await;
    assert!(matches!(outer, Ok(Ok(Err(_)))), "{outer:?}");
    assert_eq!(start.elapsed(), 2 * SECOND);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_taken_out_of_a_scope_stays_bounded() {
    let start = Instant::now();
    let make = poll_fn(|_| Poll::Ready(timeout(60 * SECOND, pending::<()>())));
    let call = scope(in_seconds(2), make).await.unwrap();
    assert!(call.await.is_err());
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_was_made_outside_keeps_its_time_within() {
    for is_scope in [false, true] {
        let start = Instant::now();
        let mut call = match is_scope {
            true => scope(start + 3 * SECOND, pending::<()>()).boxed(),
            false => timeout(3 * SECOND, pending::<()>()).boxed(),
        };
        assert!(scope(in_seconds(2), &mut call).await.is_err());
        assert_eq!(start.elapsed(), 2 * SECOND);
        assert!(call.await.is_err());
        assert_eq!(start.elapsed(), 3 * SECOND);
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_panic_within_closes_the_scope() {
    let mut panics = task::spawn(scope(in_seconds(2), async {
        timeout(SECOND, poll_fn(|_| -> Poll<()> { panic!("on purpose") })).await
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| panics.poll())).is_err());
    assert_eq!(remaining(), None);
    drop(panics);
    assert_nothing_armed();

    let outer = scope(in_seconds(9), async {
        let mut panics = task::spawn(scope(in_seconds(2), async { panic!("on purpose") }));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _: Poll<Result<(), Elapsed>> = panics.poll();
        }));
        assert!(caught.is_err());
        remaining()
    });
    assert_eq!(
        outer.await,
        Ok(Some(9 * SECOND)),
        "the outer one is put back"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_left_shrinks_and_ends_at_zero() {
    let told = Cell::new(Duration::MAX);
    let mut within = task::spawn(scope(in_seconds(2), async {
        loop {
            told.set(remaining().unwrap());
            tokio::task::yield_now().await;
        }
    }));
    for left in [2, 1, 0] {
        let polled: Poll<Result<(), Elapsed>> = within.poll();
        assert_eq!(told.get(), left * SECOND);
        assert_eq!(
            (remaining(), scope_deadline()),
            (None, None),
            "closed between polls"
        );
        assert_eq!(polled.is_ready(), left == 0);
        tokio::time::advance(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_uses_its_budget_up_is_bounded() {
    let start = Instant::now();
    let greedy = poll_fn(|cx| -> Poll<()> {
        while let Poll::Ready(budget) = tokio::task::coop::poll_proceed(cx) {
            budget.made_progress();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let ticking = tokio::spawn(async {
        for _ in 0..30 {
            tokio::time::advance(SECOND / 10).await;
        }
    });
    assert!(scope(in_seconds(2), greedy).await.is_err());
    assert!(start.elapsed() >= 2 * SECOND);
    ticking.abort();
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn deadlines_far_away_bound_nothing() {
    let far = Instant::now() + Duration::from_secs(60 * 365 * 24 * 3600);
    let within = scope(far, async { timeout(SECOND, pending::<()>()).await });
    assert!(within.await.unwrap().is_err());
    let mut waiting = task::spawn(scope(far, timeout(Duration::MAX, pending::<()>())));
    assert_pending!(waiting.poll());
    drop(waiting);
    assert_nothing_armed();
}

#[tokio::test]
async fn get_ref_get_mut_and_into_inner_reach_the_future() {
    let mut call: Scope<_> = Timer::current().scope(in_seconds(2), ready(7));
    assert_eq!(call.get_ref().clone().into_inner(), 7);
    *call.get_mut() = ready(8);
    assert_eq!(call.into_inner().await, 8);
}

#[test]
#[should_panic(expected = "there is no reactor running")]
fn a_scope_outside_a_runtime_panics() {
    drop(scope(Instant::now(), ready(())));
}

#[test]
fn a_scope_is_as_sendable_as_its_future() {
    fn is_send_and_sync<T: Send + Sync + Unpin>() {}
    is_send_and_sync::<Scope<std::future::Ready<()>>>();
}
