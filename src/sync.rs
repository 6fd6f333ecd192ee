//! The atomics and the lock that race-checked files use.
//!
//! One place to import them from, so that `tests/loom.rs` can compile those files against loom's
//! instead.

use std::sync::PoisonError;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks what no panic leaves half changed, so that poison tells nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
