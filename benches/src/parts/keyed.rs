//! 100,000 keys: deadlines that are reset by key at random, values with a delay that are put in and
//! taken out, and delays that start again. The peer is what programs commonly have: a mutex over a
//! map of keys and a `DelayQueue`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel::{DeadlineMap, DelayMap, Expirations, KeyedDeadline, Timer};
use tokio_util::time::{DelayQueue, delay_queue};

use crate::harness::{Hand, Race, Record, STANDING, operation};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "keyed",
    about: "by key, 100,000 there: reset a deadline, put a value in and take it out",
    state: "A standing sleep, and a standing item in each map, is due before all keys. Unlike a \
            server: a loop does nothing else, no key expires, and the stream or the queue is \
            never polled. Two threads contend as often as they can.",
    how: How::Together(run),
};

const KEYS: u64 = 100_000;
/// The key that is due before all others.
pub(super) const STANDS: u64 = u64::MAX;

fn run(settings: &Settings) -> Vec<Record> {
    let reset = race(
        "delay-map-reset".to_owned(),
        1,
        filled::<Values>,
        reset_at_random,
    );
    let mut records = reset.run(settings);
    for threads in [0, 1, 2] {
        records.extend(resets(threads).run(settings));
        records.extend(inserts(threads).run(settings));
    }
    records
}

pub(super) fn resets(threads: usize) -> Race {
    let row = format!("map-{threads}");
    race(row, threads, filled::<Deadlines>, reset_at_random)
}

pub(super) fn inserts(threads: usize) -> Race {
    let row = format!("delay-map-{threads}");
    race(row, threads, filled::<Values>, insert_and_remove)
}

type Shared = Arc<dyn ByKey>;

fn race(row: String, threads: usize, ours: fn() -> Shared, act: fn(Shared) -> Hand) -> Race {
    let mut race = Race::new(row, threads);
    for (name, make) in [(name::TICKWHEEL, ours), (name::MUTEX_MAP, filled::<Locked>)] {
        // All threads share it.
        let mut map = None;
        race.enter(name, move || act(map.get_or_insert_with(make).clone()));
    }
    race
}

fn filled<M: ByKey + Default>() -> Shared {
    let map = M::default();
    map.insert_for(STANDS, STANDING);
    (0..KEYS).for_each(|key| map.insert(key));
    Arc::new(map)
}

/// Puts in a key that is not there, and takes it out.
fn insert_and_remove(map: Shared) -> Hand {
    let mut key = KEYS + fastrand::u64(..1 << 40);
    operation(move |_, times| {
        for _ in 0..times {
            key += 1;
            map.insert(key);
            map.remove(key);
        }
    })
}

/// Starts the time of a key again.
fn reset_at_random(map: Shared) -> Hand {
    operation(move |_, times| (0..times).for_each(|_| map.reset(fastrand::u64(..KEYS))))
}

/// Long enough that nothing comes out during the whole run.
fn delay() -> Duration {
    Duration::from_millis(300_000 + fastrand::u64(..60_000))
}

pub(super) trait ByKey: Send + Sync + 'static {
    fn insert(&self, key: u64) {
        self.insert_for(key, delay());
    }
    fn insert_for(&self, key: u64, after: Duration);
    /// Of values alone.
    fn remove(&self, _: u64) {
        unreachable!("it is not taken out")
    }
    /// A value's delay ends earlier or later than before, and a deadline later.
    fn reset(&self, key: u64);
}

struct Deadlines {
    map: DeadlineMap<u64>,
    deadlines: Mutex<Vec<KeyedDeadline<u64>>>,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        let map = DeadlineMap::new(&Timer::current());
        let deadlines = Mutex::default();
        Deadlines { map, deadlines }
    }
}

impl ByKey for Deadlines {
    fn insert_for(&self, key: u64, after: Duration) {
        let deadline = self.map.insert(key, after).expect("there is no limit");
        self.deadlines.lock().unwrap().push(deadline);
    }

    fn reset(&self, key: u64) {
        assert!(self.map.reset(&key));
    }
}

pub(super) struct Values {
    map: DelayMap<u64, u64>,
    /// Kept, because to drop it would close the map.
    _expirations: Expirations<u64, u64>,
}

impl Default for Values {
    fn default() -> Values {
        let (map, _expirations) = DelayMap::new(&Timer::current());
        Values { map, _expirations }
    }
}

impl ByKey for Values {
    fn insert_for(&self, key: u64, after: Duration) {
        let replaced = self.map.insert(key, key, after).expect("it is open");
        assert!(replaced.is_none());
    }

    fn remove(&self, key: u64) {
        assert_eq!(self.map.remove(&key), Some(key));
    }

    fn reset(&self, key: u64) {
        assert!(self.map.set(&key, delay()));
    }
}

/// What programs commonly have.
#[derive(Default)]
pub(super) struct Locked(Mutex<KeyedQueue>);

#[derive(Default)]
struct KeyedQueue {
    values: HashMap<u64, (u64, delay_queue::Key)>,
    queue: DelayQueue<u64>,
}

impl Locked {
    fn with<T>(&self, act: impl FnOnce(&mut KeyedQueue) -> T) -> T {
        act(&mut self.0.lock().expect("nothing panics under it"))
    }
}

impl ByKey for Locked {
    fn insert_for(&self, key: u64, after: Duration) {
        self.with(|KeyedQueue { values, queue }| {
            let place = queue.insert(key, after);
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
