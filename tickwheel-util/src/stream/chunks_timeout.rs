//! [`ChunksTimeout`]: items in chunks, bounded by size and by time.
//!
//! Invariant: the sleep is there while a chunk has items, and was made with its first one.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tickwheel::{Sleep, Timer};
use tokio::task::coop;

use super::fuse::Fuse;
use crate::budget::poll_after_inner;

pin_project! {
    /// A stream of chunks of items:
    /// [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout).
    ///
    /// A chunk is never empty. It is yielded when it has `max_size` items, when its time is up
    /// and the inner stream has no item ready, and at the end of the stream. It behaves like
    /// tokio-stream's `ChunksTimeout`. What differs is said below: the budget and the memory.
    ///
    /// - **Its time** begins with its first item. While no item has come, nothing is armed.
    /// - **Ready items come first**, up to `max_size`, even past the time. But the time is checked
    ///   once they have used up the task's budget. So a channel that is never empty does not delay
    ///   a chunk, unlike with tokio-stream.
    /// - **Zero** yields what came by the next tick. [`Duration::MAX`] yields full chunks only, and
    ///   the rest at the end.
    /// - **The end** of the stream yields the last chunk at once. After it the inner stream is
    ///   dropped. The stream is fused.
    /// - **When the timer's runtime has shut down**, a chunk is yielded as soon as the inner stream
    ///   has to wait.
    /// - **Cancel safe.** Dropping `next()` loses no item: the items stay for the next call. Before
    ///   dropping the stream, take them by [`into_remainder`](ChunksTimeout::into_remainder).
    /// - **Cost.** A chunk that has to wait takes two short locks of the timer's shard. Its memory
    ///   grows with its items, and `max_size` reserves nothing, unlike with tokio-stream.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: Fuse<S>,
        timer: Timer,
        max_size: usize,
        duration: Duration,
        items: Vec<S::Item>,
        sleep: Option<Sleep>,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    /// Like [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout), on this timer.
    ///
    /// # Panics
    ///
    /// If `max_size` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt, executor::block_on, stream};
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::stream::ChunksTimeout;
    ///
    /// // Under an executor that is not tokio's.
    /// let lines = stream::iter(["one", "two"]).chain(stream::pending());
    /// let soon = Duration::from_millis(1);
    /// let mut writes = ChunksTimeout::new_on(Timer::global(), lines, 100, soon);
    /// assert_eq!(block_on(writes.next()), Some(vec!["one", "two"]));
    /// ```
    #[track_caller]
    pub fn new_on(
        timer: &Timer,
        stream: S,
        max_size: usize,
        duration: Duration,
    ) -> ChunksTimeout<S> {
        assert!(max_size > 0, "`max_size` must be non-zero.");
        ChunksTimeout {
            stream: Fuse::new(stream),
            timer: timer.clone(),
            max_size,
            duration,
            items: Vec::new(),
            sleep: None,
        }
    }

    /// Takes the items of the chunk that was not yielded yet.
    ///
    /// It is for a consumer that stops before the end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// use futures::{FutureExt, StreamExt as _, stream};
    /// use tickwheel::Duration;
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # tokio_test::block_on(async {
    /// let rows = stream::iter(1..=2).chain(stream::pending());
    /// let mut inserts = pin!(rows.chunks_timeout(3, Duration::from_secs(60)));
    /// assert_eq!(inserts.next().now_or_never(), None, "it waits for a third one");
    /// assert_eq!(inserts.into_remainder(), [1, 2]); // the program stops
    /// # });
    /// ```
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        let this = self.project();
        *this.sleep = None;
        mem::take(this.items)
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<S::Item>>> {
        // Before the first poll of the inner stream, not before its last one: otherwise items that
        // use the budget up in every poll would keep the time from being checked.
        let had_budget = coop::has_budget_remaining();
        let mut this = self.as_mut().project();
        loop {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.sleep.is_none() {
                        *this.sleep = Some(this.timer.sleep(*this.duration));
                    }
                    this.items.push(item);
                    if this.items.len() == *this.max_size {
                        break;
                    }
                }
                Poll::Ready(None) if this.items.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => break,
                Poll::Pending => {
                    let Some(sleep) = this.sleep else {
                        return Poll::Pending;
                    };
                    // The end of the timer's runtime ends the chunk too.
                    let _ = ready!(poll_after_inner(had_budget, cx, |cx| sleep.try_poll(cx)));
                    break;
                }
            }
        }
        Poll::Ready(Some(self.into_remainder()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.stream.size_hint();
        let taken = self.items.len();
        let least = least.saturating_add(taken).div_ceil(self.max_size);
        let most = most.and_then(|most| most.checked_add(usize::from(taken > 0)));
        (least, most)
    }
}

impl<S: Stream> FusedStream for ChunksTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
