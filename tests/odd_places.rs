//! A timer that is used while tokio's context is not at hand: within a spawn that tokio refuses,
//! and while a thread's locals are destroyed.

mod common;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;

use futures::FutureExt;
use tickwheel::{Deadline, Duration, Instant, Sleep, Timer};
use tokio::runtime::Runtime;

use crate::common::{HOUR, MS, PATIENCE, current_thread, paused, poll_once};

/// Runs something when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

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
fn a_cancel_in_the_drop_of_a_refused_future_is_heard() {
    each_clock(|runtime, timer| {
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        assert!(in_a_refused_spawn(move || handle.cancel()));
        let cancelled = runtime.block_on(deadline).unwrap_err();
        assert!(!cancelled.is_shutdown());
    });
}

#[test]
fn a_cancel_in_the_drop_of_a_refused_future_wakes_who_waits() {
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
    assert!(ended.recv_timeout(PATIENCE).unwrap().is_err());
}

#[test]
fn a_reset_in_the_drop_of_a_refused_future_counts() {
    each_clock(|_, timer| {
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
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
        assert!(deadline.handle().remaining().unwrap() > 2 * HOUR);
        let handle = deadline.handle();
        assert!(in_a_refused_spawn(move || handle.expire()));
        assert_eq!(deadline.now_or_never(), Some(Ok(())));
    });
}

#[test]
fn a_handle_tells_what_remains_in_the_drop_of_a_refused_future() {
    each_clock(|_, timer| {
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        let (remaining, at) = in_a_refused_spawn(move || (handle.remaining(), handle.deadline()));
        let remaining = remaining.unwrap();
        assert!(remaining <= HOUR && remaining > HOUR / 2, "{remaining:?}");
        assert_eq!(at, deadline.handle().deadline());
    });
}

#[test]
fn timers_can_be_polled_and_dropped_in_a_refused_futures_drop() {
    each_clock(|_, timer| {
        let mut sleep = timer.sleep(HOUR);
        assert!(poll_once(&mut sleep).is_pending());
        let mut deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        assert_eq!(timer.metrics().pending, 2);
        let pending = in_a_refused_spawn(move || {
            let pending =
                poll_once(&mut sleep).is_pending() && poll_once(&mut deadline).is_pending();
            drop((sleep, deadline));
            pending
        });
        assert!(pending);
        assert!(!handle.is_pending());
        assert_eq!(timer.metrics().pending, 0);
    });
}

#[test]
fn timers_are_made_in_the_drop_of_a_refused_future() {
    each_clock(|runtime, timer| {
        let (sleep, deadline) = in_a_refused_spawn({
            let timer = timer.clone();
            move || {
                let mut sleep = timer.sleep(20 * MS);
                assert!(poll_once(&mut sleep).is_pending());
                (sleep, timer.deadline(20 * MS))
            }
        });
        runtime.block_on(async {
            sleep.await;
            deadline.await.unwrap();
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

/// What a task of the paused runtime sees when it is dropped.
#[derive(Debug, PartialEq)]
struct Seen {
    remaining: Option<Duration>,
    is_pending: bool,
    was_reset: bool,
    sleep: Option<Poll<()>>,
    deadline: Option<Poll<Result<(), tickwheel::error::Cancelled>>>,
}

struct LastLook {
    sleep: Sleep,
    deadline: Deadline,
    seen: mpsc::Sender<Seen>,
}

impl Drop for LastLook {
    fn drop(&mut self) {
        let handle = self.deadline.handle();
        let look = AssertUnwindSafe(|| Seen {
            remaining: handle.remaining(),
            is_pending: handle.is_pending(),
            sleep: catch_unwind(AssertUnwindSafe(|| poll_once(&mut self.sleep))).ok(),
            deadline: catch_unwind(AssertUnwindSafe(|| poll_once(&mut self.deadline))).ok(),
            was_reset: handle.reset(),
        });
        if let Ok(seen) = catch_unwind(look) {
            let _ = self.seen.send(seen);
        }
    }
}

/// It is armed for 30 ms of a clock that stands still, while real time goes on for longer.
struct Armed {
    sleep: Sleep,
    deadline: Deadline,
}

impl Armed {
    fn on(timer: &Timer) -> Armed {
        let (mut sleep, mut deadline) = (timer.sleep(30 * MS), timer.deadline(30 * MS));
        assert!(poll_once(&mut sleep).is_pending() && poll_once(&mut deadline).is_pending());
        Armed { sleep, deadline }
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
            // Some tasks are older than the timer, some are younger.
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let (give, take) = tokio::sync::oneshot::channel::<LastLook>();
                    tokio::spawn(async move {
                        let _last_look = take.await;
                        std::future::pending::<()>().await;
                    });
                    give
                })
                .collect();
            let timer = Timer::new();
            for give in tasks {
                let Armed { sleep, deadline } = Armed::on(&timer);
                let seen = sender.clone();
                let last_look = LastLook {
                    sleep,
                    deadline,
                    seen,
                };
                assert!(give.send(last_look).is_ok());
            }
            let Armed { sleep, deadline } = Armed::on(&timer);
            let last_look = LastLook {
                sleep,
                deadline,
                seen: sender,
            };
            tokio::spawn(async move {
                let _last_look = last_look;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            Armed::on(&timer)
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
            let as_it_was = Seen {
                remaining: Some(30 * MS),
                is_pending: true,
                was_reset: true,
                sleep: Some(Poll::Pending),
                deadline: Some(Poll::Pending),
            };
            assert_eq!(seen, as_it_was, "{is_destroyed_last}");
        }
        // What waits from elsewhere is told, and nothing has expired.
        let Armed {
            mut sleep,
            mut deadline,
        } = armed;
        assert!(!sleep.is_elapsed());
        assert!(catch_unwind(AssertUnwindSafe(|| poll_once(&mut sleep))).is_err());
        let Poll::Ready(Err(cancelled)) = poll_once(&mut deadline) else {
            panic!("it has expired early, or is not told")
        };
        assert!(cancelled.is_shutdown());
    }
}
