//! A bare wheel and `nexus-timer`'s, each used by the loop of one thread. And how long the
//! longest advance by a tick takes of a wheel that is kept full, and all of them.
//!
//! Ticks are of a millisecond. Both wheels hold the same timers, due at random from 300 to 900 s
//! on, and take turns. The clock is that of the thread, so a neighbour on the machine is not in the
//! figures. The peer's turns maintain its wheel too, as its documentation advises.
//!
//! In a full wheel the timers lie evenly over 60 s of ticks, and each that fires is armed again for
//! 60 s later. What fires and what cascades is in the figure. To arm again is not.

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use crate::harness::{Record, in_turn};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "wheel",
    about: "a bare wheel and nexus-timer's, and the longest advance of one with up to 10 million",
    state: "A bare wheel has no driver, so no sleep stands next to it. Unlike a server: one \
            thread does nothing but use the wheel.",
    how: How::Together(run),
};

/// How many other timers are pending.
const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
const OPERATIONS: usize = 50_000;
/// In ticks, from when to when the timers of the rows that fire none are due.
const DUES: std::ops::Range<u64> = 300_000..900_000;
/// In ticks, over how long those lie that all fire.
const SPAN: u64 = 60_000;
/// Millions of timers in a full wheel.
const FULL: [u64; 3] = [1, 5, 10];
/// The slots of the third level begin at every 4,096th of them.
const TICKS: u64 = 8_192;

const CONTENDERS: [&str; 2] = [name::TICKWHEEL, name::NEXUS];

type Ours = tickwheel::wheel::Wheel<u64>;

/// What both wheels do. A tick counts from the start of the wheel, and the value is the due tick.
trait Wheel: Default {
    type Key;
    fn insert(&mut self, due: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key);
    /// Fires all that is due at that tick.
    fn turn(&mut self, now: u64, fired: &mut Vec<u64>);
    /// Forgets the key of a timer that is never cancelled.
    fn forget(&mut self, key: Self::Key);
}

impl Wheel for Ours {
    type Key = tickwheel::wheel::Key;

    fn insert(&mut self, due: u64) -> Self::Key {
        self.insert(due, due)
    }

    fn cancel(&mut self, key: Self::Key) {
        assert!(self.remove(key).is_some());
    }

    fn turn(&mut self, now: u64, fired: &mut Vec<u64>) {
        fired.extend(self.advance(now).map(|(due, _)| due));
    }

    fn forget(&mut self, _key: Self::Key) {}
}

struct Nexus {
    start: Instant,
    wheel: nexus_timer::Wheel<u64>,
}

impl Default for Nexus {
    fn default() -> Nexus {
        let start = Instant::now();
        let wheel = nexus_timer::Wheel::unbounded(4_096, start);
        Nexus { start, wheel }
    }
}

impl Nexus {
    fn at(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl Wheel for Nexus {
    type Key = nexus_timer::TimerHandle<u64>;

    fn insert(&mut self, due: u64) -> Self::Key {
        self.wheel.schedule(self.at(due), due)
    }

    fn cancel(&mut self, key: Self::Key) {
        assert!(self.wheel.cancel(key).is_some());
    }

    fn turn(&mut self, now: u64, fired: &mut Vec<u64>) {
        self.wheel.poll_and_rebalance(self.at(now), fired);
    }

    fn forget(&mut self, key: Self::Key) {
        self.wheel.free(key);
    }
}

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = Vec::new();
    let most = settings.either(usize::MAX, 100_000);
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        let mut ours = Filled::<Ours>::new(size);
        let mut peers = Filled::<Nexus>::new(size);
        let rows = ["insert", "replace"].map(|row| format!("wheel-{row}-{size}"));
        let turn = |index| match index {
            0 => ours.measure(),
            _ => peers.measure(),
        };
        records.extend(in_turn(&rows, &CONTENDERS, settings.rounds, turn));
        ours.cancel_all();
        peers.cancel_all();
    }
    let rounds = settings.either(3, 1);
    let million = settings.either(1_000_000, 20_000);
    let turn = |index| match index {
        0 => [fire_all::<Ours>(million)],
        _ => [fire_all::<Nexus>(million)],
    };
    records.extend(in_turn(&["wheel-fire"], &CONTENDERS, rounds, turn));
    for millions in FULL {
        let rows = ["advance", "advance-all"].map(|row| format!("{row}-{millions}"));
        let turn = |_| advances(millions * million);
        records.extend(in_turn(&rows, &CONTENDERS[..1], rounds, turn));
    }
    records
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
        let mut wheel = W::default();
        let keys = (0..size).map(|_| wheel.insert(due())).collect();
        Filled { wheel, keys }
    }

    /// A sample of each row.
    fn measure(&mut self) -> [f64; 2] {
        let size = self.keys.len();
        let begin = ThreadTime::now();
        for _ in 0..OPERATIONS {
            let key = self.wheel.insert(due());
            self.wheel.cancel(key);
        }
        let (insert, begin) = (begin.elapsed(), ThreadTime::now());
        for _ in 0..OPERATIONS {
            let new = self.wheel.insert(due());
            let old = std::mem::replace(&mut self.keys[fastrand::usize(..size)], new);
            self.wheel.cancel(old);
        }
        [insert, begin.elapsed()].map(|took| took.as_nanos() as f64 / OPERATIONS as f64)
    }

    fn cancel_all(mut self) {
        for key in self.keys {
            self.wheel.cancel(key);
        }
    }
}

/// The milliseconds that it takes to fire as many timers, tick by tick.
fn fire_all<W: Wheel>(timers: u64) -> f64 {
    let mut wheel = W::default();
    for _ in 0..timers {
        let key = wheel.insert(1 + fastrand::u64(..SPAN));
        wheel.forget(key);
    }
    let (mut fired, mut all) = (Vec::new(), 0);
    let begin = ThreadTime::now();
    for now in 1..=SPAN {
        wheel.turn(now, &mut fired);
        all += fired.drain(..).count();
    }
    let took = begin.elapsed();
    assert_eq!(all as u64, timers);
    millis(took)
}

/// The milliseconds that the longest of [`TICKS`] advances takes, and that all of them do.
fn advances(timers: u64) -> [f64; 2] {
    let mut wheel = Ours::default();
    for index in 0..timers {
        // Evenly, and in an order that has nothing to do with the ticks.
        Wheel::insert(&mut wheel, 1 + index * 7_919 % SPAN);
    }
    let (mut longest, mut all) = (Duration::ZERO, Duration::ZERO);
    let mut fired = Vec::new();
    // A first second finds the allocator and the caches as they will be.
    for now in 1..=1_000 + TICKS {
        let begin = ThreadTime::now();
        wheel.turn(now, &mut fired);
        let took = begin.elapsed();
        if now > 1_000 {
            longest = longest.max(took);
            all += took;
        }
        for due in fired.drain(..) {
            Wheel::insert(&mut wheel, due + SPAN);
        }
    }
    [longest, all].map(millis)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
