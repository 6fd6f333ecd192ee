//! Tests that count what the whole process does, or end it, or hang: one at a time, in a process or
//! on a thread of their own.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use super::PATIENCE;

/// Runs a test on a thread of its own, which is left behind if it hangs.
#[track_caller]
pub(crate) fn in_time<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    ended(test).expect("it hangs")
}

/// Like `in_time`, but returns `None` if the test hangs.
pub(crate) fn ended<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    const LOOK: Duration = Duration::from_millis(500);
    let (sender, outcome) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(test()).unwrap());
    let (mut runnable, mut given) = (Runnable::now(), Duration::ZERO);
    let outcome = loop {
        let began = Instant::now();
        match outcome.recv_timeout(LOOK) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            outcome => break outcome,
        }
        // On a loaded machine a thread mostly waits for a core. That is no sign that it hangs.
        let took = began.elapsed();
        given += took.saturating_sub(runnable.waited());
        if given >= 3 * PATIENCE {
            return None;
        }
    };
    thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    outcome.ok()
}

/// Whether one of so many tries shows something. One in which a thread waited for a core does not
/// count, up to ten times as many.
pub(crate) fn is_shown_in(tries: usize, mut attempt: impl FnMut() -> bool) -> bool {
    const DISTURBED: Duration = Duration::from_millis(5);
    let mut runnable = Runnable::now();
    let mut undisturbed = 0;
    for _ in 0..10 * tries {
        if attempt() {
            return true;
        }
        if runnable.waited() < DISTURBED {
            undisturbed += 1;
        }
        if undisturbed == tries {
            return false;
        }
    }
    false
}

/// For how long each thread of this process has waited for a core, on Linux. Elsewhere it is empty.
struct Runnable(HashMap<u64, Duration>);

impl Runnable {
    fn now() -> Runnable {
        let waited = |task: fs::DirEntry| {
            let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let nanos = times.split_whitespace().nth(1)?.parse().ok()?;
            let id = task.file_name().to_str()?.parse().ok()?;
            Some((id, Duration::from_nanos(nanos)))
        };
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
        Runnable(tasks.flatten().filter_map(waited).collect())
    }

    /// How long the thread that waited longest has waited since the last look.
    fn waited(&mut self) -> Duration {
        let now = Runnable::now();
        let since = |(id, &waited): (&u64, &Duration)| {
            let before = self.0.get(id).copied().unwrap_or_default();
            waited.saturating_sub(before)
        };
        let longest = now.0.iter().map(since).max().unwrap_or_default();
        *self = now;
        longest
    }
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
        let printed = String::from_utf8_lossy(&output.stdout);
        // A test of another name would not run at all.
        let has_passed = output.status.success() && printed.contains(" 1 passed");
        let panicked = String::from_utf8_lossy(&output.stderr);
        assert!(has_passed, "in its process: {printed}{panicked}");
    }
    is_alone
}
