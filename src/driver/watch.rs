//! Notifies a task that has no timer armed when the runtime has shut down.
//!
//! With nothing armed there may be no tokio timer that reports the end. So a watch spawns a task
//! that never ends by itself. A runtime that shuts down drops it, at once if it is spawned after
//! that, and its `JoinHandle` wakes the waiting task, on any thread.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Driver;
use crate::runtime::{JoinHandle, coop};

/// Waits for the end of the runtime. Dropping it takes the task back.
pub(crate) struct Watch {
    driver: Arc<Driver>,
    /// `None` for a driver that has ended, or that needs no runtime and never ends.
    task: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn new(driver: &Arc<Driver>) -> Watch {
        // Cloned out of the lock: a runtime that has shut down drops the task within `spawn`.
        let runtime = driver.runtime().clone();
        Watch {
            driver: driver.clone(),
            task: runtime.map(|runtime| runtime.spawn(pending())),
        }
    }

    /// Whether the runtime has dropped its tasks, or its time driver has ended.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        let is_dropped = self.task.as_ref().is_some_and(JoinHandle::is_finished);
        is_dropped || self.driver.clock.has_ended()
    }

    /// Ready once the runtime has dropped its tasks. Else the task of `cx` is woken then.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.task {
            // Not at the cost of the budget of the task that waits.
            Some(task) => pin!(coop::unconstrained(task)).poll(cx).map(drop),
            // The clock ends before the driver lets the runtime go.
            None if self.driver.clock.has_ended() => Poll::Ready(()),
            None => Poll::Pending,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;
    use tokio::task::yield_now;

    use crate::Timer;

    #[tokio::test]
    async fn a_dropped_watch_leaves_no_task() {
        let timer = Timer::new();
        let alive = || Handle::current().metrics().num_alive_tasks();
        let before = alive();
        let watches: Vec<_> = (0..1_000).map(|_| timer.watch()).collect();
        assert_eq!(alive(), before + 1_000);
        drop(watches);
        // The runtime drops each when it comes to it.
        for _ in 0..1_000 {
            yield_now().await;
        }
        assert_eq!(alive(), before);
    }
}
