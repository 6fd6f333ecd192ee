//! The atomics and the lock of the files that `tests/loom` checks.
//!
//! These files import them from here alone. So `tests/loom` can compile the files against loom's
//! atomics and lock instead.
//!
//! Invariant: `tests/loom/sync.rs` has everything that is here, under the same names.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{LockResult, PoisonError};

/// A number that no other living thread has. It is not zero.
pub(crate) fn thread_token() -> u64 {
    std::thread_local! {
        /// It needs no drop, so it has its place for as long as the thread runs.
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place).addr() as u64)
}

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// The guard of a lock. Poison is ignored: no panic leaves half changed what the locks of this
/// crate hold.
#[inline]
pub(crate) fn unpoisoned<G>(guard: LockResult<G>) -> G {
    guard.unwrap_or_else(PoisonError::into_inner)
}
