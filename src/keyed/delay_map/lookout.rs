//! The lookout: how a call that changes a map makes the stream look, if it has to.
//!
//! The stream *waits* when nothing is due. It puts its waker here and says until which tick it
//! waits, and a timer wakes it then. A call that makes something due earlier calls it. While the
//! stream does not wait it will look by itself, and nobody calls it.
//!
//! ```text
//!   looks by itself --(nothing is due: the waker, `begins_to_wait`)--> reads the parts --(`waits_until`)--> waits
//!        ^                                                               |                                    |
//!        +---------------------------(polled again: `stops_waiting`)-----+------------------------------------+
//! ```
//!
//! Who may touch what, and when:
//!
//! - Only the stream stops and begins to wait. It says until when with the stream's timer locked.
//! - On a clock that can be paused, a call that removes the earliest puts the stream off
//!   (`put_off_look`). It does so with the stream's timer locked.
//! - Anybody asks whether the stream has to be called, after the change was made. Whoever has to
//!   call it does so under no lock.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A change comes as the stream begins to wait.* The stream puts its waker here, begins its
//!   look, and then reads the parts. The call that makes the change writes the part, and then asks
//!   when that look is. `time::next_look` proves that one of the two sees the other.
//! - *A change comes as the stream is put off.* It is the same: the parts are read after the look
//!   was begun.
//! - *An earlier call took the waker.* Then the stream was woken, and has not looked since.

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

    /// Whether the stream has to be called for what is due at `tick`. To be asked after the state
    /// of the part tells of it.
    pub(crate) fn is_called_for(&self, tick: u64) -> bool {
        !self.next_look.comes_by(tick)
    }

    /// Takes the waker, if there is one. The caller wakes it under no lock, and then the stream
    /// looks.
    pub(crate) fn call(&self) -> Option<Waker> {
        self.lock().take()
    }

    /// To be called when the earliest item was removed. From now on the stream waits without end,
    /// until `waits_on_until` says otherwise. `false` if the stream does not wait.
    pub(crate) fn put_off_look(&self) -> bool {
        self.next_look.begin_for_another()
    }

    /// To be called after `put_off_look`. The stream waits until that tick, if it still waits.
    pub(crate) fn waits_on_until(&self, tick: u64) {
        self.next_look.at_for_another(tick);
    }
}

/// For the stream.
impl Lookout {
    /// From now on the stream looks by itself.
    pub(crate) fn stops_waiting(&self) {
        self.next_look.look_by_itself();
    }

    /// Puts the waker here. Gives the one that was here before, which the caller drops under no
    /// lock.
    pub(crate) fn leave(&self, waker: Waker) -> Option<Waker> {
        self.lock().replace(waker)
    }

    /// Whether this waker is here.
    pub(crate) fn has(&self, waker: &Waker) -> bool {
        self.lock().as_ref().is_some_and(|own| own.will_wake(waker))
    }

    /// To be called after the waker was put here, and before the parts are read.
    pub(crate) fn begins_to_wait(&self) {
        self.next_look.begin();
    }

    /// To be called after the parts were read. The stream looks at that tick, unless it is called.
    pub(crate) fn waits_until(&self, tick: u64) {
        self.next_look.at(tick);
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, Option<Waker>> {
        crate::sync::lock(&self.waker)
    }
}
