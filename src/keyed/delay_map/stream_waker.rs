//! How a call that changes a map wakes its stream, if necessary.
//!
//! The stream *waits* when nothing is due. It registers its waker here, with the tick at which its
//! timer wakes it. A call that makes an item due earlier wakes it. Otherwise it checks by itself.
//!
//! Only the stream stops and begins to wait. Any thread takes the waker, and wakes it under no
//! lock. If an earlier call took it, the stream was woken and has not checked since.

use std::task::Waker;

use crate::clock::next_check::NextCheck;
use crate::clock::tick::Tick;
use crate::sync::{Mutex, lock};

pub(crate) struct StreamWaker {
    /// When the stream checks at the latest, unless it is woken: `FIRST` while it does not wait.
    pub(crate) next_check: NextCheck,
    waker: Mutex<Option<Waker>>,
}

impl StreamWaker {
    pub(crate) fn new() -> StreamWaker {
        StreamWaker {
            next_check: NextCheck::new(Tick::FIRST),
            waker: Mutex::new(None),
        }
    }

    /// Whether the stream has to be woken for an item due at `tick`. Call this after the change.
    pub(crate) fn is_needed_for(&self, tick: Tick) -> bool {
        !self.next_check.comes_by(tick)
    }

    pub(crate) fn take(&self) -> Option<Waker> {
        lock(&self.waker).take()
    }

    /// Registers the waker, unless it is here already. It is cloned and dropped under no lock.
    pub(crate) fn register(&self, waker: &Waker) {
        let is_here = |left: &Waker| left.will_wake(waker);
        if !lock(&self.waker).as_ref().is_some_and(is_here) {
            let clone = waker.clone();
            let replaced = lock(&self.waker).replace(clone);
            drop(replaced);
        }
    }
}
