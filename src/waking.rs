//! Waking: a waker is its user's code, and a panic in it is its user's affair.
//!
//! Invariant: whoever calls this holds no lock. No panic of a waker comes out of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes and drops each waker; a panic in one is its own affair.
pub(crate) fn wake_all(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        wake(waker);
    }
}

pub(crate) fn wake(waker: Waker) {
    let outcome = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    if let Err(payload) = outcome {
        // A payload may panic when it is dropped; then there is nothing left to be done with it.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(another);
        }
    }
}
