//! Each kind of timer and key by itself: what it costs, and that it comes back, except small
//! stores, in whatever order and way they go.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

use tickwheel::wheel::Wheel;
use tickwheel::{DeadlineMap, DelayMap, Duration, Expirations, KeyedDeadline, Sleep, Timer};

use super::{grown_since, used};
use crate::common::{HOUR, arm};

const COUNT: usize = 50_000;
const KEYS: u64 = 40_000;

/// Small stores that the parts of an empty map may keep.
const KEPT: usize = 800_000;

/// How much more is in use after `act`, by its name.
fn comes_back(what: &str, most: usize, act: impl FnOnce()) {
    let before = used();
    act();
    let left = grown_since(before);
    assert!(left < most, "{what}: {left} bytes are still in use");
}

fn poll(sleep: &mut Sleep) {
    arm(sleep, Waker::noop());
}

/// A segment takes 32 KiB, or eight values if those are larger. The first one grows to that.
pub(crate) fn wheels_of_large_values() {
    fn takes<const SIZE: usize>(count: usize) {
        let before = used();
        let mut wheel = Wheel::new();
        wheel.extend((0..count as u64).map(|due| (due, [0_u8; SIZE])));
        let (grown, values) = (grown_since(before), count * SIZE);
        assert!(grown > values);
        let segment = (8 * SIZE).max(32 << 10);
        let most = values * 9 / 8 + segment + 10_000;
        assert!(grown < most, "{count} of {SIZE} bytes: {grown}, not {most}");
        drop(wheel);
        assert!(grown_since(before) < 100);
    }
    let before = used();
    let mut wheel = Wheel::new();
    wheel.insert(1, 1_u64);
    let one = grown_since(before);
    assert!(one < 8_000, "{one} bytes for one timer");
    drop(wheel);
    takes::<500>(1_025);
    takes::<1_000>(1_025);
    takes::<5_000>(57);
    takes::<40_000>(25);
}

pub(crate) async fn timers() {
    let timer = Timer::builder().build().unwrap();
    // What a program sets up once.
    poll(&mut timer.sleep(HOUR));
    tokio::task::yield_now().await;
    comes_back("sleeps, one after another", 20_000, || {
        (0..COUNT).for_each(|_| poll(&mut timer.sleep(HOUR)));
    });
    comes_back("sleeps, all at once", 50_000, || {
        let before = used();
        let mut sleeps: Vec<_> = (0..COUNT).map(|_| timer.sleep(HOUR)).collect();
        sleeps.iter_mut().for_each(poll);
        let each = (used() - before) / COUNT;
        assert!(each <= 140, "{each} bytes for a sleep and its entry");
        fastrand::Rng::with_seed(2).shuffle(&mut sleeps);
    });
    comes_back("deadlines", 50_000, || {
        let before = used();
        let deadlines: Vec<_> = (0..COUNT).map(|_| timer.deadline(HOUR)).collect();
        let handles: Vec<_> = deadlines.iter().map(|deadline| deadline.handle()).collect();
        assert!(handles.iter().all(|handle| handle.reset()));
        let each = (used() - before) / COUNT;
        assert!(each <= 256, "{each} bytes for a deadline and its handle");
    });
    assert_eq!(timer.metrics().pending(), 0);
}

pub(crate) async fn deadline_map() {
    let timer = &Timer::builder().build().unwrap();
    // What a program sets up once. This one stays, as no timer is empty then.
    let _kept = DeadlineMap::new(timer).insert(1, HOUR);
    comes_back("an empty map", 1, || {
        let before = used();
        let map: DeadlineMap<u64> = DeadlineMap::new(timer);
        assert!(!map.contains_key(&1) && map.drain().is_empty());
        let size = used() - before;
        assert!(size <= 600, "{size} bytes for an empty map that was asked");
    });
    comes_back("many small maps", 50_000, || {
        let before = used();
        let maps: Vec<_> = (0..1_000).map(|_| DeadlineMap::new(timer)).collect();
        let of = |map: &DeadlineMap<u64>| [1, 2].map(|key| map.insert(key, HOUR).unwrap());
        let _keyed: Vec<_> = maps.iter().map(of).collect();
        let each = (used() - before) / maps.len();
        assert!(each <= 2_000, "{each} bytes for a map of two keys");
    });
    let orders: [fn(&mut Vec<KeyedDeadline<u64>>); 3] = [
        |_| {},
        |keyed| keyed.reverse(),
        |keyed| fastrand::Rng::with_seed(4).shuffle(keyed),
    ];
    for order in orders {
        comes_back("keys", 80_000, || keys_go(timer, order));
    }
    comes_back("what a drain has taken", 80_000, || {
        let map = DeadlineMap::new(timer);
        let insert = |key| map.insert(key, HOUR).unwrap();
        let _keyed: Vec<_> = (0..KEYS).map(insert).collect();
        let full = used();
        assert_eq!(map.drain().len() as u64, KEYS);
        let back = full - used();
        assert!(back as u64 > 15 * KEYS, "a drain gives {back} bytes back");
    });
}

/// The deadlines are cancelled at once, so that only the map keeps anything.
fn keys_go(timer: &Timer, order: fn(&mut Vec<KeyedDeadline<u64>>)) {
    let mut keyed = Vec::with_capacity(KEYS as usize);
    let before = used();
    let map = DeadlineMap::new(timer);
    for key in 0..KEYS {
        keyed.push(map.insert(key, HOUR).unwrap());
        assert!(map.handle(&key).unwrap().cancel());
    }
    let each = (used() - before) as u64 / KEYS;
    assert!(each <= 24 + 72 + 40, "{each} bytes for a key");
    // A walk that ends, by a panic or not, leaves nothing behind that keeps memory.
    assert_eq!(map.expire_all(), 0);
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        map.for_each(|_, _| resume_unwind(Box::new("no message")));
    }));
    assert!(stopped.is_err());
    order(&mut keyed);
    keyed.truncate(1_000);
    let left = grown_since(before);
    assert!(left <= 220_000, "{left} bytes for 1,000 keys");
    keyed.clear();
    assert!(map.is_empty());
    let left = grown_since(before);
    assert!(left <= 8_000 + 64_000, "{left} bytes for no key");
}

/// How the values go out again.
type Way = fn(&DelayMap<u64, u64>, &mut Expirations<u64, u64>, &[u64]);

pub(crate) async fn delay_map() {
    let timer = Timer::builder().build().unwrap();
    let mut shuffled: Vec<u64> = (0..KEYS).collect();
    fastrand::Rng::with_seed(3).shuffle(&mut shuffled);
    let ways: [(&str, Way); 7] = [
        ("first to last", |map, _, _| remove(map, 0..KEYS)),
        ("last to first", |map, _, _| remove(map, (0..KEYS).rev())),
        ("at random", |map, _, keys| {
            remove(map, keys.iter().copied());
        }),
        ("drained", |map, _, _| drop(map.drain())),
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
    // What a program sets up once.
    drop(DelayMap::<u64, u64>::new(&timer));
    tokio::task::yield_now().await;
    for (way, empty) in ways {
        let (map, mut expired) = DelayMap::new(&timer);
        let mut fill_and_empty = || {
            for key in 0..KEYS {
                let delay = HOUR + Duration::from_millis(key);
                map.insert(key, key, delay).unwrap();
            }
            empty(&map, &mut expired, &shuffled);
            assert!(map.is_empty());
        };
        comes_back(way, KEPT, &mut fill_and_empty);
        comes_back(way, 70_000, &mut fill_and_empty);
    }
    queues_hold_no_more_than_there_are_keys(&timer);
}

fn remove(map: &DelayMap<u64, u64>, mut keys: impl Iterator<Item = u64>) {
    assert!(keys.all(|key| map.remove(&key).is_some()));
}

/// The number of keys stays, and so does what they take, whatever is done to them.
fn queues_hold_no_more_than_there_are_keys(timer: &Timer) {
    let (map, _expired) = DelayMap::new(timer);
    let put = |key| map.insert(key, key, HOUR).unwrap();
    assert!((0..1_000).all(|key| put(key).is_none()));
    comes_back("keys that are due again and again", 400_000, || {
        for round in 0..100 {
            for key in 0..1_000 {
                match (key + round) % 4 {
                    0 => drop(map.set(&key, Duration::ZERO)),
                    1 => drop(map.expire(&key)),
                    2 => drop(map.insert(key, key, Duration::ZERO).unwrap()),
                    _ => drop(map.set(&key, HOUR)),
                }
            }
            if round % 50 == 0 {
                map.expire_all();
            }
        }
    });
}
