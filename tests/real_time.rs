//! In real time, on real threads: no timer is early, each has one outcome, and no wake-up is lost
//! or needless.
//!
//! One test counts wake-ups. No other asserts that something was fast. "Never early" is exact.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tickwheel::{Duration, Instant, Timer, sleep, timeout};
use tokio::runtime::Runtime;

use crate::common::{HOUR, MS, current_thread, is_forced_to_tick, multi_thread};

/// Tasks that sleep for random times, below and above a tick, beside others that block their
/// worker.
async fn sleep_among_blockers(tasks: u64, rounds: usize) {
    let done = Arc::new(AtomicBool::new(false));
    let blocker = tokio::spawn({
        let done = done.clone();
        async move {
            while !done.load(Ordering::Relaxed) {
                thread::sleep(15 * MS);
                sleep(3 * MS).await;
            }
        }
    });
    let sleepers: Vec<_> = (0..tasks)
        .map(|seed| {
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..rounds {
                    let duration = Duration::from_nanos(random.u64(..12_000_000));
                    let start = Instant::now();
                    match random.u64(..4) {
                        0 => assert!(
                            timeout(duration, std::future::pending::<()>())
                                .await
                                .is_err()
                        ),
                        1 => Timer::current().deadline(duration).await.unwrap(),
                        2 => {
                            let mut nap = sleep(HOUR);
                            assert!(timeout(Duration::ZERO, &mut nap).await.is_err());
                            nap.reset_at(start + duration);
                            nap.await;
                        }
                        _ => sleep(duration).await,
                    }
                    let elapsed = start.elapsed();
                    assert!(elapsed >= duration, "early by {:?}", duration - elapsed);
                }
            })
        })
        .collect();
    for sleeper in sleepers {
        sleeper.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    blocker.await.unwrap();
}

#[test]
fn is_never_early_on_one_thread_with_blocking_tasks() {
    current_thread().block_on(sleep_among_blockers(1_000, 20));
}

#[test]
fn is_never_early_on_many_threads_with_blocked_workers() {
    multi_thread(2).block_on(sleep_among_blockers(1_000, 40));
}

/// Many plain threads arm and poll at the very edge of firing. If one wake-up is lost, a thread
/// hangs.
#[test]
fn no_wake_up_is_lost_between_is_it_due_and_register_my_waker() {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|seed| {
            let timer = timer.clone();
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..250 {
                    let duration = Duration::from_nanos(random.u64(..2_500_000));
                    let start = Instant::now();
                    futures::executor::block_on(timer.sleep(duration));
                    assert!(start.elapsed() >= duration);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Ten thousand deadlines that expire while plain threads reset them. A reset that returned `true`
/// moved its deadline: nothing expires before that reset plus the timeout. One that returned
/// `false` came after the end.
#[test]
fn of_a_reset_and_the_expiry_that_race_exactly_one_wins() {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let in_time: usize = (0..20)
        .map(|round| race_resets_against_expiry(&runtime, &timer, round))
        .sum();
    assert!(
        in_time > 10_000,
        "the race was not one: {in_time} resets were in time"
    );
}

/// Five hundred deadlines and three threads that reset them at random, with pauses in which some
/// expire. Gives how many resets were in time.
fn race_resets_against_expiry(runtime: &Runtime, timer: &Timer, round: u64) -> usize {
    const DEADLINES: usize = 500;
    const TIMEOUT: Duration = Duration::from_millis(3);
    let epoch = Instant::now();
    let since_epoch = move || usize::try_from(epoch.elapsed().as_nanos()).unwrap();
    let deadlines: Vec<_> = (0..DEADLINES).map(|_| timer.deadline(TIMEOUT)).collect();
    let handles: Arc<Vec<_>> =
        Arc::new(deadlines.iter().map(|deadline| deadline.handle()).collect());
    // For each deadline: the latest moment just before a reset that returned `true`.
    let last_reset: Arc<Vec<_>> = Arc::new((0..DEADLINES).map(|_| AtomicUsize::new(0)).collect());
    let waiting: Vec<_> = deadlines
        .into_iter()
        .enumerate()
        .map(|(number, deadline)| {
            let handles = handles.clone();
            runtime.spawn(async move {
                deadline.await.unwrap();
                let expired = since_epoch();
                assert!(!handles[number].reset(), "it has expired");
                expired
            })
        })
        .collect();
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let (handles, last_reset) = (handles.clone(), last_reset.clone());
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(round * 10 + seed);
                let (mut in_time, mut too_late) = (0, 0);
                while too_late < DEADLINES {
                    if random.u64(..1_000) == 0 {
                        thread::sleep(Duration::from_micros(random.u64(..4_000)));
                    }
                    let number = random.u64(..DEADLINES as u64) as usize;
                    let before = since_epoch();
                    if handles[number].reset() {
                        last_reset[number].fetch_max(before, Ordering::SeqCst);
                        in_time += 1;
                    } else {
                        assert!(!handles[number].is_pending());
                        too_late += 1;
                    }
                }
                in_time
            })
        })
        .collect();
    let in_time = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    for (number, task) in waiting.into_iter().enumerate() {
        let expired = runtime.block_on(task).unwrap();
        let earliest = last_reset[number].load(Ordering::SeqCst) + TIMEOUT.as_nanos() as usize;
        assert!(
            expired >= earliest,
            "expired {} ns before a reset's timeout",
            earliest - expired
        );
    }
    in_time
}

/// Cancel, expire and reset from several threads at once: one of cancel and expire is `true`, and
/// its outcome holds.
#[test]
fn of_a_cancel_and_an_expire_that_race_exactly_one_wins() {
    const ROUNDS: usize = 10_000;
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let deadlines: Vec<_> = (0..ROUNDS).map(|_| timer.deadline(HOUR)).collect();
    let handles: Arc<Vec<_>> =
        Arc::new(deadlines.iter().map(|deadline| deadline.handle()).collect());
    let barrier = Arc::new(std::sync::Barrier::new(3));
    let race = |act: fn(&tickwheel::ResetHandle) -> bool| {
        let (handles, barrier) = (handles.clone(), barrier.clone());
        thread::spawn(move || {
            barrier.wait();
            handles.iter().map(act).collect::<Vec<bool>>()
        })
    };
    let (cancelled, expired) = (
        race(|handle| handle.cancel()),
        race(|handle| handle.expire()),
    );
    let reset = race(|handle| {
        let in_time = handle.reset();
        in_time || !handle.is_pending()
    });
    let (cancelled, expired) = (cancelled.join().unwrap(), expired.join().unwrap());
    assert!(reset.join().unwrap().iter().all(|exact| *exact));
    for (number, deadline) in deadlines.into_iter().enumerate() {
        assert!(
            cancelled[number] != expired[number],
            "both or none of cancel and expire"
        );
        assert_eq!(
            futures::executor::block_on(deadline).is_ok(),
            expired[number]
        );
    }
    assert_eq!(timer.metrics().pending, 0);
}

#[test]
fn deadlines_an_hour_away_cost_under_ten_wake_ups_a_second() {
    if is_forced_to_tick() {
        return;
    }
    for runtime in [current_thread(), multi_thread(2)] {
        runtime.block_on(async {
            let timer = Timer::new();
            let mut random = fastrand::Rng::with_seed(7);
            let deadlines: Vec<_> = (0..100_000)
                .map(|_| timer.deadline(HOUR + random.u64(..60_000) as u32 * MS))
                .collect();
            tokio::time::sleep(100 * MS).await;
            let before = timer.metrics().wake_ups;
            let start = Instant::now();
            tokio::time::sleep(1_000 * MS).await;
            let wake_ups = timer.metrics().wake_ups - before;
            assert!(
                wake_ups < 10 * start.elapsed().as_secs(),
                "{wake_ups} wake-ups"
            );
            assert_eq!(timer.metrics().pending, deadlines.len());
        });
    }
}

#[test]
fn an_idle_timer_does_not_wake_at_all() {
    if is_forced_to_tick() {
        return;
    }
    multi_thread(2).block_on(async {
        let timer = Timer::new();
        timer.sleep(MS).await;
        tokio::time::sleep(20 * MS).await;
        let before = timer.metrics().wake_ups;
        tokio::time::sleep(200 * MS).await;
        assert_eq!(timer.metrics().wake_ups, before);
    });
}
