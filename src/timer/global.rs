//! The process's timer: on a thread of its own, under no runtime.
//!
//! The first use starts the thread, which never ends. It sleeps until the next due. While nothing
//! is armed, it sleeps until something is (see `driver::thread_alarm`).
//!
//! Invariant: there is at most one. A start that failed leaves nothing behind, and the next use
//! tries again.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Builder, Timer};
use crate::shard::Shard;

/// No longer than the 15 bytes that Linux shows.
const THREAD: &str = "tickwheel-timer";

static GLOBAL: OnceLock<Timer> = OnceLock::new();

/// The process's timer. The first call starts it.
#[inline]
#[track_caller]
pub(crate) fn timer() -> &'static Timer {
    match GLOBAL.get() {
        Some(timer) => timer,
        None => match started() {
            Ok(timer) => timer,
            Err(error) => panic_without_thread(&error),
        },
    }
}

/// This thread's shard of the process's timer.
#[inline(never)]
#[track_caller]
pub(crate) fn shard() -> Arc<Shard> {
    timer().shard().clone()
}

#[cold]
fn started() -> io::Result<&'static Timer> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(timer) = GLOBAL.get() {
        return Ok(timer);
    }
    let timer = Builder::build_on_thread(THREAD)?;
    Ok(GLOBAL.get_or_init(|| timer))
}

#[cold]
#[track_caller]
fn panic_without_thread(error: &io::Error) -> ! {
    panic!(
        "tickwheel's global timer cannot start its thread: {error}. Call \
         `tickwheel::global::timer()` early, before the process uses up its threads"
    )
}
