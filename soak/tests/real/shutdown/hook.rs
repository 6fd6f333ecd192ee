//! No call panics within tokio because a runtime has ended: a panic hook would see it, and a
//! program built with `panic = "abort"` would end.

use std::future::{pending, poll_fn, ready};
use std::iter;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;

use futures::FutureExt;
use futures::executor::block_on;
use tickwheel::{Duration, Timer};
use tokio::runtime::Handle;

use super::{bounded, panics_seen_here};
use crate::common::{HOUR, MS, arm, current_thread, multi_thread, waker_fn};

/// Runs `section` in a blocking section that outlives the time driver of its runtime, on a thread
/// that has not used the runtime's own timer yet. Gives what it returns, and the panics that the
/// hook saw there, in each flavour.
fn after_the_time_driver<R, S>(section: S) -> Vec<(R, Vec<String>)>
where
    R: Send + 'static,
    S: Fn(&Handle) -> R + Copy + Send + 'static,
{
    let each = move || {
        let runtimes = [current_thread(), multi_thread(1), multi_thread(4)];
        runtimes.map(|runtime| {
            let (sender, outcome) = mpsc::channel();
            let (begins, begun) = mpsc::channel();
            let end = Timer::builder().build_on(runtime.handle()).unwrap();
            let end = end.deadline(HOUR);
            let handle = runtime.handle().clone();
            runtime.spawn_blocking(move || {
                begins.send(()).unwrap();
                assert!(block_on(end).unwrap_err().is_shutdown());
                let before = panics_seen_here().len();
                let outcome = section(&handle);
                let panics = panics_seen_here().split_off(before);
                sender.send((outcome, panics)).unwrap();
            });
            begun.recv().unwrap();
            runtime.shutdown_background();
            outcome.recv().unwrap()
        })
    };
    bounded(each).into()
}

#[test]
fn timers_that_need_not_wait_panic_nowhere_after_the_driver() {
    let uses: [fn(&Handle); 6] = [
        |_| drop(tickwheel::sleep(HOUR)),
        |_| drop(tickwheel::timeout(HOUR, pending::<()>())),
        |_| drop(Timer::current()),
        |_| drop(tickwheel::interval(MS)),
        |_| assert_eq!(block_on(tickwheel::timeout(HOUR, ready(7))), Ok(7)),
        |handle| {
            let timer = Timer::builder().build_on(handle).unwrap();
            assert!(block_on(timer.deadline(HOUR)).unwrap_err().is_shutdown());
        },
    ];
    for first in uses {
        let seen = after_the_time_driver(move |handle| {
            let _context = handle.enter();
            first(handle);
        });
        assert!(seen.iter().all(|(_, panics)| panics.is_empty()), "{seen:?}");
    }
}

/// The one panic is the crate's own, on the poll.
#[test]
fn a_pending_wait_after_the_time_driver_names_the_cause() {
    for length in [MS, HOUR, Duration::MAX] {
        for is_timeout in [false, true] {
            let seen = after_the_time_driver(move |handle| {
                let wait = async move {
                    if is_timeout {
                        let _ = tickwheel::timeout(length, pending::<()>()).await;
                    } else {
                        tickwheel::sleep(length).await;
                    }
                };
                handle
                    .block_on(AssertUnwindSafe(wait).catch_unwind())
                    .is_err()
            });
            for (has_panicked, panics) in seen {
                assert!(has_panicked && panics.len() == 1, "{panics:?}");
                assert!(panics[0].contains("has shut down"), "{panics:?}");
                assert!(!panics[0].contains("/tokio-"), "{panics:?}");
            }
        }
    }
}

/// It ends its timers in batches of 32 wakers, and wakes in between. On tokio's alternative timer a
/// thread outside of the runtime may panic then.
#[test]
fn a_timer_armed_while_a_time_driver_ends_panics_nowhere() {
    let workers = (!cfg!(tokio_unstable)).then(|| multi_thread(1));
    for runtime in iter::once(current_thread()).chain(workers) {
        let seen = bounded(move || {
            let timer = Timer::builder().build_on(runtime.handle()).unwrap();
            let mut first = timer.sleep(2 * HOUR);
            arm(&mut first, Waker::noop());
            let (going, is_going) = mpsc::channel();
            let (armed, is_armed) = mpsc::channel();
            let waits = Mutex::new(Some(is_armed));
            let waker = waker_fn(move || {
                if let Some(is_armed) = waits.lock().unwrap().take() {
                    going.send(()).unwrap();
                    is_armed.recv().unwrap();
                }
            });
            let context = runtime.enter();
            let mut tokios = [(); 40].map(|()| Box::pin(tokio::time::sleep(HOUR)));
            tokios.iter_mut().for_each(|sleep| arm(sleep, &waker));
            drop(context);
            let arms = thread::spawn(move || {
                is_going.recv().unwrap();
                let _ = timer
                    .sleep(HOUR)
                    .try_poll(&mut Context::from_waker(Waker::noop()));
                armed.send(()).unwrap();
                panics_seen_here()
            });
            drop(runtime);
            assert!(block_on(poll_fn(|cx| first.try_poll(cx))).is_err());
            arms.join().unwrap()
        });
        assert!(seen.is_empty(), "{seen:?}");
    }
}
