//! Time for streams: [`StreamExt::idle_timeout`], [`StreamExt::throttle`] and [`IntervalStream`].
//!
//! The semantics are those of tokio-stream's `StreamExt::timeout`, `StreamExt::throttle` and
//! `wrappers::IntervalStream`.
//!
//! If tokio-stream's `StreamExt` is imported too, `.throttle(..)` is ambiguous. Name the trait
//! then: `tickwheel_util::stream::StreamExt::throttle(stream, duration)`.
//!
//! None of these panics when the timer's runtime has shut down.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use tickwheel::error::Elapsed;
use tickwheel::{Instant, Interval, Sleep, Timer};
use tokio::task::coop;

use crate::access::access_within;
use crate::budget::poll_after_inner;

/// A longer pause, 146 years, exceeds the range of a timer.
const LONGEST_PAUSE: Duration = Duration::from_secs(146 * 365 * 24 * 60 * 60);

/// Methods for every [`Stream`].
pub trait StreamExt: Stream {
    /// Yields an [`Elapsed`] for each gap between two items that is longer
    /// than `timeout`, on the current runtime's own timer. The first gap begins now. It panics as
    /// [`Timer::current`] does.
    ///
    /// ```
    /// # use futures::{StreamExt as _, stream};
    /// # use tickwheel::Duration;
    /// # use tickwheel_util::stream::StreamExt as _;
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let one_event = stream::iter(["event"]).chain(stream::pending());
    /// let mut events = one_event.idle_timeout(Duration::from_secs(1));
    /// assert_eq!(events.next().await, Some(Ok("event")));
    /// assert!(matches!(events.next().await, Some(Err(_elapsed))), "one for the gap");
    /// # });
    /// ```
    #[track_caller]
    fn idle_timeout(self, timeout: Duration) -> IdleTimeout<Self>
    where
        Self: Sized,
    {
        IdleTimeout::new_on(&Timer::current(), self, timeout)
    }

    /// Pauses for `duration` after each item, likewise on the current runtime's own timer.
    ///
    /// ```
    /// # use futures::{StreamExt as _, stream};
    /// # use tickwheel::Duration;
    /// # use tickwheel_util::stream::StreamExt as _;
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let slow = stream::iter(1..=3).throttle(Duration::from_secs(1)); // three seconds in all
    /// assert_eq!(slow.collect::<Vec<_>>().await, [1, 2, 3]);
    /// # });
    /// ```
    #[track_caller]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new_on(&Timer::current(), self, duration)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

pin_project! {
    /// A stream that yields an [`Elapsed`] for each gap that is too long:
    /// [`StreamExt::idle_timeout`]. For a stream of bytes, such as a
    /// socket, see
    /// [`tickwheel::io::IdleTimeout`].
    ///
    /// - **One for each gap.** After it the stream waits for the next item, however long that
    ///   takes, unlike tokio-stream's `timeout_repeating`.
    /// - **Gaps.** The first begins at the construction, each later one with an item. The end of
    ///   the stream ends the last one. A ready item wins, even over a gap that is over.
    /// - **Zero** reports each item that is not ready by the next tick. [`Duration::MAX`] reports
    ///   none.
    /// - **When the timer's runtime has shut down**, a stream that waits in another runtime yields
    ///   one [`Elapsed`] at once. After that, items pass without a timeout.
    /// - **Cancel safe.** Dropping `next()` loses no item, and the gap goes on. It is fused.
    /// - **Cost.** A gap is armed when the stream has to wait. A ready item takes no lock.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct IdleTimeout<S> {
        #[pin]
        stream: S,
        // None once its runtime has shut down.
        timer: Option<Timer>,
        timeout: Duration,
        // The rest of the current gap. None once it was reported, and after the end.
        gap: Option<Sleep>,
        is_at_end: bool,
    }
}

impl<S> IdleTimeout<S> {
    /// Like [`StreamExt::idle_timeout`], on this timer.
    pub fn new_on(timer: &Timer, stream: S, timeout: Duration) -> IdleTimeout<S> {
        IdleTimeout {
            stream,
            gap: Some(timer.sleep(timeout)),
            timer: Some(timer.clone()),
            timeout,
            is_at_end: false,
        }
    }

    access_within!(pinned stream: S);
}

impl<S: Stream> Stream for IdleTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.is_at_end {
            return Poll::Ready(None);
        }
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            *this.is_at_end = item.is_none();
            // This disarms an armed gap. The new one is armed when it waits.
            let timer = this.timer.as_ref().filter(|_| item.is_some());
            *this.gap = timer.map(|timer| timer.sleep(*this.timeout));
            return Poll::Ready(item.map(Ok));
        }
        let Some(gap) = this.gap else {
            return Poll::Pending;
        };
        let end = ready!(poll_after_inner(had_budget, cx, |cx| gap.try_poll(cx)));
        *this.gap = None;
        if end.is_err() {
            *this.timer = None;
        }
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    /// An [`Elapsed`] may come between two items, before the first and after the last one.
    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_at_end {
            return (0, Some(0));
        }
        let (least, most) = self.stream.size_hint();
        if self.timer.is_none() {
            return (least, most);
        }
        let unreported = usize::from(self.gap.is_some());
        let most = most.and_then(|most| most.checked_mul(2)?.checked_add(unreported));
        (least, most)
    }
}

impl<S: Stream> FusedStream for IdleTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.is_at_end
    }
}

/// The ticks of an [`Interval`] as a [`Stream`] of their scheduled instants. It ends only if the
/// timer's runtime has shut down while another runtime polls it. Dropping `next()` loses no tick.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct IntervalStream {
    interval: Interval,
    is_at_end: bool,
}

impl IntervalStream {
    /// Wraps an interval.
    pub fn new(interval: Interval) -> IntervalStream {
        IntervalStream {
            interval,
            is_at_end: false,
        }
    }

    /// Returns the interval.
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        if self.is_at_end {
            return Poll::Ready(None);
        }
        let tick = ready!(self.interval.try_poll_tick(cx)).ok();
        self.is_at_end = tick.is_none();
        Poll::Ready(tick)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_at_end {
            return (0, Some(0));
        }
        (usize::MAX, None)
    }
}

impl FusedStream for IntervalStream {
    fn is_terminated(&self) -> bool {
        self.is_at_end
    }
}

impl From<Interval> for IntervalStream {
    fn from(interval: Interval) -> IntervalStream {
        IntervalStream::new(interval)
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}

pin_project! {
    /// A stream that pauses after each item: [`StreamExt::throttle`].
    ///
    /// The pause begins when an item is yielded. During it the inner stream is not polled, so its
    /// end comes after the pause too. A pause longer than 146 years, such as [`Duration::MAX`],
    /// never ends. Dropping `next()` loses no item, and the pause goes on. When the timer's runtime
    /// has shut down, items pass without a pause. It is fused if the inner stream is.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        timer: Timer,
        duration: Duration,
        // The inner stream is not polled before its end, so no item is kept here.
        pause: Option<Sleep>,
    }
}

impl<S> Throttle<S> {
    /// Like [`StreamExt::throttle`], on this timer.
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
