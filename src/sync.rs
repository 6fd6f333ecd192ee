//! The atomics and the lock of the files that `tests/loom` checks. These files import them only
//! from here, so `tests/loom` can compile the files against loom's instead.
//!
//! Every `AtomicU64` of the crate is the one of this module. Where the target has no atomics of 64
//! bits, as 32-bit MIPS and PowerPC have none, `portable-atomic` guards each by one of 67 locks,
//! which is picked by its address. A write there takes and releases it. A read takes it only while
//! a thread writes under it.
//!
//! Invariant: `tests/loom/sync.rs` has every item of this module, under the same name.

#[cfg(target_has_atomic = "64")]
pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

#[cfg(not(target_has_atomic = "64"))]
pub(crate) use portable_atomic::AtomicU64;

pub(crate) use std::sync::{Mutex, MutexGuard};
use std::sync::{PoisonError, TryLockError};

/// Ignores poison, because no panic leaves the guarded data of this crate half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` if a thread holds the lock.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
