//! 100,000 keys: deadlines that are reset by key at random, values with a delay that are put in and
//! taken out, and delays that start anew. The peer is what programs commonly have: a mutex over a
//! map of keys and a `DelayQueue`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel::{DeadlineMap, DelayMap, Expirations, KeyedDeadline, Timer};
use tokio_util::time::{DelayQueue, delay_queue};

use super::{How, Part, name};
use crate::harness::{Operation, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "keyed",
    about: "by key, 100,000 there: reset a deadline, put a value in and take it out",
    how: How::Together(run),
};

const KEYS: u64 = 100_000;

fn run(settings: &Settings) -> Vec<Record> {
    let mut races = Vec::new();
    for threads in [0, 1, 2] {
        races.push({
            let mut race = Race::new(format!("map-{threads}"), threads);
            enter(&mut race, name::TICKWHEEL, Deadlines::new, reset_at_random);
            enter(&mut race, name::MUTEX_MAP, Locked::new, reset_at_random);
            race
        });
        races.push({
            let mut race = Race::new(format!("delay-map-{threads}"), threads);
            enter(&mut race, name::TICKWHEEL, Values::new, insert_and_remove);
            if threads > 0 {
                enter(
                    &mut race,
                    name::PARTS_256,
                    Values::of_256_parts,
                    insert_and_remove,
                );
            }
            enter(&mut race, name::MUTEX_MAP, Locked::new, insert_and_remove);
            race
        });
    }
    let mut race = Race::new("delay-map-reset", 1);
    enter(&mut race, name::TICKWHEEL, Values::new, reset_at_random);
    enter(&mut race, name::MUTEX_MAP, Locked::new, reset_at_random);
    races.push(race);
    let records = races.into_iter().flat_map(|race| race.run(settings));
    records.collect()
}

/// All threads share what `make` makes.
fn enter<M: ByKey, O: Operation>(
    race: &mut Race,
    name: &'static str,
    make: fn() -> M,
    act: fn(Arc<M>) -> O,
) {
    let mut map = None;
    race.enter(name, move || {
        act(map.get_or_insert_with(|| Arc::new(make())).clone())
    });
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

/// Starts the time of a key anew.
fn reset_at_random(map: Arc<impl ByKey>) -> impl Operation {
    operation(move |_, times| {
        for _ in 0..times {
            map.reset(fastrand::u64(..KEYS));
        }
    })
}

/// Long enough that nothing comes out during the whole run.
fn delay() -> Duration {
    Duration::from_millis(300_000 + fastrand::u64(..60_000))
}

trait ByKey: Send + Sync + 'static {
    /// Of values alone, as `remove` is.
    fn insert(&self, _: u64) {
        unreachable!("it is not put in")
    }
    fn remove(&self, _: u64) {
        unreachable!("it is not taken out")
    }
    /// A value's delay ends earlier or later than before, and a deadline later.
    fn reset(&self, key: u64);
}

struct Deadlines {
    map: DeadlineMap<u64>,
    _deadlines: Vec<KeyedDeadline<u64>>,
}

impl Deadlines {
    fn new() -> Deadlines {
        let map = DeadlineMap::new(&Timer::current());
        let insert = |key| map.insert(key, delay()).expect("the map has no limit");
        let _deadlines = (0..KEYS).map(insert).collect();
        Deadlines { map, _deadlines }
    }
}

impl ByKey for Deadlines {
    fn reset(&self, key: u64) {
        assert!(self.map.reset(&key));
    }
}

struct Values {
    map: DelayMap<u64, u64>,
    /// Kept, because to drop it would close the map.
    _expirations: Expirations<u64, u64>,
}

impl Values {
    fn new() -> Values {
        Values::on(&Timer::current())
    }

    fn of_256_parts() -> Values {
        let timer = Timer::builder().shards(256).build();
        Values::on(&timer.expect("so many are allowed"))
    }

    fn on(timer: &Timer) -> Values {
        let (map, _expirations) = DelayMap::new(timer);
        let values = Values { map, _expirations };
        (0..KEYS).for_each(|key| values.insert(key));
        values
    }
}

impl ByKey for Values {
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
struct Locked(Mutex<KeyedQueue>);

#[derive(Default)]
struct KeyedQueue {
    values: HashMap<u64, (u64, delay_queue::Key)>,
    queue: DelayQueue<u64>,
}

impl Locked {
    fn new() -> Locked {
        let locked = Locked(Mutex::default());
        (0..KEYS).for_each(|key| locked.insert(key));
        locked
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
