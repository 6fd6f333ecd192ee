//! `Timeout`: its future in time or not, what is polled first, and what it arms.

use std::future::{pending, ready};

use tickwheel::error::Elapsed;
use tickwheel::{Duration, Instant, Timer, timeout, timeout_at};
use tokio::sync::oneshot;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{MS, current_thread};

fn elapsed<T>(result: Result<T, Elapsed>) -> bool {
    result.is_err()
}

#[tokio::test(start_paused = true)]
async fn gives_the_output_of_a_future_that_is_in_time() {
    let (sender, receiver) = oneshot::channel();
    let mut bounded = task::spawn(timeout(100 * MS, receiver));
    assert_pending!(bounded.poll());
    sender.send(7).unwrap();
    assert!(bounded.is_woken());
    assert_eq!(assert_ready!(bounded.poll()).unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn elapses_when_its_future_is_not_in_time() {
    let start = Instant::now();
    assert!(elapsed(timeout(100 * MS, pending::<()>()).await));
    assert_eq!(start.elapsed(), 100 * MS);
    assert!(elapsed(timeout_at(start + 250 * MS, pending::<()>()).await));
    assert_eq!(start.elapsed(), 250 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_ready_future_wins_over_a_passed_deadline() {
    assert_eq!(timeout(Duration::ZERO, ready(1)).await, Ok(1));
    assert_eq!(timeout_at(Instant::now() - MS, async { 2 }).await, Ok(2));
    let (sender, receiver) = oneshot::channel();
    let mut bounded = task::spawn(timeout(10 * MS, receiver));
    assert_pending!(bounded.poll());
    sender.send(3).unwrap();
    tokio::time::advance(20 * MS).await;
    assert_eq!(assert_ready!(bounded.poll()).unwrap(), Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_passed_deadline_elapses_at_the_first_poll() {
    assert!(elapsed(assert_ready!(
        task::spawn(timeout(Duration::ZERO, pending::<()>())).poll()
    )));
    let past = Instant::now() - MS;
    assert!(elapsed(assert_ready!(
        task::spawn(timeout_at(past, pending::<()>())).poll()
    )));
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_ready_at_once_arms_nothing() {
    let timer = Timer::new();
    assert_eq!(timer.timeout(MS, ready(())).await, Ok(()));
    assert_eq!(
        timer.timeout_at(Instant::now() + MS, ready(())).await,
        Ok(())
    );
    assert_eq!(timer.metrics().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_it_disarms_it() {
    let timer = Timer::new();
    let mut bounded = task::spawn(timer.timeout(MS, pending::<()>()));
    assert_pending!(bounded.poll());
    assert_eq!(timer.metrics().pending, 1);
    drop(bounded);
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn the_future_within_can_be_seen_changed_and_taken_back() {
    let mut bounded = timeout(MS, ready(1));
    *bounded.get_mut() = ready(2);
    assert_eq!(bounded.get_ref().clone().into_inner(), 2);
    assert_eq!(bounded.into_inner().await, 2);
}

#[tokio::test(start_paused = true)]
async fn the_longest_durations_do_not_panic() {
    assert_eq!(
        timeout(Duration::MAX, async { tokio::task::yield_now().await }).await,
        Ok(())
    );
    let mut bounded = task::spawn(timeout(Duration::MAX, pending::<()>()));
    assert_pending!(bounded.poll());
}

#[tokio::test(start_paused = true)]
async fn takes_whatever_becomes_a_future() {
    struct Request;
    impl IntoFuture for Request {
        type Output = u8;
        type IntoFuture = std::future::Ready<u8>;
        fn into_future(self) -> Self::IntoFuture {
            ready(9)
        }
    }
    assert_eq!(timeout(MS, Request).await, Ok(9));
    assert_eq!(Timer::current().timeout(MS, Request).await, Ok(9));
}

#[tokio::test]
async fn a_future_that_always_uses_up_the_budget_is_bounded_too() {
    let endless = async {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    // In a task of its own: the cooperative budget is a task's.
    let bounded = tokio::spawn(timeout(10 * MS, endless));
    assert!(bounded.await.unwrap().is_err());
}

#[test]
fn elapsed_is_an_io_error_of_its_kind() {
    let runtime = current_thread();
    let elapsed = runtime
        .block_on(async { timeout(Duration::ZERO, pending::<()>()).await })
        .unwrap_err();
    assert_eq!(elapsed.to_string(), "deadline has elapsed");
    let error: std::io::Error = elapsed.into();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}
