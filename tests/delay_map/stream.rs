//! The stream: what wakes it, what it finds, and what may still happen to a value that it has not
//! given yet.

use std::sync::Arc;
use std::thread;

use futures::stream::StreamExt;
use tickwheel::{DelayMap, Duration, Instant, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, PATIENCE, current_thread, settle};
use crate::{map, take_due};

#[tokio::test(start_paused = true)]
async fn an_insert_or_a_reset_that_is_due_earlier_wakes_the_stream() {
    let (map, mut expirations) = map();
    assert_pending!(expirations.poll_next());
    map.insert(1, (), HOUR).unwrap();
    settle().await;
    assert!(expirations.is_woken(), "the first insert");
    assert_pending!(expirations.poll_next());
    map.insert(2, (), 2 * HOUR).unwrap();
    assert!(!expirations.is_woken(), "a later one does not");
    map.insert(3, (), 10 * MS).unwrap();
    assert!(expirations.is_woken());
    assert_pending!(expirations.poll_next());
    assert!(map.reset(&2, 5 * MS));
    assert!(expirations.is_woken());
    assert_pending!(expirations.poll_next());
    sleep(5 * MS).await;
    assert!(expirations.is_woken());
    assert_eq!(take_due(&mut expirations), [(2, ())]);
    sleep(5 * MS).await;
    assert!(expirations.is_woken());
    assert_eq!(take_due(&mut expirations), [(3, ())]);
    assert!(map.reset(&1, Duration::ZERO));
    assert!(expirations.is_woken(), "also to now");
    assert_eq!(take_due(&mut expirations), [(1, ())]);
}

#[tokio::test(start_paused = true)]
async fn removing_the_last_value_leaves_no_waiter_asleep() {
    let (map, mut expirations) = map();
    map.insert(1, (), 10 * MS).unwrap();
    assert_pending!(expirations.poll_next());
    assert_eq!(map.remove(&1), Some(()));
    assert_eq!(map.remove(&1), None);
    settle().await;
    let _ = expirations.poll_next();
    drop(map);
    assert!(expirations.is_woken());
    assert!(assert_ready!(expirations.poll_next()).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_due_but_not_taken_can_still_be_changed_and_drained() {
    let (map, mut expirations) = map();
    for key in 0..6 {
        map.insert(key, key, 10 * MS).unwrap();
    }
    assert_pending!(expirations.poll_next());
    sleep(10 * MS).await;
    let first = assert_ready!(expirations.poll_next()).unwrap().key;
    let left: Vec<i32> = (0..6).filter(|key| *key != first).collect();
    assert_eq!(map.len(), 5);
    assert_eq!(map.remove(&left[0]), Some(left[0]));
    assert!(map.contains_key(&left[1]) && map.reset(&left[1], 5 * MS));
    assert_eq!(map.insert(left[2], 77, 5 * MS), Ok(Some(left[2])));
    assert_eq!(take_due(&mut expirations).len(), 2);
    sleep(5 * MS).await;
    let mut again = take_due(&mut expirations);
    again.sort();
    assert_eq!(again, [(left[1], left[1]), (left[2], 77)]);
    map.insert(9, 9, MS).unwrap();
    sleep(MS).await;
    assert_eq!(map.drain(), [(9, 9)]);
    assert_pending!(expirations.poll_next());
}

#[tokio::test(start_paused = true)]
async fn the_consumer_may_insert_from_its_own_loop() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    map.insert(0, (), MS).unwrap();
    for round in 0..100 {
        let expired = expirations.next().await.unwrap();
        assert_eq!(expired.key, round);
        map.insert(round + 1, (), (round % 7) as u32 * MS).unwrap();
    }
    assert_eq!(map.drain().len(), 1);
    assert!(start.elapsed() < HOUR);
}

#[tokio::test(start_paused = true)]
async fn what_is_due_after_a_removed_one_is_not_slept_through() {
    type Act = fn(&DelayMap<u8, ()>);
    let takes_the_earliest_away: [Act; 3] = [
        |map| assert_eq!(map.remove(&1), Some(())),
        |map| assert!(map.reset(&1, HOUR)),
        |map| assert_eq!(map.drain().len(), 1),
    ];
    for act in takes_the_earliest_away {
        let (map, mut expirations) = map();
        map.insert(1, (), 10 * MS).unwrap();
        assert_pending!(expirations.poll_next());
        settle().await;
        act(&map);
        // Nothing has polled the stream since. What is put in now must wake it, or its alarm.
        map.insert(2, (), 20 * MS).unwrap();
        if expirations.is_woken() {
            assert_pending!(expirations.poll_next());
        }
        sleep(20 * MS).await;
        settle().await;
        assert!(expirations.is_woken(), "slept through");
        assert_eq!(take_due(&mut expirations), [(2, ())]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_poll_is_bounded_and_others_have_their_turn() {
    let (map, mut expirations) = map();
    for key in 0..50_000 {
        map.insert(key, (), 5 * MS).unwrap();
    }
    tokio::time::advance(5 * MS).await;
    // Not held up by the task's cooperative budget, which is another matter.
    let polls_before_the_first = tokio::task::unconstrained(async {
        let mut polls = 0;
        while expirations.poll_next().is_pending() {
            assert!(expirations.is_woken(), "it goes on by itself");
            polls += 1;
        }
        polls
    });
    assert!(
        polls_before_the_first.await > 50,
        "the first poll has looked through them all"
    );
    assert_eq!(map.drain().len(), 49_999);
}

/// A waker whose clone uses the map.
#[tokio::test(start_paused = true)]
async fn the_waiters_waker_is_cloned_woken_and_dropped_under_no_lock() {
    use std::task::{Context, Wake, Waker};
    struct Meddling(DelayMap<u32, ()>);
    impl Wake for Meddling {
        fn wake(self: Arc<Self>) {
            self.0.insert(7, (), HOUR).unwrap();
            self.0.remove(&7);
        }
    }
    impl Drop for Meddling {
        fn drop(&mut self) {
            self.0.drain();
        }
    }
    let (map, expirations) = map();
    let mut expirations = expirations.into_inner();
    for _ in 0..3 {
        let waker = Waker::from(Arc::new(Meddling(map.clone())));
        let polled = expirations.poll_next_unpin(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(waker);
        map.insert(1, (), HOUR).unwrap();
        map.expire_all();
        map.drain();
    }
    drop(map.close());
}

/// One task holds the thread. Meanwhile more values become due than one poll looks at.
#[test]
fn a_stream_that_is_never_done_searching_gives_what_was_found() {
    current_thread().block_on(async {
        let (map, mut expired) = DelayMap::<u32, ()>::new(&Timer::current());
        for key in 0..100_000 {
            map.insert(key, (), Duration::from_micros(u64::from(key) * 4))
                .unwrap();
        }
        let hog = tokio::spawn(async {
            loop {
                thread::sleep(3 * MS);
                tokio::task::yield_now().await;
            }
        });
        let first = tokio::time::timeout(PATIENCE, expired.recv()).await;
        assert!(first.unwrap().is_some());
        assert!(map.len() > 50_000, "it came while most were still to come");
        hog.abort();
    });
}

/// One search finds two values, of which the second is due a part of a tick later. A third value
/// changes between that deadline and its tick. The stream must still give the second.
#[tokio::test(start_paused = true)]
async fn what_was_found_early_comes_out_whatever_else_is_removed() {
    const US: Duration = Duration::from_micros(1);
    for other in 100..120 {
        let (map, mut expired) = DelayMap::new(&Timer::current());
        map.insert(0, "first", 200 * US).unwrap();
        map.insert(1, "second", 700 * US).unwrap();
        map.insert(other, "far", HOUR).unwrap();
        let reader = tokio::spawn(async move {
            while let Some(found) = expired.recv().await {
                if found.key == 1 {
                    break;
                }
            }
        });
        tokio::task::yield_now().await;
        tokio::time::advance(300 * US).await;
        // Makes the stream search, and find both.
        map.insert(2, "now", Duration::ZERO).unwrap();
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(500 * US).await;
        map.remove(&other);
        let read = tokio::time::timeout(Duration::from_secs(1), reader).await;
        read.expect("nobody woke the stream").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_polled_stream_of_an_empty_map_is_no_pending_timer() {
    let (map, expired) = DelayMap::new(&Timer::current());
    let mut expired = task::spawn(expired);
    let pending = || Timer::current().metrics().pending;
    assert_pending!(expired.poll_next());
    assert_eq!(pending(), 0);
    map.insert(1, (), HOUR).unwrap();
    assert!(expired.is_woken());
    assert_pending!(expired.poll_next());
    assert_eq!(pending(), 1);
    map.remove(&1);
    assert_eq!(pending(), 0);
    map.insert(2, (), HOUR).unwrap();
    assert!(expired.is_woken(), "its timer has to be armed again");
    assert_pending!(expired.poll_next());
    tokio::time::advance(HOUR).await;
    assert_eq!(assert_ready!(expired.poll_next()).unwrap().key, 2);
}
