//! The [`Throttle`]: a shortest time between two items.
//!
//! Invariant: the stream within is not polled before `pause` is over. So what is held up is the
//! stream itself, and no item is kept here.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

use crate::future::ended::Ended;
use crate::time::tick::Moment;
use crate::{Sleep, Timer};

pin_project! {
    /// A stream with a shortest time between two items:
    /// [`StreamExt::throttle`](super::StreamExt::throttle).
    ///
    /// It behaves as tokio-stream's does. The pause begins when an item is given. While it lasts
    /// the stream within is not polled, so its end also comes after the pause. A duration of zero
    /// holds nothing up. One that is longer than a timer counts, 146 years, gives one item, as
    /// [`Duration::MAX`] does. The size hint and the end are those of the stream within: it is
    /// fused if that is.
    ///
    /// # When the timer's runtime has shut down
    ///
    /// Nothing is held up any more: items pass as they come, also one whose pause has begun.
    ///
    /// # Cancel safety
    ///
    /// If `next()` is dropped before it is ready, no item is lost and the pause goes on.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        timer: Timer,
        duration: Duration,
        pause: Option<Sleep>,
    }
}

impl<S> Throttle<S> {
    /// As [`StreamExt::throttle`](super::StreamExt::throttle), on this timer.
    pub fn with_timer(timer: &Timer, stream: S, duration: Duration) -> Throttle<S> {
        Throttle {
            stream,
            timer: timer.clone(),
            duration,
            pause: None,
        }
    }

    /// The stream within.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream within, to be changed. An item that is taken from it begins no pause.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// As [`get_mut`](Throttle::get_mut), for a stream that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if let Some(pause) = this.pause {
            let ended = ready!(pause.poll_ended(cx));
            if ended == Ended::Elapsed && *this.duration > Moment::MAX.since_epoch() {
                // The sleep has come to the end of what a timer counts, which is not the pause's.
                return Poll::Pending;
            }
            // If the runtime has shut down, nobody can tell when the pause is over.
            *this.pause = None;
        }
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() && !this.duration.is_zero() {
            *this.pause = Some(this.timer.sleep(*this.duration));
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<S: FusedStream> FusedStream for Throttle<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
