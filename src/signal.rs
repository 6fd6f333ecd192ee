//! How an arm wakes the driver.
//!
//! Invariant: a wake that comes while the driver is not waiting is kept for its next wait, as `Notify` keeps one
//! permit. The driver reads what it is to do only after it took the permit, so no wake is lost.
//!
//! On a multi-thread runtime a task that is woken by a worker goes to that worker's LIFO slot, from which no other
//! worker steals. If the task that armed a timer then blocks its worker, the driver would stand still with it. So
//! an empty task is spawned right after: it takes the slot, and pushes the driver out to the queue that others
//! steal from. This costs an allocation, for the few arms that are due before the driver's plan.

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

#[derive(Debug)]
pub(crate) struct Signal {
    notify: Notify,
    runtime: runtime::Id,
    has_lifo_slots: bool,
}

impl Signal {
    pub(crate) fn new(handle: &Handle) -> Signal {
        Signal {
            notify: Notify::new(),
            runtime: handle.id(),
            has_lifo_slots: handle.runtime_flavor() != RuntimeFlavor::CurrentThread,
        }
    }

    /// Wakes the driver, or lets its next wait end at once. Takes no lock of this crate and must be called under none.
    pub(crate) fn wake_driver(&self) {
        self.notify.notify_one();
        if self.has_lifo_slots && runtime::worker_index().is_some() {
            self.push_driver_out_of_the_lifo_slot();
        }
    }

    /// Ends when the driver was woken.
    pub(crate) fn woken(&self) -> Notified<'_> {
        self.notify.notified()
    }

    fn push_driver_out_of_the_lifo_slot(&self) {
        if let Ok(current) = Handle::try_current() {
            if current.id() == self.runtime {
                drop(current.spawn(async {}));
            }
        }
    }
}
