//! A driver that ticks: it is never early though nothing reads a clock, also when it is stalled.
//! And when it begins and ends to tick.

mod common;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tickwheel::{Duration, Instant, Timer};

use crate::common::{HOUR, MS, PATIENCE, is_forced_to_rest, is_forced_to_tick, multi_thread};

/// Makes and drops a timeout, which takes a stamp while the driver ticks.
fn make_timeout(timer: &Timer) {
    drop(timer.timeout(HOUR, pending::<()>()));
}

/// Makes and drops timeouts until the driver ticks.
async fn make_it_tick(timer: &Timer) {
    let start = Instant::now();
    while !timer.metrics().ticking {
        (0..1_000).for_each(|_| make_timeout(timer));
        tokio::task::yield_now().await;
        assert!(start.elapsed() < PATIENCE, "it does not tick under load");
    }
}

#[test]
fn the_driver_ticks_under_load_and_rests_after_it() {
    if is_forced_to_tick() || is_forced_to_rest() {
        return;
    }
    multi_thread(2).block_on(async {
        let timer = Timer::new();
        for _ in 0..3 {
            assert!(!timer.metrics().ticking);
            let busy = timer.clone();
            let busy = tokio::spawn(async move { make_it_tick(&busy).await });
            busy.await.unwrap();
            let start = Instant::now();
            while timer.metrics().ticking {
                assert!(start.elapsed() < PATIENCE, "it ticks for ever");
                tokio::time::sleep(5 * MS).await;
            }
            let before = timer.metrics().wake_ups;
            tokio::time::sleep(100 * MS).await;
            let wake_ups = timer.metrics().wake_ups - before;
            assert_eq!(wake_ups, 0, "an idle timer does not wake");
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_virtual_clock_is_never_ticked_on() {
    let timer = Timer::new();
    let start = Instant::now();
    for _ in 0..20 {
        (0..10_000).for_each(|_| make_timeout(&timer));
        tokio::task::yield_now().await;
        assert!(!timer.metrics().ticking);
    }
    timer.sleep(MS).await;
    assert_eq!(start.elapsed(), MS);
}

#[test]
fn a_passed_timeout_elapses_at_first_poll_and_after_a_shutdown() {
    if is_forced_to_rest() {
        return;
    }
    use tokio_test::{assert_ready, task};
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let calls = runtime.block_on(async {
        make_it_tick(&timer).await;
        let calls = [(); 2].map(|()| timer.timeout(5 * MS, pending::<()>()));
        thread::sleep(50 * MS);
        calls
    });
    let [mut first, mut second] = calls.map(task::spawn);
    assert!(assert_ready!(first.poll()).is_err());
    drop(runtime);
    assert!(assert_ready!(second.poll()).is_err());
}

#[test]
fn a_part_of_a_coarse_tick_is_not_rounded_up_twice() {
    if is_forced_to_rest() {
        return;
    }
    let runtime = multi_thread(2);
    let timer = Timer::builder()
        .tick(200 * MS)
        .build_on(runtime.handle())
        .unwrap();
    runtime.block_on(async {
        make_it_tick(&timer).await;
        for duration in [MS, 201 * MS] {
            let deadline = timer.deadline(duration);
            assert!(deadline.handle().reset());
            assert!(deadline.handle().remaining().unwrap() <= duration);
        }
    });
}

/// What the threads and the tasks of a run count.
#[derive(Default)]
struct Counts {
    fired: AtomicU64,
    early: AtomicU64,
    done: AtomicBool,
}

/// Very many timers are armed, reset and dropped, and some fire, while workers are blocked at
/// random and so stall the driver. Whatever fires is compared with the clock, exactly.
#[test]
fn no_timer_is_early_while_the_driver_stalls_at_random() {
    const FIRED: u64 = if cfg!(debug_assertions) {
        400_000
    } else {
        10_000_000
    };
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let counts = Arc::new(Counts::default());

    // Blocks a worker, and then both, so that nothing turns the wheels.
    for seed in 0..2 {
        let counts = counts.clone();
        runtime.spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            while !counts.done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(random.u64(..6_000)));
                tokio::time::sleep(Duration::from_micros(random.u64(..9_000))).await;
            }
        });
    }
    // Keeps the load up, from a plain thread: arms and drops, and makes a deadline and resets it.
    let load = thread::spawn({
        let (timer, counts) = (timer.clone(), counts.clone());
        move || {
            let deadline = timer.deadline(HOUR);
            let handle = deadline.handle();
            while !counts.done.load(Ordering::Relaxed) {
                for _ in 0..200 {
                    make_timeout(&timer);
                    assert!(handle.reset());
                }
                thread::yield_now();
            }
        }
    });
    let sleepers: Vec<_> = (0..2_000)
        .map(|seed| {
            let (timer, counts) = (timer.clone(), counts.clone());
            runtime.spawn(async move {
                let mut random = fastrand::Rng::with_seed(seed);
                let check = |start: Instant, duration: Duration| {
                    let early = start.elapsed() < duration;
                    counts.early.fetch_add(u64::from(early), Ordering::Relaxed);
                    counts.fired.fetch_add(1, Ordering::Relaxed);
                };
                let mut deadline = timer.deadline(HOUR);
                let handle = deadline.handle();
                while counts.fired.load(Ordering::Relaxed) < FIRED {
                    let duration = Duration::from_nanos(random.u64(..9_000_000));
                    let mut start = Instant::now();
                    match random.u64(..6) {
                        0 => timer.sleep(duration).await,
                        1 => drop(timer.timeout(duration, pending::<()>()).await),
                        2 => timer.deadline(duration).await.unwrap(),
                        3 => {
                            // Pushed back once, by a reset.
                            handle.set_timeout(duration + 3 * MS);
                            deadline.restart();
                            tokio::time::sleep(MS).await;
                            start = Instant::now();
                            if handle.reset() {
                                (&mut deadline).await.unwrap();
                                check(start, duration + 3 * MS);
                            }
                            continue;
                        }
                        4 => {
                            // Polled again and again while it is armed.
                            let mut call = pin!(timer.timeout(duration, pending::<()>()));
                            while futures::poll!(&mut call).is_pending() {
                                tokio::time::sleep(MS).await;
                            }
                        }
                        _ => {
                            let mut nap = timer.sleep(HOUR);
                            assert!(timer.timeout(Duration::ZERO, &mut nap).await.is_err());
                            start = Instant::now();
                            nap.reset_after(duration);
                            nap.await;
                        }
                    }
                    check(start, duration);
                }
            })
        })
        .collect();
    for sleeper in sleepers {
        runtime.block_on(sleeper).unwrap();
    }
    counts.done.store(true, Ordering::Relaxed);
    load.join().unwrap();
    let early = counts.early.load(Ordering::Relaxed);
    assert_eq!(early, 0, "of {}", counts.fired.load(Ordering::Relaxed));
}

/// Makes the driver tick and then stalls it for a while, because its runtime has one worker only.
/// So the window of the stamp stays open.
fn with_an_open_window(check: impl FnOnce(&Timer) + Send + 'static) {
    let runtime = multi_thread(1);
    // Where there are more shards, each asks for ticks sooner.
    let timer = Timer::builder()
        .shards(4)
        .build_on(runtime.handle())
        .unwrap();
    let task = async move {
        make_it_tick(&timer).await;
        thread::sleep(50 * MS);
        check(&timer);
    };
    runtime.block_on(runtime.spawn(task)).unwrap();
}

#[test]
fn a_sleep_counts_from_its_making_while_the_driver_is_stalled() {
    if is_forced_to_rest() {
        return;
    }
    with_an_open_window(|timer| {
        let check = |before: Instant, deadline: Instant| {
            assert!((before + HOUR..=Instant::now() + HOUR).contains(&deadline));
        };
        let before = Instant::now();
        let mut nap = timer.sleep(HOUR);
        check(before, nap.deadline());
        let told = nap.deadline();
        thread::sleep(5 * MS);
        assert_eq!(nap.deadline(), told);
        let before = Instant::now();
        nap.reset_after(HOUR);
        check(before, nap.deadline());
    });
}

#[test]
fn a_deadline_tells_at_most_its_timeout_and_no_earlier_time() {
    if is_forced_to_rest() {
        return;
    }
    with_an_open_window(|timer| {
        let before = Instant::now();
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        let told = handle.deadline().unwrap();
        assert!(told >= before + HOUR, "{:?} early", before + HOUR - told);
        assert!(handle.timeout() - handle.remaining().unwrap() < HOUR);
        thread::sleep(5 * MS);
        assert_eq!(handle.deadline(), Some(told));
        let before = Instant::now();
        assert!(handle.reset());
        assert!(handle.deadline().unwrap() >= before + HOUR);
        assert!(handle.remaining().unwrap() <= HOUR);
        for delay in [100 * MS, Duration::from_micros(50_100)] {
            assert!(handle.reset_after(delay));
            assert!(handle.remaining().unwrap() <= delay);
            let before = Instant::now();
            assert!(handle.reset_after(delay));
            assert!(handle.deadline().unwrap() >= before + delay);
        }
        let map = tickwheel::DeadlineMap::new(timer);
        let kept: Vec<_> = (0..10).map(|key| map.insert(key, HOUR).unwrap()).collect();
        (0..5).for_each(|key| assert!(map.reset_after(&key, HOUR)));
        assert!(map.drain().iter().all(|(_, left)| *left <= HOUR));
        drop(kept);
    });
}

#[test]
fn the_longest_timeout_set_while_ticking_does_not_expire() {
    if is_forced_to_rest() {
        return;
    }
    with_an_open_window(|timer| {
        for timeout in [
            Duration::from_millis((1 << 63) + 5),
            Duration::from_millis(u64::MAX),
            Duration::MAX,
        ] {
            let deadline = timer.deadline(HOUR);
            let handle = deadline.handle();
            assert!(handle.reset());
            assert!(handle.set_timeout(timeout));
            thread::sleep(20 * MS);
            assert!(handle.is_pending() && handle.reset(), "{timeout:?}");
        }
    });
}

/// The one worker is blocked, so the driver cannot replace its stamp. A call does, or all that is
/// stamped until the worker is free would be late by the rest of that time.
#[test]
fn a_call_closes_the_window_of_a_stalled_driver() {
    if is_forced_to_rest() {
        return;
    }
    let runtime = multi_thread(1);
    let stalled = runtime.spawn(async {
        let timer = Timer::new();
        make_it_tick(&timer).await;
        let start = Instant::now();
        while timer.metrics().ticking {
            drop(timer.timeout(HOUR, pending::<()>()));
            assert!(start.elapsed() < PATIENCE, "nobody closes the window");
        }
        let deadline = timer.deadline(HOUR);
        make_it_tick(&timer).await;
        // Resets too, of deadlines that have counted from the stamp before.
        while timer.metrics().ticking {
            assert!(deadline.handle().reset());
            assert!(start.elapsed() < 2 * PATIENCE, "no reset closes the window");
        }
    });
    runtime.block_on(stalled).unwrap();
}

#[test]
fn a_timeout_of_zero_that_is_set_while_ticking_expires_at_once() {
    if is_forced_to_rest() {
        return;
    }
    multi_thread(2).block_on(async {
        let timer = Timer::new();
        make_it_tick(&timer).await;
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        for _ in 0..100 {
            assert!(handle.reset(), "it counts from a stamp");
        }
        assert!(handle.set_timeout(Duration::ZERO));
        assert!(!handle.is_pending() && !handle.reset());
        assert_eq!(deadline.await, Ok(()));
    });
}
