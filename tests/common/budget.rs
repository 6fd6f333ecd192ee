//! The cooperative budget of a task.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::task::{coop, yield_now};

/// Uses up what the task has left of its budget in this poll.
pub(crate) fn use_up_the_budget(cx: &mut Context<'_>) {
    while let Poll::Ready(unit) = coop::poll_proceed(cx) {
        unit.made_progress();
    }
}

/// Runs something in a poll that has no budget left, and lets the next one have a new one.
pub(crate) async fn without_a_budget<R>(run: impl FnOnce() -> R) -> R {
    let mut run = Some(run);
    let result = poll_fn(|cx| {
        use_up_the_budget(cx);
        Poll::Ready(run.take().expect("it is polled once")())
    });
    let result = result.await;
    yield_now().await;
    result
}
