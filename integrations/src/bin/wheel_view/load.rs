//! The load: connections with an idle deadline that heartbeats push back, and requests with a
//! timeout that nearly all complete in time.
//!
//! Invariant: the load is a function of its seed and of the steps that were made. It asks no clock.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use fastrand::Rng;
use tickwheel::wheel::Wheel;
use tickwheel::{Deadline, ResetHandle, Timer};

use crate::model::Rates;
use crate::ways::Ways;

/// What a number key chooses.
pub struct Preset {
    name: &'static str,
    connections: usize,
    /// A connection that is silent for about this many seconds is closed.
    idle: f64,
    /// A second, for all connections together. A connection is chosen by chance for each.
    heartbeats: f64,
    /// A second.
    requests: f64,
    /// One in so many requests is never answered.
    unanswered: u32,
    /// One in so many connections has a timer of minutes too, which nothing pushes back.
    has_session: usize,
}

const fn preset(name: &'static str, connections: usize, idle: f64, rates: [f64; 2]) -> Preset {
    let [heartbeats, requests] = rates;
    Preset {
        name,
        connections,
        idle,
        heartbeats,
        requests,
        unanswered: if connections < 100 { 16 } else { 200 },
        has_session: if connections < 100 { 3 } else { 10 },
    }
}

/// The keys `0` to `5`.
pub const PRESETS: [Preset; 6] = [
    preset("nothing", 0, 0.0, [0.0, 0.0]),
    preset("20 connections", 20, 12.0, [18.0, 5.0]),
    preset("500 connections", 500, 12.0, [250.0, 60.0]),
    preset("10,000 connections", 10_000, 60.0, [1_000.0, 1_000.0]),
    preset("100,000 connections", 100_000, 60.0, [10_000.0, 5_000.0]),
    preset(
        "300,000 busy connections",
        300_000,
        60.0,
        [250_000.0, 20_000.0],
    ),
];

/// The connections come within this time, not all at once.
const ACCEPTED_WITHIN: f64 = 4.0;

pub struct Load {
    preset: &'static Preset,
    tick: Duration,
    /// What heartbeats and requests are multiplied by.
    rate: f64,
    rng: Rng,
    connections: Vec<Connection>,
    /// Requests by the microsecond at which they complete.
    requests: Wheel<Armed>,
    now_micros: u64,
    /// Fractions of operations that are left from the steps before.
    owed: [f64; 3],
    expired: Expired,
    pushed_back: u64,
}

/// A deadline, and its number where each timer is followed. Cancelled when it is dropped.
pub struct Armed {
    pub deadline: Deadline,
    pub ticks: u64,
    pub number: Option<u64>,
}

struct Connection {
    idle: Armed,
    handle: ResetHandle,
    _session: Option<Armed>,
}

impl Armed {
    pub fn new(timer: &Timer, tick: Duration, timeout: Duration, ways: &mut Option<Ways>) -> Armed {
        let ticks = timeout.as_nanos().div_ceil(tick.as_nanos()) as u64;
        Armed {
            deadline: timer.deadline(timeout),
            ticks,
            number: ways.as_mut().map(|ways| ways.arm(ticks)),
        }
    }

    pub fn follow(&self, ways: &mut Option<Ways>, what: impl FnOnce(&mut Ways, u64)) {
        if let (Some(ways), Some(number)) = (ways, self.number) {
            what(ways, number);
        }
    }
}

impl Load {
    pub fn new(preset: usize, tick: Duration, rate: f64, seed: u64) -> Load {
        Load {
            preset: &PRESETS[preset],
            tick,
            rate,
            rng: Rng::with_seed(seed),
            connections: Vec::new(),
            requests: Wheel::new(),
            now_micros: 0,
            owed: [0.0; 3],
            expired: Arc::default(),
            pushed_back: 0,
        }
    }

    /// Doubles or halves the rate of heartbeats and requests, within bounds.
    pub fn change_rate(&mut self, factor: f64) {
        self.rate = (self.rate * factor).clamp(1.0 / 64.0, 16.0);
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// How many resets were in time.
    pub fn pushed_back(&self) -> u64 {
        self.pushed_back
    }

    /// What it is now.
    pub fn rates(&self) -> Rates {
        Rates {
            name: self.preset.name,
            heartbeats_a_second: self.preset.heartbeats * self.rate,
            requests_a_second: self.preset.requests * self.rate,
        }
    }

    /// Does what falls into a stretch of time. The caller has moved the clock by it.
    pub fn step(&mut self, timer: &Timer, elapsed: Duration, ways: &mut Option<Ways>) {
        self.reap(ways);
        let seconds = elapsed.as_secs_f64();
        let accepted = self.preset.connections as f64 / ACCEPTED_WITHIN * seconds;
        let missing = self.preset.connections - self.connections.len();
        for _ in 0..self.operations(0, accepted).min(missing) {
            self.accept(timer, ways);
        }
        let heartbeats = self.preset.heartbeats * self.rate * seconds;
        for _ in 0..self.operations(1, heartbeats) {
            let chosen = self.rng.usize(..self.connections.len().max(1));
            self.reset(chosen, ways);
        }
        self.now_micros += elapsed.as_micros() as u64;
        for (_, answered) in self.requests.advance(self.now_micros) {
            answered.follow(ways, Ways::cancel);
        }
        let requests = self.preset.requests * self.rate * seconds;
        for _ in 0..self.operations(2, requests) {
            let takes = match self.rng.u32(..self.preset.unanswered) {
                0 => 60_000,
                _ => self.rng.u64(5..800),
            };
            let seconds = 1.0 + 4.0 * self.rng.f64();
            let timeout = self.whole_ticks(seconds);
            let timeout = Armed::new(timer, self.tick, timeout, ways);
            self.requests
                .insert(self.now_micros + 1_000 * takes, timeout);
        }
    }

    /// Pushes all deadlines back.
    pub fn reset_all(&mut self, ways: &mut Option<Ways>) {
        (0..self.connections.len()).for_each(|index| self.reset(index, ways));
    }

    fn reset(&mut self, index: usize, ways: &mut Option<Ways>) {
        if let Some(connection) = self.connections.get(index)
            && connection.handle.reset()
        {
            self.pushed_back += 1;
            let ticks = connection.idle.ticks;
            let push_back = |ways: &mut Ways, number| ways.push_back(number, ticks);
            connection.idle.follow(ways, push_back);
        }
    }

    fn operations(&mut self, kind: usize, due: f64) -> usize {
        let owed = &mut self.owed[kind];
        *owed += due;
        let whole = owed.floor();
        *owed -= whole;
        whole as usize
    }

    fn whole_ticks(&self, seconds: f64) -> Duration {
        let tick = self.tick.as_secs_f64();
        self.tick.mul_f64((seconds / tick).ceil())
    }

    fn accept(&mut self, timer: &Timer, ways: &mut Option<Ways>) {
        // From a third of it to three times as much. Each order of magnitude is as likely.
        let idle = self.preset.idle * 9_f64.powf(self.rng.f64() - 0.5);
        let idle = Armed::new(timer, self.tick, self.whole_ticks(idle), ways);
        let index = self.connections.len();
        let session = index.is_multiple_of(self.preset.has_session).then(|| {
            let seconds = 60.0 + 240.0 * self.rng.f64();
            Armed::new(timer, self.tick, self.whole_ticks(seconds), ways)
        });
        self.connections.push(Connection {
            handle: idle.deadline.handle(),
            idle,
            _session: session,
        });
        self.wait(index);
    }

    /// Replaces the connections whose deadlines have expired by new ones, as clients that connect
    /// again.
    fn reap(&mut self, ways: &mut Option<Ways>) {
        for index in take(&self.expired) {
            let idle = &mut self.connections[index].idle;
            idle.deadline.restart();
            idle.number = ways.as_mut().map(|ways| ways.arm(idle.ticks));
            self.wait(index);
        }
    }

    fn wait(&mut self, index: usize) {
        let deadline = &mut self.connections[index].idle.deadline;
        note_expiry(deadline, index, &self.expired);
    }
}

/// The numbers of the deadlines that have expired.
pub type Expired = Arc<Mutex<Vec<usize>>>;

/// Has the driver note the number of a deadline when it expires.
pub fn note_expiry(deadline: &mut Deadline, number: usize, expired: &Expired) {
    let expired = expired.clone();
    let waker = Waker::from(Arc::new(Expires { number, expired }));
    let first = Pin::new(deadline).poll(&mut Context::from_waker(&waker));
    if first.is_ready() {
        waker.wake();
    }
}

/// The numbers that were noted since the last call.
pub fn take(expired: &Expired) -> Vec<usize> {
    std::mem::take(&mut *lock(expired))
}

struct Expires {
    number: usize,
    expired: Expired,
}

impl Wake for Expires {
    fn wake(self: Arc<Self>) {
        lock(&self.expired).push(self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
