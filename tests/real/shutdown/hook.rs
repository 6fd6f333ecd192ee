//! No call panics within tokio because a runtime has ended: a panic hook would see it, and a
//! program built with `panic = "abort"` would end.

use std::future::{pending, ready};
use std::sync::mpsc;

use futures::executor;
use tickwheel::{Duration, Timer};
use tokio::runtime::{Handle, Runtime};

use super::{End, bounded, end_of, panics_seen_here};
use crate::common::{HOUR, MS, current_thread, multi_thread};

/// What `run` returns, and the panics that the hook saw on this thread meanwhile.
fn with_panics<R>(run: impl FnOnce() -> R) -> (R, Vec<String>) {
    let before = panics_seen_here().len();
    let outcome = run();
    (outcome, panics_seen_here().split_off(before))
}

fn each_flavour(test: impl Fn(Runtime)) {
    for runtime in [current_thread(), multi_thread(1), multi_thread(4)] {
        test(runtime);
    }
}

/// Runs `section` in a blocking section that outlives the time driver of its runtime, on a thread
/// that has not used the runtime's own timer yet.
fn after_the_time_driver<R: Send + 'static>(
    runtime: Runtime,
    section: impl FnOnce(&Handle) -> R + Send + 'static,
) -> R {
    let (tells, outcome) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let end = Timer::builder().build_on(runtime.handle()).unwrap();
    let end = end.deadline(HOUR);
    let handle = runtime.handle().clone();
    runtime.spawn_blocking(move || {
        begins.send(()).unwrap();
        assert!(executor::block_on(end).unwrap_err().is_shutdown());
        tells.send(section(&handle)).unwrap();
    });
    begun.recv().unwrap();
    runtime.shutdown_background();
    outcome.recv().unwrap()
}

#[test]
fn a_timer_built_on_an_ended_runtime_panics_nowhere() {
    bounded(|| {
        each_flavour(|runtime| {
            let handle = runtime.handle().clone();
            drop(runtime);
            let (timer, panics) = with_panics(|| Timer::builder().build_on(&handle));
            assert_eq!(panics, [""; 0]);
            let deadline = timer.unwrap().deadline(HOUR);
            assert!(executor::block_on(deadline).unwrap_err().is_shutdown());
            assert_eq!(panics_seen_here(), [""; 0]);
        });
    });
}

#[test]
fn a_ready_timeout_is_ok_after_the_time_driver() {
    bounded(|| {
        each_flavour(|runtime| {
            let seen = after_the_time_driver(runtime, |handle| {
                with_panics(|| handle.block_on(async { tickwheel::timeout(HOUR, ready(7)).await }))
            });
            assert_eq!(seen, (Ok(7), vec![]));
        });
    });
}

#[test]
fn a_first_use_after_the_time_driver_panics_nowhere() {
    let uses: [fn(); 4] = [
        || drop(tickwheel::sleep(HOUR)),
        || drop(tickwheel::timeout(HOUR, pending::<()>())),
        || drop(Timer::current()),
        || drop(tickwheel::interval(MS)),
    ];
    for first in uses {
        bounded(move || {
            each_flavour(|runtime| {
                let panics = after_the_time_driver(runtime, move |handle| {
                    let _context = handle.enter();
                    with_panics(first).1
                });
                assert_eq!(panics, [""; 0]);
            });
        });
    }
}

/// The one panic is the crate's own, on the poll.
#[test]
fn a_pending_wait_after_the_time_driver_names_the_cause() {
    for length in [MS, HOUR, Duration::MAX] {
        for is_timeout in [false, true] {
            bounded(move || {
                each_flavour(|runtime| {
                    let (end, panics) = after_the_time_driver(runtime, move |handle| {
                        let wait = async move {
                            if is_timeout {
                                let _ = tickwheel::timeout(length, pending::<()>()).await;
                            } else {
                                tickwheel::sleep(length).await;
                            }
                            End::Elapsed
                        };
                        with_panics(|| handle.block_on(end_of(Box::pin(wait))))
                    });
                    let End::Panicked(message) = end else {
                        panic!("{end:?}");
                    };
                    assert!(message.contains("has shut down"), "{message}");
                    assert_eq!(panics.len(), 1, "{panics:?}");
                    assert!(!panics[0].contains("/tokio-"), "{panics:?}");
                });
            });
        }
    }
}
