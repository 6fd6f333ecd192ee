//! [`Throttle`]: a pause after each item.
//!
//! Invariant: the inner stream is not polled before the end of a pause, so no item is kept here.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tickwheel::{Sleep, Timer};

use crate::access::access_within;

/// A pause longer than this, 146 years, exceeds the range of a timer.
const LONGEST_PAUSE: Duration = Duration::from_secs(146 * 365 * 24 * 60 * 60);

pin_project! {
    /// A stream that pauses after each item:
    /// [`StreamExt::throttle`](super::StreamExt::throttle).
    ///
    /// It behaves like tokio-stream's `Throttle`. The pause begins when an item is yielded. During
    /// it the inner stream is not polled, so its end comes after the pause too. A pause longer than
    /// 146 years, such as [`Duration::MAX`], never ends. Dropping `next()` loses no item, and the
    /// pause goes on. When the timer's runtime has shut down, items pass without a pause. It is
    /// fused if the inner stream is.
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
    /// Like [`StreamExt::throttle`](super::StreamExt::throttle), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt, executor::block_on, stream};
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::stream::Throttle;
    ///
    /// // Under an executor that is not tokio's.
    /// let start = Timer::global().now();
    /// let slow = Throttle::new_on(Timer::global(), stream::iter(1..=3), Duration::from_millis(2));
    /// assert_eq!(block_on(slow.collect::<Vec<_>>()), [1, 2, 3]);
    /// assert!(Timer::global().now() - start >= Duration::from_millis(6));
    /// ```
    pub fn new_on(timer: &Timer, stream: S, duration: Duration) -> Throttle<S> {
        Throttle {
            stream,
            timer: timer.clone(),
            duration,
            pause: None,
        }
    }

    access_within!(pinned stream: S);
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if let Some(pause) = this.pause {
            let end = ready!(pause.try_poll(cx));
            if end.is_ok() && *this.duration > LONGEST_PAUSE {
                // The sleep saturated, and the pause goes on.
                return Poll::Pending;
            }
            // The pause also ends with its timer's runtime.
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
