//! Timers of a program that is held up again and again, compared with tokio's. After a stall ours
//! let tasks run first. So they come later than tokio's, but never by more than the bound of a
//! wait, and only one wait delays a timer. That goes on once, if it is held up itself.
//!
//! What is late is decided by order, and not by a time alone: when tokio's sleep has fired, another
//! one of tokio's begins, which takes as long as the bound. Ours has fired by then. Both need the
//! driver of the same runtime, so a worker that is blocked holds up both. Each case has several
//! tries, because a thread may lose its processor between two wake-ups.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread;

use tickwheel::{Sleep, Timer};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Duration, Instant, sleep, sleep_until};

use crate::common::is_shown_in;

const MS: Duration = Duration::from_millis(1);

/// The longest that a turn waits, with the tick to which it is rounded up, and tokio's rounding. If
/// no task can run for so long, the turn waits for as long once more.
const BOUND: Duration = Duration::from_millis(102);

/// Between the wake-ups of two timers that fire in one round of the driver.
const SLACK: Duration = Duration::from_millis(30);

/// A stall is longer than 50 ms and a tick.
const STALL: Duration = Duration::from_millis(60);

/// A timer that has not fired by then never does.
const PATIENCE: Duration = Duration::from_secs(20);

const TRIES: usize = 20;

/// Notes when it is woken first.
#[derive(Default)]
struct Woken(OnceLock<Instant>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = self.0.set(Instant::now());
    }
}

/// A sleep of ours that is armed, and notes when it fires.
struct Ours {
    woken: Arc<Woken>,
    due: Instant,
    _armed: Sleep,
}

impl Ours {
    /// `None` if it is due already.
    fn until(due: Instant) -> Option<Ours> {
        let woken = Arc::new(Woken::default());
        let mut armed = tickwheel::sleep_until(due);
        let waker = Waker::from(woken.clone());
        let poll = std::pin::pin!(&mut armed).poll(&mut Context::from_waker(&waker));
        poll.is_pending().then_some(Ours {
            woken,
            due,
            _armed: armed,
        })
    }

    /// When it has fired. It must not be early, nor lost.
    async fn fired(&self) -> Instant {
        let start = Instant::now();
        while self.woken.0.get().is_none() {
            assert!(start.elapsed() < PATIENCE, "a timer is lost or starved");
            sleep(MS).await;
        }
        let fired = *self.woken.0.get().expect("it has fired");
        assert!(fired >= self.due, "early by {:?}", self.due - fired);
        fired
    }
}

/// How much later than tokio's sleep and so many bounds a sleep of ours fired.
async fn beyond_the_bound(bounds: u32, length: Duration) -> Duration {
    let due = Instant::now() + length;
    let Some(ours) = Ours::until(due) else {
        return Duration::ZERO;
    };
    sleep_until(due).await;
    for _ in 0..bounds {
        sleep(BOUND).await;
    }
    let bound = Instant::now();
    ours.fired().await.saturating_duration_since(bound)
}

/// Workers that are blocked for random times, and run for random times. One of them may be blocked
/// while the other one runs.
async fn block(mut random: fastrand::Rng, until: Instant) {
    while Instant::now() < until {
        thread::sleep(MS * random.u32(0..150));
        match random.u32(0..3) {
            0 => yield_now().await,
            1 => sleep(MS).await,
            _ => sleep(MS * random.u32(1..200)).await,
        }
    }
}

/// Tasks that are ready at each time make a wait long.
async fn always_ready(work: Duration, until: Instant) {
    while Instant::now() < until {
        let start = Instant::now();
        while start.elapsed() < work {
            std::hint::spin_loop();
        }
        yield_now().await;
    }
}

fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let builder = builder.worker_threads(workers.max(1));
    builder.enable_all().build().expect("it is built")
}

/// How much later than two bounds the latest of very many timers was.
async fn random_stalls(workers: usize, mut random: fastrand::Rng) -> Duration {
    let until = Instant::now() + Duration::from_millis(1_500);
    let mut load = JoinSet::new();
    for _ in 0..workers.max(1) {
        load.spawn(block(random.fork(), until));
    }
    for _ in 0..random.usize(0..3) {
        load.spawn(always_ready(MS * random.u32(0..3), until));
    }
    let mut timers = JoinSet::new();
    let timer = Timer::current();
    while Instant::now() < until {
        timers.spawn(beyond_the_bound(2, MS * random.u32(1..300)));
        sleep(MS * random.u32(1..10)).await;
    }
    load.join_all().await;
    let latest = timers.join_all().await.into_iter().max();
    assert!(
        workers == 2 || timer.metrics().stalls() > 0,
        "nothing was held up"
    );
    latest.unwrap_or_default()
}

#[test]
fn random_stalls_delay_no_timer_beyond_the_bound_and_make_none_early() {
    let seed = std::env::var("ORACLE_SEED").map(|seed| seed.parse().expect("it is a number"));
    let first = seed.unwrap_or_else(|_| fastrand::u64(..1_000_000_000));
    println!("the first seed is {first}");
    for (seed, workers) in (first..).zip([0, 1, 2]) {
        let mut lates = Vec::new();
        let is_bounded = is_shown_in(TRIES, || {
            let random = fastrand::Rng::with_seed(seed);
            let stalls = random_stalls(workers, random);
            let late = runtime(workers).block_on(async { tokio::spawn(stalls).await });
            lates.push(late.expect("no timer was early or lost"));
            lates.last() <= Some(&SLACK)
        });
        assert!(
            is_bounded,
            "ORACLE_SEED={first}, {workers} workers: {lates:?} too late"
        );
    }
}

/// A sleep of ours that is due within a stall, and when tokio's is found to have fired after it.
async fn after_a_stall() -> (Ours, Instant) {
    let due = Instant::now() + 10 * MS;
    let ours = Ours::until(due).expect("it is due in 10 ms");
    let tokios = tokio::spawn(sleep_until(due));
    yield_now().await;
    thread::sleep(10 * MS + STALL + 10 * MS);
    tokios.await.expect("it does not panic");
    (ours, Instant::now())
}

/// `None` if the thread lost its processor in between, so that this says nothing.
async fn waits_once() -> Option<()> {
    let busy = tokio::spawn(always_ready(2 * MS, Instant::now() + PATIENCE));
    let (first, began) = after_a_stall().await;
    let bound = tokio::spawn(sleep(BOUND));
    if began.elapsed() > SLACK || first.woken.0.get().is_some() {
        return None;
    }
    // It begins no wait while that one is on, and makes that one no longer.
    let (second, _) = after_a_stall().await;
    bound.await.expect("it does not panic");
    let bound = Instant::now() + SLACK;
    (first.fired().await <= bound && second.fired().await <= bound).then_some(())?;
    // Nor soon after it.
    let (third, fired) = after_a_stall().await;
    (third.fired().await <= fired + SLACK).then_some(())?;
    // But later on, once the rounds have ended that the busy task makes long.
    sleep(12 * BOUND).await;
    let (fourth, _) = after_a_stall().await;
    let waits = fourth.woken.0.get().is_none();
    fourth.fired().await;
    busy.abort();
    waits.then_some(())
}

#[test]
fn no_wait_begins_while_one_is_on_nor_soon_after_one() {
    let is_shown = is_shown_in(TRIES, || {
        let tried = async { tokio::spawn(waits_once()).await };
        let shown = runtime(0).block_on(tried);
        shown.expect("no timer was early or lost").is_some()
    });
    assert!(is_shown, "or the machine is too busy");
}

/// For a hundredth of the time the thread is free. It has its timers nevertheless.
#[test]
fn a_thread_that_is_nearly_always_blocked_delays_each_timer_by_one_wait() {
    let is_bounded = is_shown_in(TRIES, || {
        let blocked = async {
            let blocks = tokio::spawn(async {
                loop {
                    thread::sleep(STALL);
                    sleep(MS).await;
                }
            });
            let mut timers = JoinSet::new();
            for length in 1..100 {
                timers.spawn(beyond_the_bound(1, 10 * MS * length));
            }
            let latest = timers.join_all().await.into_iter().max();
            blocks.abort();
            latest
        };
        let late = runtime(0).block_on(async { tokio::spawn(blocked).await });
        late.expect("no timer was early or lost") <= Some(SLACK)
    });
    assert!(is_bounded, "or the machine is too busy");
}
