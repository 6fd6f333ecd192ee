//! Single polls of a future, outside of any task.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

/// Polls a future once with a waker, which must leave it pending.
pub(crate) fn arm<F: Future + Unpin>(future: &mut F, waker: &Waker) {
    assert!(poll_with(future, waker).is_pending());
}

pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}
