//! A watch over the program that runs now: one that hangs is told, and ends the process.

use std::fmt::Debug;
use std::io::{self, Write};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// No program takes nearly as long, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

struct Run {
    number: u64,
    since: Instant,
    what: Box<dyn Debug + Send>,
}

static RUNNING: Mutex<Vec<Run>> = Mutex::new(Vec::new());

/// Runs `run` under the watch.
pub(crate) fn over<R>(what: impl Debug + Send + 'static, run: impl FnOnce() -> R) -> R {
    static STARTED: Once = Once::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    STARTED.call_once(|| drop(thread::spawn(watch)));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    running().push(Run {
        number,
        since: Instant::now(),
        what: Box::new(what),
    });
    let outcome = run();
    running().retain(|run| run.number != number);
    outcome
}

fn running() -> MutexGuard<'static, Vec<Run>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch() {
    loop {
        thread::sleep(PATIENCE / 20);
        for run in running().iter() {
            if run.since.elapsed() > PATIENCE {
                // Not by `eprintln`, which a test's capture would keep for itself.
                let _ = writeln!(io::stderr(), "this hangs:\n{:?}", run.what);
                process::exit(101);
            }
        }
    }
}
