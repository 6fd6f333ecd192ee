//! A map that is drained of a million keys: how long the drain takes, and how long the call of
//! another thread waits meanwhile, at worst.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tickwheel::{DeadlineMap, DelayMap, Timer};

use super::delay_map::Locked;
use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "drain",
    about: "another thread's longest wait while a map of 1,000,000 keys is drained",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::MUTEX_MAP],
        rounds: 5,
        run,
    },
};

const LATER: Duration = Duration::from_secs(3_600);

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    let keys = settings.either(1_000_000, 100_000);
    let record =
        |row, waited: Duration| Record::new(row, contender, vec![waited.as_secs_f64() * 1e3]);
    runtime(2).block_on(async {
        let timer = Timer::current();
        if contender == name::MUTEX_MAP {
            let map = Locked::with_keys(keys);
            let waited = longest_wait(|key| map.contains(key), || map.clear());
            return vec![record("drain-delay-map", waited)];
        }
        let (values, _expired) = DelayMap::new(&timer);
        for key in 0..keys {
            values.insert(key, key, LATER).expect("the map is open");
        }
        let delay_map = longest_wait(|key| values.contains_key(&key), || drop(values.drain()));
        let deadlines = DeadlineMap::new(&timer);
        let insert = |key| deadlines.insert(key, LATER).expect("the map is open");
        let kept: Vec<_> = (0..keys).map(insert).collect();
        let deadline_map = longest_wait(
            |key| deadlines.contains_key(&key),
            || drop(deadlines.drain()),
        );
        drop(kept);
        vec![
            record("drain-delay-map", delay_map),
            record("drain-deadline-map", deadline_map),
        ]
    })
}

/// The longest that one thread's `call` took while another drained.
fn longest_wait(call: impl Fn(u64) -> bool + Sync, drain: impl FnOnce()) -> Duration {
    let drained = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !drained.load(Ordering::Relaxed) {
                let begin = Instant::now();
                black_box(call(fastrand::u64(..1_000_000)));
                longest = longest.max(begin.elapsed());
            }
            longest
        });
        std::thread::sleep(Duration::from_millis(20));
        drain();
        drained.store(true, Ordering::Relaxed);
        caller.join().expect("the calls do not panic")
    })
}
