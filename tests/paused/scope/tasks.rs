//! A scope beside other tasks, sets of futures, inner runtimes and other clocks.
//!
//! Invariant: a scope bounds what its own task does, and no other task of tokio's.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tickwheel::error::Elapsed;
use tickwheel::{Duration, Instant, Timer, global, remaining, scope, sleep, timeout};
use tokio::task::LocalSet;
use tokio_test::{assert_pending, assert_ready, task};

use super::in_seconds;
use crate::common::{SECOND, assert_nothing_armed};

#[tokio::test(start_paused = true)]
async fn other_tasks_and_sleeps_are_not_bounded() {
    let start = Instant::now();
    let within = scope(in_seconds(5), async {
        let other = tokio::spawn(async { (remaining(), timeout(2 * SECOND, sleep(SECOND)).await) });
        assert_eq!(other.await.unwrap(), (None, Ok(())));
        assert_eq!(tokio::task::spawn_blocking(remaining).await.unwrap(), None);
        sleep(SECOND).await;
        remaining()
    });
    assert_eq!(within.await, Ok(Some(3 * SECOND)));
    assert_eq!(start.elapsed(), 2 * SECOND);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn the_process_timer_within_is_bounded_by_its_own_clock() {
    // This runtime's time is an hour ahead of the system's.
    tokio::time::advance(3600 * SECOND).await;
    let system = std::time::Instant::now();
    let deadline = Instant::now() + Duration::from_millis(50);
    let mut within = task::spawn(scope(deadline, async {
        global::timeout(60 * SECOND, pending::<()>()).await
    }));
    assert_pending!(within.poll());
    while !within.is_woken() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(system.elapsed() >= Duration::from_millis(50));
    assert!(matches!(assert_ready!(within.poll()), Ok(Err(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_is_early_and_none_tries_for_ever_in_real_time() {
    let calls = (0..200u64).map(|number| {
        tokio::spawn(async move {
            let tick = [1, 10, 100].map(Duration::from_millis)[number as usize % 3];
            let timer = Timer::builder().tick(tick).build().unwrap();
            let deadline = Instant::now() + Duration::from_micros(5_000 + 97 * number);
            let tries = AtomicU32::new(0);
            let within = timer.scope(deadline, async {
                tokio::task::yield_now().await;
                loop {
                    tries.fetch_add(1, Ordering::Relaxed);
                    let _ = timeout(60 * SECOND, pending::<()>()).await;
                }
            });
            let ended: Result<(), Elapsed> = within.await;
            assert!(ended.is_err() && Instant::now() >= deadline);
            // What was armed in time hears of the end, and may try again once or twice.
            let tries = tries.into_inner();
            assert!(tries <= 3, "{tries} tries");
            assert_eq!(timer.metrics().pending, 0);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_local_set_are_not_bounded() {
    let local = LocalSet::new();
    let other = local.spawn_local(async {
        sleep(SECOND).await;
        // It is polled by the scope's task from here on.
        let call = timeout(60 * SECOND, sleep(5 * SECOND));
        (remaining(), call.await)
    });
    let bounded = scope(in_seconds(2), local.run_until(pending::<()>())).await;
    assert!(bounded.is_err());
    assert_eq!(local.run_until(other).await.unwrap(), (None, Ok(())));
    assert_nothing_armed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_block_on_within_is_bounded_and_its_tasks_are_not() {
    let within = tokio::spawn(scope(in_seconds(60), async {
        tokio::task::block_in_place(|| {
            let inner = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            inner.block_on(async {
                let task = tokio::spawn(async { remaining() });
                (remaining().is_some(), task.await.unwrap())
            })
        })
    }));
    assert_eq!(within.await.unwrap(), Ok((true, None)));
}

#[tokio::test(start_paused = true)]
async fn a_set_of_a_coarse_timer_may_hear_nothing() {
    // The documentation tells so. The scope ends in any case, and on time.
    let coarse = Timer::builder().tick(SECOND).build().unwrap();
    let start = Instant::now();
    let within = scope(start + Duration::from_millis(2050), async {
        let mut set = FuturesUnordered::new();
        set.push(coarse.timeout(60 * SECOND, pending::<()>()));
        set.next().await
    });
    assert!(within.await.is_err());
    assert_eq!(start.elapsed(), Duration::from_millis(2050));
    assert_eq!(coarse.metrics().pending, 0);
}
