//! Many threads at once: no key is missed, lost or doubled, and every place is given back.

use std::thread;

use tickwheel::{DeadlineMap, Duration, Timer};

use crate::common::{HOUR, multi_thread};
use crate::runtime;

/// A key that is replaced again and again is there at every moment.
#[test]
fn a_kick_does_not_miss_a_key_that_is_replaced_meanwhile() {
    let runtime = multi_thread(1);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let map = DeadlineMap::new(&timer);
    let mut kept = map.insert(1, HOUR).unwrap();
    thread::scope(|scope| {
        let kicks = scope.spawn(|| (0..200_000).filter(|_| !map.reset_after(&1, HOUR)).count());
        while !kicks.is_finished() {
            kept = map.insert(1, HOUR).unwrap();
        }
        assert_eq!(kicks.join().unwrap(), 0);
    });
    drop(kept);
}

/// Four threads insert, reset and drain at once. Each deadline ends once: it expires, is replaced,
/// or is cancelled and in the result of exactly one drain.
#[test]
fn nothing_is_lost_or_doubled_between_four_threads() {
    const KEYS: u64 = 64;
    const EACH: u64 = 5_000;
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let map: DeadlineMap<u64> = DeadlineMap::new(&timer);
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let map = map.clone();
            let runtime = runtime.handle().clone();
            thread::spawn(move || {
                let mut tasks = Vec::new();
                let mut drained = 0;
                for round in 0..EACH {
                    let number = (round * 4 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                    let key = number % KEYS;
                    let keyed = map
                        .insert(key, Duration::from_micros(number % 3_000))
                        .unwrap();
                    tasks.push(runtime.spawn(keyed));
                    map.reset(&((key + 1) % KEYS));
                    if number % 97 == 0 {
                        drained += map.drain().len();
                    }
                }
                (tasks, drained)
            })
        })
        .collect();
    let (mut expired, mut replaced, mut cancelled, mut drained) = (0, 0, 0, 0);
    for thread in threads {
        let (tasks, drained_by_it) = thread.join().unwrap();
        drained += drained_by_it;
        for task in tasks {
            match runtime.block_on(task).unwrap() {
                Ok(()) => expired += 1,
                Err(error) if error.is_replaced() => replaced += 1,
                Err(_) => cancelled += 1,
            }
        }
    }
    assert_eq!(expired + replaced + cancelled, 4 * EACH);
    assert_eq!(
        cancelled, drained as u64,
        "each cancelled one came out of one drain"
    );
    assert!(
        expired > 0 && replaced > 0 && cancelled > 0,
        "{expired}, {replaced}, {cancelled}"
    );
    assert!(map.is_empty());
    assert_eq!(timer.metrics().pending, 0);
}

#[test]
fn of_inserts_if_absent_that_race_one_gets_the_deadline() {
    let (_runtime, timer) = runtime();
    let map = DeadlineMap::new(&timer);
    for round in 0..2_000 {
        let got = thread::scope(|scope| {
            let racers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| map.insert_if_absent(round, HOUR).unwrap()))
                .collect();
            let got: Vec<_> = racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect();
            got.into_iter().flatten().collect::<Vec<_>>()
        });
        assert_eq!((got.len(), map.len()), (1, 1));
        assert!(got[0].handle().is_pending() && map.reset(&round));
    }
    assert_eq!(timer.metrics().pending, 0);
}

/// Drains race with deadlines that are dropped, removed, restarted and walked through. At the end
/// no place is taken, and no place was given back twice.
#[test]
fn places_are_right_whatever_races_with_a_drain() {
    const KEYS: u64 = 3_000;
    let (_runtime, timer) = runtime();
    let map: DeadlineMap<u64> = DeadlineMap::with_limit(&timer, KEYS as usize + 5);
    let drained: usize = thread::scope(|scope| {
        let inserters: Vec<_> = (0..3_u64)
            .map(|thread| {
                let map = &map;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    let mut random = fastrand::Rng::with_seed(thread);
                    for round in 0..60_000 {
                        let key = random.u64(..KEYS);
                        kept.push(map.insert(key, HOUR).unwrap());
                        if kept.len() > 1_500 {
                            let mut keyed = kept.swap_remove(random.usize(..kept.len()));
                            match round % 3 {
                                0 => drop(map.remove(&keyed)),
                                1 => keyed.restart(),
                                _ => {}
                            }
                        }
                    }
                })
            })
            .collect();
        let mut drained = 0;
        while !inserters.iter().all(|inserter| inserter.is_finished()) {
            drained += map.drain().len();
            assert!(map.len() <= KEYS as usize);
            map.expire_all();
            map.for_each(|key, handle| assert!(*key < KEYS && handle.timeout() == HOUR));
        }
        drained
    });
    assert!(drained > 0);
    assert_eq!((map.len(), map.keys().len()), (0, 0));
    assert_eq!(timer.metrics().pending, 0);
}
