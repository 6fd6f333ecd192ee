//! Many threads at once: every value comes out once, and no wake-up is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use futures::stream::StreamExt;
use tickwheel::{DelayMap, Duration, Instant, Timer};

use crate::common::{HOUR, PATIENCE, current_thread, multi_thread};

/// Four threads insert, reset, remove and drain while the stream is consumed. Every value has a
/// number. Each number comes out exactly once: replaced, removed, drained or expired.
#[test]
fn four_threads_and_the_stream_lose_and_double_nothing() {
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

/// One thread inserts what is due at once, the other waits for it. If a wake-up is lost, the test
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

/// A plain thread inserts what is due at once, takes it out again, and inserts another. Whatever
/// the stream was about to do, it is woken for the other.
#[test]
fn a_value_that_comes_and_goes_leaves_nobody_asleep() {
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
fn keys_made_due_again_and_again_hold_nothing_back() {
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

/// The writer puts one value in before it takes another out, while a reader counts.
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

/// Three threads change the map of a current-thread runtime, while a task of it receives. An item
/// may be found while it lies ahead by a fraction of a tick. When it becomes due, the stream must
/// not be left to a timer that the next change moves away.
#[test]
fn a_stream_does_not_sleep_after_threads_have_changed_its_map() {
    const KEYS: u64 = 50;
    for round in 0..60_u64 {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, mut expirations) = DelayMap::new(&timer);
        let driving = thread::spawn(move || {
            runtime.block_on(async { while expirations.recv().await.is_some() {} });
        });
        let until = Instant::now() + Duration::from_millis(25);
        thread::scope(|scope| {
            for thread in 0..3 {
                let map = &map;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(round * 3 + thread);
                    while Instant::now() < until {
                        let key = thread * KEYS + random.u64(0..KEYS);
                        let delay = Duration::from_micros(random.u64(0..3_000));
                        match random.u8(0..3) {
                            0 => drop(map.insert(key, (), delay).unwrap()),
                            1 => drop(map.remove(&key)),
                            _ => drop(map.reset(&key, delay)),
                        }
                    }
                });
            }
        });
        // Nobody calls the stream from here on. What is left is due in 3 ms.
        let give_up = Instant::now() + PATIENCE;
        while !map.is_empty() {
            let left = map.len();
            assert!(Instant::now() < give_up, "{left} sleep, round {round}");
            thread::sleep(Duration::from_micros(100));
        }
        drop(map);
        driving.join().unwrap();
    }
}
