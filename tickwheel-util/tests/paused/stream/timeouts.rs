//! The three timeouts for items: what they have in common.

use futures::StreamExt as _;
use futures::stream::{self, FusedStream as _, Stream};
use tickwheel::{Duration, Instant, Timer, interval, sleep};
use tickwheel_util::stream::StreamExt as _;
use tokio_test::{assert_pending, assert_ready, task};

use super::{BOUNDS, after_pauses, channel, timed};
use crate::common::{HOUR, SECOND, assert_nothing_armed, current_thread, without_a_budget};

#[tokio::test(start_paused = true)]
async fn an_item_that_is_ready_wins_over_a_gap() {
    for (name, bound) in BOUNDS {
        for is_without_budget in [false, true] {
            let (sender, items) = channel();
            let mut items = task::spawn(bound(&Timer::current(), items));
            assert_pending!(items.poll_next());
            sender.send(1).unwrap();
            sleep(HOUR).await;
            if is_without_budget {
                assert_pending!(without_a_budget(|| items.poll_next()).await, "{name}");
                assert!(items.is_woken(), "{name}");
            }
            assert_eq!(assert_ready!(items.poll_next()), Some(Ok(1)), "{name}");
            let start = Instant::now();
            assert!(items.next().await.unwrap().is_err());
            assert_eq!(start.elapsed(), SECOND, "{name}: the next gap begins here");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_wakes_the_stream_after_a_reported_gap() {
    for (name, bound) in BOUNDS {
        let (sender, items) = channel();
        let mut items = task::spawn(bound(&Timer::current(), items));
        assert_pending!(items.poll_next());
        sleep(SECOND).await;
        assert!(items.is_woken(), "{name}");
        assert!(assert_ready!(items.poll_next()).unwrap().is_err(), "{name}");
        assert_pending!(items.poll_next(), "{name}");
        let repeats = u64::from(name == "timeout_repeating");
        assert_eq!(
            Timer::current().metrics().pending(),
            repeats as usize,
            "{name}"
        );
        sender.send(1).unwrap();
        assert!(items.is_woken(), "{name}");
        assert_eq!(assert_ready!(items.poll_next()), Some(Ok(1)), "{name}");
    }
}

/// The producer goes on only while it is polled, as a generator does. A timeout around each wait
/// begins with the wait.
#[tokio::test(start_paused = true)]
async fn the_consumers_work_counts_for_a_gap_and_not_for_a_timeout_around_the_wait() {
    let items = || {
        stream::repeat(1).then(async |item| {
            sleep(SECOND / 2).await;
            item
        })
    };
    let mut idle = std::pin::pin!(items().idle_timeout(SECOND));
    assert_eq!(idle.next().await, Some(Ok(1)));
    sleep(2 * SECOND).await; // the consumer works
    let next = idle.next().await.unwrap();
    assert!(next.is_err(), "though the producer is healthy");
    let mut items = std::pin::pin!(items());
    for _ in 0..3 {
        assert_eq!(tickwheel::timeout(SECOND, items.next()).await, Ok(Some(1)));
        sleep(2 * SECOND).await;
    }
}

/// A consumer that drops `next()` in a `select!`.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_loses_no_item_and_the_gap_goes_on() {
    for (name, bound) in BOUNDS {
        let (sender, items) = channel();
        let mut items = bound(&Timer::current(), items);
        let start = Instant::now();
        for _ in 0..3 {
            assert_pending!(task::spawn(items.next()).poll());
            sleep(SECOND / 4).await;
        }
        assert!(items.next().await.unwrap().is_err());
        assert_eq!(start.elapsed(), SECOND, "{name}");
        assert_pending!(task::spawn(items.next()).poll());
        sender.send(1).unwrap();
        assert_eq!(items.next().await, Some(Ok(1)), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_ends_the_gap_and_drops_what_is_armed() {
    for (name, bound) in BOUNDS {
        let (sender, items) = channel();
        let mut items = task::spawn(bound(&Timer::current(), items));
        assert_pending!(items.poll_next());
        drop(sender);
        assert!(items.is_woken(), "{name}");
        for _ in 0..3 {
            assert!(!items.is_terminated() || items.size_hint() == (0, Some(0)));
            assert_eq!(assert_ready!(items.poll_next()), None, "{name}");
            assert!(items.is_terminated(), "{name}");
            assert_nothing_armed();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn none_polls_the_inner_stream_after_its_end() {
    // Panics when it is polled then.
    let ends_once = || stream::unfold(1, async |left| (left > 0).then_some((left, left - 1)));
    let timeout = Box::pin(ends_once().timeout(SECOND));
    let idle = Box::pin(ends_once().idle_timeout(SECOND));
    let repeating = Box::pin(ends_once().timeout_repeating(interval(SECOND)));
    for mut items in [
        timeout as std::pin::Pin<Box<dyn Stream<Item = _>>>,
        idle,
        repeating,
    ] {
        assert_eq!(items.next().await, Some(Ok(1)));
        for _ in 0..3 {
            assert_eq!(items.next().await, None);
            assert_eq!(items.size_hint(), (0, Some(0)));
        }
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn zero_reports_what_is_not_ready_and_the_longest_nothing() {
    for is_idle in [false, true] {
        let bounded = |pauses: &[u64], timeout| {
            let items = after_pauses(pauses);
            if is_idle {
                items.idle_timeout(timeout).left_stream()
            } else {
                items.timeout(timeout).right_stream()
            }
        };
        let items = timed(bounded(&[0, 10], Duration::ZERO)).await;
        let reported = items.iter().filter(|(_, item)| item.is_err()).count();
        assert!((1..=2).contains(&reported) && items.len() == 2 + reported);
        assert_eq!(items.last().unwrap().0, 10, "at the item's own time");
        let patient = timed(bounded(&[1_000_000_000], Duration::MAX)).await;
        assert_eq!(patient, [(1_000_000_000, Ok(0))]);
    }
}

#[tokio::test(start_paused = true)]
async fn size_hints_leave_room_for_the_gaps() {
    let mut items = stream::iter(0..3).timeout(SECOND);
    let mut idle = stream::iter(0..3).idle_timeout(SECOND);
    for expected in [(3, Some(7)), (2, Some(5))] {
        assert_eq!(items.size_hint(), expected);
        assert_eq!(idle.size_hint(), expected);
        items.next().await;
        idle.next().await;
    }
    let mut silent = Box::pin(stream::pending::<()>().timeout(SECOND));
    let mut idle = Box::pin(stream::pending::<()>().idle_timeout(SECOND));
    assert!(silent.next().await.unwrap().is_err());
    assert!(idle.next().await.unwrap().is_err());
    assert_eq!(silent.size_hint(), (0, Some(0)), "its one gap was reported");
    assert_eq!(idle.size_hint(), (0, Some(0)), "its one gap was reported");
    let endless = stream::repeat(0).timeout(SECOND);
    assert_eq!(endless.size_hint(), (usize::MAX, None));
    let repeating = stream::iter(0..3).timeout_repeating(interval(SECOND));
    assert_eq!(repeating.size_hint(), (3, None));
    let throttled = stream::iter(0..3).throttle(SECOND);
    assert_eq!(throttled.size_hint(), (3, Some(3)));
}

#[test]
fn once_the_timers_runtime_has_shut_down_items_pass() {
    for (name, bound) in BOUNDS {
        for has_waited in [false, true] {
            let runtime = current_thread();
            let timer = runtime.block_on(async { Timer::current() });
            let (sender, items) = channel();
            let mut items = task::spawn(bound(&timer, items));
            if has_waited {
                assert_pending!(items.poll_next());
            }
            drop(runtime);
            assert_eq!(items.is_woken(), has_waited, "{name}");
            assert!(assert_ready!(items.poll_next()).unwrap().is_err(), "{name}");
            for item in [1, 2] {
                assert_pending!(items.poll_next(), "{name}");
                assert_eq!(items.size_hint(), (0, None), "{name}");
                sender.send(item).unwrap();
                assert_eq!(assert_ready!(items.poll_next()), Some(Ok(item)), "{name}");
            }
        }
    }
}
