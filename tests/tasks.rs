//! A timer is no task: it spawns none for a tick, and where nothing is pending none of its own is
//! left.
//!
//! Tokio numbers all tasks of a process in one row, and the tests count by these numbers. So no
//! other test may spawn tasks at the same time: all take turns.

mod common;

use std::future::pending;

use tickwheel::Timer;
use tokio::runtime::{Handle, Runtime};
use tokio::task::yield_now;

use crate::common::{MS, alone, current_thread, multi_thread};

/// Spawns the next task of this process, and gives its number.
async fn next_task() -> u64 {
    let task = tokio::spawn(async {});
    let number = task.id().to_string().parse().unwrap();
    task.await.unwrap();
    number
}

/// How many tasks are spawned while one task does something two hundred times.
fn spawned_meanwhile<F>(runtime: &Runtime, again: impl Fn() -> F + Send + 'static) -> u64
where
    F: Future<Output = ()> + Send,
{
    let task = runtime.spawn(async move {
        // The first makes the timer.
        again().await;
        let before = next_task().await;
        for _ in 0..200 {
            again().await;
        }
        next_task().await - before - 1
    });
    runtime.block_on(task).unwrap()
}

#[test]
fn a_sleep_after_the_other_spawns_no_tasks_on_tokio() {
    let _alone = alone();
    for runtime in [multi_thread(1), multi_thread(2), current_thread()] {
        let spawned = spawned_meanwhile(&runtime, || tokio::time::sleep(MS));
        assert!(spawned <= 2, "{spawned} tasks were spawned");
    }
}

#[test]
fn a_sleep_after_the_other_spawns_no_tasks() {
    let _alone = alone();
    for runtime in [multi_thread(1), multi_thread(2), current_thread()] {
        let spawned = spawned_meanwhile(&runtime, || tickwheel::sleep(MS));
        assert!(spawned <= 2, "{spawned} tasks were spawned");
    }
}

/// A timer that is due before all others changes the plan.
#[test]
fn arming_something_earlier_spawns_no_tasks() {
    let _alone = alone();
    for runtime in [multi_thread(1), multi_thread(2), current_thread()] {
        let spawned = spawned_meanwhile(&runtime, || async {
            let _ = tickwheel::timeout(1_000 * MS, yield_now()).await;
            let _ = tickwheel::timeout(100 * MS, yield_now()).await;
            let deadline = Timer::current().deadline(20 * MS);
            deadline.handle().reset_after(MS / 2);
            deadline.await.unwrap();
        });
        assert!(spawned <= 2, "{spawned} tasks were spawned");
    }
}

#[test]
fn where_nothing_is_pending_no_task_of_the_timers_is_alive() {
    let _alone = alone();
    for runtime in [multi_thread(2), current_thread()] {
        let metrics = runtime.metrics();
        runtime.block_on(async {
            let own = Timer::new();
            for timer in [Timer::current(), own.clone()] {
                timer.sleep(MS).await;
                assert!(timer.timeout(MS, pending::<()>()).await.is_err());
                assert!(timer.timeout(1_000 * MS, yield_now()).await.is_ok());
                let deadline = timer.deadline(MS);
                let dropped = timer.deadline(1_000 * MS);
                deadline.await.unwrap();
                drop(dropped);
            }
            tickwheel::sleep(MS).await;
            // A turn may still be going on.
            for _ in 0..1_000 {
                if Handle::current().metrics().num_alive_tasks() == 0 {
                    break;
                }
                tokio::time::sleep(MS).await;
            }
            assert_eq!(metrics.num_alive_tasks(), 0, "with a timer at hand");
            drop(own);
        });
        assert_eq!(metrics.num_alive_tasks(), 0);
    }
}
