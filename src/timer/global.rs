//! The process's timer: on a runtime of its own, which one thread runs for nothing else.
//!
//! The thread is started at the first use and stays. It sleeps until the next due, and for ever
//! while nothing is armed. Its runtime has tokio's time driver and no other task than the driver's
//! errands, so all that is told of a timer and its driver holds here too.
//!
//! Invariant: nobody else gets a handle of that runtime. So it neither ends nor is its clock
//! paused, and the timer's clock is the system's.

use std::io;
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, available_parallelism};

use tokio::runtime;

use super::Timer;

const THREAD: &str = "tickwheel-global";

static GLOBAL: OnceLock<Timer> = OnceLock::new();

/// The process's timer, which is started if it was not yet.
#[inline]
#[track_caller]
pub(crate) fn timer() -> &'static Timer {
    match GLOBAL.get() {
        Some(timer) => timer,
        None => started(),
    }
}

#[cold]
#[track_caller]
fn started() -> &'static Timer {
    static STARTING: Mutex<()> = Mutex::new(());
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(timer) = GLOBAL.get() {
        return timer;
    }
    match start() {
        Ok(timer) => GLOBAL.get_or_init(|| timer),
        Err(error) => {
            drop(starting);
            panic!(
                "tickwheel's global timer cannot start its thread: {error}. Call \
                 `tickwheel::global::timer()` early, before the process uses up its threads"
            )
        }
    }
}

/// Starts the thread, and waits until its timer is there.
fn start() -> io::Result<Timer> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name(THREAD.to_owned())
        .spawn(move || run(&sender))?;
    receiver
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("it ended")))
}

/// What the thread does. The runtime is made and dropped in here, as neither may be done in a task.
fn run(sender: &mpsc::Sender<io::Result<Timer>>) {
    let runtime = runtime::Builder::new_current_thread().enable_time().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            // Who waits for it is there until it comes.
            let _ = sender.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let shards = available_parallelism().map_or(1, |cores| cores.get());
        let timer = Timer::builder().build_global(&runtime::Handle::current(), shards);
        let _ = sender.send(timer.map_err(io::Error::other));
        std::future::pending::<()>().await;
    });
}
