//! The atomics and the lock of the files that `tests/loom` checks.
//!
//! These files import them from here alone. So `tests/loom` can compile the files against loom's
//! atomics and lock instead.
//!
//! Invariant: `tests/loom/sync.rs` has everything that is here, under the same names.

use std::sync::PoisonError;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks a mutex. Poison is ignored: no panic leaves half changed what these mutexes hold.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
