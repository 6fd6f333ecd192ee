//! A scope on a timer with other ticks, or with another clock, than what is within it.
//!
//! Invariant: whoever polls a scope after its deadline ends it, however often the code within tries
//! again. Its deadline is an instant of the clock that `Instant::now` reads where it is polled.

use std::cell::Cell;
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tickwheel::error::Elapsed;
use tickwheel::{Duration, Instant, Timer, global, remaining, scope};
use tokio::runtime::Runtime;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, PATIENCE, multi_thread, paused};

const TICKS: [u32; 4] = [1, 10, 100, 1000];

fn with_tick(millis: u32) -> Timer {
    Timer::builder().tick(millis * MS).build().unwrap()
}

/// Counts tries, and ends a test whose code tries for ever.
#[derive(Default)]
struct Tries(AtomicU32);

impl Tries {
    fn count(&self) {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(before < 1_000, "it tries for ever");
    }

    fn take(&self) -> u32 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn loops_in_nested_scopes_end_once_whatever_the_ticks() {
    const DEADLINE: u32 = 1_234;
    let (tries, inner_tries) = (Tries::default(), Tries::default());
    for outer_tick in TICKS {
        for inner_tick in TICKS {
            for inner_deadline in [400, DEADLINE, 60_000] {
                let (outer, inner) = (with_tick(outer_tick), with_tick(inner_tick));
                let start = Instant::now();
                let bounded = outer.scope(start + DEADLINE * MS, async {
                    loop {
                        tries.count();
                        let deadline = Instant::now() + inner_deadline * MS;
                        let bounded = inner.scope(deadline, async {
                            loop {
                                inner_tries.count();
                                let _ = tickwheel::timeout(HOUR, pending::<()>()).await;
                            }
                        });
                        let ended: Result<(), Elapsed> = bounded.await;
                        assert!(ended.is_err());
                    }
                });
                let ended: Result<(), Elapsed> = bounded.await;
                assert!(ended.is_err());
                let of = format!("ticks of {outer_tick} and {inner_tick} ms, {inner_deadline} ms");
                assert_eq!(start.elapsed(), DEADLINE * MS, "{of}");
                let (tries, inner_tries) = (tries.take(), inner_tries.take());
                assert!(tries <= DEADLINE / inner_deadline + 3, "{tries}, {of}");
                assert!(inner_tries <= 3 * tries, "{inner_tries} in {tries}, {of}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_passed_scope_on_a_coarse_timer_ends_at_once() {
    let coarse = with_tick(1000);
    tokio::time::advance(5 * MS).await;
    let start = Instant::now();
    assert!(coarse.scope(start, pending::<()>()).await.is_err());
    let nested = scope(start, async {
        coarse.scope(start + HOUR, pending::<()>()).await // tries no second time
    });
    // Which of the two ends first is not promised.
    assert!(!matches!(nested.await, Ok(Ok(_))));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// A runtime whose clock is an hour ahead of the system's.
fn ahead() -> Runtime {
    let runtime = paused();
    runtime.block_on(tokio::time::advance(HOUR));
    runtime
}

/// A runtime whose clock stands still, some time behind the system's.
fn behind() -> Runtime {
    let runtime = paused();
    runtime.block_on(async { Instant::now() });
    thread::sleep(300 * MS);
    runtime
}

thread_local! {
    /// What was left when a wait began.
    static LEFT: Cell<Option<Duration>> = const { Cell::new(None) };
}

async fn wait_for_ever() {
    LEFT.set(remaining());
    pending::<()>().await;
}

/// What waits for 50 ms from now on that timer.
fn waits(timer: &Timer) -> Vec<(&'static str, LocalBoxFuture<'static, ()>)> {
    let deadline = Instant::now() + 50 * MS;
    let bounded = timer.scope(deadline, wait_for_ever());
    let within = timer.scope(deadline, {
        let timer = timer.clone();
        async move { timer.timeout(HOUR, wait_for_ever()).await }
    });
    let bounded = bounded.map(|ended| assert!(ended.is_err()));
    vec![
        ("scope", bounded.boxed_local()),
        ("timeout within", within.map(drop).boxed_local()),
        ("per_request", request(timer)),
    ]
}

#[cfg(feature = "tower")]
fn request(timer: &Timer) -> LocalBoxFuture<'static, ()> {
    use tickwheel::tower::{BoxError, TimeoutLayer};
    use tower::{Layer, Service, service_fn};
    let layer = TimeoutLayer::per_request(|_: &()| Some(50 * MS)).with_timer(timer.clone());
    let service = service_fn(async |()| {
        wait_for_ever().await;
        Ok::<_, BoxError>(())
    });
    let answer = layer.layer(service).call(());
    let answer = answer.map(|answer: Result<(), _>| assert!(answer.unwrap_err().is::<Elapsed>()));
    answer.boxed_local()
}

#[cfg(not(feature = "tower"))]
fn request(timer: &Timer) -> LocalBoxFuture<'static, ()> {
    let answer = timer.scope(Instant::now() + 50 * MS, wait_for_ever());
    answer.map(drop).boxed_local()
}

#[test]
fn by_the_systems_clock_a_scope_waits_for_what_is_left() {
    let system = multi_thread(1);
    let timers = [
        global::timer(),
        Timer::builder().build_on(system.handle()).unwrap(),
    ];
    for (clock, caller) in [("ahead", ahead()), ("behind", behind())] {
        for timer in &timers {
            let _in_caller = caller.enter();
            for (kind, wait) in waits(timer) {
                let start = std::time::Instant::now();
                caller.block_on(wait);
                assert!(start.elapsed() >= 50 * MS, "{kind} is early, {clock}");
                assert!(start.elapsed() < PATIENCE, "{kind} is late, {clock}");
                assert_eq!(LEFT.take(), Some(50 * MS), "{kind}, {clock}");
            }
        }
    }
}

#[test]
fn by_another_runtimes_clock_a_scope_waits_for_what_is_left() {
    let caller = multi_thread(1);
    for (clock, runtime) in [("ahead", ahead()), ("behind", behind())] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let waits = {
            let _in_caller = caller.enter();
            waits(&timer)
        };
        for (kind, wait) in waits {
            let mut wait = task::spawn(wait);
            let poll = |wait: &mut task::Spawn<LocalBoxFuture<'static, ()>>| {
                let _in_caller = caller.enter();
                wait.poll()
            };
            assert_pending!(poll(&mut wait), "{kind} is early, {clock}");
            let left = LEFT.take().unwrap();
            assert!(left <= 50 * MS, "{kind}, {clock}");
            // Real time has passed since then, some milliseconds on a busy machine.
            let margin = 25 * MS;
            runtime.block_on(tokio::time::advance(left.saturating_sub(margin)));
            assert!(!wait.is_woken(), "{kind} is early, {clock}");
            runtime.block_on(async { tokio::time::sleep(margin + MS).await });
            assert!(wait.is_woken(), "{kind} is late, {clock}");
            assert_ready!(poll(&mut wait), "{kind}, {clock}");
        }
    }
}

#[test]
fn a_scope_ends_by_the_callers_clock_where_its_own_stands() {
    let caller = multi_thread(1);
    for runtime in [ahead(), behind()] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let _in_caller = caller.enter();
        let deadline = Instant::now() + 20 * MS;
        let mut wait = task::spawn(timer.scope(deadline, wait_for_ever()));
        assert_pending!(wait.poll());
        thread::sleep(20 * MS);
        assert!(assert_ready!(wait.poll()).is_err());
    }
}
