//! [`Fuse`]: a stream that ends once, whatever the inner one does after its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

pin_project! {
    /// Drops the inner stream at its end.
    #[derive(Debug)]
    pub(super) struct Fuse<S> {
        #[pin]
        stream: Option<S>,
    }
}

impl<S> Fuse<S> {
    pub(super) fn new(stream: S) -> Fuse<S> {
        Fuse {
            stream: Some(stream),
        }
    }
}

impl<S: Stream> Stream for Fuse<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut inner = self.project().stream;
        let Some(stream) = inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let item = ready!(stream.poll_next(cx));
        if item.is_none() {
            inner.set(None);
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let hint = self.stream.as_ref().map(S::size_hint);
        hint.unwrap_or((0, Some(0)))
    }
}

impl<S: Stream> FusedStream for Fuse<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_none()
    }
}
