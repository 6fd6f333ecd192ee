//! A bare wheel beside `nexus-timer`'s, each used by the loop of one thread.
//!
//! Ticks are of a millisecond. Both wheels hold the same timers, due at random from 300 to 900 s
//! on, and take turns. The clock is that of the thread, so a neighbour on the machine is not in the
//! figures. The peer's turns maintain its wheel too, as its documentation advises.

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use super::{How, Part, name};
use crate::harness::Record;
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "wheel",
    about: "a bare wheel beside nexus-timer's: insert, cancel, replace, fire",
    how: How::Together(run),
};

/// How many other timers are pending.
pub const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
const OPERATIONS: usize = 50_000;
/// In ticks, from when to when the timers of the rows that fire none are due.
const DUES: std::ops::Range<u64> = 300_000..900_000;
/// In ticks, over how long those lie that all fire.
const SPAN: u64 = 60_000;

/// What both wheels do. A tick counts from the start of the wheel.
trait Wheel {
    type Key;
    fn new() -> Self;
    fn insert(&mut self, due: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key);
    /// Fires all that is due at that tick, and tells how many.
    fn turn(&mut self, now: u64) -> usize;
    /// Forgets the key of a timer that nobody cancels.
    fn forget(&mut self, key: Self::Key);
}

impl Wheel for tickwheel::wheel::Wheel<u64> {
    type Key = tickwheel::wheel::Key;

    fn new() -> Self {
        Self::new()
    }

    fn insert(&mut self, due: u64) -> Self::Key {
        self.insert(due, due)
    }

    fn cancel(&mut self, key: Self::Key) {
        assert!(self.remove(key).is_some());
    }

    fn turn(&mut self, now: u64) -> usize {
        self.advance(now).count()
    }

    fn forget(&mut self, _key: Self::Key) {}
}

struct Nexus {
    start: Instant,
    wheel: nexus_timer::Wheel<u64>,
    fired: Vec<u64>,
}

impl Nexus {
    fn at(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl Wheel for Nexus {
    type Key = nexus_timer::TimerHandle<u64>;

    fn new() -> Self {
        let start = Instant::now();
        Nexus {
            start,
            wheel: nexus_timer::Wheel::unbounded(4_096, start),
            fired: Vec::new(),
        }
    }

    fn insert(&mut self, due: u64) -> Self::Key {
        self.wheel.schedule(self.at(due), due)
    }

    fn cancel(&mut self, key: Self::Key) {
        assert!(self.wheel.cancel(key).is_some());
    }

    fn turn(&mut self, now: u64) -> usize {
        self.fired.clear();
        self.wheel.poll_and_rebalance(self.at(now), &mut self.fired)
    }

    fn forget(&mut self, key: Self::Key) {
        self.wheel.free(key);
    }
}

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = Vec::new();
    let most = settings.either(usize::MAX, 100_000);
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        let mut ours = Filled::<tickwheel::wheel::Wheel<u64>>::new(size);
        let mut peers = Filled::<Nexus>::new(size);
        for _ in 0..settings.rounds {
            ours.measure(name::TICKWHEEL, &mut records);
            peers.measure(name::NEXUS, &mut records);
        }
        ours.cancel_all();
        peers.cancel_all();
    }
    let all = settings.either(1_000_000, 20_000);
    for _ in 0..settings.either(3, 1) {
        let took = fire_all::<tickwheel::wheel::Wheel<u64>>(all);
        record(
            &mut records,
            "wheel-fire",
            name::TICKWHEEL,
            took.as_secs_f64() * 1e3,
        );
        let took = fire_all::<Nexus>(all);
        record(
            &mut records,
            "wheel-fire",
            name::NEXUS,
            took.as_secs_f64() * 1e3,
        );
    }
    records
}

fn record(records: &mut Vec<Record>, row: &str, contender: &str, sample: f64) {
    Record::gather(records, Record::new(row, contender, vec![sample]));
}

fn due() -> u64 {
    fastrand::u64(DUES)
}

/// A wheel with the keys of its timers.
struct Filled<W: Wheel> {
    wheel: W,
    keys: Vec<W::Key>,
}

impl<W: Wheel> Filled<W> {
    fn new(size: usize) -> Filled<W> {
        let mut wheel = W::new();
        let keys = (0..size).map(|_| wheel.insert(due())).collect();
        Filled { wheel, keys }
    }

    /// A sample of each row.
    fn measure(&mut self, contender: &str, records: &mut Vec<Record>) {
        let size = self.keys.len();
        let begin = ThreadTime::now();
        for _ in 0..OPERATIONS {
            let key = self.wheel.insert(due());
            self.wheel.cancel(key);
        }
        let one = nanoseconds_each(begin);
        record(records, &format!("wheel-insert-{size}"), contender, one);
        let begin = ThreadTime::now();
        for _ in 0..OPERATIONS {
            let new = self.wheel.insert(due());
            let old = std::mem::replace(&mut self.keys[fastrand::usize(..size)], new);
            self.wheel.cancel(old);
        }
        let one = nanoseconds_each(begin);
        record(records, &format!("wheel-replace-{size}"), contender, one);
    }

    fn cancel_all(mut self) {
        for key in self.keys {
            self.wheel.cancel(key);
        }
    }
}

fn nanoseconds_each(begin: ThreadTime) -> f64 {
    begin.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

/// What it takes to fire as many timers, tick by tick.
fn fire_all<W: Wheel>(timers: usize) -> Duration {
    let mut wheel = W::new();
    for _ in 0..timers {
        let key = wheel.insert(1 + fastrand::u64(..SPAN));
        wheel.forget(key);
    }
    let begin = ThreadTime::now();
    let fired: usize = (1..=SPAN).map(|now| wheel.turn(now)).sum();
    let took = begin.elapsed();
    assert_eq!(fired, timers);
    took
}
