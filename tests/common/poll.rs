//! Single polls of a future, outside of any task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

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

/// A waker that does this each time.
pub(crate) fn waker_fn(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    struct WakerFn<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Wake for WakerFn<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Waker::from(Arc::new(WakerFn(wake)))
}
