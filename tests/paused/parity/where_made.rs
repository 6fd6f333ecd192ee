//! Where a timeout is made and where it is polled: the cases in which a timer that is found late
//! could differ from tokio's, which is found at the call. In the last three it does, as the page of
//! `timeout` says.

#![allow(
    clippy::async_yields_async,
    reason = "a timeout is made in one place and awaited in another"
)]

use std::future::{Future, IntoFuture, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant as StdInstant;

use futures::executor;
use tickwheel::{Duration, Instant, Sleep, Timeout, Timer, scope, sleep, timeout, timeout_at};
use tokio::runtime::{Builder, Runtime};

use crate::common::{HOUR, MS, PATIENCE, current_thread, multi_thread, paused};

type Never = std::future::Pending<()>;

/// The thread has found its runtime's timer before, so that a timeout may find it later.
async fn is_known() {
    sleep(MS).await;
    assert!(timeout(HOUR, ready(7)).await.is_ok());
}

/// Makes a timeout on a worker of the runtime.
fn made_on(runtime: &Runtime, duration: Duration) -> Timeout<Never> {
    let make = async move {
        is_known().await;
        timeout(duration, pending())
    };
    runtime.block_on(async { tokio::spawn(make).await.unwrap() })
}

fn is_pending(timeout: &mut Timeout<Never>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(timeout).poll(&mut cx).is_pending()
}

fn pending_of(timer: &Timer) -> usize {
    timer.metrics().pending
}

#[test]
fn made_outside_of_a_runtime_it_panics_at_the_call() {
    assert!(catch_unwind(|| timeout(MS, ready(1))).is_err());
    let deadline = Instant::now() + MS;
    assert!(catch_unwind(|| timeout_at(deadline, ready(1))).is_err());
    // Also on a thread that has driven one.
    current_thread().block_on(is_known());
    assert!(catch_unwind(|| timeout(MS, ready(1))).is_err());
}

#[test]
fn made_without_a_time_driver_it_panics_at_the_call() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let made = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { timeout(MS, ready(1)).into_future().await })
    }));
    assert!(made.is_err());
}

#[test]
fn made_in_a_context_that_was_entered_it_goes_by_that_runtime() {
    let (one, other) = (multi_thread(1), multi_thread(1));
    let of_one = one.block_on(async { Timer::current() });
    let mut made = {
        let _context = one.enter();
        timeout(HOUR, pending::<()>())
    };
    other.block_on(async { assert!(is_pending(&mut made)) });
    assert_eq!(pending_of(&of_one), 1);
}

#[test]
fn made_on_a_blocking_thread_it_goes_by_that_runtime() {
    let (one, other) = (multi_thread(1), multi_thread(1));
    let of_one = one.block_on(async { Timer::current() });
    let make = async { tokio::task::spawn_blocking(|| timeout(HOUR, pending::<()>())).await };
    let mut made = one.block_on(make).unwrap();
    other.block_on(async { assert!(is_pending(&mut made)) });
    assert_eq!(pending_of(&of_one), 1);
}

#[test]
fn made_by_the_thread_of_a_block_on_it_goes_by_that_runtime() {
    let (one, other) = (multi_thread(1), multi_thread(1));
    let of_one = one.block_on(async { Timer::current() });
    let mut made = one.block_on(async {
        is_known().await;
        timeout(HOUR, pending::<()>())
    });
    other.block_on(async { assert!(is_pending(&mut made)) });
    assert_eq!(pending_of(&of_one), 1);
}

#[test]
fn made_for_no_time_it_elapses_wherever_it_is_polled() {
    let mut made = made_on(&multi_thread(1), Duration::ZERO);
    assert!(!is_pending(&mut made));
}

#[test]
fn made_for_all_time_it_saturates() {
    let runtime = multi_thread(1);
    let mut made = made_on(&runtime, Duration::MAX);
    runtime.block_on(async { assert!(is_pending(&mut made)) });
}

#[tokio::test(start_paused = true)]
async fn made_within_a_scope_it_ends_with_that() {
    is_known().await;
    let start = Instant::now();
    let within = scope(start + 20 * MS, async {
        timeout(HOUR, pending::<()>()).await
    });
    assert!(!matches!(within.await, Ok(Ok(()))));
    assert_eq!(start.elapsed(), 20 * MS);
}

#[tokio::test(start_paused = true)]
async fn made_before_its_first_poll_it_counts_from_the_call() {
    is_known().await;
    let made = timeout(20 * MS, pending::<()>());
    let at = timeout_at(Instant::now() + 20 * MS, pending::<()>());
    let start = Instant::now();
    sleep(15 * MS).await;
    assert!(made.await.is_err() && at.await.is_err());
    assert_eq!(start.elapsed(), 20 * MS);
    let made = timeout(20 * MS, pending::<()>());
    sleep(25 * MS).await;
    assert!(made.await.is_err(), "at once");
    assert_eq!(start.elapsed(), 45 * MS);
}

#[test]
fn made_on_a_worker_and_polled_on_another_runtime_it_goes_by_that() {
    let (one, other) = (multi_thread(1), multi_thread(1));
    let [of_one, of_other] =
        [&one, &other].map(|runtime| runtime.block_on(async { Timer::current() }));
    let mut made = made_on(&one, HOUR);
    other.block_on(async { assert!(is_pending(&mut made)) });
    assert_eq!((pending_of(&of_one), pending_of(&of_other)), (0, 1));
    // So it fires there, though the one where it was made has ended.
    let made = made_on(&one, 20 * MS);
    drop(one);
    assert!(other.block_on(made).is_err());
}

#[test]
fn made_on_a_worker_and_polled_by_a_plain_thread_it_goes_by_the_process() {
    let runtime = multi_thread(1);
    let made = made_on(&runtime, 20 * MS);
    drop(runtime);
    let start = StdInstant::now();
    let elapsed = thread::spawn(|| executor::block_on(made)).join();
    assert!(elapsed.unwrap().is_err());
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn made_on_a_paused_clock_and_polled_on_another_it_keeps_its_instant() {
    let ahead = paused();
    ahead.block_on(tokio::time::advance(HOUR));
    let mut made = ahead.block_on(async {
        is_known().await;
        timeout(MS, pending::<()>())
    });
    // Its instant lies an hour ahead of the system's clock.
    multi_thread(1).block_on(async { assert!(is_pending(&mut made)) });
}

#[test]
fn a_sleep_finds_its_timer_at_the_call() {
    let (one, other) = (multi_thread(1), multi_thread(1));
    let of_one = one.block_on(async { Timer::current() });
    let make = async {
        is_known().await;
        sleep(HOUR)
    };
    let made: Sleep = one.block_on(async { tokio::spawn(make).await.unwrap() });
    other.block_on(async {
        let mut made = pin!(made);
        let polled = made.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!((polled, pending_of(&of_one)), (Poll::Pending, 1));
    });
}
