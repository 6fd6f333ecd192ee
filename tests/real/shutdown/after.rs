//! After the end: what had passed by then is ready, and what is made or restarted says that the
//! runtime has gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tickwheel::{Duration, Timer};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, current_thread, move_the_clock_only, paused};

/// The oracle has what the driver had seen by then.
#[test]
fn what_had_passed_unseen_before_the_shutdown_is_ready_after_it() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut nap = task::spawn(timer.sleep(5 * MS));
    let mut deadline = task::spawn(timer.deadline(5 * MS));
    assert_pending!(nap.poll());
    assert_pending!(deadline.poll());
    let context = runtime.enter();
    move_the_clock_only(5 * MS);
    drop(context);
    drop(runtime);
    assert_ready!(nap.poll());
    assert_eq!(assert_ready!(deadline.poll()), Ok(()));
}

#[test]
fn a_restart_on_a_runtime_that_is_gone_is_pending_at_no_time() {
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut deadline = timer.deadline(HOUR);
    let handle = deadline.handle();
    drop(runtime);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!(!handle.reset() && !handle.is_pending());
            }
        });
        for _ in 0..100_000 {
            deadline.restart();
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_made_on_a_runtime_that_is_gone_says_so_at_once() {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    let before = Timer::builder().build_on(&handle).unwrap();
    drop(runtime);
    let after = Timer::builder().build_on(&handle).unwrap();
    let _context = handle.enter();
    for timer in [before, after, Timer::current()] {
        let mut deadline = task::spawn(timer.deadline(HOUR));
        let handle = deadline.handle();
        assert!(!handle.reset() && !handle.reset_after(MS) && !handle.set_timeout(MS));
        assert!(assert_ready!(deadline.poll()).unwrap_err().is_shutdown());
        assert_ready!(task::spawn(timer.sleep(Duration::ZERO)).poll());
        assert!(timer.metrics().pending == 0 && timer.snapshot().pending() == 0);
    }
}
