//! A watch: how the task that waits with nothing armed is told of the runtime's end.
//!
//! It is for a current-thread runtime alone, where nothing armed means no tokio timer. While there
//! is a watch, the runtime has a task that does nothing. A runtime that shuts down drops its tasks
//! first, and its time driver ends last. So when that task is dropped, it sets the alarm, and the
//! alarm tells the end.
//!
//! Invariant: the task does not hold the driver. A task that was aborted because its last watch had
//! gone tells nobody anything.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use crate::runtime::{AbortHandle, Handle};

use super::bell::Request;
use super::{Driver, Whereabouts};

/// While there is one, the end of the runtime is told also if nothing is armed.
#[derive(Debug)]
pub(crate) struct Watch(Arc<Driver>);

/// Those who wait for the runtime's end, and the task that is dropped then.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    /// `None` once the driver has ended.
    runtime: Option<Handle>,
    count: usize,
    /// How often the last watch has gone. A task of an earlier round is dropped for that reason,
    /// and not with its runtime.
    round: u64,
    /// How many tasks are on their way to the runtime, which may refuse them. Two are, where the
    /// last watch goes and a new one comes while the task of the first is being spawned.
    spawning: usize,
    task: Option<AbortHandle>,
}

/// The task that does nothing but wait to be dropped.
struct Watching {
    driver: Weak<Driver>,
    round: u64,
}

impl Watch {
    pub(crate) fn new(driver: &Arc<Driver>) -> Watch {
        let mut watchers = driver.watchers();
        watchers.count += 1;
        let is_first = watchers.count == 1;
        watchers.spawning += usize::from(is_first);
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
            watchers.spawning -= 1;
            let task = task.map(|task| task.abort_handle());
            if watchers.round == round {
                watchers.task = task;
            } else {
                // The last watch has gone meanwhile, and found no task to abort.
                drop(watchers);
                if let Some(task) = task {
                    task.abort();
                }
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

impl Watchers {
    pub(super) fn begin(&mut self, runtime: &Handle) {
        self.runtime = Some(runtime.clone());
    }

    /// The driver has ended, and needs the runtime no more.
    pub(super) fn end(&mut self) -> Option<Handle> {
        self.runtime.take()
    }

    /// Where a task is that is being dropped: with its runtime's tasks, before the time driver
    /// ends; or, if it was refused, anywhere.
    fn whereabouts_of_drop(&self) -> Whereabouts {
        if self.spawning > 0 {
            Whereabouts::Caller
        } else {
            Whereabouts::Errand
        }
    }
}

impl Driver {
    pub(super) fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runtime drops its tasks, and somebody waits for its end.
    fn expect_the_end(self: &Arc<Self>, whereabouts: Whereabouts) {
        self.ending.expect();
        self.attend(Request::Plan, whereabouts);
    }
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
