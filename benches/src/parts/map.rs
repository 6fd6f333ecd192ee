//! 100,000 deadlines that are reset by key, in random order. The peer is what programs commonly
//! have: a mutex over a map of keys and a `DelayQueue` that one task drains.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, ready};
use std::time::Duration;

use tickwheel::{DeadlineMap, KeyedDeadline, Timer};
use tokio_util::time::{DelayQueue, delay_queue};

use super::{How, Part, name};
use crate::harness::{Operation, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "map",
    about: "reset by key, 100,000 keys at random, on 1 and 2 threads",
    how: How::Together(run),
};

const KEYS: u64 = 100_000;

fn run(settings: &Settings) -> Vec<Record> {
    [1, 2]
        .into_iter()
        .flat_map(|threads| race(threads).run(settings))
        .collect()
}

fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("map-{threads}"), threads);
    let mut ours = None;
    race.enter(name::TICKWHEEL, move || {
        reset_by_key(ours.get_or_insert_with(|| Arc::new(Ours::new())).clone())
    });
    let mut locked = None;
    race.enter(name::MUTEX_MAP, move || {
        reset_by_key(locked.get_or_insert_with(Locked::start).clone())
    });
    race
}

fn reset_by_key(map: Arc<impl ResetByKey>) -> impl Operation {
    let keys: Vec<u64> = std::iter::repeat_with(|| fastrand::u64(..KEYS))
        .take(1 << 18)
        .collect();
    let mut keys = keys.into_iter().cycle();
    operation(move |_, times| {
        let mut in_time = 0;
        for key in keys.by_ref().take(times) {
            in_time += usize::from(map.reset(key));
        }
        assert_eq!(in_time, times);
    })
}

trait ResetByKey: Send + Sync + 'static {
    fn reset(&self, key: u64) -> bool;
}

/// Long enough that no key expires during the whole run.
fn timeout(key: u64) -> Duration {
    Duration::from_secs(300) + Duration::from_micros(key * 97)
}

struct Ours {
    map: DeadlineMap<u64>,
    _deadlines: Vec<KeyedDeadline<u64>>,
}

impl Ours {
    fn new() -> Ours {
        let map = DeadlineMap::new(&Timer::current());
        let deadlines = (0..KEYS)
            .map(|key| map.insert(key, timeout(key)).expect("the map has no limit"))
            .collect();
        Ours {
            map,
            _deadlines: deadlines,
        }
    }
}

impl ResetByKey for Ours {
    fn reset(&self, key: u64) -> bool {
        self.map.reset(&key)
    }
}

struct Locked(Mutex<KeyedQueue>);

struct KeyedQueue {
    keys: HashMap<u64, delay_queue::Key>,
    queue: DelayQueue<u64>,
}

impl Locked {
    fn start() -> Arc<Locked> {
        let mut queue = DelayQueue::new();
        let keys = (0..KEYS)
            .map(|key| (key, queue.insert(key, timeout(key))))
            .collect();
        let locked = Arc::new(Locked(Mutex::new(KeyedQueue { keys, queue })));
        let drained = locked.clone();
        tokio::spawn(poll_fn(move |cx| {
            while let Some(expired) = ready!(drained.lock().queue.poll_expired(cx)) {
                drained.lock().keys.remove(&expired.into_inner());
            }
            Poll::Ready(())
        }));
        locked
    }

    fn lock(&self) -> MutexGuard<'_, KeyedQueue> {
        self.0.lock().expect("nothing panics under it")
    }
}

impl ResetByKey for Locked {
    fn reset(&self, key: u64) -> bool {
        let mut locked = self.lock();
        let KeyedQueue { keys, queue } = &mut *locked;
        let Some(place) = keys.get(&key) else {
            return false;
        };
        queue.reset(place, timeout(key));
        true
    }
}
