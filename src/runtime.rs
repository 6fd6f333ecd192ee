//! The crate's imports from tokio's `runtime` and `task`, except the budget in `io`. A port to
//! another runtime replaces these names, the uses of `tokio::time`, the `Notify` of `driver`, and
//! the traits in `io`.
//!
//! Invariant: nothing here is part of the crate's own mechanism.

use std::any::Any;
use std::task::{Context, Poll};

pub(crate) use tokio::runtime::{Handle, Id, RuntimeFlavor, TryCurrentError};
pub(crate) use tokio::task::{Id as TaskId, coop, try_id};

/// `Some` of [`worker_index`] where tokio reports it, from 1.54 on. A glob import within a block
/// shadows the stand-in function, as `clock::pausable` explains.
#[inline(always)]
pub(crate) fn told_worker_index() -> Option<Option<usize>> {
    #[allow(dead_code)] // It stands in where tokio has none.
    fn worker_index() {}

    #[inline(always)] // Then the compiler knows the type, and nothing is left of the look.
    fn told(index: &dyn Any) -> Option<Option<usize>> {
        index.downcast_ref().copied()
    }
    {
        #[allow(unused_imports)] // Without the function nothing of it is used.
        use tokio::runtime::*;
        told(&worker_index())
    }
}

/// Which worker this thread is. `None` on any other thread, and with older tokio.
#[inline(always)]
pub(crate) fn worker_index() -> Option<usize> {
    told_worker_index().flatten()
}

/// Takes a unit of the task's budget, if one is left, for progress without a poll of its own.
#[inline]
pub(crate) fn spend_budget(cx: &mut Context<'_>) {
    if coop::has_budget_remaining() {
        if let Poll::Ready(budget) = coop::poll_proceed(cx) {
            budget.made_progress();
        }
    }
}

/// A runtime of so many workers, for unit tests.
#[cfg(test)]
pub(crate) fn workers(number: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(number).enable_time();
    builder.build().unwrap()
}
