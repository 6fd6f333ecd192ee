//! What a timer costs does not grow with what has nothing to do with it.

mod common;

use std::future::{Ready, ready};
use std::sync::mpsc;
use std::thread;

use cpu_time::ThreadTime;
use tickwheel::{Duration, Timer};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use crate::common::{MS, current_thread, is_forced_to_tick, multi_thread};

/// CPU time of two hundred turns, after so many threads have used the timer. The threads live on,
/// and no handle of the timer is left.
fn cpu_of_turns(threads: usize) -> Duration {
    // All of this runtime runs on this thread, and nothing else does.
    let runtime = current_thread();
    let timer = Timer::builder()
        .shards(16)
        .build_on(runtime.handle())
        .unwrap();
    thread::scope(|scope| {
        let (done, used) = mpsc::channel();
        let parked: Vec<_> = (0..threads)
            .map(|_| {
                let (timer, done) = (timer.clone(), done.clone());
                let (unpark, park) = mpsc::channel::<()>();
                let thread = thread::Builder::new().stack_size(128 << 10);
                thread
                    .spawn_scoped(scope, move || {
                        drop(timer.sleep(MS));
                        drop(timer);
                        done.send(()).unwrap();
                        let _ = park.recv();
                    })
                    .unwrap();
                unpark
            })
            .collect();
        for _ in 0..threads {
            used.recv().unwrap();
        }
        let cpu = runtime.block_on(async move {
            let mut sleep = timer.sleep(MS);
            drop(timer);
            (&mut sleep).await;
            let begin = ThreadTime::now();
            for _ in 0..200 {
                sleep.reset_after(MS);
                (&mut sleep).await;
            }
            begin.elapsed()
        });
        drop(parked);
        cpu
    })
}

#[test]
fn a_sleep_costs_no_more_where_more_threads_used_its_timer() {
    let best_of = |threads| (0..3).map(|_| cpu_of_turns(threads)).min().unwrap();
    let (alone, beside) = (best_of(0), best_of(1_000));
    assert!(
        beside < 3 * alone,
        "{beside:?} beside a thousand threads, {alone:?} alone"
    );
}

/// How often the timer was woken while a task made very many timeouts that were ready at once.
fn wake_ups_meanwhile(runtime: &Runtime, pauses_first: bool, tick: Duration) -> u64 {
    let busy = async move {
        if pauses_first {
            tokio::time::pause();
            tokio::time::resume();
        }
        let timer = Timer::builder().tick(tick).shards(16).build().unwrap();
        timer.sleep(MS).await;
        let before = timer.metrics().wake_ups;
        let begin = std::time::Instant::now();
        while begin.elapsed() < 200 * MS {
            for _ in 0..1_000 {
                let ready: Ready<u8> = ready(1);
                assert_eq!(timer.timeout(1_000 * MS, ready).await, Ok(1));
            }
            yield_now().await;
        }
        timer.metrics().wake_ups - before
    };
    runtime.block_on(async { tokio::spawn(busy).await.unwrap() })
}

#[test]
fn a_tick_too_short_to_be_published_wakes_nothing_in_vain() {
    if is_forced_to_tick() {
        return;
    }
    for runtime in [multi_thread(2), multi_thread(1), current_thread()] {
        for tick in [10, 200, 900].map(Duration::from_micros) {
            let wake_ups = wake_ups_meanwhile(&runtime, false, tick);
            assert!(wake_ups < 50, "{wake_ups} in 200 ms, of {tick:?}");
        }
    }
}

#[test]
fn a_clock_that_was_paused_once_wakes_nothing_in_vain() {
    if is_forced_to_tick() {
        return;
    }
    for tick in [MS, Duration::from_micros(10)] {
        let wake_ups = wake_ups_meanwhile(&current_thread(), true, tick);
        assert!(wake_ups < 50, "{wake_ups} in 200 ms, of {tick:?}");
    }
}
