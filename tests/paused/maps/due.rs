//! From its due on a value of a `DelayMap` belongs to the stream: what each call answers then.

use tickwheel::error::{InsertError, InsertIfAbsentError};
use tickwheel::{DelayMap, Duration, Expirations, Instant, Timer};

use crate::common::{HOUR, MS, current_thread};

/// With a tick of 100 ms the codes are due at 40 ms, and come out at 100 ms.
#[tokio::test(start_paused = true)]
async fn no_code_is_accepted_after_its_end_and_each_comes_out() {
    const CODES: u32 = 24;
    for (tick, late) in [(MS, 0), (MS, 30), (100 * MS, 0), (100 * MS, 30)] {
        let timer = Timer::builder().tick(tick).build().unwrap();
        let (codes, mut ended) = DelayMap::new(&timer);
        (0..CODES).for_each(|code| assert_eq!(codes.insert(code, code, 40 * MS), Ok(None)));
        tokio::time::advance((40 + late) * MS).await;
        let accepted = (0..CODES).filter(|code| codes.remove(code).is_some());
        assert_eq!(accepted.count(), 0, "{tick:?}, {late} ms late");
        let shown = |code: &u32| -> bool { panic!("{code} is shown") };
        let accepted = (0..CODES).filter(|code| codes.remove_if(code, shown).is_some());
        assert_eq!(accepted.count(), 0, "{tick:?}, {late} ms late");
        let mut came = Vec::new();
        while !codes.is_empty() {
            came.push(ended.recv().await.unwrap().value);
        }
        came.sort_unstable();
        assert!(came.into_iter().eq(0..CODES), "{tick:?}, {late} ms late");
    }
}

/// A map with the value 7 under the key 1, which is due now, and its stream.
async fn with_a_due_value(tick: Duration) -> (DelayMap<u8, u8>, Expirations<u8, u8>, Instant) {
    let timer = Timer::builder().tick(tick).build().unwrap();
    let (map, ended) = DelayMap::new(&timer);
    map.insert(1, 7, MS).unwrap();
    tokio::time::advance(MS).await;
    (map, ended, Instant::now())
}

#[tokio::test(start_paused = true)]
async fn no_call_reads_changes_moves_or_removes_what_is_due() {
    type Call = fn(&DelayMap<u8, u8>) -> bool;
    let calls: [(&str, Call); 12] = [
        ("set", |map| map.set(&1, HOUR)),
        ("set to an instant", |map| {
            map.set(&1, Instant::now() + HOUR)
        }),
        ("set_if", |map| map.set_if(&1, HOUR, |_| true)),
        ("expiry", |map| map.expiry(&1).is_some()),
        ("touch", |map| {
            map.touch(&1, HOUR, |value| *value += 1).is_some()
        }),
        ("update", |map| {
            map.update(&1, |value| *value += 1).is_some()
        }),
        ("deadline", |map| map.deadline(&1).is_some()),
        ("expire", |map| map.expire(&1)),
        ("expire_all", |map| map.expire_all() > 0),
        ("remove", |map| map.remove(&1).is_some()),
        ("for_each", |map| {
            let mut is_shown = false;
            map.for_each(|_, _, _| is_shown = true);
            is_shown
        }),
        ("retain", |map| {
            let mut is_shown = false;
            map.retain(|_, value| {
                *value += 1;
                is_shown = true;
                false
            });
            is_shown
        }),
    ];
    for tick in [MS, 100 * MS] {
        for (name, call) in calls {
            let (map, mut ended, due) = with_a_due_value(tick).await;
            assert!(!call(&map), "{name}, {tick:?}");
            assert!(map.contains_key(&1) && map.len() == 1, "{name}, {tick:?}");
            assert!(
                map.insert_if_absent(1, 8, HOUR).is_err(),
                "{name}, {tick:?}"
            );
            let expired = ended.recv().await.unwrap();
            let told = (expired.value, expired.deadline);
            assert_eq!(told, (7, due), "{name}, {tick:?}");
            assert!(map.is_empty(), "{name}, {tick:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_insert_a_drain_and_a_close_give_what_is_due() {
    let taken = |all: Vec<(u8, u8, Duration)>| match all[..] {
        [(1, value, Duration::ZERO)] => Some(value),
        _ => None,
    };
    for tick in [MS, 100 * MS] {
        let (map, mut ended, _) = with_a_due_value(tick).await;
        assert_eq!(map.insert(1, 8, HOUR), Ok(Some(7)), "{tick:?}");
        tokio::time::advance(tick).await;
        assert!(ended.try_recv().is_err(), "{tick:?}: it comes out once");
        assert_eq!(map.remove(&1), Some(8), "{tick:?}");
        for take in [DelayMap::drain, DelayMap::close] {
            let (map, mut ended, _) = with_a_due_value(tick).await;
            assert_eq!(taken(take(&map)), Some(7), "{tick:?}");
            tokio::time::advance(tick).await;
            assert!(ended.try_recv().is_err(), "{tick:?}: it comes out once");
        }
    }
}

/// A map with two values of the key 1: 7, which an upsert has left to the stream, and 8.
async fn with_a_left_value(
    tick: Duration,
    capacity: usize,
) -> (DelayMap<u8, u8>, Expirations<u8, u8>) {
    let timer = Timer::builder().tick(tick).build().unwrap();
    let (map, ended) = DelayMap::with_limit(&timer, capacity);
    map.insert(1, 7, MS).unwrap();
    tokio::time::advance(MS).await;
    assert_eq!(map.upsert(1, HOUR, || 8, |value| *value), Ok(8));
    (map, ended)
}

#[tokio::test(start_paused = true)]
async fn an_upsert_leaves_what_is_due_to_the_stream() {
    for tick in [MS, 100 * MS] {
        let (map, mut ended) = with_a_left_value(tick, usize::MAX).await;
        assert_eq!((map.len(), map.metrics().len()), (2, 2), "{tick:?}");
        assert_eq!(map.update(&1, |value| *value), Some(8), "{tick:?}");
        assert_eq!(
            map.insert(1, 9, HOUR),
            Ok(Some(8)),
            "the older one is not the insert's"
        );
        let mut shown = Vec::new();
        map.for_each(|_, value, _| shown.push(*value));
        map.retain(|_, value| *value == 9);
        assert_eq!(shown, [9], "{tick:?}");
        assert_eq!(ended.recv().await.unwrap().value, 7, "{tick:?}");
        assert_eq!((map.len(), map.contains_key(&1)), (1, true), "{tick:?}");
        assert_eq!(map.remove(&1), Some(9), "{tick:?}");
        let counts = map.metrics();
        assert_eq!(
            (counts.len(), counts.inserted(), counts.expired()),
            (0, 3, 1)
        );
    }
}

/// And no call by key finds it.
#[tokio::test(start_paused = true)]
async fn what_is_left_to_the_stream_counts_until_it_has_come_out() {
    let (map, mut ended) = with_a_left_value(MS, 2).await;
    let full = map.upsert(2, HOUR, || 0, |_| ()).unwrap_err();
    assert_eq!(full, InsertError::AtCapacity(2));
    assert_eq!(map.remove(&1), Some(8));
    assert!(!map.contains_key(&1) && !map.is_empty() && map.len() == 1);
    assert_eq!(map.insert_if_absent(1, 9, HOUR), Ok(()));
    assert!(map.insert(2, 0, HOUR).is_err(), "the older one counts");
    assert_eq!(ended.recv().await.unwrap().value, 7);
    assert_eq!(map.insert(2, 0, HOUR), Ok(None));
}

/// Nothing is inserted, and what is due stays under its key.
#[tokio::test(start_paused = true)]
async fn an_upsert_of_a_full_map_leaves_all_as_it_was() {
    let (map, mut ended) = DelayMap::with_limit(&Timer::current(), 1);
    map.insert(1, 7, MS).unwrap();
    tokio::time::advance(MS).await;
    let make = || -> u8 { panic!("made") };
    let full = map.upsert(1, HOUR, make, |_| ()).unwrap_err();
    assert_eq!(full, InsertError::AtCapacity(1));
    assert!(map.contains_key(&1) && map.len() == 1);
    assert_eq!(ended.recv().await.unwrap().value, 7);
    assert_eq!(map.upsert(1, HOUR, || 8, |value| *value), Ok(8));
}

#[tokio::test(start_paused = true)]
async fn a_drain_and_a_close_give_what_was_left_to_the_stream() {
    for take in [DelayMap::drain, DelayMap::close] {
        let (map, mut ended) = with_a_left_value(MS, 2).await;
        let mut taken = take(&map);
        taken.sort_unstable();
        assert_eq!(taken, [(1, 7, Duration::ZERO), (1, 8, HOUR)]);
        assert!(map.is_empty() && ended.try_recv().is_err());
    }
}

/// The stream of a map without handles ends only after both.
#[tokio::test(start_paused = true)]
async fn the_stream_ends_after_what_was_left_to_it() {
    let (map, mut ended) = with_a_left_value(MS, 2).await;
    drop(map);
    assert_eq!(ended.recv().await.unwrap().value, 7);
    assert_eq!(ended.recv().await.unwrap().value, 8);
    assert!(ended.recv().await.is_none());
}

/// The value of its key is still there, but no value can be inserted any more.
#[test]
fn an_insert_after_the_end_of_the_runtime_is_closed_and_not_occupied() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let (map, expired) = DelayMap::new(&timer);
    map.insert(1, 7, HOUR).unwrap();
    drop(runtime);
    let again = map.insert_if_absent(1, 8, HOUR);
    assert_eq!(again, Err(InsertIfAbsentError::Closed((1, 8))));
    assert!(map.contains_key(&1));
    drop(expired);
}
