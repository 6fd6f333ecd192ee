//! `ChunksTimeout` polled by hand.

use futures::StreamExt as _;
use futures::stream::{self, FusedStream as _, Stream as _};
use tickwheel::{Duration, Instant, Timer, sleep};
use tickwheel_util::stream::{ChunksTimeout, StreamExt as _};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_test::{assert_pending, assert_ready, task};

use super::channel;
use crate::common::{HOUR, MS, SECOND, assert_nothing_armed, current_thread};

type Chunks = task::Spawn<ChunksTimeout<UnboundedReceiverStream<u8>>>;

fn into_remainder(chunks: &mut Chunks) -> Vec<u8> {
    chunks.enter(|_, chunks| chunks.into_remainder())
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_armed_only_while_items_wait() {
    let (sender, items) = channel();
    let mut chunks = task::spawn(items.chunks_timeout(3, SECOND));
    assert_pending!(chunks.poll_next());
    assert_nothing_armed();
    sleep(HOUR).await;
    for number in 1..=2 {
        sender.send(number).unwrap();
        assert_pending!(chunks.poll_next());
        assert_eq!(Timer::current().metrics().pending(), 1);
        sleep(SECOND / 4).await;
    }
    sender.send(3).unwrap();
    assert_eq!(assert_ready!(chunks.poll_next()), Some(vec![1, 2, 3]));
    assert_nothing_armed();
    // The time of the next chunk begins with its first item.
    sender.send(4).unwrap();
    assert_pending!(chunks.poll_next());
    sleep(SECOND - MS).await;
    assert!(!chunks.is_woken());
    sleep(MS).await;
    assert!(chunks.is_woken());
    assert_eq!(assert_ready!(chunks.poll_next()), Some(vec![4]));
    assert_pending!(chunks.poll_next());
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_loses_no_item() {
    let (sender, items) = channel();
    let mut chunks = items.chunks_timeout(3, SECOND);
    sender.send(1).unwrap();
    let start = Instant::now();
    for _ in 0..3 {
        assert_pending!(task::spawn(chunks.next()).poll());
        sleep(SECOND / 4).await;
    }
    sender.send(2).unwrap();
    assert_eq!(chunks.next().await, Some(vec![1, 2]));
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_remainder_is_taken_with_its_time() {
    let (sender, items) = channel();
    let mut chunks = task::spawn(items.chunks_timeout(3, SECOND));
    sender.send(1).unwrap();
    assert_pending!(chunks.poll_next());
    assert_eq!(into_remainder(&mut chunks), [1]);
    assert_nothing_armed();
    assert!(into_remainder(&mut chunks).is_empty());
    // It can be used after that. Its next chunk has the whole time.
    sleep(SECOND / 2).await;
    sender.send(2).unwrap();
    let start = Instant::now();
    assert_eq!(chunks.next().await, Some(vec![2]));
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_end_gives_the_last_chunk_at_once_and_is_fused() {
    // Panics when it is polled after its end.
    let ends_once = stream::unfold(5, async |left| (left > 0).then_some((left, left - 1)));
    let mut chunks = Box::pin(ends_once.chunks_timeout(3, HOUR));
    let start = Instant::now();
    assert_eq!(chunks.next().await, Some(vec![5, 4, 3]));
    assert!(!chunks.is_terminated());
    assert_eq!(chunks.next().await, Some(vec![2, 1]));
    for _ in 0..3 {
        assert_eq!(chunks.next().await, None);
        assert!(chunks.is_terminated());
        assert_eq!(chunks.size_hint(), (0, Some(0)));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_waits_for_full_chunks() {
    let (sender, items) = channel();
    let mut chunks = task::spawn(items.chunks_timeout(2, Duration::MAX));
    sender.send(1).unwrap();
    assert_pending!(chunks.poll_next());
    sleep(100_000 * HOUR).await;
    assert_pending!(chunks.poll_next());
    sender.send(2).unwrap();
    assert_eq!(assert_ready!(chunks.poll_next()), Some(vec![1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_large_size_reserves_nothing() {
    let mut chunks = stream::iter(0..3).chunks_timeout(usize::MAX, SECOND);
    assert_eq!(chunks.size_hint(), (1, Some(3)));
    let chunk = chunks.next().await.unwrap();
    assert!(chunk.len() == 3 && chunk.capacity() < 100);
}

#[tokio::test(start_paused = true)]
async fn size_hints_count_what_was_taken() {
    for (items, max_size, least) in [(0, 3, 0), (1, 3, 1), (6, 3, 2), (7, 3, 3), (7, 1, 7)] {
        let chunks = stream::iter(0..items).chunks_timeout(max_size, SECOND);
        assert_eq!(chunks.size_hint(), (least, Some(items)));
    }
    let items = stream::iter(0..2).chain(stream::pending());
    let mut chunks = task::spawn(items.chunks_timeout(3, SECOND));
    assert_pending!(chunks.poll_next());
    assert_eq!(chunks.size_hint(), (1, Some(1)), "the two that were taken");
    let endless = stream::repeat(0).chunks_timeout(3, SECOND);
    assert_eq!(endless.size_hint(), (usize::MAX.div_ceil(3), None));
}

#[test]
fn once_the_timers_runtime_has_shut_down_a_chunk_is_what_is_ready() {
    for has_waited in [false, true] {
        let runtime = current_thread();
        let timer = runtime.block_on(async { Timer::current() });
        let (sender, items) = channel();
        let mut chunks = task::spawn(ChunksTimeout::new_on(&timer, items, 3, HOUR));
        sender.send(1).unwrap();
        if has_waited {
            assert_pending!(chunks.poll_next());
        }
        drop(runtime);
        assert_eq!(chunks.is_woken(), has_waited);
        assert_eq!(assert_ready!(chunks.poll_next()), Some(vec![1]));
        assert_pending!(chunks.poll_next());
        for number in 2..=5 {
            sender.send(number).unwrap();
        }
        assert_eq!(assert_ready!(chunks.poll_next()), Some(vec![2, 3, 4]));
        assert_eq!(assert_ready!(chunks.poll_next()), Some(vec![5]));
    }
}
