//! `DelayMap`: each value comes out once, one way, in the order of deadlines, and nothing is slept
//! through.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::thread;

use futures::stream::{Stream, StreamExt};
use proptest::prelude::*;
use tickwheel::error::InsertError;
use tickwheel::{DelayMap, Duration, Expirations, Expired, Instant, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{
    Brittle, HOUR, MS, current_thread, idle_for_a_moment, multi_thread, paused, settle,
};

fn map<K: Hash + Eq, V>() -> (DelayMap<K, V>, task::Spawn<Expirations<K, V>>) {
    let (map, expirations) = DelayMap::new(&Timer::current());
    (map, task::spawn(expirations))
}

/// Takes all that is due now.
fn take_due<K, V>(expirations: &mut task::Spawn<Expirations<K, V>>) -> Vec<(K, V)> {
    std::iter::from_fn(|| match expirations.poll_next() {
        Poll::Ready(Some(Expired { key, value, .. })) => Some((key, value)),
        Poll::Ready(None) | Poll::Pending => None,
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn values_come_out_in_the_order_of_their_deadlines() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    for delay in [30, 10, 50, 20, 40] {
        assert_eq!(map.insert(delay, (), delay * MS), Ok(None));
    }
    for delay in [10, 20, 30, 40, 50] {
        let expired = expirations.next().await.unwrap();
        assert_eq!((expired.key, expired.deadline), (delay, start + delay * MS));
        assert_eq!(start.elapsed(), delay * MS);
    }
    assert!(map.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_is_due_at_once() {
    let timer = Timer::builder().tick(HOUR).build().unwrap();
    let (map, mut expirations) = DelayMap::new(&timer);
    tokio::time::advance(HOUR / 3).await;
    map.insert(1, (), Duration::ZERO).unwrap();
    let start = Instant::now();
    assert_eq!(expirations.next().await.unwrap().key, 1);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_insert_under_a_key_replaces_the_value_and_starts_the_delay_anew() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    assert_eq!(map.insert(1, "a", 10 * MS), Ok(None));
    sleep(5 * MS).await;
    assert_eq!(map.insert(1, "b", 10 * MS), Ok(Some("a")));
    assert_eq!(map.len(), 1);
    assert_eq!(expirations.next().await.unwrap().value, "b");
    assert_eq!(start.elapsed(), 15 * MS);
}

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
async fn what_is_due_but_not_yet_taken_can_still_be_removed_reset_replaced_and_drained() {
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
async fn the_deadline_of_a_key_is_where_it_was_set() {
    let (map, _expirations) = map();
    let now = Instant::now();
    map.insert(1, (), 10 * MS).unwrap();
    assert_eq!(
        (map.deadline(&1), map.deadline(&2)),
        (Some(now + 10 * MS), None)
    );
    map.reset(&1, Duration::MAX);
    assert!(map.deadline(&1).unwrap() > now + 100 * 365 * 24 * HOUR);
    assert!(!map.reset(&2, MS));
}

#[tokio::test(start_paused = true)]
async fn expire_all_has_everything_come_out_now_in_order_and_counts_what_was_pending() {
    let (map, mut expirations) = map();
    for key in [5, 3, 8, 1, 9, 2] {
        map.insert(key, (), key * MS).unwrap();
    }
    assert_pending!(expirations.poll_next());
    sleep(2 * MS).await;
    let now = Instant::now();
    assert_eq!(map.expire_all(), 4, "two were due already");
    assert!(expirations.is_woken());
    let mut keys = Vec::new();
    while let Poll::Ready(Some(expired)) = expirations.poll_next() {
        assert!(expired.deadline <= now);
        keys.push(expired.key);
    }
    assert_eq!(keys, [1, 2, 3, 5, 8, 9]);
    assert_eq!((map.expire_all(), map.len()), (0, 0));
    map.insert(1, (), 5 * MS).unwrap();
    assert_pending!(expirations.poll_next());
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_when_every_handle_is_gone_and_the_map_is_empty() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let other = map.clone();
    map.insert(1, (), 10 * MS).unwrap();
    drop(map);
    other.insert(2, (), 20 * MS).unwrap();
    drop(other);
    assert_eq!(
        expirations.next().await.unwrap().key,
        1,
        "what is pending lives on"
    );
    assert_eq!(expirations.next().await.unwrap().key, 2);
    assert!(expirations.next().await.is_none());
    assert!(expirations.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn close_drains_ends_the_stream_and_refuses_later_inserts() {
    let (map, mut expirations) = map();
    map.insert(1, "one", HOUR).unwrap();
    assert_pending!(expirations.poll_next());
    assert_eq!(map.close(), [(1, "one")]);
    assert_eq!(map.close(), []);
    assert!(expirations.is_woken());
    assert!(assert_ready!(expirations.poll_next()).is_none());
    let refused = map.clone().insert(1, "again", HOUR).unwrap_err();
    assert_eq!(refused, InsertError::Closed("again"));
    assert_eq!(refused.into_inner(), "again");
    assert!(!map.reset(&1, MS) && map.remove(&1).is_none());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_closes_the_map() {
    let (map, expirations) = map();
    let value = Arc::new(());
    map.insert(1, value.clone(), HOUR).unwrap();
    drop(expirations);
    assert_eq!(Arc::strong_count(&value), 1, "what it held is dropped");
    assert!(matches!(
        map.insert(2, value, HOUR),
        Err(InsertError::Closed(_))
    ));
    assert_eq!((map.len(), map.expire_all()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_limit_gives_the_value_of_a_new_key_back_but_never_a_replacements() {
    let (map, mut expirations) = DelayMap::with_limit(&Timer::current(), 2);
    map.insert(1, "a", MS).unwrap();
    map.insert(2, "b", HOUR).unwrap();
    assert_eq!(map.insert(3, "c", HOUR), Err(InsertError::AtCapacity("c")));
    assert_eq!(map.insert(2, "d", HOUR), Ok(Some("b")));
    expirations.next().await.unwrap();
    assert_eq!(
        map.insert(3, "c", HOUR),
        Ok(None),
        "what came out has made room"
    );
    assert_eq!(map.remove(&2), Some("d"));
    assert_eq!(map.insert(4, "e", HOUR), Ok(None));
    assert_eq!(map.drain().len(), 2);
    assert_eq!(map.insert(5, "f", HOUR), Ok(None));
}

#[test]
fn when_the_runtime_has_gone_the_stream_ends_and_inserts_give_the_value_back() {
    for pending in [false, true] {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, expirations) = DelayMap::new(&timer);
        let mut expirations = task::spawn(expirations);
        if pending {
            map.insert(1, "one", HOUR).unwrap();
        }
        assert_pending!(expirations.poll_next());
        drop(runtime);
        assert!(expirations.is_woken(), "also when nothing was pending");
        assert!(assert_ready!(expirations.poll_next()).is_none());
        assert_eq!(map.insert(2, "two", HOUR), Err(InsertError::Closed("two")));
        assert!(!map.reset(&2, MS) && map.remove(&2).is_none());
        assert_eq!(
            map.drain().len(),
            usize::from(pending),
            "what was pending can be drained"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_removed_or_moved_does_not_pull_the_paused_clock_along() {
    let (map, mut expirations) = map();
    for key in 0..100 {
        map.insert(key, (), HOUR + key * MS).unwrap();
    }
    assert_pending!(expirations.poll_next());
    settle().await;
    for key in 0..100 {
        assert!(map.reset(&key, 2 * HOUR));
        assert_eq!(map.remove(&key), Some(()));
    }
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_was_removed_does_not_pull_the_paused_clock_along_while_nobody_polls_the_stream() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    map.insert(1, (), HOUR).unwrap();
    map.insert(2, (), MS).unwrap();
    assert_eq!(expirations.next().await.unwrap().key, 2);
    assert_eq!(
        map.remove(&1),
        Some(()),
        "while the consumer handles another"
    );
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);

    map.insert(3, (), HOUR).unwrap();
    assert!(tickwheel::timeout(MS, expirations.next()).await.is_err());
    assert_eq!(map.drain(), [(3, ())], "after the consumer gave up waiting");
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);

    map.insert(4, (), HOUR).unwrap();
    assert!(tickwheel::timeout(MS, expirations.next()).await.is_err());
    assert_eq!(map.close(), [(4, ())]);
    assert!(expirations.next().await.is_none());
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(
        Timer::current().metrics().pending,
        0,
        "a stream that has ended keeps nothing armed"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_due_between_a_removed_one_and_the_next_is_not_slept_through() {
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
        // Nobody has polled the stream since: it is to be woken by what is put in now, or by its
        // alarm.
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
async fn many_idle_streams_do_not_make_the_paused_clock_run() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let mut idle: Vec<_> = (0..40)
        .map(|_| {
            let (map, expirations) = DelayMap::<u8, u8>::new(&timer);
            (map, task::spawn(expirations))
        })
        .collect();
    for (_, expirations) in &mut idle {
        assert_pending!(expirations.poll_next());
    }
    let start = Instant::now();
    timer.sleep(MS).await;
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), MS);
}

#[tokio::test(start_paused = true)]
async fn equal_deadlines_come_out_in_the_order_in_which_they_were_set() {
    let (map, mut expirations) = map();
    for key in 0..100 {
        map.insert(key, (), 5 * MS).unwrap();
    }
    assert!(map.reset(&7, 5 * MS));
    sleep(5 * MS).await;
    let keys: Vec<_> = take_due(&mut expirations)
        .into_iter()
        .map(|(key, ())| key)
        .collect();
    let expected: Vec<_> = (0..100).filter(|key| *key != 7).chain([7]).collect();
    assert_eq!(keys, expected);
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

#[tokio::test(start_paused = true)]
async fn the_stream_is_terminated_only_once_it_has_said_so() {
    use futures::stream::FusedStream;
    let (map, mut expirations) = map::<u8, u8>();
    assert!(!expirations.is_terminated());
    drop(map);
    assert!(!expirations.is_terminated(), "no poll has seen that yet");
    assert!(assert_ready!(expirations.poll_next()).is_none());
    assert!(expirations.is_terminated());
    assert!(assert_ready!(expirations.poll_next()).is_none());
}

#[tokio::test(start_paused = true)]
async fn insert_at_and_reset_at_take_an_instant() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    map.insert_at(1, (), start + 10 * MS).unwrap();
    map.insert_at(2, (), start + HOUR).unwrap();
    assert!(map.reset_at(&2, start + 5 * MS) && !map.reset_at(&3, start));
    assert_eq!(expirations.next().await.unwrap().key, 2);
    assert_eq!(expirations.next().await.unwrap().deadline, start + 10 * MS);
    map.insert_at(4, (), start).unwrap();
    assert_eq!(
        expirations.next().await.unwrap().deadline,
        start,
        "the past is due at once"
    );
    assert_eq!(start.elapsed(), 10 * MS);
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

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_values_come_out_in_the_order_of_their_due() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    let mut seed = 1_u64;
    for key in 0..100_000_u32 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        map.insert(key, (), Duration::from_millis(seed >> 44))
            .unwrap();
    }
    let mut last = start;
    for _ in 0..100_000 {
        let Expired { deadline, .. } = expirations.next().await.unwrap();
        assert!(deadline >= last && deadline <= Instant::now());
        assert!(Instant::now() <= deadline + 2 * MS);
        last = deadline;
    }
    assert!(map.is_empty());
}

/// A set at each phase within a rotation, moved after each gap to each delay: the combinations in
/// which a wheel that moves without relinking loses a round.
#[tokio::test(start_paused = true)]
async fn every_phase_delay_and_gap_of_a_set_and_a_move_fires_once_and_in_time() {
    let timer = Timer::builder().slots(8).build().unwrap();
    let (map, expirations) = DelayMap::new(&timer);
    let mut expirations = task::spawn(expirations);
    for phase in 0..12_u32 {
        for delay in 1..25_u32 {
            for gap in 0..25_u32 {
                sleep(phase * MS).await;
                map.insert(1, (), 20 * MS).unwrap();
                let _ = expirations.poll_next();
                sleep(gap.min(19) * MS).await;
                assert!(take_due(&mut expirations).is_empty());
                assert!(map.reset(&1, delay * MS));
                let moved_to = Instant::now() + delay * MS;
                let _ = expirations.poll_next();
                sleep((delay - 1) * MS).await;
                assert!(
                    take_due(&mut expirations).is_empty(),
                    "early: {phase}, {delay}, {gap}"
                );
                sleep(MS).await;
                let expired = match expirations.poll_next() {
                    Poll::Ready(Some(expired)) => expired,
                    _ => panic!("late: {phase}, {delay}, {gap}"),
                };
                assert_eq!(expired.deadline, moved_to);
                assert!(
                    take_due(&mut expirations).is_empty(),
                    "twice: {phase}, {delay}, {gap}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn set_drain_and_set_again_and_results_of_drain_and_close_that_insert() {
    let (map, mut expirations) = map();
    for key in 0..50 {
        map.insert(key, key, 5 * MS).unwrap();
    }
    for (key, value) in map.drain() {
        map.insert(key, value + 100, 7 * MS).unwrap();
    }
    assert_eq!(map.len(), 50);
    assert_pending!(expirations.poll_next());
    sleep(7 * MS).await;
    let due = take_due(&mut expirations);
    assert_eq!(due.len(), 50);
    assert!(due.iter().all(|(key, value)| *value == key + 100));
    map.insert(1, 1, 5 * MS).unwrap();
    for (key, value) in map.close() {
        assert_eq!(map.insert(key, value, MS), Err(InsertError::Closed(1)));
    }
    assert!(assert_ready!(expirations.poll_next()).is_none());
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32, u32),
    Reset(u32, u32),
    Remove(u32),
    Drain,
    ExpireAll,
    Advance(u32),
    Take(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let delay = || prop_oneof![4 => 0..40_u32, 1 => 0..5_000_u32];
    prop_oneof![
        8 => (0..12_u32, delay()).prop_map(|(key, delay)| Operation::Insert(key, delay)),
        6 => (0..12_u32, delay()).prop_map(|(key, delay)| Operation::Reset(key, delay)),
        3 => (0..12_u32).prop_map(Operation::Remove),
        1 => Just(Operation::Drain),
        1 => Just(Operation::ExpireAll),
        8 => (0..50_u32).prop_map(Operation::Advance),
        4 => (0..4_usize).prop_map(Operation::Take),
    ]
}

async fn run(operations: Vec<Operation>, slots: usize) {
    let timer = Timer::builder().slots(slots).build().unwrap();
    let (map, expirations) = DelayMap::new(&timer);
    let mut expirations = task::spawn(expirations);
    // For each key its value, its deadline, and when it was expired before that.
    let mut model: BTreeMap<u32, (u32, Instant, Option<Instant>)> = BTreeMap::new();
    let mut next_value = 0;
    for operation in operations {
        let now = Instant::now();
        match operation {
            Operation::Insert(key, delay) => {
                next_value += 1;
                let old = model.insert(key, (next_value, now + delay * MS, None));
                let replaced = map.insert(key, next_value, delay * MS).unwrap();
                assert_eq!(replaced, old.map(|(value, ..)| value));
            }
            Operation::Reset(key, delay) => {
                let entry = model.get_mut(&key);
                assert_eq!(map.reset(&key, delay * MS), entry.is_some());
                if let Some((_, deadline, expired)) = entry {
                    (*deadline, *expired) = (now + delay * MS, None);
                }
            }
            Operation::Remove(key) => {
                assert_eq!(
                    map.remove(&key),
                    model.remove(&key).map(|(value, ..)| value)
                );
            }
            Operation::Drain => {
                let mut drained = map.drain();
                drained.sort();
                let expected: Vec<_> = std::mem::take(&mut model)
                    .into_iter()
                    .map(|(key, (value, ..))| (key, value))
                    .collect();
                assert_eq!(drained, expected);
            }
            Operation::ExpireAll => {
                let mut pending = 0;
                for (_, deadline, expired) in model.values_mut() {
                    if expired.is_none() && *deadline > now {
                        *expired = Some(now);
                        pending += 1;
                    }
                }
                assert_eq!(map.expire_all(), pending);
            }
            Operation::Advance(by) => sleep(by * MS).await,
            Operation::Take(count) => {
                for _ in 0..count {
                    let due = model
                        .values()
                        .filter(|entry| entry.2.is_some() || entry.1 <= now)
                        .count();
                    match expirations.poll_next() {
                        Poll::Ready(Some(expired)) => {
                            let (value, deadline, expired_at) =
                                model.remove(&expired.key).expect("it was not there");
                            assert_eq!(expired.value, value);
                            let due_at = expired_at.unwrap_or(deadline);
                            assert!(due_at <= now, "early");
                            assert_eq!(expired.deadline, due_at);
                        }
                        Poll::Ready(None) => panic!("the stream has ended"),
                        Poll::Pending => assert_eq!(due, 0, "slept through"),
                    }
                }
            }
        }
        settle().await;
        assert_eq!(map.len(), model.len());
        for (key, (_, deadline, expired_at)) in &model {
            assert_eq!(map.deadline(key), Some(expired_at.unwrap_or(*deadline)));
        }
    }
    // Each of the rest comes out once, within two ticks of its deadline, in order.
    let mut expirations = expirations.into_inner();
    drop(map);
    let mut last = None;
    while let Some(expired) = expirations.next().await {
        let (value, deadline, expired_at) = model
            .remove(&expired.key)
            .expect("it was not there, or twice");
        assert_eq!(expired.value, value);
        assert!(expired_at.unwrap_or(deadline) <= Instant::now());
        if expired_at.is_none() && deadline > last.unwrap_or(deadline) {
            assert!(Instant::now() <= deadline + 2 * MS, "late");
        }
        last = Some(Instant::now());
    }
    assert!(model.is_empty(), "lost: {model:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_map_does_what_its_model_does(
        operations in proptest::collection::vec(operation(), 0..100),
        slots in prop_oneof![Just(64_usize), Just(4)],
    ) {
        let runtime = paused();
        runtime.block_on(run(operations, slots));
    }
}

/// Four threads insert, reset, remove and drain while the stream is consumed. Every value carries a
/// number; each number comes out exactly once: replaced, removed, drained or expired.
#[test]
fn nothing_is_lost_or_doubled_between_four_threads_and_the_stream() {
    const EACH: u64 = 20_000;
    const KEYS: u64 = 200;
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (map, expirations) = DelayMap::new(&timer);
    let expired = runtime.spawn(
        expirations
            .map(|expired| expired.value)
            .collect::<Vec<u64>>(),
    );
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let map = map.clone();
            thread::spawn(move || {
                let mut out = Vec::new();
                for round in 0..EACH {
                    let number = round * 4 + seed;
                    let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30;
                    let key = random % KEYS;
                    out.extend(
                        map.insert(key, number, Duration::from_micros(random % 4_000))
                            .unwrap(),
                    );
                    map.reset(&((key + 7) % KEYS), Duration::from_micros(random % 2_500));
                    match random % 64 {
                        0..8 => out.extend(map.remove(&((key + 3) % KEYS))),
                        8 => out.extend(map.drain().into_iter().map(|(_, value)| value)),
                        9 => assert!(map.expire_all() <= KEYS as usize),
                        _ => {}
                    }
                }
                out
            })
        })
        .collect();
    drop(map);
    let mut out: Vec<u64> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    let expired = runtime.block_on(expired).unwrap();
    assert!(!expired.is_empty());
    out.extend(expired);
    out.sort_unstable();
    assert_eq!(out, (0..4 * EACH).collect::<Vec<_>>());
}

/// One inserts what is due at once, the other waits for it: a wake-up that is lost is a test that
/// hangs.
#[test]
fn no_wake_up_of_the_stream_is_lost() {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (map, mut expirations) = DelayMap::new(&timer);
    let (sender, receiver) = std::sync::mpsc::channel();
    let inserter = thread::spawn(move || {
        for round in 0..20_000_u32 {
            // Far, then moved near, or near at once.
            map.insert(
                round,
                (),
                if round % 2 == 0 { HOUR } else { Duration::ZERO },
            )
            .unwrap();
            if round % 2 == 0 {
                assert!(map.reset(&round, Duration::ZERO));
            }
            receiver.recv().unwrap();
        }
    });
    runtime.block_on(async {
        while let Some(expired) = expirations.next().await {
            sender.send(expired.key).unwrap();
        }
    });
    inserter.join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_code_of_a_key_or_a_value_harms_no_other_key() {
    let (map, mut expirations) = map();
    for id in 0..20 {
        assert!(
            map.insert(Brittle::whole(id), Brittle::whole(id), 10 * MS)
                .is_ok()
        );
    }
    for breaks in ["hash", "eq", "drop"] {
        for _ in 0..5 {
            let broken = || Brittle::new(4, breaks);
            let _ = catch_unwind(AssertUnwindSafe(|| {
                drop(map.insert(broken(), broken(), 10 * MS));
            }));
            let _ = catch_unwind(AssertUnwindSafe(|| map.reset(&broken(), 10 * MS)));
            let _ = catch_unwind(AssertUnwindSafe(|| drop(map.remove(&broken()))));
        }
    }
    assert_pending!(expirations.poll_next());
    sleep(10 * MS).await;
    let mut ids = Vec::new();
    while let Ok(Poll::Ready(Some(expired))) =
        catch_unwind(AssertUnwindSafe(|| expirations.poll_next()))
    {
        ids.push(expired.key.id);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(expired)));
    }
    ids.retain(|id| *id != 4);
    ids.sort_unstable();
    assert_eq!(ids, (0..20).filter(|id| *id != 4).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn dropped_at_every_stage_nothing_leaks() {
    let value = Arc::new(());
    type Stage = fn(&DelayMap<u32, Arc<()>>, &mut task::Spawn<Expirations<u32, Arc<()>>>);
    let stages: [Stage; 5] = [
        |_, _| {},
        |_, expirations| drop(expirations.poll_next()),
        |map, _| drop(map.remove(&1)),
        |map, _| drop(map.drain()),
        |map, _| assert!(map.expire_all() <= 3),
    ];
    for stage in stages {
        for advance in [false, true] {
            for map_first in [false, true] {
                let (map, mut expirations) = map();
                for key in 0..3 {
                    map.insert(key, value.clone(), (key + 1) * MS).unwrap();
                }
                let _ = expirations.poll_next();
                if advance {
                    sleep(2 * MS).await;
                }
                stage(&map, &mut expirations);
                if map_first {
                    drop(map);
                    drop(expirations);
                } else {
                    drop(expirations);
                    drop(map);
                }
                assert_eq!(Arc::strong_count(&value), 1);
            }
        }
    }
    settle().await;
    assert_eq!(Timer::current().metrics().pending, 0);
}

#[test]
fn the_maps_types_are_send_sync_unpin_and_debug() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug + 'static>(_: &T) {}
    fn is_stream<T: Stream + futures::stream::FusedStream + Unpin>(_: &T) {}
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (map, expirations) = DelayMap::<u8, u8>::new(&timer);
    check(&map);
    check(&expirations);
    is_stream(&expirations);
    let deadlines = tickwheel::DeadlineMap::new(&timer);
    check(&deadlines);
    check(&deadlines.insert(1_u8, MS).unwrap());
    check(&InsertError::Closed(1));
    assert!(format!("{map:?} {expirations:?} {deadlines:?}").contains("len: 0"));
}
