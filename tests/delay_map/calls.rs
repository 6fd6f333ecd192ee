//! What each call does to a key and its value, and to no other.

use std::collections::HashSet;

use futures::stream::StreamExt;
use tickwheel::error::InsertError;
use tickwheel::{DelayMap, Duration, Instant, Timer, sleep};
use tokio::sync::mpsc::error::TryRecvError;

use crate::common::{HOUR, MS};
use crate::map;

#[tokio::test(start_paused = true)]
async fn an_insert_replaces_the_value_and_starts_the_delay_anew() {
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

#[tokio::test(start_paused = true)]
async fn look_ups_take_any_borrowed_form_of_the_key() {
    let (map, mut expired) = DelayMap::<String, u32>::new(&Timer::current());
    map.insert("one".to_string(), 1, HOUR).unwrap();
    map.insert("two".to_string(), 2, HOUR).unwrap();
    assert!(map.contains_key("one") && !map.contains_key("three"));
    assert!(map.reset("one", 2 * HOUR) && !map.reset("three", HOUR));
    assert_eq!(map.remaining("one"), Some(2 * HOUR));
    assert_eq!(map.deadline("one"), Some(Instant::now() + 2 * HOUR));
    assert_eq!(map.with_value("two", |value| value + 1), Some(3));
    assert_eq!(
        map.update("two", |value| std::mem::replace(value, 5)),
        Some(2)
    );
    assert!(map.expire("two") && !map.expire("two") && !map.expire("three"));
    assert_eq!(map.remaining("two"), Some(Duration::ZERO));
    let value = expired.recv().await.unwrap();
    assert_eq!((value.key.as_str(), value.value), ("two", 5));
    assert_eq!(map.remove("one"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn keys_and_for_each_tell_what_is_there_and_may_use_the_map() {
    let (map, _expired) = DelayMap::<u32, u32>::new(&Timer::current());
    for key in 0..1_000 {
        map.insert(key, key, (key + 1) * MS).unwrap();
    }
    let keys: HashSet<_> = map.keys().into_iter().collect();
    assert_eq!(keys, (0..1_000).collect());
    let start = Instant::now();
    let mut seen = 0;
    map.for_each(|key, deadline| {
        assert_eq!(deadline, start + (key + 1) * MS);
        assert_eq!(map.remove(key), Some(*key));
        seen += 1;
    });
    assert_eq!((seen, map.len()), (1_000, 0));
}

#[tokio::test(start_paused = true)]
async fn retain_keeps_what_it_is_told_to_and_its_delay() {
    let (map, mut expired) = DelayMap::with_limit(&Timer::current(), 100);
    for key in 0..100_u32 {
        map.insert(key, key, MS).unwrap();
    }
    map.retain(|key, value| {
        *value += 1;
        key % 2 == 0
    });
    assert_eq!(map.len(), 50);
    assert!(matches!(map.insert(1, 0, HOUR), Ok(None)), "there is room");
    sleep(2 * MS).await;
    for _ in 0..50 {
        let value = expired.try_recv().unwrap();
        assert_eq!((value.key % 2, value.value), (0, value.key + 1));
    }
    assert_eq!(expired.try_recv().unwrap_err(), TryRecvError::Empty);
}

#[tokio::test(start_paused = true)]
async fn insert_if_absent_changes_nothing_that_is_there() {
    let (map, _expired) = DelayMap::with_limit(&Timer::current(), 1);
    assert_eq!(map.insert_if_absent(1, "a", HOUR), Ok(None));
    assert_eq!(map.insert_if_absent(1, "b", MS), Ok(Some("b")));
    assert_eq!(map.remaining(&1), Some(HOUR));
    assert_eq!(
        map.insert_if_absent(2, "c", MS),
        Err(InsertError::AtCapacity("c"))
    );
    map.close();
    assert_eq!(
        map.insert_if_absent(2, "c", MS),
        Err(InsertError::Closed("c"))
    );
}

#[tokio::test(start_paused = true)]
async fn no_reset_makes_a_life_longer() {
    let (map, mut expired) = DelayMap::<u32, ()>::new(&Timer::current());
    let start = Instant::now();
    map.insert_with_life(1, (), 10 * MS, 25 * MS).unwrap();
    for _ in 0..4 {
        sleep(6 * MS).await;
        assert!(map.reset(&1, 10 * MS));
    }
    assert_eq!(map.remaining(&1), Some(MS));
    assert_eq!(expired.recv().await.unwrap().deadline, start + 25 * MS);
    // What is put in anew has no more of that life.
    map.insert_with_life(1, (), 10 * MS, 5 * MS).unwrap();
    map.insert(1, (), HOUR).unwrap();
    assert_eq!(map.remaining(&1), Some(HOUR));
}

#[tokio::test(start_paused = true)]
async fn take_all_tells_what_time_was_left() {
    let (map, mut expired) = DelayMap::<u32, u32>::new(&Timer::current());
    for key in 0..3 {
        map.insert(key, key, key * 10 * MS).unwrap();
    }
    sleep(5 * MS).await;
    let mut taken = map.take_all();
    taken.sort_unstable();
    assert_eq!(
        taken,
        [(0, 0, Duration::ZERO), (1, 1, 5 * MS), (2, 2, 15 * MS)]
    );
    assert_eq!(expired.try_recv().unwrap_err(), TryRecvError::Empty);
}

#[tokio::test(start_paused = true)]
async fn what_was_expired_has_no_time_left_when_it_is_taken() {
    let (map, _expired) = DelayMap::new(&Timer::current());
    map.insert(1, 1, HOUR).unwrap();
    assert_eq!(map.expire_all(), 1);
    assert_eq!(map.remaining(&1), Some(Duration::ZERO));
    assert_eq!(map.take_all(), [(1, 1, Duration::ZERO)]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_gives_a_new_keys_value_back_but_never_a_replacements() {
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
