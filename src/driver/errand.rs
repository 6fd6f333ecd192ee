//! Errands: what the driver has done elsewhere, as it cannot be done where its attendant is.
//!
//! - A turn that is too long for one stretch goes on in a task of the runtime, so that others have
//!   their turn.
//! - An alarm that a plain thread has set, and that is not attached, is attached by such a task.
//! - A runtime that shuts down takes no tasks any more, though its time driver has not ended. Who
//!   is left without an attached alarm then gets a thread that looks for the end, a millisecond at
//!   a time.
//! - While somebody waits with nothing armed, for the end of a current-thread runtime alone, a
//!   *watch* is kept: a task that does nothing, and when it is dropped sets the alarm. For the
//!   tasks of a runtime are dropped first, and its time driver ends last.
//!
//! Invariant: no errand holds the driver. One whose driver has gone ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::bell::Request;
use super::{Driver, Whereabouts};

/// A task that turns, until all that is due was dealt with.
///
/// Between two stretches it wakes itself and yields. It does not use tokio's `yield_now`: that
/// defers to a list of the worker which no other worker steals from, and a task that blocks would
/// hold it up.
pub(super) struct Errand {
    driver: Weak<Driver>,
    was_polled: bool,
}

impl Errand {
    pub(super) fn new(driver: &Arc<Driver>) -> Errand {
        Errand {
            driver: Arc::downgrade(driver),
            was_polled: false,
        }
    }
}

impl Future for Errand {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(driver) = self.driver.upgrade() else {
            return Poll::Ready(());
        };
        if !self.was_polled {
            self.was_polled = true;
            driver.errand_has_come();
        }
        let attended = driver.attend(Request::Turn, Whereabouts::Errand);
        if !attended.is_unfinished {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Errand {
    /// One that was never polled was refused, or is dropped with all the tasks of its runtime.
    fn drop(&mut self) {
        if !self.was_polled {
            if let Some(driver) = self.driver.upgrade() {
                driver.errand_was_dropped();
            }
        }
    }
}

/// Sends from a thread that is no worker. Without such a thread, from here.
pub(super) fn send_from_elsewhere(send: impl Fn() + Clone + Send + 'static) {
    if thread::Builder::new().spawn(send.clone()).is_err() {
        send();
    }
}

/// Looks for the end of the runtime's time driver, from a thread of its own.
pub(super) fn look_for_the_end(driver: &Arc<Driver>) {
    let driver = Arc::downgrade(driver);
    let look = move || {
        while let Some(driver) = driver.upgrade() {
            if !driver.look_for_the_end() {
                return;
            }
            drop(driver);
            thread::sleep(Duration::from_millis(1));
        }
    };
    // Without a thread the end is found by whoever arms next.
    let _ = thread::Builder::new()
        .name("tickwheel-end".into())
        .spawn(look);
}

/// Those who wait for the runtime's end, and the task that is dropped then.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    /// `None` once it has ended.
    pub(super) runtime: Option<Handle>,
    count: usize,
    /// How often the last one has gone: a task of an earlier round is dropped for that, and not
    /// with its runtime.
    round: u64,
    /// The task is on its way to the runtime, which may refuse it.
    is_spawning: bool,
    task: Option<AbortHandle>,
}

impl Watchers {
    /// Where a task is that is being dropped: with its runtime's tasks, before the time driver
    /// ends; or, if it was refused, anywhere.
    fn whereabouts_of_drop(&self) -> Whereabouts {
        if self.is_spawning {
            Whereabouts::Caller
        } else {
            Whereabouts::Errand
        }
    }
}

/// While there is one, the end of the runtime is told also if nothing is armed.
#[derive(Debug)]
pub(crate) struct Watch(Arc<Driver>);

impl Watch {
    pub(crate) fn new(driver: &Arc<Driver>) -> Watch {
        let mut watchers = driver.watchers();
        watchers.count += 1;
        let is_first = watchers.count == 1;
        watchers.is_spawning = is_first || watchers.is_spawning;
        let round = watchers.round;
        let runtime = watchers.runtime.clone();
        drop(watchers);
        if is_first {
            // Spawned under no lock: a runtime that has shut down drops it here and now.
            let task = runtime.map(|runtime| {
                runtime.spawn(Watching {
                    driver: Arc::downgrade(driver),
                    round,
                })
            });
            let mut watchers = driver.watchers();
            watchers.is_spawning = false;
            if watchers.round == round {
                watchers.task = task.map(|task| task.abort_handle());
            }
        }
        Watch(driver.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = self.0.watchers();
        watchers.count -= 1;
        let task = if watchers.count == 0 {
            watchers.round += 1;
            watchers.task.take()
        } else {
            None
        };
        drop(watchers);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// The task that does nothing but to be dropped.
struct Watching {
    driver: Weak<Driver>,
    round: u64,
}

impl Future for Watching {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.upgrade() {
            let watchers = driver.watchers();
            let is_of_now = watchers.count > 0 && watchers.round == self.round;
            let whereabouts = watchers.whereabouts_of_drop();
            drop(watchers);
            if is_of_now {
                driver.expect_the_end(whereabouts);
            }
        }
    }
}
