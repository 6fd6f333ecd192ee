//! A program written for tokio-util's `DelayQueue` compiles after a change of its `use` line, and
//! panics where it did. What its calls do the oracle compares, but for what is held here: lengths
//! of time, places, budgets, and runtimes that end.

use std::fmt::Debug;
use std::future::poll_fn;
use std::hash::Hash;
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use tickwheel::{Duration, Instant};
use tickwheel_util::time::DelayQueue;
use tokio::task::coop;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, SECOND, current_thread, multi_thread, panic_of, poll_once};
use crate::paused_clock::paused;

macro_rules! shapes {
    ($name:ident, $($time:ident)::+) => {
        mod $name {
            use super::*;
            use $($time)::+::delay_queue::{self, Expired, Key};
            use $($time)::+::DelayQueue;

            type Queue = DelayQueue<u8>;

            pub(super) fn items() {
                let _: fn() -> Queue = delay_queue::DelayQueue::new;
                let _: fn() -> Queue = Default::default;
                let _: fn(usize) -> Queue = DelayQueue::with_capacity;
                let _: fn(&mut Queue, u8, Duration) -> Key = DelayQueue::insert;
                let _: fn(&mut Queue, u8, Instant) -> Key = DelayQueue::insert_at;
                let _: fn(&mut Queue, &Key, Duration) = DelayQueue::reset;
                let _: fn(&mut Queue, &Key, Instant) = DelayQueue::reset_at;
                let _: fn(&mut Queue, &Key) -> Expired<u8> = DelayQueue::remove;
                let _: fn(&mut Queue, &Key) -> Option<Expired<u8>> = DelayQueue::try_remove;
                let _: fn(&mut Queue, &mut Context<'_>) -> Poll<Option<Expired<u8>>> =
                    DelayQueue::poll_expired;
                let _: fn(&Queue, &Key) -> Instant = DelayQueue::deadline;
                let _: fn(&Queue) -> Option<Key> = DelayQueue::peek;
                let _: [fn(&Queue) -> usize; 2] = [DelayQueue::len, DelayQueue::capacity];
                let _: fn(&Queue) -> bool = DelayQueue::is_empty;
                let _: fn(&mut Queue, usize) = DelayQueue::reserve;
                let _: [fn(&mut Queue); 3] =
                    [DelayQueue::clear, DelayQueue::shrink_to_fit, DelayQueue::compact];
                let _: fn(&Expired<u8>) -> &u8 = Expired::get_ref;
                let _: fn(&mut Expired<u8>) -> &mut u8 = Expired::get_mut;
                let _: fn(Expired<u8>) -> u8 = Expired::into_inner;
                let _: fn(&Expired<u8>) -> Instant = Expired::deadline;
                let _: fn(&Expired<u8>) -> Key = Expired::key;
                key::<Key>();
                shared::<Queue>();
                shared::<Expired<u8>>();
                unpin::<DelayQueue<PhantomPinned>>();
                stream::<DelayQueue<PhantomPinned>, Expired<PhantomPinned>>();
            }

            /// Where a misuse panics.
            pub(super) fn places() -> Vec<String> {
                let key_of_none = || {
                    let mut queue = Queue::new();
                    let key = queue.insert(7, SECOND);
                    queue.remove(&key);
                    (queue, key)
                };
                let misuses: [fn(Queue, Key); 4] = [
                    |mut queue, key| _ = queue.remove(&key),
                    |mut queue, key| queue.reset(&key, SECOND),
                    |mut queue, key| queue.reset_at(&key, Instant::now()),
                    |queue, key| _ = queue.deadline(&key),
                ];
                let places = misuses.map(|misuse| {
                    let (queue, key) = key_of_none();
                    panic_of(|| misuse(queue, key)).1
                });
                places.into()
            }
        }
    };
}

fn key<T: Copy + Debug + Hash + Eq + Send + Sync>() {}
fn shared<T: Send + Sync + Debug>() {}
fn unpin<T: Unpin>() {}
fn stream<T: Stream<Item = I>, I>() {}

shapes!(with_tokio_util, tokio_util::time);
shapes!(with_the_crate, tickwheel_util::time);

#[tokio::test(start_paused = true)]
async fn its_items_are_tokio_utils_and_panic_at_the_callers_line() {
    with_tokio_util::items();
    with_the_crate::items();
    assert_eq!(with_tokio_util::places().len(), 4);
    for place in with_the_crate::places() {
        assert!(place.starts_with(file!()), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn any_delay_is_taken_after_any_uptime() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    let mut queue = DelayQueue::new();
    let far = queue.insert("the end of time", Duration::MAX);
    for years in [1, 3, 90] {
        for wait in [years * YEAR, 5 * MS] {
            let start = Instant::now();
            let key = queue.insert("in time", wait);
            assert!(queue.deadline(&key) < queue.deadline(&far));
            let expired = queue.next().await.unwrap();
            assert_eq!((expired.key(), start.elapsed()), (key, wait));
        }
    }
    assert_eq!(queue.peek(), Some(far));
    queue.reset(&far, MS);
    queue.reset(&far, Duration::MAX);
    assert!(queue.deadline(&far) > Instant::now() + 50 * YEAR);
}

#[test]
fn it_is_made_and_filled_anywhere_and_waits_where_it_is_polled() {
    let mut queue = DelayQueue::new();
    queue.insert("soon", MS);
    let panics = catch_unwind(AssertUnwindSafe(|| poll_once(&mut queue.next()).is_ready()));
    assert!(panics.is_err(), "there is nothing to wait on");
    let expired = multi_thread(1).block_on(queue.next()).unwrap();
    assert!(expired.deadline() <= Instant::now());
    // It is empty, so the next runtime may be another one.
    queue.insert("later", MS);
    let expired = current_thread().block_on(queue.next()).unwrap();
    assert_eq!(expired.into_inner(), "later");
}

#[test]
fn once_its_runtime_has_shut_down_a_wait_panics() {
    let (first, second) = (paused(), paused());
    let mut queue = DelayQueue::new();
    queue.insert("far", HOUR);
    first.block_on(async { assert!(poll_once(&mut queue.next()).is_pending()) });
    drop(first);
    second.block_on(async {
        let (message, _) = panic_of(|| poll_once(&mut queue.next()));
        assert!(message.contains("shut down"), "{message}");
        queue.clear();
        queue.insert("near", MS);
        assert_eq!(queue.next().await.unwrap().into_inner(), "near");
    });
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_is_reset_puts_no_earlier_value_off() {
    let start = Instant::now();
    let mut queue = task::spawn(DelayQueue::new());
    queue.insert(0, 5_000 * MS);
    let crowd: Vec<_> = (1..=1_000)
        .map(|number| queue.insert(number, 20_000 * MS))
        .collect();
    assert_pending!(queue.poll_next());
    for key in &crowd {
        queue.reset(key, 10_000 * MS);
    }
    // Nothing has polled since then.
    tokio::time::sleep_until(start + 5_001 * MS).await;
    assert!(queue.is_woken());
    let first = assert_ready!(queue.poll_next()).unwrap();
    assert_eq!(first.into_inner(), 0);
}

/// Between two lines of tokio's grid, at the instant at which the queue was made.
#[tokio::test(start_paused = true)]
async fn a_past_value_wakes_the_waiting_task_at_once() {
    tokio::time::advance(MS / 3).await;
    let mut queue = task::spawn(DelayQueue::new());
    queue.insert(1, SECOND);
    assert_pending!(queue.poll_next());
    queue.insert_at(2, Instant::now() - SECOND);
    assert!(queue.is_woken());
}

/// As the page of the queue and MIGRATION tell. Those of tokio-util are 192 and 8 in 0.7.20.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_queue_and_its_keys_are_as_large_as_the_pages_tell() {
    use tickwheel_util::time::delay_queue;
    use tokio_util::time::delay_queue as peers;

    let ours = (
        size_of::<delay_queue::DelayQueue<u64>>(),
        size_of::<delay_queue::Key>(),
    );
    assert_eq!(ours, (296, 16));
    let theirs = (size_of::<peers::DelayQueue<u64>>(), size_of::<peers::Key>());
    assert!(theirs.0 < ours.0 && theirs.1 < ours.1, "{theirs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clear_wakes_the_task_even_if_the_drop_of_a_value_panics() {
    #[derive(Debug)]
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    let mut queue = task::spawn(DelayQueue::new());
    queue.insert(Panics, SECOND);
    assert_pending!(queue.poll_next());
    catch_unwind(AssertUnwindSafe(|| queue.clear())).unwrap_err();
    assert!(queue.is_woken());
    assert!(assert_ready!(queue.poll_next()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_task_for_which_all_is_ready_lets_others_run() {
    // A value takes one unit, also the first of its tick, for which the timer is polled.
    for apart in [Duration::ZERO, MS] {
        let mut queue = DelayQueue::new();
        for value in 0..1_000 {
            queue.insert(value, value * apart);
        }
        tokio::time::sleep(2 * SECOND).await;
        tokio::task::yield_now().await;
        let taken = poll_fn(|cx| {
            let is_ready = |_: &u32| queue.poll_next_unpin(cx).is_ready();
            Poll::Ready((0..1_000).take_while(is_ready).count())
        });
        assert_eq!(taken.await, 128, "the budget of a task");
        tokio::task::yield_now().await;
    }
}

/// The last unit of the budget is enough for a value whose tick the timer has come to.
#[tokio::test(start_paused = true)]
async fn a_value_comes_for_the_last_unit_of_the_budget() {
    let mut queue = task::spawn(DelayQueue::new());
    queue.insert(1, SECOND);
    assert_pending!(queue.poll_next());
    tokio::time::sleep(SECOND).await;
    let taken = poll_fn(|cx| {
        use_up_the_budget_but_one(cx);
        Poll::Ready(queue.poll_next())
    });
    assert_eq!(assert_ready!(taken.await).unwrap().into_inner(), 1);
    tokio::task::yield_now().await;
}

fn use_up_the_budget_but_one(cx: &mut Context<'_>) {
    while let Poll::Ready(unit) = coop::poll_proceed(cx) {
        if !coop::has_budget_remaining() {
            return; // this one is given back
        }
        unit.made_progress();
    }
}

/// The paused clock of a runtime runs ahead, and the next runtime has a clock of its own.
#[test]
fn an_empty_queue_goes_by_the_clock_of_its_next_runtime() {
    let hour = Duration::from_secs(3600);
    let mut queue = DelayQueue::new();
    for is_at in [false, true, false] {
        paused().block_on(async {
            for wait in [200 * MS, hour] {
                let start = Instant::now();
                let key = if is_at {
                    queue.insert_at((), start + wait)
                } else {
                    queue.insert((), wait)
                };
                assert!(queue.deadline(&key) - start >= wait);
                queue.next().await.unwrap();
                assert!(start.elapsed() >= wait);
            }
        });
    }
}
