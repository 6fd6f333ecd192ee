//! Futures hold their shards, wherever they are made, armed and dropped. That loses no timer, and
//! keeps no task alive.

use std::sync::mpsc;
use std::task::Waker;
use std::thread;
use std::time::Instant;

use futures::executor::block_on;
use tickwheel::{DelayMap, Duration, Sleep, Timer};
use tokio::runtime::Runtime;

use crate::common::{HOUR, MS, PATIENCE, arm, multi_thread};

fn timer_on(runtime: &Runtime, shards: usize) -> Timer {
    let builder = Timer::builder().shards(shards);
    builder.build_on(runtime.handle()).unwrap()
}

/// Waits until no task is left on the runtime. A task that does not end fails the test.
fn assert_no_task_is_left(runtime: &Runtime) {
    let begin = Instant::now();
    while runtime.metrics().num_alive_tasks() > 0 {
        assert!(begin.elapsed() < PATIENCE, "a task is left");
        thread::sleep(MS);
    }
}

/// Threads make timers and drop them, make futures and hand them to one another, and arm some of
/// them long after the timer has gone. Whatever was armed fires.
#[test]
fn timers_come_and_go_under_futures_that_wander_between_threads() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 3_000;
    let runtime = multi_thread(2);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<Sleep>()).unzip();
    thread::scope(|scope| {
        for (number, receiver) in receivers.into_iter().enumerate() {
            let (senders, runtime) = (senders.clone(), &runtime);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number as u64);
                let mut timer = timer_on(runtime, 2);
                let mut own = Vec::new();
                for _ in 0..ROUNDS {
                    match random.u8(..8) {
                        0 => timer = timer_on(runtime, 1 << random.u8(..3)),
                        1..=3 => own.push(timer.sleep(Duration::from_micros(random.u64(..3_000)))),
                        4 => drop(timer.sleep(MS)),
                        5 | 6 if !own.is_empty() => {
                            let sleep = own.swap_remove(random.usize(..own.len()));
                            let _ = senders[random.usize(..THREADS)].send(sleep);
                        }
                        7 => drop(receiver.try_recv()),
                        _ => receiver.try_recv().into_iter().for_each(block_on),
                    }
                }
                drop((timer, senders));
                own.extend(receiver);
                own.into_iter().for_each(block_on);
            });
        }
        drop(senders);
    });
    assert_no_task_is_left(&runtime);
}

#[test]
fn a_map_that_outlives_its_timer_leaves_no_task() {
    let runtime = multi_thread(1);
    for _ in 0..20_000 {
        let timer = timer_on(&runtime, 1);
        drop(timer.sleep(MS));
        let map = DelayMap::<u32, u32>::new(&timer);
        drop(timer);
        drop(map);
    }
    assert_no_task_is_left(&runtime);
}

/// The shard goes from thread to thread with its future, also into a thread that has just ended.
#[test]
fn a_future_may_be_dropped_by_a_thread_that_ends() {
    thread_local! {
        static KEPT: std::cell::RefCell<Vec<Sleep>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let runtime = multi_thread(1);
    let timer = timer_on(&runtime, 2);
    for _ in 0..50 {
        let mut sleep = timer.sleep(HOUR);
        arm(&mut sleep, Waker::noop());
        let other = timer.clone();
        let thread = thread::spawn(move || {
            drop(other.sleep(MS));
            KEPT.with_borrow_mut(|kept| kept.extend([sleep, other.sleep(MS)]));
        });
        thread.join().unwrap();
        assert_eq!(timer.metrics().pending, 0);
    }
    block_on(timer.sleep(MS));
}
