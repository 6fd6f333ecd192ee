//! A timer that is used while tokio's context is not at hand: within a spawn that tokio refuses,
//! and while a thread's locals are destroyed.

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use futures::FutureExt;
use tickwheel::{Instant, Timer};
use tokio::runtime::Runtime;

use super::{Armed, LastLook, OnDrop, Seen, outcome_of_poll};
use crate::common::{HOUR, MS, PATIENCE, current_thread, paused, poll_once};

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
    for runtime in [current_thread(), paused()] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        test(&runtime, timer);
    }
}

#[test]
fn a_refused_futures_drop_may_use_handles() {
    each_clock(|_, timer| {
        let deadline = timer.deadline(HOUR);
        let told = deadline.handle();
        let handle = told.clone();
        let (left, at) = in_a_refused_spawn(move || (handle.remaining(), handle.deadline()));
        assert!(
            left.is_some_and(|left| left <= HOUR && left > HOUR / 2),
            "{left:?}"
        );
        assert_eq!(at, told.deadline());
        let handle = told.clone();
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
        assert!(told.remaining().unwrap() > 2 * HOUR);
        assert!(in_a_refused_spawn(move || told.expire()));
        assert_eq!(deadline.now_or_never(), Some(Ok(())));
    });
}

#[test]
fn a_cancel_in_a_refused_futures_drop_wakes_who_waits() {
    let (sender, waiting) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    thread::spawn(move || {
        current_thread().block_on(async {
            let mut deadline = Timer::new().deadline(HOUR);
            assert!(poll_once(&mut deadline).is_pending());
            sender.send(deadline.handle()).unwrap();
            ends.send(deadline.await).unwrap();
        });
    });
    let handle = waiting.recv().unwrap();
    assert!(in_a_refused_spawn(move || handle.cancel()));
    let cancelled = ended.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(!cancelled.is_shutdown());
}

#[test]
fn a_refused_futures_drop_may_make_poll_and_drop_timers() {
    each_clock(|runtime, timer| {
        let Armed {
            mut sleep,
            mut deadline,
        } = Armed::on(&timer, HOUR);
        assert_eq!(timer.metrics().pending, 2);
        let mut made_there = in_a_refused_spawn({
            let timer = timer.clone();
            move || {
                assert!(poll_once(&mut sleep).is_pending());
                assert!(poll_once(&mut deadline).is_pending());
                drop((sleep, deadline));
                Armed::on(&timer, HOUR)
            }
        });
        assert_eq!(timer.metrics().pending, 2);
        made_there.sleep.reset_after(20 * MS);
        assert!(made_there.deadline.handle().reset_after(20 * MS));
        runtime.block_on(async {
            made_there.sleep.await;
            made_there.deadline.await.unwrap();
        });
    });
}

/// A thread's local that holds a runtime, and so drops it when the thread ends.
struct AtThreadEnd(RefCell<Option<Runtime>>);

thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd(RefCell::new(None)) };
}

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// A thread ends with a paused runtime in a local of its own. That local is destroyed after tokio's
/// if it was made before them.
fn end_a_thread_with_a_paused_runtime(is_destroyed_last: bool) -> (Vec<Seen>, Armed) {
    let (sender, seen) = mpsc::channel();
    let thread = thread::spawn(move || {
        if is_destroyed_last {
            AT_THREAD_END.with(|_| ());
        }
        let runtime = paused();
        let armed = runtime.block_on(async {
            // Armed for 30 ms of a clock that stands still, while real time goes on for longer.
            let armed = || Armed::on(&Timer::current(), 30 * MS);
            let look = |sender| async move {
                let _last_look = LastLook(armed(), sender);
                pending::<()>().await;
            };
            // Some tasks are older than the timer, one is younger.
            for _ in 0..8 {
                tokio::spawn(look(sender.clone()));
            }
            tokio::task::yield_now().await;
            tokio::spawn(look(sender));
            tokio::task::yield_now().await;
            armed()
        });
        thread::sleep(60 * MS);
        AT_THREAD_END.with(|local| local.0.replace(Some(runtime)));
        armed
    });
    let armed = thread.join().unwrap();
    (seen.into_iter().collect(), armed)
}

#[test]
fn a_paused_runtime_among_thread_locals_ends_nothing_early() {
    for is_destroyed_last in [false, true] {
        let (seen, armed) = end_a_thread_with_a_paused_runtime(is_destroyed_last);
        assert_eq!(seen.len(), 9, "no look should panic");
        for seen in seen {
            seen.assert_waits();
            assert_eq!(seen.remaining, Some(30 * MS), "{is_destroyed_last}");
        }
        // What waits from elsewhere is told, and nothing has expired.
        let Armed {
            mut sleep,
            deadline,
        } = armed;
        assert!(!sleep.is_elapsed());
        assert!(outcome_of_poll(&mut sleep).is_err());
        let ended = deadline.now_or_never().expect("it is told");
        assert!(
            ended.is_err_and(|error| error.is_shutdown()),
            "it has expired early"
        );
    }
}
