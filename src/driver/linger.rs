//! How long a timer outlives the time driver of its runtime.
//!
//! The end of a runtime is reported to no task of its own: these are dropped while they are
//! pending. tokio's usual timer ends after the last of them was dropped. But its alternative timer
//! ends with each worker: it fires the timers of that worker before the worker drops any task, and
//! while other workers still run some. A timer that closed then would report the end to them.
//!
//! On that timer a reset or a poll panics as soon as the runtime shuts down. So a timer that is
//! built then must touch none. A runtime that has dropped its tasks refuses a new one, and so tells
//! it. The thread that builds the timer may be a worker that still runs a task. Then the timer
//! lingers too.
//!
//! tokio says nowhere that no worker runs a task any more. So on that timer a thread of its own
//! waits for [`A_WHILE`], and then wakes the driver. A task that runs for longer than that in one
//! poll, while its runtime shuts down, may be told.

use std::future::pending;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::runtime::{Handle, RuntimeFlavor};

const A_WHILE: Duration = Duration::from_millis(100);

/// Only a build of this kind has the alternative timer.
const MAY_BE_ALTERNATIVE: bool = cfg!(tokio_unstable);

/// tokio's alternative timer panics if a thread enters its runtime while it runs a current-thread
/// one, and touches it then. Nothing tells that of a thread, so another one builds the timer.
pub(crate) fn on_a_plain_thread<R: Send>(runtime: &Handle, build: impl FnOnce() -> R + Send) -> R {
    if !MAY_BE_ALTERNATIVE || runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
        return build();
    }
    match thread::scope(|scope| scope.spawn(build).join()) {
        Ok(built) => built,
        Err(panic) => resume_unwind(panic),
    }
}

/// Whether a timer can be built on a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    /// It has dropped its tasks, but may still run the one that asks.
    Ends,
    Ended,
}

impl Life {
    /// `Alive` is also returned where tokio's timers tell the end without a panic. `for_worker`
    /// says that a worker asks for the timer.
    pub(crate) fn of(runtime: &Handle, for_worker: bool) -> Life {
        if !MAY_BE_ALTERNATIVE || runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Life::Alive;
        }
        let task = runtime.spawn(pending::<()>());
        let is_refused = task.is_finished();
        task.abort();
        match is_refused {
            false => Life::Alive,
            true if for_worker => Life::Ends,
            true => Life::Ended,
        }
    }
}

pub(super) enum Linger {
    Not,
    /// The time driver has not ended yet.
    Later,
    /// Whether the while is over.
    Began(Arc<AtomicBool>),
}

impl Linger {
    /// For the runtime of a sleep that is in no use. `past` is before the runtime was built.
    pub(super) fn of(mut sleep: Pin<&mut Sleep>, past: Instant) -> Linger {
        if !MAY_BE_ALTERNATIVE {
            return Linger::Not;
        }
        sleep.as_mut().reset(past);
        // The alternative timer fires it when its worker comes round next.
        if sleep.is_elapsed() {
            Linger::Not
        } else {
            Linger::Later
        }
    }

    /// Whether it is over. If not, `waker` is woken when it is. Call this once the time driver has
    /// ended.
    pub(super) fn is_over(&mut self, waker: &Waker) -> bool {
        match self {
            Linger::Not => true,
            // Acquire: pairs with the Release of the thread that waits.
            Linger::Began(is_over) => is_over.load(Ordering::Acquire),
            Linger::Later => {
                let (over, waker) = (Arc::new(AtomicBool::new(false)), waker.clone());
                *self = Linger::Began(over.clone());
                let wait = move || {
                    thread::sleep(A_WHILE);
                    over.store(true, Ordering::Release);
                    waker.wake();
                };
                let thread = thread::Builder::new().name("tickwheel-end".to_owned());
                // Without a thread it ends at once.
                thread.spawn(wait).is_err()
            }
        }
    }
}
