//! `DeadlineMap`: what it keeps in memory, counted by the allocator, and how long it makes others
//! wait.
//!
//! One test in one process, so that no other test allocates meanwhile.

mod common;
#[path = "common/memory.rs"]
mod memory;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tickwheel::{DeadlineMap, Duration, KeyedDeadline, Timer};

use crate::common::{HOUR, is_forced_to_tick, multi_thread};
use crate::memory::{grown_since, used};

const KEYS: usize = 300_000;

#[test]
fn memory_follows_the_keys_and_nobody_waits_for_all_of_them() {
    let runtime = multi_thread(1);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    // Let whatever is allocated once be allocated.
    drop(DeadlineMap::new(&timer).insert(1, HOUR));
    thread::sleep(Duration::from_millis(50));
    an_empty_map_is_small(&timer);
    a_map_of_few_keys_is_small(&timer);
    memory_comes_back_in_whatever_order_keys_go(&timer);
    what_a_drain_has_taken_is_freed(&timer);
    nobody_waits_long_for_a_drain(&timer);
}

fn an_empty_map_is_small(timer: &Timer) {
    let before = used();
    let map: DeadlineMap<u64> = DeadlineMap::new(timer);
    assert!(used() - before <= 600, "{} bytes", used() - before);
    assert!(!map.contains_key(&1) && map.drain().is_empty() && map.keys().is_empty());
    assert!(used() - before <= 600, "to ask makes no part");
}

fn a_map_of_few_keys_is_small(timer: &Timer) {
    let _warm = timer.deadline(HOUR);
    let before = used();
    let maps: Vec<_> = (0..1_000_u64)
        .map(|number| {
            let map = DeadlineMap::new(timer);
            let keyed: Vec<_> = (0..2)
                .map(|key| map.insert(number + key, HOUR).unwrap())
                .collect();
            (map, keyed)
        })
        .collect();
    let each = (used() - before) / maps.len();
    assert!(each <= 2_000, "{each} bytes for a map of two keys");
}

/// The deadlines are cancelled at once, so that nothing is kept by the timer.
fn memory_comes_back_in_whatever_order_keys_go(timer: &Timer) {
    let orders: [fn(&mut Vec<KeyedDeadline<usize>>); 3] = [
        |_| {},
        |keyed| keyed.reverse(),
        |keyed| fastrand::shuffle(keyed),
    ];
    for (number, order) in orders.into_iter().enumerate() {
        let mut keyed = Vec::with_capacity(KEYS);
        let list = size_of::<KeyedDeadline<usize>>() * KEYS;
        let start = used() - list;
        let map = DeadlineMap::new(timer);
        for key in 0..KEYS {
            keyed.push(map.insert(key, HOUR).unwrap());
            assert!(map.cancel(&key));
        }
        let each = (used() - start) / KEYS;
        assert!(each <= 24 + 72 + 40, "{each} bytes for a key");
        // A walk that ends, by a panic or not, leaves nothing behind that keeps memory.
        assert_eq!(map.expire_all(), 0);
        let stopped = catch_unwind(AssertUnwindSafe(|| {
            map.for_each(|_, _| resume_unwind(Box::new("no message")));
        }));
        assert!(stopped.is_err());
        order(&mut keyed);
        keyed.truncate(KEYS / 100);
        let left = used() - start - list;
        assert!(
            left <= 20_000 + 200 * keyed.len(),
            "order {number}: {left} bytes"
        );
        drop(keyed);
        assert!(map.is_empty());
        let left = grown_since(start);
        // A driver that ticks keeps a log of when it was late, of 32 kB at most.
        let ticks = is_forced_to_tick();
        let most = if ticks { 8_000 + 64_000 } else { 8_000 };
        assert!(left <= most, "order {number}: {left} bytes for no key");
    }
}

fn what_a_drain_has_taken_is_freed(timer: &Timer) {
    let map = DeadlineMap::new(timer);
    let keyed: Vec<_> = (0..KEYS)
        .map(|key| map.insert(key, HOUR).unwrap())
        .collect();
    let full = used();
    assert_eq!(map.drain().len(), KEYS);
    assert!(
        full - used() > 15 * KEYS,
        "{} bytes came back",
        full - used()
    );
    assert_eq!((map.len(), keyed.len()), (0, KEYS));
}

/// If a drain held its locks for its whole time, some thread would wait for nearly all of it. Here
/// a thread waits only while the system gives it no processor. So each wait is compared with the
/// drain, and one good try of eight will do.
fn nobody_waits_long_for_a_drain(timer: &Timer) {
    let longest_wait_and_drain = || {
        let map = DeadlineMap::new(timer);
        let _keyed: Vec<_> = (0..KEYS)
            .map(|key| map.insert(key, HOUR).unwrap())
            .collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    map.contains_key(&fastrand::usize(..KEYS));
                    drop(map.insert(KEYS, HOUR));
                    longest = longest.max(start.elapsed());
                }
                longest
            });
            thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            let drained = map.drain().len();
            let took = start.elapsed();
            is_over.store(true, Ordering::Relaxed);
            assert!(drained >= KEYS);
            (waits.join().unwrap(), took)
        })
    };
    let mut tries = (0..8).map(|_| longest_wait_and_drain());
    assert!(
        tries.any(|(longest, took)| longest < took / 8),
        "each time somebody waited for much of a drain"
    );
}
