//! The reports of a timer: its counts beside those of its shards, and its `tracing` events. Wakers
//! are woken here too, because a panic in one is user code to be contained and reported.
//!
//! There are no spans. Arming, resetting and disarming report nothing, except a stall that they
//! find.
//!
//! Invariant: a caller that wakes a task or reports an event holds no lock, except a map's whose
//! closure calls a handle. Panics of wakers and subscribers stay within.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};

/// The reports of one timer. Nothing depends on the order of its counts, so they are Relaxed.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    /// The timer's, for events.
    name: Option<Arc<str>>,
    /// How many wakers have panicked.
    pub(crate) waker_panics: AtomicU64,
    /// How many inserts into the timer's maps were rejected.
    pub(crate) rejected_inserts: AtomicU64,
}

impl Reporter {
    pub(crate) fn new(name: Option<Arc<str>>) -> Reporter {
        Reporter {
            name,
            ..Reporter::default()
        }
    }

    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Wakes and drops each waker, even after a panic in one of them.
    pub(crate) fn wake_all(&self, wakers: &mut Vec<Waker>) {
        for waker in wakers.drain(..) {
            self.wake(waker);
        }
    }

    pub(crate) fn wake(&self, waker: Waker) {
        if contain(|| waker.wake()) {
            return;
        }
        self.waker_panics.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        contain(|| {
            let timer = self.name.as_deref();
            tracing::error!(target: "tickwheel", timer, "a waker panicked; its panic was contained");
        });
    }

    /// Reports a stall, if there was one.
    #[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
    pub(crate) fn driver_was_stalled(&self, late: Option<Duration>) {
        #[cfg(feature = "tracing")]
        if let Some(late) = late {
            contain(|| {
                let timer = self.name.as_deref();
                let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(
                    target: "tickwheel",
                    timer,
                    late_ms,
                    "the driver was stalled: something blocked the runtime's time driver"
                );
            });
        }
    }

    #[cold]
    pub(crate) fn count_rejected_insert(&self) {
        self.rejected_inserts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs user code, such as a waker or a subscriber, and contains its panic. `false` if it panicked.
#[inline]
pub(crate) fn contain(code: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(code)) else {
        return true;
    };
    // Dropping a payload may panic too. Then forget the new payload.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    false
}
