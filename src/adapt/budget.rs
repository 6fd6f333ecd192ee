//! An adapter's use of the task's cooperative budget, so that a ready poll wins.
//!
//! An adapter polls what it wraps first, and a deadline only where that has to wait. But a task
//! that has used up its budget gets [`Pending`](Poll::Pending) from tokio's I/O and channels
//! without a try. Many futures in one task, such as a `FuturesUnordered`, share a budget. So after
//! a stall, when all of them have bytes, most of them are polled without any. Hence:
//!
//! | the budget | the deadline |
//! |---|---|
//! | was gone before what is wrapped was polled | is not polled; the task is woken to come again |
//! | was used up by that very poll | is polled outside of the budget, or it might never be |
//!
//! A [`Timeout`](crate::Timeout) does so too, and an adapter made of one needs nothing more.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::coop;

/// Ready if what was just polled, and is pending, had a budget to be tried with. If it had none,
/// the task is woken to come again.
#[inline]
pub(super) fn poll_tried(had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
    if had_budget {
        return Poll::Ready(());
    }
    coop::poll_proceed(cx).map(drop)
}

/// Polls a deadline outside of the budget.
pub(super) fn poll_unconstrained<T>(
    cx: &mut Context<'_>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    pin!(coop::unconstrained(poll_fn(poll))).poll(cx)
}
