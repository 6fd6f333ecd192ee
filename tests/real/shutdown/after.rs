//! After the end: what is made or restarted says that the runtime has gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

use tickwheel::error::Cancelled;
use tickwheel::{Duration, Timer};

use crate::common::{HOUR, MS, current_thread, poll_once};

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
        let mut deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        assert!(!handle.reset() && !handle.reset_after(MS) && !handle.set_timeout(MS));
        let is_told =
            |result: Result<(), Cancelled>| result.is_err_and(|error| error.is_shutdown());
        assert!(poll_once(&mut deadline).map(is_told) == Poll::Ready(true));
        assert!(poll_once(&mut timer.sleep(Duration::ZERO)).is_ready());
        assert!(timer.metrics().pending == 0 && timer.snapshot().pending() == 0);
    }
}
