//! Where a timeout is made and where it is polled: the cases in which a timer that is found late
//! could differ from tokio's, which is found at the call. Where it was made on a worker it does, as
//! the page of `timeout` says.

#![allow(
    clippy::async_yields_async,
    reason = "a timeout is made in one place and awaited in another"
)]

use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use futures::executor;
use tickwheel::{Duration, Instant, Timeout, Timer};
use tickwheel::{interval_at, sleep, sleep_until, timeout, timeout_at};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use crate::common::{HOUR, MS, current_thread, multi_thread, poll_once, tells_workers};
use crate::paused_clock::paused;

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
    poll_once(timeout).is_pending()
}

#[test]
fn made_without_a_runtime_or_time_driver_it_panics() {
    let panics = || {
        catch_unwind(|| timeout(MS, ready(1))).is_err()
            && catch_unwind(|| timeout_at(Instant::now() + MS, ready(1))).is_err()
    };
    assert!(panics());
    let without = Builder::new_current_thread().build().unwrap();
    assert!(without.block_on(async { panics() }));
    current_thread().block_on(is_known());
    assert!(panics(), "also on a thread that has driven one");
    if !tells_workers() {
        return;
    }
    // Such a thread notices at the first poll that there is no time driver.
    let mut made = without.block_on(async { timeout(MS, pending::<()>()) });
    let _context = without.enter();
    assert!(catch_unwind(AssertUnwindSafe(|| is_pending(&mut made))).is_err());
}

#[test]
fn made_outside_of_a_task_it_is_armed_on_the_current_runtime() {
    type Make = fn(&Runtime) -> Timeout<Never>;
    let places: [(&str, Make); 3] = [
        ("in a context that was entered", |one| {
            let _context = one.enter();
            timeout(HOUR, pending())
        }),
        ("on a blocking thread", |one| {
            let make = async { spawn_blocking(|| timeout(HOUR, pending())).await };
            one.block_on(make).unwrap()
        }),
        ("by the thread of a block_on", |one| {
            one.block_on(async {
                is_known().await;
                timeout(HOUR, pending())
            })
        }),
    ];
    for (place, make) in places {
        let (one, other) = (multi_thread(1), multi_thread(1));
        let of_one = one.block_on(async { Timer::current() });
        let mut made = make(&one);
        other.block_on(async { assert!(is_pending(&mut made)) });
        assert_eq!(of_one.metrics().pending(), 1, "{place}");
    }
}

#[test]
fn made_for_no_time_it_elapses_and_for_all_it_saturates() {
    let runtime = multi_thread(1);
    assert!(runtime.block_on(made_on(&runtime, Duration::ZERO)).is_err());
    let mut made = made_on(&runtime, Duration::MAX);
    runtime.block_on(async { assert!(is_pending(&mut made)) });
}

#[tokio::test(start_paused = true)]
async fn made_before_its_first_poll_it_counts_from_the_call() {
    is_known().await;
    for (pause, ends_at) in [(15 * MS, 20 * MS), (25 * MS, 25 * MS)] {
        let start = Instant::now();
        let made = timeout(20 * MS, pending::<()>());
        let at = timeout_at(start + 20 * MS, pending::<()>());
        sleep(pause).await;
        assert!(made.await.is_err() && at.await.is_err());
        assert_eq!(start.elapsed(), ends_at);
    }
}

#[test]
fn made_on_a_worker_it_is_armed_on_the_runtime_that_polls_it() {
    if !tells_workers() {
        return;
    }
    let (one, other) = (multi_thread(1), multi_thread(1));
    let timers = [&one, &other].map(|runtime| runtime.block_on(async { Timer::current() }));
    let mut made = made_on(&one, HOUR);
    other.block_on(async { assert!(is_pending(&mut made)) });
    assert_eq!(timers.map(|timer| timer.metrics().pending()), [0, 1]);
    // So it fires there, and on a plain thread, though the one where it was made has ended.
    let made = [(); 2].map(|()| made_on(&one, 20 * MS));
    drop(one);
    let [here, there] = made;
    assert!(other.block_on(here).is_err());
    let elapsed = thread::spawn(|| executor::block_on(there)).join();
    assert!(elapsed.unwrap().is_err());
}

#[test]
fn made_on_a_paused_clock_it_keeps_its_instant_on_another() {
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
fn a_sleep_and_an_interval_find_their_timer_when_they_arm() {
    if !tells_workers() {
        return;
    }
    let (one, other) = (multi_thread(1), multi_thread(1));
    let timers = [&one, &other].map(|runtime| runtime.block_on(async { Timer::current() }));
    // The first of their thread.
    let make = async {
        let start = Instant::now() + HOUR;
        (sleep(HOUR), sleep_until(start), interval_at(start, HOUR))
    };
    let (mut for_hour, mut until, mut beat) =
        one.block_on(async { tokio::spawn(make).await.unwrap() });
    assert!(until.deadline() > Instant::now() && !until.is_elapsed());
    other.block_on(async {
        assert!(poll_once(&mut for_hour).is_pending() && poll_once(&mut until).is_pending());
        assert!(poll_once(&mut std::pin::pin!(beat.tick())).is_pending());
    });
    assert_eq!(timers.map(|timer| timer.metrics().pending()), [0, 3]);
}
