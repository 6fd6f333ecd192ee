//! The thread of the process's timer: the first use starts it, and it sleeps while nothing is due.
//! This test has a process of its own, so that no other test uses that thread.

mod common;

use std::fs;
use std::sync::Barrier;
use std::thread;

use futures::executor::block_on;
use tickwheel::{Duration, Timer, global};

use crate::common::{MS, current_thread};

/// How many threads of that name the process has, or `None` where the system does not tell.
fn threads_of_the_timer() -> Option<usize> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    Some(
        names
            .filter(|name| name.trim() == "tickwheel-timer")
            .count(),
    )
}

#[test]
fn it_is_started_once_at_the_first_use_and_rests_while_idle() {
    // A runtime's own timer has no part in it.
    let runtime = current_thread();
    runtime.block_on(async { tickwheel::sleep(2 * MS).await });
    let before = threads_of_the_timer();
    assert!(before.is_none_or(|threads| threads == 0), "not lazily");

    let begin = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                begin.wait();
                block_on(global::sleep(2 * MS));
            });
        }
    });
    let after = threads_of_the_timer();
    assert!(
        after.is_none_or(|threads| threads == 1),
        "{after:?} threads"
    );

    let timer = Timer::global();
    assert_eq!(timer.metrics().pending, 0);
    if timer.metrics().ticking {
        // A run of the tests that forces it to tick.
        return;
    }
    let kept: Vec<_> = (0..1_000)
        .map(|_| timer.deadline(Duration::from_secs(3600)))
        .collect();
    // What was planned for sleeps that have gone may still come.
    thread::sleep(200 * MS);
    let before = timer.metrics().wake_ups;
    thread::sleep(300 * MS);
    assert_eq!(timer.metrics().wake_ups, before, "it was woken for nothing");
    drop(kept);
    assert_eq!(timer.metrics().pending, 0);
    thread::sleep(100 * MS);
    assert!(timer.metrics().wake_ups <= before + 1);
}
