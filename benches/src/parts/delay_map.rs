//! Values of 100,000 keys that are put in with a delay and taken out again, and delays that start
//! anew. The peer is what programs commonly have: a mutex over a map of keys and a `DelayQueue`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel::{DelayMap, Expirations, Timer};
use tokio_util::time::{DelayQueue, delay_queue};

use super::{How, Part, name};
use crate::harness::{Operation, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "delay-map",
    about: "values with a delay by key, 100,000 there: insert and remove, and start anew",
    how: How::Together(run),
};

const KEYS: u64 = 100_000;

fn run(settings: &Settings) -> Vec<Record> {
    let rows = [
        race("delay-map-1", 1, insert_and_remove, insert_and_remove),
        race("delay-map-2", 2, insert_and_remove, insert_and_remove),
        race("delay-map-reset", 1, reset_at_random, reset_at_random),
    ];
    rows.into_iter()
        .flat_map(|race| race.run(settings))
        .collect()
}

fn race<A: Operation, B: Operation>(
    row: &str,
    threads: usize,
    ours: fn(Arc<Ours>) -> A,
    theirs: fn(Arc<Locked>) -> B,
) -> Race {
    let mut race = Race::new(row, threads);
    let mut map = None;
    race.enter(name::TICKWHEEL, move || {
        ours(map.get_or_insert_with(|| Arc::new(Ours::new())).clone())
    });
    let mut locked = None;
    race.enter(name::MUTEX_MAP, move || {
        theirs(
            locked
                .get_or_insert_with(|| Arc::new(Locked::new()))
                .clone(),
        )
    });
    race
}

/// Puts in a key that is not there, and takes it out.
fn insert_and_remove(map: Arc<impl ByKey>) -> impl Operation {
    let mut key = KEYS + fastrand::u64(..1 << 40);
    operation(move |_, times| {
        for _ in 0..times {
            key += 1;
            map.insert(key);
            map.remove(key);
        }
    })
}

/// Starts the delay of a key anew, earlier or later than it was.
fn reset_at_random(map: Arc<impl ByKey>) -> impl Operation {
    operation(move |_, times| {
        for _ in 0..times {
            map.reset(fastrand::u64(..KEYS));
        }
    })
}

/// Long enough that no value comes out during the whole run.
fn delay() -> Duration {
    Duration::from_millis(300_000 + fastrand::u64(..60_000))
}

trait ByKey: Send + Sync + 'static {
    fn insert(&self, key: u64);
    fn remove(&self, key: u64);
    fn reset(&self, key: u64);
}

struct Ours {
    map: DelayMap<u64, u64>,
    /// Kept, because to drop it would close the map.
    _expirations: Expirations<u64, u64>,
}

impl Ours {
    fn new() -> Ours {
        let (map, expirations) = DelayMap::new(&Timer::current());
        let ours = Ours {
            map,
            _expirations: expirations,
        };
        (0..KEYS).for_each(|key| ours.insert(key));
        ours
    }
}

impl ByKey for Ours {
    fn insert(&self, key: u64) {
        let replaced = self.map.insert(key, key, delay()).expect("it is open");
        assert!(replaced.is_none());
    }

    fn remove(&self, key: u64) {
        assert_eq!(self.map.remove(&key), Some(key));
    }

    fn reset(&self, key: u64) {
        assert!(self.map.reset(&key, delay()));
    }
}

/// What programs commonly have.
pub(super) struct Locked(Mutex<KeyedQueue>);

struct KeyedQueue {
    values: HashMap<u64, (u64, delay_queue::Key)>,
    queue: DelayQueue<u64>,
}

impl Locked {
    fn new() -> Locked {
        Locked::with_keys(KEYS)
    }

    pub(super) fn with_keys(keys: u64) -> Locked {
        let locked = Locked(Mutex::new(KeyedQueue {
            values: HashMap::new(),
            queue: DelayQueue::new(),
        }));
        (0..keys).for_each(|key| locked.insert(key));
        locked
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        self.with(|KeyedQueue { values, .. }| values.contains_key(&key))
    }

    pub(super) fn clear(&self) {
        self.with(|KeyedQueue { values, queue }| {
            values.clear();
            queue.clear();
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut KeyedQueue) -> T) -> T {
        act(&mut self.0.lock().expect("nothing panics under it"))
    }
}

impl ByKey for Locked {
    fn insert(&self, key: u64) {
        self.with(|KeyedQueue { values, queue }| {
            let place = queue.insert(key, delay());
            assert!(values.insert(key, (key, place)).is_none());
        });
    }

    fn remove(&self, key: u64) {
        self.with(|KeyedQueue { values, queue }| {
            let (value, place) = values.remove(&key).expect("it is there");
            queue.remove(&place);
            assert_eq!(value, key);
        });
    }

    fn reset(&self, key: u64) {
        self.with(|KeyedQueue { values, queue }| {
            let (_, place) = values.get(&key).expect("it is there");
            queue.reset(place, delay());
        });
    }
}
