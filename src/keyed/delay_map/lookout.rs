//! The lookout: how who changes a map has its stream look, if it has to.
//!
//! The stream *waits* when nothing is due: it leaves its waker here and says until which tick it
//! waits; a timer wakes it then. Who makes something due earlier calls it. While it
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
//! - The stream alone stops and begins to wait. It says until when with the stream's timer locked.
//! - On a clock that can be paused who removes the earliest puts the stream off, with the stream's
//!   timer locked (`is_put_off`).
//! - Anybody asks whether the stream has to be called, after the change was made; and calls it,
//!   under no lock.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A change comes as the stream begins to wait.* The stream leaves its waker, begins its look,
//!   and then reads the parts. Who makes a change writes the part, and then asks when that look is.
//!   `time::next_look` has the argument why one of the two sees the other.
//! - *A change comes as the stream is put off.* The same: the parts are read after the look was
//!   begun.
//! - *The waker was taken by an earlier call.* Then the stream was woken, and has not looked since.

use std::task::Waker;

use crate::sync::Mutex;
use crate::time::next_look::NextLook;

pub(crate) struct Lookout {
    /// When the stream looks at the latest, if nobody calls it.
    next_look: NextLook,
    waker: Mutex<Option<Waker>>,
}

impl Lookout {
    pub(crate) fn new() -> Lookout {
        Lookout {
            next_look: NextLook::by_itself(),
            waker: Mutex::new(None),
        }
    }

    /// Whether the stream has to be called for what is due at `tick`. To be asked after a part says
    /// so.
    pub(crate) fn is_called_for(&self, tick: u64) -> bool {
        !self.next_look.comes_by(tick)
    }

    /// The waker to be woken, under no lock, so that the stream looks.
    pub(crate) fn call(&self) -> Option<Waker> {
        self.lock().take()
    }

    /// The earliest has gone: has the stream wait without end until `waits_on_until` says
    /// otherwise. `false` if it does not wait.
    pub(crate) fn is_put_off(&self) -> bool {
        self.next_look.begin_for_another()
    }

    /// After `is_put_off`: the stream waits until that tick, if it still does.
    pub(crate) fn waits_on_until(&self, tick: u64) {
        self.next_look.at_for_another(tick);
    }
}

/// For the stream.
impl Lookout {
    pub(crate) fn stops_waiting(&self) {
        self.next_look.is_by_itself();
    }

    /// Leaves the waker. The one that was there before is the caller's to drop, under no lock.
    pub(crate) fn leave(&self, waker: Waker) -> Option<Waker> {
        self.lock().replace(waker)
    }

    /// Whether this waker is there.
    pub(crate) fn has(&self, waker: &Waker) -> bool {
        self.lock()
            .as_ref()
            .is_some_and(|left| left.will_wake(waker))
    }

    /// To be called after the waker was left, and before the parts are read.
    pub(crate) fn begins_to_wait(&self) {
        self.next_look.begin();
    }

    pub(crate) fn waits_until(&self, tick: u64) {
        self.next_look.at(tick);
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, Option<Waker>> {
        crate::sync::lock(&self.waker)
    }
}
