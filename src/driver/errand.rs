//! Errands: what the driver leaves to a task of the runtime, because its attendant cannot do it
//! where it is.
//!
//! - A turn that is too long for one stretch goes on in such a task, so that other tasks are served
//!   in between.
//! - An alarm that a plain thread has set, and that is not attached, is attached by such a task.
//! - A runtime that shuts down takes no tasks any more, though its time driver has not ended. If
//!   the alarm is not attached then, a thread looks for the end, once a millisecond.
//!
//! Invariant: no errand holds the driver. One whose driver was dropped ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use crate::runtime::worker_index;

use super::alarm::RuntimeAlarm;
use super::bell::Request;
use super::{Driver, Whereabouts};

/// Whether an errand is on its way.
#[derive(Debug, Default)]
pub(super) struct Errands {
    is_sent: AtomicBool,
    /// It is on its way to the runtime, which may refuse it.
    is_being_sent: AtomicBool,
}

/// A task that turns, until all that is due was dealt with.
///
/// Between two stretches it wakes itself and yields. It does not use tokio's `yield_now`, which
/// defers to a list of the worker. No other worker steals from that list, so a task that blocks
/// the worker would hold the errand up.
struct Errand {
    driver: Weak<Driver>,
    was_polled: bool,
}

impl Driver {
    /// Sends an errand, unless one is on the way. A runtime that shuts down drops it at once.
    pub(super) fn send_errand(self: &Arc<Self>, alarm: &RuntimeAlarm) {
        // A swap reads the latest value, so of two threads only one sends. An errand on its way
        // clears this first and rings after that. So this attendant need not send another.
        if self.errands.is_sent.swap(true, Ordering::AcqRel) {
            return;
        }
        let (driver, runtime) = (self.clone(), alarm.handle().clone());
        let send = move || {
            let errand = Errand {
                driver: Arc::downgrade(&driver),
                was_polled: false,
            };
            // Read in `errand_was_dropped`: on this thread, if `spawn` refuses the errand. Another
            // thread that drops it may read either value, because it may attend as a caller too.
            driver.errands.is_being_sent.store(true, Ordering::Release);
            drop(runtime.spawn(errand));
            driver.errands.is_being_sent.store(false, Ordering::Release);
        };
        let may_be_own_worker = worker_index().is_some() && !self.clock.is_pausable();
        if may_be_own_worker && !alarm.is_attached() {
            // A worker keeps the task that it spawned last where no other worker finds it. This
            // worker may block next.
            send_from_elsewhere(send);
        } else {
            send();
        }
    }

    /// The runtime takes no tasks any more. If it drops them now, its time driver ends after that.
    fn errand_was_dropped(self: &Arc<Self>) {
        let was_refused = self.errands.is_being_sent.load(Ordering::Acquire);
        self.errands.has_come();
        self.ending.refuse_tasks();
        let whereabouts = if was_refused {
            Whereabouts::Caller
        } else {
            Whereabouts::Errand
        };
        self.attend(Request::Plan, whereabouts);
    }

    /// Looks whether the time driver has ended; `false` if nobody has to look again.
    fn look_for_the_end(self: &Arc<Self>) -> bool {
        self.attend(Request::Plan, Whereabouts::Caller);
        match &*self.desk() {
            Some(desk) if desk.alarm_must_be_attached() => true,
            Some(_) => {
                self.ending.stop_looking();
                false
            }
            // It has ended, or somebody attends.
            None => !self.has_ended(),
        }
    }
}

impl Errands {
    /// The errand was polled or dropped, and another one may be sent.
    fn has_come(&self) {
        // Release: comes with the ring that follows. An attendant that takes that request sees it,
        // and may send another errand.
        self.is_sent.store(false, Ordering::Release);
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
            driver.errands.has_come();
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
fn send_from_elsewhere(send: impl Fn() + Clone + Send + 'static) {
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
