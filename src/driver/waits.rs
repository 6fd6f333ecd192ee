//! Waits for the end of a runtime, with nothing armed: no wheel holds them.
//!
//! ```text
//!   a wait                                   the driver closes
//!   ------                                   -----------------
//!   N1  with the list locked: ask whether    E1  note the end
//!       the end is noted                     E2  with the list locked: take all wakers
//!   N2  if not, leave the waker              E3  wake them, under no lock
//! ```
//!
//! Invariant: a wait that is registered when the driver closes is woken, and a later one is ready.
//! If E2 comes first, N1 finds the end. If it comes later, it takes the waker of N2. `tests/loom`
//! compiles this file.

use std::task::{Poll, Waker};

use slab::Slab;

use crate::sync::{Mutex, lock};

/// The wakers of all that wait, each at the index of its wait.
pub(crate) struct Waits(Mutex<Slab<Waker>>);

impl Waits {
    pub(crate) fn new() -> Waits {
        Waits(Mutex::new(Slab::new()))
    }

    /// Begins a wait, and returns its index in the list.
    pub(crate) fn insert(&self) -> usize {
        lock(&self.0).insert(Waker::noop().clone())
    }

    /// Ready once the end is noted. Until then `waker` is left in the list.
    pub(crate) fn poll(
        &self,
        index: usize,
        waker: &Waker,
        has_ended: impl FnOnce() -> bool,
    ) -> Poll<()> {
        // The former one is dropped after the lock.
        let mut waker = waker.clone();
        let mut waits = lock(&self.0);
        // N1.
        if has_ended() {
            return Poll::Ready(());
        }
        // N2.
        std::mem::swap(&mut waits[index], &mut waker);
        drop(waits);
        Poll::Pending
    }

    /// Ends a wait. Without any the list keeps no memory.
    pub(crate) fn remove(&self, index: usize) {
        let mut waits = lock(&self.0);
        let _waker = waits.try_remove(index);
        if waits.is_empty() {
            *waits = Slab::new();
        }
        drop(waits);
    }

    /// Notes the end by `end`, and returns the wakers of all that wait.
    pub(crate) fn close(&self, end: impl FnOnce()) -> Vec<Waker> {
        // E1.
        end();
        // E2.
        let waits = std::mem::take(&mut *lock(&self.0));
        waits.into_iter().map(|(_, waker)| waker).collect()
    }

    #[cfg(test)]
    pub(crate) fn list(&self) -> &Mutex<Slab<Waker>> {
        &self.0
    }
}
