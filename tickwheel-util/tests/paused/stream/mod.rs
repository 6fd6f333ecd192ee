//! The adapters for streams.

mod beside_tokio_stream;
mod budget;
mod chunks_timeout;
mod stalls;
mod timeouts;

use std::pin::Pin;

use futures::StreamExt as _;
use futures::stream::{self, FusedStream, Stream};
use tickwheel::error::Elapsed;
use tickwheel::{Duration, Instant, Timer, interval};
use tickwheel_util::stream::{
    ChunksTimeout, IdleTimeout, IntervalStream, StreamExt as _, Throttle, Timeout, TimeoutRepeating,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, SECOND, assert_nothing_armed};

/// A stream of bytes, each of which may come too late.
type Bounded = Pin<Box<dyn FusedStream<Item = Result<u8, Elapsed>>>>;

/// Bounds a stream on a timer.
type Bound = fn(&Timer, UnboundedReceiverStream<u8>) -> Bounded;

/// The three timeouts, of a second.
const BOUNDS: [(&str, Bound); 3] = [
    ("timeout", |timer, items| {
        Box::pin(Timeout::new_on(timer, items, SECOND))
    }),
    ("idle_timeout", |timer, items| {
        Box::pin(IdleTimeout::new_on(timer, items, SECOND))
    }),
    ("timeout_repeating", |timer, items| {
        let seconds = timer.interval_at(timer.now() + SECOND, SECOND);
        Box::pin(items.timeout_repeating(seconds))
    }),
];

/// A channel as a stream.
fn channel<T>() -> (mpsc::UnboundedSender<T>, UnboundedReceiverStream<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, UnboundedReceiverStream::new(receiver))
}

/// Items that come after these pauses, in milliseconds, numbered; then the end.
fn after_pauses(pauses: &[u64]) -> impl Stream<Item = usize> + Unpin + use<> {
    let pauses = pauses.to_vec();
    let items = stream::iter(pauses.into_iter().enumerate());
    Box::pin(items.then(async |(number, pause)| {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        number
    }))
}

/// The items of a stream, and when each came, in milliseconds from now on.
async fn timed<S: Stream>(stream: S) -> Vec<(u128, S::Item)> {
    let start = Instant::now();
    let stamped = stream.map(|item| (start.elapsed().as_millis(), item));
    stamped.collect().await
}

#[tokio::test(start_paused = true)]
async fn a_throttle_holds_the_end_up_too() {
    let start = Instant::now();
    let mut items = stream::iter(0..3).fuse().throttle(SECOND);
    assert!(!items.is_terminated());
    assert_eq!(items.by_ref().count().await, 3);
    assert!(items.is_terminated());
    assert_eq!(start.elapsed(), 3 * SECOND);
    assert_eq!(items.next().await, None, "no pause follows the end");
    assert_eq!(start.elapsed(), 3 * SECOND);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_throttle_that_is_longer_than_a_timer_counts_gives_one_item() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    for duration in [147 * YEAR, 600 * YEAR, Duration::MAX] {
        let mut items = task::spawn(stream::iter(0..9).throttle(duration));
        assert_eq!(assert_ready!(items.poll_next()), Some(0));
        assert_pending!(items.poll_next());
        tokio::time::advance(146 * YEAR + 200 * 24 * HOUR).await;
        for _ in 0..3 {
            assert_pending!(items.poll_next());
        }
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_throttle_of_a_century_gives_the_next_item_after_it() {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let mut items = task::spawn(stream::iter(0..9).throttle(CENTURY));
    assert_eq!(assert_ready!(items.poll_next()), Some(0));
    assert_pending!(items.poll_next());
    tokio::time::advance(CENTURY).await;
    assert_eq!(assert_ready!(items.poll_next()), Some(1));
}

#[tokio::test(start_paused = true)]
async fn an_interval_gives_its_ticks_as_a_stream() {
    let start = Instant::now();
    let mut ticks = IntervalStream::from(interval(SECOND));
    assert_eq!(ticks.next().await, Some(start));
    assert_eq!(ticks.next().await, Some(start + SECOND));
    assert_eq!(ticks.size_hint(), (usize::MAX, None));
    assert!(!ticks.is_terminated());
    assert_eq!(ticks.as_ref().period(), SECOND);
    ticks.as_mut().reset_after(3 * SECOND);
    assert_eq!(ticks.next().await, Some(start + 4 * SECOND));
    assert_eq!(ticks.into_inner().tick().await, start + 5 * SECOND);
}

#[tokio::test]
async fn the_inner_value_can_be_reached_shown_and_taken_back() {
    fn assert_all<T: Send + Sync + Unpin + std::fmt::Debug>(_: &T) {}
    let timer = Timer::builder().build().unwrap();
    let mut idle = IdleTimeout::new_on(&timer, stream::iter(0..3), SECOND);
    assert_all(&idle);
    assert_eq!(idle.get_mut().next().await, Some(0));
    assert_eq!(idle.get_ref().size_hint(), (2, Some(2)));
    let mut slow = Throttle::new_on(&timer, idle.into_inner(), SECOND);
    assert_all(&slow);
    assert_eq!(slow.get_mut().next().await, Some(1));
    assert_eq!(slow.get_ref().size_hint(), (1, Some(1)));
    assert_eq!(slow.into_inner().next().await, Some(2));
    assert_all(&IntervalStream::new(interval(SECOND)));
    assert_all(&Timeout::new_on(&timer, stream::iter(0..3), SECOND));
    assert_all(&ChunksTimeout::new_on(
        &timer,
        stream::iter(0..3),
        2,
        SECOND,
    ));
    let repeating: TimeoutRepeating<_> = stream::iter(0..3).timeout_repeating(interval(SECOND));
    assert_all(&repeating);
}
