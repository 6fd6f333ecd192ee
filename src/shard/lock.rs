//! The lock of a shard, and the proof that it is held.
//!
//! The next expiry and the words of deadlines lie beside the lock. Calls that need the lock take a
//! [`LockHeld`].
//!
//! Invariant: a `LockHeld` comes from a guard alone, and cannot outlive it. So a call without any
//! shard's lock does not compile. The caller must make sure that it is the right shard's.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::sync::{Mutex, MutexGuard, lock};

pub(crate) struct ShardLock<T>(Mutex<T>);

pub(crate) struct ShardGuard<'a, T>(MutexGuard<'a, T>);

/// Proof that a shard's lock is held, borrowed from its guard.
#[derive(Clone, Copy)]
pub(crate) struct LockHeld<'g>(PhantomData<&'g ()>);

impl<T> ShardLock<T> {
    pub(crate) fn new(state: T) -> ShardLock<T> {
        ShardLock(Mutex::new(state))
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> ShardGuard<'_, T> {
        ShardGuard(lock(&self.0))
    }
}

impl<T> ShardGuard<'_, T> {
    #[inline(always)]
    pub(crate) fn held(&self) -> LockHeld<'_> {
        LockHeld(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn split(&mut self) -> (&mut T, LockHeld<'_>) {
        (&mut self.0, LockHeld(PhantomData))
    }
}

impl<T> Deref for ShardGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for ShardGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
