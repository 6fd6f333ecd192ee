//! How a time is checked beside a value whose poll may use up the task's budget: tokio's
//! cooperative scheduling.
//!
//! A task without budget gets `Pending` from tokio's I/O without a try. So a time is not checked
//! after such a poll. But if the poll itself has used the budget up, maybe as every poll does, the
//! time is checked anyway. tokio's own `Timeout` follows the same two rules.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::coop;

/// Polls the time that bounds a value which was polled just before. `had_budget`: whether the task
/// had a budget before that.
pub(crate) fn poll_after_inner<R>(
    had_budget: bool,
    cx: &mut Context<'_>,
    mut poll_time: impl FnMut(&mut Context<'_>) -> Poll<R>,
) -> Poll<R> {
    if had_budget && !coop::has_budget_remaining() {
        return pin!(coop::unconstrained(poll_fn(poll_time))).poll(cx);
    }
    poll_time(cx)
}
