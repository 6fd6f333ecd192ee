//! The end of a runtime: what is pending says so, and what had passed is ready.

use std::future::pending;
use std::thread;

use tickwheel::{Deadline, Duration, Instant, Timer};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, current_thread, multi_thread, paused};
use crate::{panic_of, sleep_from};

fn pending_deadline(timer: &Timer) -> task::Spawn<Deadline> {
    let mut deadline = task::spawn(timer.deadline(HOUR));
    assert_pending!(deadline.poll());
    deadline
}

#[test]
fn at_the_shutdown_everything_pending_is_woken_and_says_so() {
    for runtime in [current_thread(), paused(), multi_thread(2)] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let mut nap = task::spawn(timer.sleep(HOUR));
        let mut bounded = task::spawn(timer.timeout(HOUR, pending::<()>()));
        let mut beat = timer.interval_at(Instant::now() + HOUR, HOUR);
        let mut tick = task::spawn(beat.tick());
        let mut deadline = pending_deadline(&timer);
        let handle = deadline.handle();
        assert_pending!(nap.poll());
        assert_pending!(bounded.poll());
        assert_pending!(tick.poll());
        drop(runtime);
        assert!(nap.is_woken() && bounded.is_woken() && tick.is_woken() && deadline.is_woken());
        assert!(!nap.is_elapsed());
        for (message, _) in [
            panic_of(|| nap.poll()),
            panic_of(|| drop(bounded.poll())),
            panic_of(|| tick.poll().map(drop)),
            panic_of(|| task::spawn(timer.sleep(HOUR)).poll()),
        ] {
            assert!(
                message.contains("runtime") && message.contains("shut down"),
                "{message}"
            );
        }
        assert!(assert_ready!(deadline.poll()).unwrap_err().is_shutdown());
        assert!(!handle.reset() && !handle.cancel() && !handle.expire() && !handle.is_pending());
        deadline.restart();
        assert!(assert_ready!(deadline.poll()).unwrap_err().is_shutdown());
        assert_eq!(timer.metrics().pending, 0);
    }
}

#[test]
fn what_had_fired_before_the_shutdown_is_ready_after_it() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut nap = task::spawn(timer.sleep(5 * MS));
    let mut deadline = task::spawn(timer.deadline(5 * MS));
    assert_pending!(nap.poll());
    runtime.block_on(timer.sleep(10 * MS));
    drop(runtime);
    assert!(nap.is_elapsed());
    assert_ready!(nap.poll());
    assert_eq!(assert_ready!(deadline.poll()), Ok(()));
}

#[test]
fn what_passed_before_the_shutdown_has_expired_without_a_driver() {
    let runtime = paused();
    let timer = Timer::builder()
        .slots(16)
        .build_on(runtime.handle())
        .unwrap();
    let (mut nap, mut deadline) = (
        task::spawn(timer.sleep(5 * MS)),
        task::spawn(timer.deadline(5 * MS)),
    );
    assert_pending!(nap.poll());
    assert_pending!(deadline.poll());
    let context = runtime.enter();
    let mut advance = task::spawn(tokio::time::advance(5 * MS));
    let _ = advance.poll();
    drop(advance);
    drop(context);
    drop(runtime);
    assert_ready!(nap.poll());
    assert_eq!(assert_ready!(deadline.poll()), Ok(()));
    assert_eq!(timer.snapshot().shards[0].levels[0].slots.len(), 16);
    assert_eq!(timer.metrics().armed, 2);
}

#[test]
fn a_restart_on_a_runtime_that_is_gone_is_pending_at_no_time() {
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut deadline = timer.deadline(HOUR);
    let handle = deadline.handle();
    drop(runtime);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(!handle.reset() && !handle.is_pending());
            }
        });
        for _ in 0..100_000 {
            deadline.restart();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_is_made_on_a_runtime_that_is_gone_says_so_at_once() {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    let before = Timer::builder().build_on(&handle).unwrap();
    drop(runtime);
    let after = Timer::builder().build_on(&handle).unwrap();
    for timer in [before, after] {
        let mut deadline = task::spawn(timer.deadline(HOUR));
        let handle = deadline.handle();
        assert!(!handle.reset() && !handle.reset_after(MS) && !handle.set_timeout(MS));
        assert!(assert_ready!(deadline.poll()).unwrap_err().is_shutdown());
        assert_ready!(task::spawn(timer.sleep(Duration::ZERO)).poll());
        assert!(timer.metrics().pending == 0 && timer.snapshot().pending() == 0);
    }
    let _context = handle.enter();
    for _ in 0..3 {
        assert!(assert_ready!(task::spawn(Timer::current().deadline(HOUR)).poll()).is_err());
    }
}

#[test]
fn a_task_that_awaits_at_shutdown_does_not_hang_it() {
    for runtime in [current_thread(), multi_thread(2)] {
        for _ in 0..100 {
            runtime.spawn(sleep_from(runtime.handle()));
            runtime.spawn(async { Timer::current().deadline(HOUR).await });
        }
        runtime.block_on(sleep_from(runtime.handle()));
        drop(runtime);
    }
}
