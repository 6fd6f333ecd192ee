//! A timer that is used while tokio's context is not at hand: within a spawn that tokio refuses.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use futures::executor::block_on;
use tickwheel::{Instant, Timer};
use tokio::runtime::Runtime;

use super::{Armed, OnDrop, bounded, panics_seen_here};
use crate::common::{HOUR, MS, PATIENCE, current_thread, multi_thread, poll_once};
#[cfg(feature = "test-util")]
use crate::paused_clock::paused;

/// Runs something in the drop of a future that `tokio::spawn` refuses, because the runtime that is
/// entered has gone. Tokio has its context in use meanwhile.
fn in_a_refused_spawn<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let gone = current_thread();
    let handle = gone.handle().clone();
    drop(gone);
    let _context = handle.enter();
    let (sender, outcome) = mpsc::channel();
    let guard = OnDrop(Some(move || {
        let _ = sender.send(catch_unwind(AssertUnwindSafe(run)));
    }));
    drop(tokio::spawn(async move {
        let _guard = guard;
    }));
    outcome
        .recv_timeout(PATIENCE)
        .expect("the future is dropped")
        .expect("it should not panic")
}

/// On the clock of the system, and on one that is paused.
fn each_clock(test: impl Fn(&Runtime, Timer)) {
    let clocks = [
        current_thread,
        #[cfg(feature = "test-util")]
        paused,
    ];
    for runtime in clocks.map(|make| make()) {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        test(&runtime, timer);
    }
}

/// tokio's own sleeps panic there with its alternative timer.
#[test]
fn a_runtime_run_in_anothers_context_ends_no_timer() {
    bounded(|| {
        let (entered, runs) = (multi_thread(2), current_thread());
        let timer = Timer::builder().build_on(entered.handle()).unwrap();
        let before = panics_seen_here().len();
        runs.block_on(async {
            let _context = entered.enter();
            for timer in [&timer, &Timer::builder().build().unwrap()] {
                for after in [HOUR, MS] {
                    let mut sleep = timer.sleep(after);
                    let _ = poll_once(&mut sleep);
                    if after == MS {
                        sleep.await;
                    }
                }
            }
        });
        block_on(timer.sleep(MS));
        assert!(timer.deadline(HOUR).handle().is_pending());
        assert_eq!(panics_seen_here().len(), before);
    });
}

#[test]
fn a_refused_futures_drop_may_use_handles() {
    each_clock(|_, timer| {
        let deadline = timer.deadline(HOUR);
        let owned = deadline.handle();
        let handle = owned.clone();
        let (left, at) = in_a_refused_spawn(move || (handle.remaining(), handle.deadline()));
        assert!(
            left.is_some_and(|left| left <= HOUR && left > HOUR / 2),
            "{left:?}"
        );
        assert_eq!(at, owned.deadline());
        let handle = owned.clone();
        let resets = in_a_refused_spawn(move || {
            let later = Instant::now() + 3 * HOUR;
            let all = [
                handle.reset(),
                handle.reset_after(2 * HOUR),
                handle.reset_after(HOUR),
                handle.set_timeout(HOUR),
                handle.reset_at(later),
            ];
            (all, handle.is_pending())
        });
        assert_eq!(resets, ([true; 5], true));
        assert!(owned.remaining().unwrap() > 2 * HOUR);
        // Most likely it waits by then, and has to be woken.
        let waits = thread::spawn(|| block_on(deadline));
        thread::sleep(20 * MS);
        assert!(in_a_refused_spawn(move || owned.expire()));
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_refused_futures_drop_may_make_poll_and_drop_timers() {
    each_clock(|runtime, timer| {
        let Armed {
            mut sleep,
            mut deadline,
        } = Armed::on(&timer, HOUR);
        assert_eq!(timer.metrics().pending(), 2);
        let mut made_there = in_a_refused_spawn({
            let timer = timer.clone();
            move || {
                assert!(poll_once(&mut sleep).is_pending());
                assert!(poll_once(&mut deadline).is_pending());
                drop((sleep, deadline));
                Armed::on(&timer, HOUR)
            }
        });
        assert_eq!(timer.metrics().pending(), 2);
        made_there.sleep.reset_after(20 * MS);
        assert!(made_there.deadline.handle().reset_after(20 * MS));
        runtime.block_on(async {
            made_there.sleep.await;
            made_there.deadline.await.unwrap();
        });
    });
}
