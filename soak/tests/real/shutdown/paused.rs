//! The end of a runtime whose clock is paused.

use std::cell::RefCell;
use std::future::pending;
use std::sync::mpsc;
use std::thread;

use futures::FutureExt;
use tickwheel::Timer;
use tokio::runtime::Runtime;

use super::{Armed, LastLook, Seen, outcome_of_poll};
use crate::common::MS;
use crate::paused_clock::paused;

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
fn a_paused_runtime_in_a_thread_local_reports_its_end() {
    for is_destroyed_last in [false, true] {
        let (seen, armed) = end_a_thread_with_a_paused_runtime(is_destroyed_last);
        assert_eq!(seen.len(), 9, "no look should panic");
        let Armed {
            mut sleep,
            deadline,
        } = armed;
        if is_destroyed_last {
            // Such a thread can only read the system's clock. It wakes the others all the same.
            let _either = outcome_of_poll(&mut sleep);
            deadline.now_or_never().expect("it is ready").ok();
            continue;
        }
        for seen in seen {
            seen.assert_waits();
            assert_eq!(seen.remaining, Some(30 * MS));
        }
        // What waits elsewhere learns of it, and nothing has expired.
        assert!(!sleep.is_elapsed());
        assert!(outcome_of_poll(&mut sleep).is_err());
        let ended = deadline.now_or_never().expect("it is ready");
        assert!(
            ended.is_err_and(|error| error.is_shutdown()),
            "it has expired early"
        );
    }
}
