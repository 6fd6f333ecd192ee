//! The adapters for streams in a task whose budget is used up: before the poll, or by the stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::StreamExt as _;
use futures::stream::Stream;
use tickwheel::{Instant, Timer, interval_at, sleep};
use tickwheel_util::stream::StreamExt as _;
use tokio::task::{coop, yield_now};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, SECOND, assert_nothing_armed, use_up_the_budget, without_a_budget};

/// A stream that waits where it has no item. It obeys the budget of its task.
#[derive(Default)]
struct Scripted {
    items: VecDeque<u8>,
    is_endless: bool,
    /// Whether each poll uses up the budget of its task.
    is_greedy: bool,
}

impl Stream for Scripted {
    type Item = u8;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u8>> {
        let unit = ready!(coop::poll_proceed(cx));
        let item = if self.is_endless {
            Some(0)
        } else {
            self.items.pop_front()
        };
        if item.is_some() {
            unit.made_progress();
        } else {
            drop(unit);
        }
        if self.is_greedy {
            use_up_the_budget(cx);
        }
        item.map_or(Poll::Pending, |item| Poll::Ready(Some(item)))
    }
}

fn greedy() -> Scripted {
    Scripted {
        is_greedy: true,
        ..Scripted::default()
    }
}

/// Uses up what the task has left of its budget in this poll, and counts it.
fn left_of_the_budget(cx: &mut Context<'_>) -> usize {
    let unit = |_: &usize| match coop::poll_proceed(cx) {
        Poll::Ready(unit) => {
            unit.made_progress();
            true
        }
        Poll::Pending => false,
    };
    (0..1_000).take_while(unit).count()
}

/// What an adapter yields without its items.
type Reports = Pin<Box<dyn Stream<Item = ()>>>;

/// Makes an adapter that has something to report once a second has passed since its first poll,
/// although the stream is silent.
type Adapter = fn(Scripted) -> Reports;

const ADAPTERS: [(&str, Adapter); 4] = [
    ("timeout", |items| Box::pin(items.timeout(SECOND).map(drop))),
    ("idle_timeout", |items| {
        Box::pin(items.idle_timeout(SECOND).map(drop))
    }),
    ("timeout_repeating", |items| {
        let seconds = interval_at(Instant::now() + SECOND, SECOND);
        Box::pin(items.timeout_repeating(seconds).map(drop))
    }),
    ("chunks_timeout", |mut items| {
        items.items.push_back(1);
        Box::pin(items.chunks_timeout(9, SECOND).map(drop))
    }),
];

#[tokio::test(start_paused = true)]
async fn a_stream_that_uses_the_budget_up_is_late_by_nothing() {
    for (name, adapter) in ADAPTERS {
        let mut reports = task::spawn(adapter(greedy()));
        // A chunk's item comes first, and uses up the budget too.
        for _ in 0..2 {
            assert_pending!(reports.poll_next());
            yield_now().await;
        }
        sleep(SECOND).await;
        assert!(reports.is_woken(), "{name}");
        assert_ready!(reports.poll_next(), "{name}");
        yield_now().await;
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_time_is_reported_as_soon_as_there_is_a_budget_again() {
    for (name, adapter) in ADAPTERS {
        let mut reports = task::spawn(adapter(Scripted::default()));
        assert_pending!(reports.poll_next());
        sleep(2 * SECOND).await;
        assert_pending!(without_a_budget(|| reports.poll_next()).await, "{name}");
        assert!(reports.is_woken(), "{name} hangs");
        assert_ready!(reports.poll_next(), "{name}");
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn outside_of_the_budget_the_times_are_the_same() {
    for (name, adapter) in ADAPTERS {
        let mut reports = adapter(Scripted::default());
        let start = Instant::now();
        coop::unconstrained(reports.next()).await;
        assert_eq!(start.elapsed(), SECOND, "{name}");
    }
    assert_nothing_armed();
}

/// A loop over what is ready lets other tasks run.
#[tokio::test(start_paused = true)]
async fn a_report_takes_one_unit_of_the_budget() {
    for (name, adapter) in ADAPTERS {
        let mut reports = task::spawn(adapter(Scripted::default()));
        assert_pending!(reports.poll_next());
        sleep(2 * SECOND).await;
        yield_now().await;
        assert_ready!(reports.poll_next(), "{name}");
        let left = poll_fn(|cx| Poll::Ready(left_of_the_budget(cx))).await;
        assert_eq!(left, 127, "{name}: a task has 128");
        yield_now().await;
    }
}

/// A channel that is filled as fast as it is read.
#[tokio::test(start_paused = true)]
async fn items_without_end_do_not_delay_a_chunk() {
    for is_greedy in [false, true] {
        let items = Scripted {
            is_endless: true,
            is_greedy,
            ..Scripted::default()
        };
        let mut chunks = task::spawn(items.chunks_timeout(1_000_000, SECOND));
        assert_pending!(without_a_budget(|| chunks.poll_next()).await);
        assert_nothing_armed();
        assert_pending!(chunks.poll_next());
        yield_now().await;
        assert!(chunks.is_woken(), "there is more");
        assert_eq!(Timer::current().metrics().pending(), 1);
        sleep(SECOND).await;
        let chunk = assert_ready!(chunks.poll_next()).unwrap();
        assert!((2..=256).contains(&chunk.len()));
        yield_now().await;

        let items = Scripted {
            is_endless: true,
            is_greedy,
            ..Scripted::default()
        };
        let theirs = tokio_stream::StreamExt::chunks_timeout(items, 1_000_000, SECOND);
        let mut theirs = task::spawn(theirs);
        for _ in 0..3 {
            assert_pending!(theirs.poll_next(), "the page tells this difference");
            tokio::time::sleep(SECOND).await;
        }
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_full_chunk_is_yielded_in_a_poll_without_a_budget_left() {
    let mut items = greedy();
    items.items.extend([1, 2]);
    let mut chunks = task::spawn(items.chunks_timeout(1, HOUR));
    for number in 1..=2 {
        assert_eq!(assert_ready!(chunks.poll_next()), Some(vec![number]));
        yield_now().await;
    }
}
