//! Use of the task's cooperative budget, so that a ready poll wins over a deadline.
//!
//! An adapter polls its inner value first, and a deadline only if that has to wait. But a task
//! without budget gets [`Pending`](Poll::Pending) from tokio's I/O and channels without a try, and
//! many futures in one task, such as a `FuturesUnordered`, share a budget. Hence:
//!
//! | the budget | the deadline |
//! |---|---|
//! | was gone before the inner poll | is not polled; the task is woken to try again |
//! | was used up by that very poll | is polled outside of the budget, or it might never be |
//!
//! A [`Timeout`](crate::Timeout) does the same.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::coop;

/// Ready if the pending inner poll had a budget. If not, the task is woken to try again.
#[inline]
pub(super) fn poll_tried(had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
    if had_budget {
        return Poll::Ready(());
    }
    coop::poll_proceed(cx).map(drop)
}

pub(super) fn poll_unconstrained<T>(
    cx: &mut Context<'_>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    pin!(coop::unconstrained(poll_fn(poll))).poll(cx)
}
