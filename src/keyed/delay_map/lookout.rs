//! The lookout: how who changes a map has its stream look, if it has to.
//!
//! The stream *waits* when nothing is due: it leaves its waker here and says until which tick it
//! waits; an alarm of the timer's wakes it then. Who makes something due earlier calls it. While it
//! does not wait it will look by itself, and nobody calls.
//!
//! ```text
//!   looks by itself --(nothing is due: the waker, `begins_to_wait`)--> reads the parts --(`waits_until`)--> waits
//!        ^                                                               |                                    |
//!        +---------------------------(polled again: `stops_waiting`)-----+------------------------------------+
//! ```
//!
//! Who may touch what, and when:
//!
//! - The stream alone stops and begins to wait. It says until when with the alarm locked.
//! - On a clock that can be paused who removes the earliest puts the stream off, with the alarm
//!   locked (`is_put_off`).
//! - Anybody asks whether the stream has to be called, after the change was made; and calls it,
//!   under no lock.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A change comes as the stream begins to wait.* The stream leaves its waker, says that it waits
//!   without end, and then reads the parts. Who makes a change writes the part and then reads until
//!   when the stream waits. A sequentially consistent fence lies between the two steps of each, so
//!   one of the two sees the other: the stream finds the change, or is called.
//! - *A change comes as the stream is put off.* The same: the parts are read after it was said that
//!   the stream waits without end.
//! - *Zero has two meanings.* None but one: a stream that waits until tick 0, or not at all, looks
//!   no later than that by itself.
//! - *The waker was taken by an earlier call.* Then the stream was woken, and has not looked since.

use std::task::Waker;

use crate::sync::{AtomicU64, Mutex, Ordering, fence};

/// The tick of what never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// Before every tick: the stream does not wait.
const LOOKS_BY_ITSELF: u64 = 0;

pub(super) struct Lookout {
    /// The tick at which the stream looks at the latest, if nobody calls it.
    until: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Lookout {
    pub(super) fn new() -> Lookout {
        Lookout {
            until: AtomicU64::new(LOOKS_BY_ITSELF),
            waker: Mutex::new(None),
        }
    }

    /// Whether the stream has to be called for what is due at `tick`. To be asked after a part says
    /// so.
    pub(super) fn is_called_for(&self, tick: u64) -> bool {
        fence(Ordering::SeqCst);
        tick < self.until.load(Ordering::Acquire)
    }

    /// The waker to be woken, under no lock, so that the stream looks.
    pub(super) fn call(&self) -> Option<Waker> {
        self.lock().take()
    }

    /// The earliest has gone: has the stream wait without end until `waits_on_until` says
    /// otherwise. `false` if it does not wait.
    pub(super) fn is_put_off(&self) -> bool {
        let put_off = |until| (until != LOOKS_BY_ITSELF).then_some(NEVER);
        let before = self
            .until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, put_off);
        fence(Ordering::SeqCst);
        before.is_ok()
    }

    /// After `is_put_off`: the stream waits until that tick, if it still does.
    pub(super) fn waits_on_until(&self, tick: u64) {
        let _ = self
            .until
            .compare_exchange(NEVER, tick, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// For the stream.
impl Lookout {
    pub(super) fn stops_waiting(&self) {
        self.until.store(LOOKS_BY_ITSELF, Ordering::Release);
    }

    /// Leaves the waker. The one that was there before is the caller's to drop, under no lock.
    pub(super) fn leave(&self, waker: Waker) -> Option<Waker> {
        self.lock().replace(waker)
    }

    /// Whether this waker is there.
    pub(super) fn has(&self, waker: &Waker) -> bool {
        self.lock()
            .as_ref()
            .is_some_and(|left| left.will_wake(waker))
    }

    /// To be called after the waker was left, and before the parts are read.
    pub(super) fn begins_to_wait(&self) {
        self.until.store(NEVER, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    pub(super) fn waits_until(&self, tick: u64) {
        self.until.store(tick, Ordering::Release);
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, Option<Waker>> {
        crate::sync::lock(&self.waker)
    }
}
