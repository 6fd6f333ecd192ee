//! The proof that the lock of a shard is held.
//!
//! The next expiry, `turned_to` and the words of deadlines lie beside the lock. Calls that need the
//! lock take a [`LockHeld`].
//!
//! Invariant: a `LockHeld` comes from a guard alone, and cannot outlive it. So a call without any
//! lock does not compile. The caller must make sure that it is the lock of the right shard.

use std::marker::PhantomData;

use crate::sync::MutexGuard;

/// Proof that a lock is held, borrowed from its guard.
#[derive(Clone, Copy)]
pub(crate) struct LockHeld<'g>(PhantomData<&'g ()>);

impl<'g> LockHeld<'g> {
    #[inline(always)]
    pub(crate) fn by<T>(_: &'g MutexGuard<'_, T>) -> LockHeld<'g> {
        LockHeld(PhantomData)
    }

    /// The data of a guard, and the proof beside it.
    #[inline(always)]
    pub(crate) fn split<T>(guard: &'g mut MutexGuard<'_, T>) -> (&'g mut T, LockHeld<'g>) {
        (guard, LockHeld(PhantomData))
    }
}
