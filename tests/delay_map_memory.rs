//! What a `DelayMap` keeps in memory, counted by the allocator from before the map was made.

mod common;
#[path = "common/memory.rs"]
mod memory;

use std::future::Future;

use tickwheel::{DelayMap, Duration, Expirations, Timer};

use crate::common::{HOUR, alone, paused};
use crate::memory::{grown_since, used};

const KEYS: u64 = 100_000;
/// A store of a thousand places or fewer is kept, and each part of a map has one or two.
const KEPT: usize = 800_000;

/// How the values go out again.
type Empty = fn(&DelayMap<u64, u64>, &mut Expirations<u64, u64>, &[u64]);

fn in_the_order_of(map: &DelayMap<u64, u64>, keys: impl Iterator<Item = u64>) {
    keys.for_each(|key| assert!(map.remove(&key).is_some()));
}

/// The allocator counts for all threads, so the tests take turns.
fn run_alone(test: impl Future<Output = ()>) {
    let _turn = alone();
    paused().block_on(test);
}

#[test]
fn memory_comes_back_in_whatever_order_and_way_values_go() {
    run_alone(comes_back());
}

#[test]
fn names_of_what_is_due_do_not_pile_up() {
    run_alone(do_not_pile_up());
}

#[test]
fn marks_of_keys_that_have_gone_do_not_pile_up() {
    run_alone(async {
        let (map, _expired) = DelayMap::new(&Timer::new());
        for key in 0..64_u64 {
            map.insert(key, key, HOUR).unwrap();
        }
        map.expire_all();
        let before = used();
        for key in 1_000..100_000 {
            map.insert(key, key, HOUR).unwrap();
            assert_eq!(map.expire_all(), 1);
            map.remove(&key);
        }
        let more = grown_since(before);
        assert!(more < 200_000, "{more} bytes more for 64 keys");
    });
}

#[test]
fn what_stays_last_in_a_busy_map_keeps_no_other_place() {
    run_alone(async {
        let timer = Timer::new();
        drop(DelayMap::<u64, u64>::new(&timer));
        let past = tickwheel::Instant::now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut shuffled: Vec<u64> = (0..KEYS).collect();
        fastrand::Rng::with_seed(5).shuffle(&mut shuffled);
        let before = used();
        let (map, mut expired) = DelayMap::new(&timer);
        // In no order, so that many names go into the heap. The newest stay, in the last places.
        for key in shuffled {
            map.insert_at(key, key, past + Duration::from_nanos(key))
                .unwrap();
        }
        let full = used() - before;
        for key in KEYS..KEYS + 100 {
            map.insert(key, key, Duration::ZERO).unwrap();
        }
        (0..KEYS).for_each(|key| assert_eq!(expired.try_recv().unwrap().key, key));
        for key in KEYS + 100..2 * KEYS {
            map.insert(key, key, Duration::ZERO).unwrap();
            assert_eq!(expired.try_recv().unwrap().key, key - 100);
        }
        let left = grown_since(before);
        assert!(left < KEPT, "{left} of {full} bytes for {} keys", map.len());
    });
}

async fn comes_back() {
    let mut shuffled: Vec<u64> = (0..KEYS).collect();
    fastrand::Rng::with_seed(3).shuffle(&mut shuffled);
    let ways: [(&str, Empty); 7] = [
        ("first to last", |map, _, _| in_the_order_of(map, 0..KEYS)),
        ("last to first", |map, _, _| {
            in_the_order_of(map, (0..KEYS).rev());
        }),
        ("at random", |map, _, keys| {
            in_the_order_of(map, keys.iter().copied());
        }),
        ("drained", |map, _, _| {
            assert_eq!(map.drain().len() as u64, KEYS);
        }),
        ("retained", |map, _, _| map.retain(|_, _| false)),
        ("expired at once", |map, expired, _| {
            assert_eq!(map.expire_all() as u64, KEYS);
            (0..KEYS).for_each(|_| assert!(expired.try_recv().is_ok()));
        }),
        ("expired one by one", |map, expired, keys| {
            for key in keys {
                assert!(map.expire(key));
                assert_eq!(expired.try_recv().unwrap().key, *key);
            }
        }),
    ];
    let timer = Timer::new();
    // Whatever the program sets up once is not the map's.
    drop(DelayMap::<u64, u64>::new(&timer));
    tokio::task::yield_now().await;
    for (way, empty) in ways {
        let before = used();
        let (map, mut expired) = DelayMap::new(&timer);
        for round in 0..2 {
            for key in 0..KEYS {
                map.insert(key, key, HOUR + Duration::from_millis(key))
                    .unwrap();
            }
            let full = used() - before;
            empty(&map, &mut expired, &shuffled);
            assert!(map.is_empty());
            let left = grown_since(before);
            assert!(left < KEPT, "{way}, round {round}: {left} of {full} bytes");
        }
    }
}

/// The number of keys stays, and so does what they take, whatever is done to them.
async fn do_not_pile_up() {
    let timer = Timer::new();
    let (map, mut expired) = DelayMap::new(&timer);
    for key in 0..1_000_u64 {
        map.insert(key, key, HOUR).unwrap();
    }
    let full = used();
    for round in 0..300_u64 {
        for key in 0..1_000 {
            match (key + round) % 4 {
                0 => drop(map.reset(&key, Duration::ZERO)),
                1 => drop(map.expire(&key)),
                2 => drop(map.insert(key, key, Duration::ZERO).unwrap()),
                _ => drop(map.reset(&key, HOUR)),
            }
        }
        if round % 50 == 0 {
            map.expire_all();
        }
    }
    let now = used();
    assert!(now < full + 400_000, "{} bytes more", now - full);
    assert_eq!(map.len(), 1_000);
    while expired.try_recv().is_ok() {}
}
