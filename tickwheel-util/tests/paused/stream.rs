//! The adapters for streams, beside tokio-stream's.

use futures::StreamExt as _;
use futures::stream::{self, FusedStream, Stream};
use tickwheel::{Duration, Instant, Timer, interval, sleep};
use tickwheel_util::future::FutureExt as _;
use tickwheel_util::stream::{IdleTimeout, IntervalStream, StreamExt as _, Throttle};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, SECOND, assert_nothing_armed, without_a_budget};

/// Items that come after these pauses, in milliseconds, numbered; then the end.
fn after_pauses(pauses: &[u64]) -> impl Stream<Item = usize> + Unpin + use<> {
    let pauses = pauses.to_vec();
    let items = stream::iter(pauses.into_iter().enumerate());
    Box::pin(items.then(async |(number, pause)| {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        number
    }))
}

/// What comes, in milliseconds from now on.
async fn timed<S: Stream>(stream: S) -> Vec<(u128, S::Item)> {
    let start = Instant::now();
    let stamped = stream.map(|item| (start.elapsed().as_millis(), item));
    stamped.collect().await
}

/// A channel whose items have an idle timeout of a second.
fn channel() -> (
    mpsc::UnboundedSender<u8>,
    task::Spawn<IdleTimeout<UnboundedReceiverStream<u8>>>,
) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let items = UnboundedReceiverStream::new(receiver).idle_timeout(SECOND);
    (sender, task::spawn(items))
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_tells_each_gap_as_tokio_streams_does() {
    let gaps = [[10, 5000, 900], [999, 1001, 1], [0, 2500, 2500], [0, 0, 0]];
    for pauses in gaps.map(Vec::from).into_iter().chain([vec![]]) {
        let ours = timed(after_pauses(&pauses).idle_timeout(SECOND).map(Result::ok)).await;
        let theirs = tokio_stream::StreamExt::timeout(after_pauses(&pauses), SECOND);
        assert_eq!(ours, timed(theirs.map(Result::ok)).await, "{pauses:?}");
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_ready_wins_over_a_gap() {
    for is_without_budget in [false, true] {
        let (sender, mut items) = channel();
        assert_pending!(items.poll_next());
        sender.send(1).unwrap();
        sleep(HOUR).await;
        if is_without_budget {
            assert_pending!(without_a_budget(|| items.poll_next()).await);
            assert!(items.is_woken());
        }
        assert_eq!(assert_ready!(items.poll_next()), Some(Ok(1)));
        let start = Instant::now();
        assert!(items.next().await.unwrap().is_err());
        assert_eq!(start.elapsed(), SECOND, "the next gap begins with the item");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_wakes_the_stream_after_a_told_gap() {
    let (sender, mut items) = channel();
    assert_pending!(items.poll_next());
    sleep(SECOND).await;
    assert!(items.is_woken());
    assert!(assert_ready!(items.poll_next()).unwrap().is_err());
    assert_pending!(items.poll_next());
    assert_nothing_armed();
    sender.send(1).unwrap();
    assert!(items.is_woken());
    assert_eq!(assert_ready!(items.poll_next()), Some(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_of_zero_and_the_longest() {
    let items = timed(after_pauses(&[0, 10]).idle_timeout(Duration::ZERO)).await;
    let told = items.iter().filter(|(_, item)| item.is_err()).count();
    assert!(told <= 2 && items.len() == 2 + told);
    assert_eq!(items.last().unwrap().0, 10, "at the item's own time");
    let patient = timed(after_pauses(&[1_000_000_000]).idle_timeout(Duration::MAX)).await;
    assert_eq!(patient, [(1_000_000_000, Ok(0))]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_is_fused() {
    // Panics when it is polled after its end.
    let ends_once = stream::unfold(1, async |left| (left > 0).then_some((left, left - 1)));
    let mut items = Box::pin(ends_once.idle_timeout(SECOND));
    assert_eq!(items.next().await, Some(Ok(1)));
    assert!(!items.is_terminated());
    for _ in 0..3 {
        assert_eq!(items.next().await, None);
        assert!(items.is_terminated());
        assert_eq!(items.size_hint(), (0, Some(0)));
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn size_hints_leave_room_for_the_gaps() {
    let mut items = stream::iter(0..3).idle_timeout(SECOND);
    assert_eq!(items.size_hint(), (3, Some(7)));
    items.next().await;
    assert_eq!(items.size_hint(), (2, Some(5)));
    let mut told = Box::pin(stream::pending::<()>().idle_timeout(SECOND));
    assert!(told.next().await.unwrap().is_err());
    assert_eq!(told.size_hint(), (0, Some(0)), "its one gap was told");
    let endless = stream::repeat(0).idle_timeout(SECOND);
    assert_eq!(endless.size_hint(), (usize::MAX, None));
    let throttled = stream::iter(0..3).throttle(SECOND);
    assert_eq!(throttled.size_hint(), (3, Some(3)));
}

#[tokio::test(start_paused = true)]
async fn a_throttle_is_as_tokio_streams_and_holds_the_end_up_too() {
    for pauses in [&[][..], &[0, 0, 0], &[500, 500, 3000, 0], &[2000, 999]] {
        for duration in [Duration::ZERO, MS, SECOND] {
            let ours = timed(after_pauses(pauses).throttle(duration)).await;
            let theirs = tokio_stream::StreamExt::throttle(after_pauses(pauses), duration);
            assert_eq!(ours, timed(theirs).await, "{pauses:?} {duration:?}");
        }
    }
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

#[tokio::test(start_paused = true)]
async fn a_future_takes_its_timeout_as_a_method() {
    let start = Instant::now();
    assert_eq!(async { 7 }.timeout(SECOND).await, Ok(7));
    assert!(std::future::pending::<()>().timeout(SECOND).await.is_err());
    let pending = std::future::pending::<()>();
    assert!(pending.timeout_at(start + 3 * SECOND).await.is_err());
    assert_eq!(start.elapsed(), 3 * SECOND);
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
}
