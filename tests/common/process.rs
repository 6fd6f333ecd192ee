//! Tests that count what the whole process does, or end it, or hang: one at a time, in a process or
//! on a thread of their own.

use std::panic::resume_unwind;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::{env, thread};

use super::PATIENCE;

/// Runs a test on a thread of its own, which is left behind if it hangs.
#[track_caller]
pub(crate) fn in_time<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    ended(test).expect("it hangs")
}

/// Like `in_time`, but returns `None` if the test hangs.
pub(crate) fn ended<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (sender, outcome) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(test()).unwrap());
    let outcome = outcome.recv_timeout(3 * PATIENCE);
    if matches!(outcome, Err(mpsc::RecvTimeoutError::Timeout)) {
        return None;
    }
    thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    outcome.ok()
}

/// Waits for the test's turn, which lasts until the guard is dropped.
///
/// A test that fails while it has its turn does not fail the others.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Set to the name of the test that runs alone.
const ALONE: &str = "TICKWHEEL_ALONE";

/// This program, to run one of its tests again and no other.
pub(crate) fn again(test: &str) -> Command {
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]);
    again.env(ALONE, test);
    again
}

/// Whether this process runs that test and no other. If not, one is started that does, and the
/// test fails here if it fails there.
#[track_caller]
pub(crate) fn is_alone_in_a_process(test: &str) -> bool {
    let is_alone = env::var_os(ALONE).is_some_and(|alone| alone == test);
    if !is_alone {
        let output = again(test).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        // A test of another name would not run at all.
        let has_passed = output.status.success() && told.contains(" 1 passed");
        let panicked = String::from_utf8_lossy(&output.stderr);
        assert!(has_passed, "in its process: {told}{panicked}");
    }
    is_alone
}
