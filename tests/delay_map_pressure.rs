//! `DelayMap` under pressure: zero delays from many threads, backlogs, panics in keys, and what its
//! users ask of it besides.

mod common;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tickwheel::error::InsertError;
use tickwheel::{DelayMap, Duration, Instant, Timer, sleep};
use tokio::sync::mpsc::error::TryRecvError;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{Brittle, HOUR, MS, PATIENCE, current_thread, idle_for_a_moment, multi_thread};

/// A plain thread inserts what is due at once, takes it out again, and inserts another: whatever
/// the stream was about to do, it is woken for that.
#[test]
fn a_value_that_comes_and_goes_before_another_leaves_nobody_asleep() {
    for runtime in [current_thread(), multi_thread(2)] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, mut expired) = DelayMap::<u32, u32>::new(&timer);
        let taken = Arc::new(AtomicUsize::new(0));
        let writer = thread::spawn({
            let taken = taken.clone();
            move || {
                for round in 0..3_000 {
                    map.insert(0, round, Duration::ZERO).unwrap();
                    if map.remove(&0).is_none() {
                        continue;
                    }
                    let before = taken.load(Ordering::SeqCst);
                    map.insert(1, round, Duration::ZERO).unwrap();
                    let start = Instant::now();
                    while taken.load(Ordering::SeqCst) == before {
                        assert!(start.elapsed() < PATIENCE, "asleep in round {round}");
                        thread::yield_now();
                    }
                }
            }
        });
        runtime.block_on(async {
            while let Some(value) = expired.recv().await {
                if value.key == 1 {
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        writer.join().unwrap();
    }
}

/// Threads make keys due at once all the time, so that there is always one that is not found yet.
#[test]
fn keys_that_are_made_due_again_and_again_keep_nothing_from_coming_out() {
    const KEYS: u32 = 10_000;
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (map, mut expired) = DelayMap::<u32, ()>::new(&timer);
    for key in 0..KEYS {
        map.insert(key, (), HOUR).unwrap();
    }
    let done = AtomicBool::new(false);
    let taken = thread::scope(|scope| {
        for seed in 0..4 {
            let (map, done) = (map.clone(), &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    map.reset(&random.u32(..KEYS), Duration::ZERO);
                }
            });
        }
        let taken = runtime.block_on(async {
            let mut taken = 0;
            let start = Instant::now();
            while taken < KEYS / 2 && start.elapsed() < PATIENCE {
                if let Ok(value) = tokio::time::timeout(PATIENCE, expired.recv()).await {
                    taken += u32::from(value.is_some());
                }
            }
            taken
        });
        done.store(true, Ordering::Relaxed);
        taken
    });
    assert_eq!(taken, KEYS / 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_made_due_at_once_comes_after_what_was_due_before_it() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..30 {
        let (map, mut expired) = DelayMap::<u32, ()>::new(&Timer::current());
        for key in 0..500 {
            map.insert(key, (), random.u32(1..200) * MS).unwrap();
        }
        let mut last = Instant::now();
        let mut out = 0;
        while out < 500 {
            tokio::time::advance(random.u32(0..30) * MS).await;
            for _ in 0..random.u32(0..20) {
                let key = random.u32(..500);
                match random.u8(..5) {
                    0 => drop(map.expire(&key)),
                    1 => drop(map.reset(&key, Duration::ZERO)),
                    2 => drop(map.reset(&key, random.u32(..50) * MS)),
                    3 if random.u8(..20) == 0 => drop(map.expire_all()),
                    _ => {}
                }
            }
            for _ in 0..random.u32(0..60) {
                let Ok(value) = expired.try_recv() else { break };
                assert!(value.deadline >= last, "{:?} before", last - value.deadline);
                assert!(value.deadline <= Instant::now());
                last = value.deadline;
                out += 1;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_map_that_was_emptied_in_whatever_way_does_not_pull_the_paused_clock_along() {
    for way in 0..4 {
        let (map, expired) = DelayMap::<u32, ()>::new(&Timer::current());
        let mut expired = task::spawn(expired);
        map.insert(1, (), HOUR).unwrap();
        assert_pending!(expired.poll_next());
        match way {
            0 => assert_eq!(map.expire_all(), 1),
            1 => assert!(map.reset(&1, Duration::ZERO)),
            2 => assert_eq!(map.insert(1, (), Duration::ZERO), Ok(Some(()))),
            _ => assert!(map.expire(&1)),
        }
        assert!(expired.is_woken());
        assert_eq!(assert_ready!(expired.poll_next()).unwrap().key, 1);
        assert_pending!(expired.poll_next());
        let start = Instant::now();
        // Nothing else is armed: if the clock runs now, it runs for the map.
        idle_for_a_moment().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "way {way}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_drop_panics_costs_no_place_and_leaks_no_value() {
    let value = Arc::new(());
    let (map, _expired) = DelayMap::with_limit(&Timer::current(), 1);
    let insert = |breaks| {
        let map = &map;
        let value = value.clone();
        catch_unwind(AssertUnwindSafe(move || {
            map.insert(Brittle::new(1, breaks), value, HOUR).unwrap()
        }))
    };
    assert!(insert("").unwrap().is_none());
    // The key of a replacing insert is not needed.
    assert!(insert("drop").is_err());
    assert_eq!(
        (map.len(), Arc::strong_count(&value)),
        (1, 2),
        "the new value is there alone"
    );
    assert!(map.remove(&Brittle::whole(1)).is_some());
    assert!(insert("drop").unwrap().is_none(), "there is a place");
    let refused = catch_unwind(AssertUnwindSafe(|| {
        map.insert(Brittle::new(2, "drop"), value.clone(), HOUR)
    }));
    assert!(refused.is_err());
    assert_eq!(Arc::strong_count(&value), 2);
    let removed = catch_unwind(AssertUnwindSafe(|| map.remove(&Brittle::whole(1))));
    assert!(removed.is_err());
    assert_eq!((map.len(), Arc::strong_count(&value)), (0, 1));
    assert!(insert("").unwrap().is_none(), "there is a place");
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
async fn keys_and_for_each_tell_what_is_there_and_the_map_may_be_used_meanwhile() {
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
async fn what_is_received_ends_as_a_channel_does() {
    let (map, mut expired) = DelayMap::<u32, u32>::with_capacity(&Timer::current(), 100);
    for key in 0..10 {
        map.insert(key, key, (1 + key / 5) * MS).unwrap();
    }
    let mut buffer = Vec::new();
    assert_eq!(expired.recv_many(&mut buffer, 0).await, 0);
    assert_eq!(expired.recv_many(&mut buffer, 3).await, 3);
    assert_eq!(expired.recv_many(&mut buffer, 100).await, 2);
    let weak = map.downgrade();
    assert_eq!(weak.upgrade().unwrap().len(), 5);
    drop(map);
    assert!(weak.clone().upgrade().is_none());
    assert_eq!(expired.recv_many(&mut buffer, 100).await, 5);
    assert_eq!(expired.try_recv().unwrap_err(), TryRecvError::Disconnected);
    assert!(expired.recv().await.is_none());
    assert_eq!(expired.recv_many(&mut buffer, 100).await, 0);
    let keys: Vec<_> = buffer.iter().map(|value| value.key).collect();
    assert_eq!(keys, (0..10).collect::<Vec<_>>());
}

/// Random operations of many threads on thousands of keys: every value comes out once, one way.
#[test]
fn every_value_comes_out_once_whatever_four_threads_do() {
    const KEYS: u64 = 4_000;
    const ROUNDS: u64 = 20_000;
    for runtime in [current_thread(), multi_thread(2)] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, mut expired) = DelayMap::<u64, u64>::new(&timer);
        let out = AtomicUsize::new(0);
        let mut put = 0;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|seed| {
                    let (map, out) = (map.clone(), &out);
                    scope.spawn(move || {
                        let mut random = fastrand::Rng::with_seed(seed);
                        let mut put = 0;
                        let count = |values: usize| {
                            out.fetch_add(values, Ordering::Relaxed);
                        };
                        for round in 0..ROUNDS {
                            let key = random.u64(..KEYS);
                            let delay = Duration::from_micros(random.u64(..4_000));
                            match random.u8(..12) {
                                0..=3 => {
                                    put += 1;
                                    let replaced = map.insert(key, round, delay).unwrap();
                                    count(usize::from(replaced.is_some()));
                                }
                                4 => {
                                    put += 1;
                                    let refused = map.insert_if_absent(key, round, delay).unwrap();
                                    count(usize::from(refused.is_some()));
                                }
                                5 | 6 => drop(map.reset(&key, delay)),
                                7 => drop(map.reset(&key, Duration::ZERO)),
                                8 => drop(map.expire(&key)),
                                9 | 10 => count(usize::from(map.remove(&key).is_some())),
                                _ if random.u16(..800) == 0 => drop(map.expire_all()),
                                _ if random.u16(..800) == 0 => count(map.drain().len()),
                                _ => {}
                            }
                        }
                        put
                    })
                })
                .collect();
            drop(map);
            runtime.block_on(async {
                let receive = async {
                    while expired.recv().await.is_some() {
                        out.fetch_add(1, Ordering::Relaxed);
                    }
                };
                let received = tokio::time::timeout(PATIENCE, receive).await;
                assert!(received.is_ok(), "the stream does not end");
            });
            for thread in threads {
                put += thread.join().unwrap();
            }
        });
        assert_eq!(out.load(Ordering::Relaxed), put);
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_became_of_the_earliest_the_clock_runs_to_what_is_left_and_no_further() {
    type Act = fn(&DelayMap<u32, ()>);
    let acts: [(Act, Duration); 4] = [
        (
            |map| assert!(map.expire(&1) && map.remove(&1).is_some()),
            Duration::ZERO,
        ),
        (
            |map| assert!(map.expire(&1) && map.reset(&1, 5 * HOUR)),
            5 * HOUR,
        ),
        (
            |map| assert_eq!((map.expire_all(), map.drain().len()), (1, 1)),
            Duration::ZERO,
        ),
        (
            |map| {
                map.insert(2, (), 3 * HOUR).unwrap();
                map.retain(|key, _| *key == 2);
            },
            3 * HOUR,
        ),
    ];
    for (act, left) in acts {
        let (map, expired) = DelayMap::new(&Timer::current());
        let mut expired = task::spawn(expired);
        map.insert(1, (), HOUR).unwrap();
        assert_pending!(expired.poll_next());
        act(&map);
        let start = Instant::now();
        idle_for_a_moment().await;
        assert_eq!(start.elapsed(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_great_many_that_are_expired_together_come_out_in_order() {
    const KEYS: u32 = 5_000;
    let (map, mut expired) = DelayMap::new(&Timer::current());
    for key in 0..KEYS {
        let place = key * 7_919 % KEYS;
        map.insert(place, (), (1_000 + place) * MS).unwrap();
    }
    assert_eq!(map.expire_all(), KEYS as usize);
    for place in 0..KEYS {
        assert_eq!(expired.recv().await.unwrap().key, place);
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_passed_its_deadline_within_a_tick_comes_before_what_is_made_due_after_it() {
    let (map, mut expired) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    let deadline = start + Duration::from_micros(5_300);
    map.insert("passed", (), Duration::from_micros(5_300))
        .unwrap();
    tokio::time::advance(Duration::from_micros(5_400)).await;
    assert_eq!(map.expire_all(), 0, "it is due already");
    assert_eq!(map.deadline("passed"), Some(deadline));
    map.insert("at once", (), Duration::ZERO).unwrap();
    let (first, second) = (expired.recv().await.unwrap(), expired.recv().await.unwrap());
    assert_eq!((first.key, first.deadline), ("passed", deadline));
    assert_eq!(second.deadline, start + Duration::from_micros(5_400));
}

#[tokio::test(start_paused = true)]
async fn what_was_expired_has_no_time_left_when_it_is_taken() {
    let (map, _expired) = DelayMap::new(&Timer::current());
    map.insert(1, 1, HOUR).unwrap();
    assert_eq!(map.expire_all(), 1);
    assert_eq!(map.remaining(&1), Some(Duration::ZERO));
    assert_eq!(map.take_all(), [(1, 1, Duration::ZERO)]);
}

/// A value that uses its map when it is dropped: under a lock of the map's that would never end.
struct Meddles(Option<DelayMap<u32, Meddles>>);

impl Drop for Meddles {
    fn drop(&mut self) {
        if let Some(map) = self.0.take() {
            map.contains_key(&1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retain_that_panics_drops_what_it_took_out_under_no_lock_and_leaves_the_rest_in_order() {
    let (map, mut expired) = DelayMap::new(&Timer::current());
    for key in 0..200_u32 {
        let value = Meddles(Some(map.clone()));
        map.insert(key, value, (1 + key * 31 % 200) * MS).unwrap();
    }
    tokio::time::advance(HOUR).await;
    let mut asked = 0;
    let retained = catch_unwind(AssertUnwindSafe(|| {
        map.retain(|_, _| {
            asked += 1;
            assert!(asked <= 50, "enough");
            false
        });
    }));
    assert!(retained.is_err());
    assert_eq!(map.len(), 150);
    let mut last = 0;
    while let Ok(value) = expired.try_recv() {
        let place = value.key * 31 % 200;
        assert!(place >= last);
        last = place;
    }
    assert!(map.is_empty());
}

#[test]
fn a_drain_beside_a_close_leaves_no_stream_waiting() {
    let runtime = multi_thread(2);
    for _ in 0..20 {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, mut expired) = DelayMap::<u32, u32>::new(&timer);
        for key in 0..20_000 {
            map.insert(key, key, HOUR).unwrap();
        }
        let ended = runtime.spawn(async move { while expired.recv().await.is_some() {} });
        thread::scope(|scope| {
            scope.spawn(|| map.drain());
            scope.spawn(|| map.close());
        });
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, ended).await });
        assert!(ended.is_ok(), "the stream waits for nothing");
    }
}

/// One task holds the thread, and more becomes due meanwhile than one poll looks at.
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

/// Of two values that are found in one search the second is due a part of a tick later. A change of
/// a third between its deadline and its tick must not put the stream off.
#[tokio::test(start_paused = true)]
async fn what_was_found_before_its_deadline_comes_out_whatever_else_is_removed() {
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
        // Has the stream search, and find both.
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

/// A writer that puts one in before it takes another out, and readers that count.
#[test]
fn a_map_that_is_never_empty_is_never_said_to_be() {
    let runtime = multi_thread(2);
    let (map, _expired) = runtime.block_on(async { DelayMap::new(&Timer::current()) });
    map.insert(0_u32, (), HOUR).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (map, done) = (&map, &done);
        let reader = scope.spawn(move || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let keys = map.len();
                assert!((1..=2).contains(&keys), "{keys} keys");
            }
        });
        for key in 1..200_000 {
            map.insert(key, (), HOUR).unwrap();
            map.remove(&(key - 1));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
}
