//! Inner futures for timeouts. The compiler cannot know what they will answer.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Ready at the first poll.
pub struct Once;

impl Future for Once {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if black_box(true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Never ready.
pub struct Never;

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if black_box(false) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
