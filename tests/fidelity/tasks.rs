//! No task is left behind, or there at all, that the program did not spawn.

use std::future::pending;
use std::thread;

use tickwheel::time as tickwheels;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{self as tokios};
use tokio_test::task;

use crate::common::{HOUR, MS, paused};
use crate::{US, assert_same, two_workers, watched};

same_as_tokio! {
    async fn no_task_but_the_programs_own_is_alive() -> Vec<usize> in paused {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let mut trace = vec![tasks()];
        time::sleep(MS).await;
        trace.push(tasks());
        let _ = time::timeout(MS, pending::<()>()).await;
        trace.push(tasks());
        let mut beat = time::interval(MS);
        beat.tick().await;
        beat.tick().await;
        trace.push(tasks());
        drop(beat);
        let _ = task::spawn(time::sleep(HOUR)).poll();
        trace.push(tasks());
        trace
    }
}

same_as_tokio! {
    async fn no_task_but_the_programs_own_is_alive_on_any_worker() -> Vec<usize> in two_workers {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let mut trace = vec![tasks()];
        let mut naps = JoinSet::new();
        for nap in 1..20 {
            naps.spawn(async move { time::sleep(nap * 100 * US).await });
        }
        naps.join_all().await;
        // A task that was joined is gone a moment later.
        for _ in 0..500 {
            if tasks() > 0 {
                thread::sleep(10 * MS);
            }
        }
        trace.push(tasks());
        trace
    }
}
