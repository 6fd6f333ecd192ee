//! Deadlines that are passed on: `with_deadline`, `time_left`, and the timeouts within; next to
//! other tasks and inner runtimes, and on a timer with another clock than what is within.
//!
//! Invariant: nothing within a deadline outlives it, nothing outside is bounded by it, no other
//! task of tokio's is, and nothing stays armed after it. Its deadline is an instant of the clock
//! that `Instant::now` reads where it is polled. The oracle has deadlines whose code tries again
//! and again on timers of any tick. Here are the rest.

use std::cell::Cell;
use std::future::{Pending, Ready, pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::FutureExt;
use futures::future::lazy;
use tickwheel::error::Elapsed;
use tickwheel::{
    Duration, Instant, Timeout, Timer, WithDeadline, current_deadline, sleep, time_left, timeout,
    timeout_at, with_deadline,
};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{
    HOUR, MS, PATIENCE, SECOND, assert_nothing_armed, current_thread, in_time, multi_thread,
    poll_once, use_up_the_budget,
};
use crate::paused_clock::{move_the_clock_only, paused};

type Never = Timeout<Pending<()>>;

fn in_seconds(seconds: u32) -> Instant {
    Instant::now() + seconds * SECOND
}

#[tokio::test(start_paused = true)]
async fn a_deadline_made_elsewhere_is_bounded_by_the_one_around_it() {
    let timer = Timer::builder().build().unwrap();
    for is_on_timer in [false, true] {
        let later = with_deadline(in_seconds(2), async { time_left() });
        let both = with_deadline(in_seconds(1), later);
        assert_eq!(both.await, Ok(Ok(Some(SECOND))));
        // Made where the other one is open, and moved out of it.
        let made = with_deadline(
            in_seconds(1),
            lazy(|_| {
                if is_on_timer {
                    timer.with_deadline(in_seconds(2), pending::<()>())
                } else {
                    with_deadline(in_seconds(2), pending::<()>())
                }
            }),
        );
        let (made, start) = (made.await.unwrap(), Instant::now());
        assert!(made.await.is_err());
        assert_eq!(start.elapsed(), SECOND, "on a timer: {is_on_timer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_ready_future_wins_over_a_passed_deadline() {
    let past = Instant::now();
    tokio::time::advance(SECOND).await;
    assert_eq!(with_deadline(past, ready(7)).await, Ok(7));
    assert_eq!(with_deadline(in_seconds(2), async { 8 }).await, Ok(8));
    assert!(with_deadline(past, pending::<()>()).await.is_err());
    assert_eq!(Instant::now(), past + SECOND, "at once");
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_timeout_within_is_bounded() {
    let timer = &Timer::builder().build().unwrap();
    let kinds: [fn(&Timer, Duration) -> Never; 4] = [
        |_, long| timeout(long, pending()),
        |_, long| timeout_at(Instant::now() + long, pending()),
        |timer, long| timer.timeout(long, pending()),
        |timer, long| timer.timeout_at(Instant::now() + long, pending()),
    ];
    for make in kinds {
        let start = Instant::now();
        let call = async { make(timer, HOUR).await.map_err(|_| "an answer of its own") };
        let heard = with_deadline(in_seconds(2), call).await;
        assert_eq!(heard, Ok(Err("an answer of its own")), "it hears first");
        assert_eq!(start.elapsed(), 2 * SECOND);
    }
    assert_eq!(timer.metrics().pending(), 0);
    assert_nothing_armed();
}

#[test]
fn loops_that_take_what_is_left_end_without_a_budget() {
    const TRIES: [fn() -> Never; 4] = [
        || Timer::global().timeout(time_left().unwrap(), pending()),
        || Timer::global().timeout_at(current_deadline().unwrap(), pending()),
        || Timer::global().timeout(Duration::ZERO, pending()),
        || Timer::global().timeout_at(Instant::now() - SECOND, pending()),
    ];
    for attempt in TRIES {
        in_time(move || {
            let deadline = Instant::now() + 30 * MS;
            let within = Timer::global().with_deadline(deadline, async move {
                loop {
                    let _ = attempt().await;
                }
            });
            let ended: Result<(), Elapsed> = futures::executor::block_on(within);
            assert!(ended.is_err());
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_taken_out_of_a_deadline_stays_bounded() {
    let start = Instant::now();
    let make = poll_fn(|_| Poll::Ready(timeout(60 * SECOND, pending::<()>())));
    let call = with_deadline(in_seconds(2), make).await.unwrap();
    assert!(call.await.is_err());
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_made_outside_keeps_its_time_within() {
    for has_deadline in [false, true] {
        let start = Instant::now();
        let mut call = if has_deadline {
            with_deadline(start + 3 * SECOND, pending::<()>()).boxed()
        } else {
            timeout(3 * SECOND, pending::<()>()).boxed()
        };
        assert!(with_deadline(in_seconds(2), &mut call).await.is_err());
        assert_eq!(start.elapsed(), 2 * SECOND);
        assert!(call.await.is_err());
        assert_eq!(start.elapsed(), 3 * SECOND);
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_panic_within_closes_the_deadline() {
    let polled_once = |seconds| {
        let panics = poll_fn(|_| -> Poll<()> { panic!("on purpose") });
        let mut panics = task::spawn(with_deadline(in_seconds(seconds), timeout(SECOND, panics)));
        assert!(catch_unwind(AssertUnwindSafe(|| panics.poll().is_ready())).is_err());
        time_left()
    };
    assert_eq!(polled_once(2), None);
    assert_nothing_armed();
    let outer = with_deadline(in_seconds(9), async { polled_once(2) }).await;
    assert_eq!(outer, Ok(Some(9 * SECOND)), "the outer one is put back");
}

/// In a guard that the future holds.
#[tokio::test(start_paused = true)]
async fn a_deadline_is_open_in_the_drops_of_a_poll_alone() {
    struct Guard<'a>(&'a Cell<Option<bool>>);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.set(Some(time_left().is_some()));
        }
    }
    let is_open = Cell::new(None);
    let panics = async {
        let _guard = Guard(&is_open);
        panic!("of the future");
    };
    let panics = AssertUnwindSafe(with_deadline(in_seconds(1), panics));
    assert!(panics.catch_unwind().await.is_err());
    assert_eq!(is_open.take(), Some(true), "while a panic unwinds it");

    let waits = || async {
        let _guard = Guard(&is_open);
        pending::<()>().await;
    };
    let mut aborted = Box::pin(with_deadline(in_seconds(1), waits()));
    assert!(poll_once(&mut aborted).is_pending());
    drop(aborted);
    assert_eq!(is_open.take(), Some(false), "dropped from outside");
    assert!(with_deadline(in_seconds(1), waits()).await.is_err());
    assert_eq!(is_open.take(), Some(false), "its time is up");
}

#[tokio::test(start_paused = true)]
async fn a_future_that_uses_its_budget_up_is_bounded() {
    let start = Instant::now();
    let greedy = poll_fn(|cx| -> Poll<()> {
        move_the_clock_only(SECOND / 10);
        use_up_the_budget(cx);
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    assert!(with_deadline(in_seconds(2), greedy).await.is_err());
    assert!((2 * SECOND..3 * SECOND).contains(&start.elapsed()));
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn deadlines_far_away_bound_nothing() {
    let far = Instant::now() + Duration::from_secs(60 * 365 * 24 * 3600);
    let within = with_deadline(far, async { timeout(SECOND, pending::<()>()).await });
    assert!(within.await.unwrap().is_err());
    let mut waiting = task::spawn(with_deadline(far, timeout(Duration::MAX, pending::<()>())));
    assert_pending!(waiting.poll());
    drop(waiting);
    assert_nothing_armed();
}

#[tokio::test]
async fn get_ref_get_mut_and_into_inner_reach_the_future() {
    let mut call: WithDeadline<_> = Timer::current().with_deadline(in_seconds(2), ready(7));
    assert_eq!(call.get_ref().clone().into_inner(), 7);
    *call.get_mut() = ready(8);
    assert_eq!(call.into_inner().await, 8);
}

#[tokio::test(start_paused = true)]
async fn other_tasks_and_sleeps_are_not_bounded() {
    let start = Instant::now();
    let within = with_deadline(in_seconds(5), async {
        let other = tokio::spawn(async { (time_left(), timeout(2 * SECOND, sleep(SECOND)).await) });
        assert_eq!(other.await.unwrap(), (None, Ok(())));
        assert_eq!(tokio::task::spawn_blocking(time_left).await.unwrap(), None);
        sleep(SECOND).await;
        time_left()
    });
    assert_eq!(within.await, Ok(Some(3 * SECOND)));
    assert_eq!(start.elapsed(), 2 * SECOND);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn the_process_timer_within_is_bounded_by_its_own_clock() {
    // This runtime's time is an hour ahead of the system's.
    tokio::time::advance(HOUR).await;
    let system = std::time::Instant::now();
    let deadline = Instant::now() + 50 * MS;
    let mut within = task::spawn(with_deadline(deadline, async {
        Timer::global().timeout(60 * SECOND, pending::<()>()).await
    }));
    assert_pending!(within.poll());
    while !within.is_woken() {
        thread::sleep(MS);
    }
    assert!(system.elapsed() >= 50 * MS);
    assert!(matches!(assert_ready!(within.poll()), Ok(Err(_))));
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_local_set_are_not_bounded() {
    let local = LocalSet::new();
    let other = local.spawn_local(async {
        sleep(SECOND).await;
        // It is polled by the deadline's task from here on.
        let call = timeout(60 * SECOND, sleep(5 * SECOND));
        (time_left(), call.await)
    });
    let bounded = with_deadline(in_seconds(2), local.run_until(pending::<()>())).await;
    assert!(bounded.is_err());
    assert_eq!(local.run_until(other).await.unwrap(), (None, Ok(())));
    assert_nothing_armed();
}

/// As where no deadline is open, a timeout takes the timer of the runtime that first polls it.
#[test]
fn the_timeouts_of_a_local_sets_tasks_take_their_timers_when_they_arm() {
    let (first, second) = (current_thread(), current_thread());
    let made = first.block_on(async {
        let local = LocalSet::new();
        let other = async {
            let until = Instant::now() + MS;
            (
                timeout(MS, pending::<()>()),
                timeout_at(until, pending::<()>()),
            )
        };
        let within = local.run_until(async { tokio::task::spawn_local(other).await.unwrap() });
        with_deadline(in_seconds(60), within).await.unwrap()
    });
    drop(first);
    second.block_on(async {
        assert!(made.0.await.is_err());
        assert!(made.1.await.is_err());
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_block_on_within_is_bounded_and_its_tasks_are_not() {
    let within = tokio::spawn(with_deadline(in_seconds(60), async {
        tokio::task::block_in_place(|| {
            current_thread().block_on(async {
                let task = tokio::spawn(async { time_left() });
                (time_left().is_some(), task.await.unwrap())
            })
        })
    }));
    assert_eq!(within.await.unwrap(), Ok((true, None)));
}

/// A runtime whose clock stands still, some time behind the system's.
fn behind() -> Runtime {
    let runtime = paused();
    runtime.block_on(async { Instant::now() });
    thread::sleep(300 * MS);
    runtime
}

#[test]
fn by_the_systems_clock_a_deadline_waits_for_what_is_left() {
    let (system, ahead) = (multi_thread(1), paused());
    ahead.block_on(tokio::time::advance(HOUR));
    let built = Timer::builder().build_on(system.handle()).unwrap();
    for (clock, caller) in [("ahead", ahead), ("behind", behind())] {
        for (timer, is_timeout) in [Timer::global().clone(), built.clone()]
            .iter()
            .flat_map(|timer| [(timer, false), (timer, true)])
        {
            let _in_caller = caller.enter();
            let start = std::time::Instant::now();
            let mut left = None;
            let within = async {
                left = time_left();
                if is_timeout {
                    let _ = timer.timeout(HOUR, pending::<()>()).await;
                } else {
                    pending::<()>().await;
                }
            };
            let ended = caller.block_on(timer.with_deadline(Instant::now() + 50 * MS, within));
            let of = format!("{clock}, a timeout within: {is_timeout}");
            assert_eq!(ended.is_ok(), is_timeout, "{of}");
            assert_eq!(left, Some(50 * MS), "{of}");
            assert!((50 * MS..PATIENCE).contains(&start.elapsed()), "{of}");
        }
    }
}

#[test]
fn a_deadline_ends_by_the_callers_clock_where_its_own_stands() {
    let (caller, runtime) = (multi_thread(1), behind());
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let _in_caller = caller.enter();
    let deadline = Instant::now() + 20 * MS;
    let mut wait = task::spawn(timer.with_deadline(deadline, pending::<()>()));
    assert_pending!(wait.poll());
    thread::sleep(20 * MS);
    assert!(assert_ready!(wait.poll()).is_err());
}

/// Counts a try, and ends a test whose code tries for ever.
fn count(tries: &Cell<u32>) {
    tries.set(tries.get() + 1);
    assert!(tries.get() < 1_000, "it tries for ever");
}

#[tokio::test(start_paused = true)]
async fn loops_in_nested_deadlines_end_once_whatever_the_ticks() {
    const DEADLINE: u32 = 1_234;
    let with_tick = |millis: u32| Timer::builder().tick(millis * MS).build().unwrap();
    let ticks = [1, 10, 100, 1000].map(|outer| [1, 10, 100, 1000].map(|inner| (outer, inner)));
    for (outer_tick, inner_tick) in ticks.into_iter().flatten() {
        for inner_deadline in [400, DEADLINE, 60_000] {
            let (outer, inner) = (with_tick(outer_tick), with_tick(inner_tick));
            let (tries, inner_tries) = (Cell::new(0), Cell::new(0));
            let start = Instant::now();
            let end = start + DEADLINE * MS;
            let bounded = outer.with_deadline(end, async {
                loop {
                    count(&tries);
                    let deadline = Instant::now() + inner_deadline * MS;
                    let bounded = inner.with_deadline(deadline, async {
                        loop {
                            count(&inner_tries);
                            assert_eq!(current_deadline(), Some(deadline.min(end)));
                            let _ = timeout(HOUR, pending::<()>()).await;
                        }
                    });
                    let ended: Result<(), Elapsed> = bounded.await;
                    assert!(ended.is_err());
                    assert_eq!(current_deadline(), Some(end), "it is put back");
                }
            });
            let ended: Result<(), Elapsed> = bounded.await;
            assert!(ended.is_err());
            let of = format!("ticks of {outer_tick} and {inner_tick} ms, {inner_deadline} ms");
            assert_eq!(start.elapsed(), DEADLINE * MS, "{of}");
            let (tries, inner_tries) = (tries.get(), inner_tries.get());
            assert!(tries <= DEADLINE / inner_deadline + 3, "{tries}, {of}");
            assert!(inner_tries <= 3 * tries, "{inner_tries} in {tries}, {of}");
        }
    }
}

/// The end of the runtime is no less so once the deadline has passed too.
#[test]
fn a_poll_reports_the_end_of_the_runtime_again() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let mut call = pin!(timer.with_deadline(timer.now() + 20 * MS, pending::<()>()));
    drop(runtime);
    for _ in 0..2 {
        let polled = poll_with_waker(|cx| call.as_mut().try_poll(cx));
        assert!(matches!(polled, Poll::Ready(Err(_))), "{polled:?}");
        thread::sleep(30 * MS);
    }
}

fn poll_with_waker<R>(poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
    poll(&mut Context::from_waker(Waker::noop()))
}

/// A conversion that takes its time.
struct Slow;

impl IntoFuture for Slow {
    type Output = ();
    type IntoFuture = Pending<()>;

    fn into_future(self) -> Pending<()> {
        move_the_clock_only(SECOND);
        pending()
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_counts_from_the_end_of_the_conversion() {
    let (timer, start) = (Timer::current(), Instant::now());
    assert!(timer.timeout(SECOND, Slow).await.is_err());
    assert_eq!(start.elapsed(), 2 * SECOND, "of a timer");
    assert!(timeout(SECOND, Slow).await.is_err());
    assert_eq!(start.elapsed(), 4 * SECOND, "of the runtime");
    assert!(tokio::time::timeout(SECOND, Slow).await.is_err());
    assert_eq!(start.elapsed(), 6 * SECOND, "of tokio");
}

/// Notes the open deadline as it is converted.
struct Notes<'a>(&'a Cell<Option<Instant>>);

impl IntoFuture for Notes<'_> {
    type Output = ();
    type IntoFuture = Ready<()>;

    fn into_future(self) -> Ready<()> {
        self.0.set(current_deadline());
        ready(())
    }
}

/// So a timeout that the conversion makes is bounded too.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_open_during_the_conversion() {
    let (timer, end, seen) = (Timer::current(), Instant::now() + SECOND, Cell::new(None));
    drop(with_deadline(end, Notes(&seen)));
    assert_eq!(seen.take(), Some(end), "by the free function");
    drop(timer.with_deadline(end, Notes(&seen)));
    assert_eq!(seen.take(), Some(end), "by a timer");
}
