//! What a timer does not do: it makes no wake-up while nothing is due soon, and no task without
//! `test-util`.
//!
//! Tokio numbers all tasks of a process in one row, and some tests count by these numbers. So all
//! tests here take turns.

mod common;

use std::future::pending;

use tickwheel::{DelayMap, Instant, Timer};
use tokio::runtime::{Runtime, RuntimeMetrics};
use tokio::task::yield_now;

use crate::common::{HOUR, MS, alone, current_thread, multi_thread, poll_once};

#[test]
fn a_timer_with_nothing_due_soon_does_not_wake() {
    let _alone = alone();
    for count in [0, 100_000] {
        for runtime in [current_thread(), multi_thread(2)] {
            runtime.block_on(async {
                let timer = Timer::builder().build().unwrap();
                timer.sleep(MS).await;
                let mut random = fastrand::Rng::with_seed(7);
                let deadlines: Vec<_> = (0..count)
                    .map(|_| timer.deadline(HOUR + random.u32(..60_000) * MS))
                    .collect();
                tokio::time::sleep(100 * MS).await;
                let before = timer.metrics().wake_ups();
                let start = Instant::now();
                tokio::time::sleep(1_000 * MS).await;
                let wake_ups = timer.metrics().wake_ups() - before;
                // The wheel turns now and then, to move what is an hour away.
                let most = u64::from(count > 0) * 10 * start.elapsed().as_secs();
                assert!(wake_ups <= most, "{wake_ups} wake-ups for {count}");
                assert_eq!(timer.metrics().pending(), deadlines.len());
            });
        }
    }
}

/// Spawns the next task of this process, and gives its number.
async fn next_task() -> u64 {
    let task = tokio::spawn(async {});
    let number = task.id().to_string().parse().unwrap();
    task.await.unwrap();
    number
}

/// How many tasks are spawned while one task does something a hundred times.
fn spawned_meanwhile<F>(runtime: &Runtime, again: impl Fn() -> F + Send + 'static) -> u64
where
    F: Future<Output = ()> + Send,
{
    let task = runtime.spawn(async move {
        // The first makes the timer.
        again().await;
        let before = next_task().await;
        for _ in 0..100 {
            again().await;
        }
        next_task().await - before - 1
    });
    runtime.block_on(task).unwrap()
}

#[test]
fn neither_a_tick_nor_an_earlier_timer_spawns_tasks() {
    let _alone = alone();
    for runtime in [multi_thread(1), multi_thread(2), current_thread()] {
        let sleeping = spawned_meanwhile(&runtime, || tickwheel::sleep(MS));
        // A timer that is due before all others changes the next expiry.
        let earlier = spawned_meanwhile(&runtime, || async {
            let _ = tickwheel::timeout(1_000 * MS, yield_now()).await;
            let _ = tickwheel::timeout(100 * MS, yield_now()).await;
            let deadline = Timer::current().deadline(20 * MS);
            deadline.handle().reset_after(MS / 2);
            deadline.await.unwrap();
        });
        assert!(sleeping <= 2 && earlier <= 2, "{sleeping}, {earlier}");
    }
}

/// Each with the number of tasks that a timer has there: in builds with `test-util` one, if the
/// clock can be paused.
fn runtimes() -> [(Runtime, usize); 2] {
    [(multi_thread(2), 0), (current_thread(), 1)]
}

/// Waits for the tasks that were taken back: their worker drops them.
async fn assert_alive(metrics: &RuntimeMetrics, tasks: usize) {
    for _ in 0..1_000 {
        if metrics.num_alive_tasks() == tasks {
            break;
        }
        tokio::time::sleep(MS).await;
    }
    assert_eq!(metrics.num_alive_tasks(), tasks);
}

#[test]
fn no_task_of_the_timers_is_alive() {
    let _alone = alone();
    for (runtime, own) in runtimes() {
        let metrics = runtime.metrics();
        runtime.block_on(async {
            let built = Timer::builder().build().unwrap();
            for timer in [Timer::current(), built.clone()] {
                timer.sleep(MS).await;
                assert!(timer.timeout(MS, pending::<()>()).await.is_err());
                assert!(timer.timeout(1_000 * MS, yield_now()).await.is_ok());
                let (deadline, left) = (timer.deadline(MS), timer.deadline(HOUR));
                deadline.await.unwrap();
                // While one is armed.
                assert_alive(&metrics, 2 * own).await;
                drop(left);
                let mut beat = timer.interval(MS);
                beat.tick().await;
                beat.tick().await;
            }
            // A stream with nothing in it waits for the end of the runtime.
            let (_map, mut stream) = DelayMap::<u8, ()>::new(&Timer::current());
            assert!(poll_once(&mut Box::pin(stream.recv())).is_pending());
            let unarmed = built.sleep(MS);
            drop(built);
            unarmed.await;
            assert_alive(&metrics, own).await;
        });
    }
}
