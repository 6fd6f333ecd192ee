//! The load: connections with an idle deadline that heartbeats push back, and requests with a
//! timeout that nearly all complete in time.
//!
//! Invariant: the load is a function of its seed and of the steps that were made. It asks no clock.

use std::time::Duration;

use fastrand::Rng;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tickwheel::wheel::Wheel;
use tickwheel::{Deadline, ResetHandle, Timer};

use crate::drawing::grouped;

/// What the keys `0` to `5` choose: a name, how many connections there are, and how many heartbeats
/// and requests there are in a second. The connection of a heartbeat is chosen by chance.
const PRESETS: [(&str, usize, f64, f64); 6] = [
    ("nothing", 0, 0.0, 0.0),
    ("20 connections", 20, 18.0, 5.0),
    ("500 connections", 500, 250.0, 60.0),
    ("10,000 connections", 10_000, 1e3, 1e3),
    ("100,000 connections", 100_000, 10e3, 5e3),
    ("300,000 busy connections", 300_000, 250e3, 20e3),
];

/// One in so many requests is never answered.
const UNANSWERED: u32 = 50;
/// One in so many connections has a timer of minutes too, which nothing pushes back.
const HAS_SESSION: usize = 3;
/// The connections come within this time, not all at once.
const ACCEPTED_WITHIN: f64 = 4.0;

pub struct Load {
    preset: (&'static str, usize, f64, f64),
    rng: Rng,
    connections: Vec<Connection>,
    /// The idle deadlines. Each gives the index of its connection when it has expired.
    idle: FuturesUnordered<BoxFuture<'static, usize>>,
    /// The requests under way, by the microsecond at which they complete.
    under_way: Wheel<Deadline>,
    now_micros: u64,
    /// How many resets were in time.
    pub pushed_back: u64,
}

struct Connection {
    idle: ResetHandle,
    _session: Option<Deadline>,
}

impl Load {
    pub fn new(preset: usize, seed: u64) -> Load {
        Load {
            preset: PRESETS[preset],
            rng: Rng::with_seed(seed),
            connections: Vec::new(),
            idle: FuturesUnordered::new(),
            under_way: Wheel::new(),
            now_micros: 0,
            pushed_back: 0,
        }
    }

    /// Says what it is.
    pub fn describe(&self) -> String {
        let (name, wanted, heartbeats, requests) = self.preset;
        let [heartbeats, requests] = [heartbeats, requests].map(|it| grouped(it as u64));
        match wanted {
            0 => name.to_owned(),
            _ => format!("{name}, {heartbeats} heartbeats/s, {requests} requests/s"),
        }
    }

    /// Does what falls into a stretch of time. The caller has moved the clock by it.
    pub fn step(&mut self, timer: &Timer, elapsed: Duration) {
        let (_, wanted, heartbeats, requests) = self.preset;
        let seconds = elapsed.as_secs_f64();
        // Clients whose connections were closed connect again.
        while let Some(Some(closed)) = self.idle.next().now_or_never() {
            self.connections[closed].idle = self.arm_idle(timer, closed);
        }
        let missing = wanted - self.connections.len();
        let accepted = wanted as f64 / ACCEPTED_WITHIN;
        for _ in 0..self.count(accepted * seconds).min(missing) {
            self.accept(timer);
        }
        for _ in 0..self.count(heartbeats * seconds) {
            let chosen = self.rng.usize(..self.connections.len().max(1));
            self.reset(chosen);
        }
        self.now_micros += elapsed.as_micros() as u64;
        self.under_way.advance(self.now_micros).for_each(drop);
        for _ in 0..self.count(requests * seconds) {
            let takes = match self.rng.u32(..UNANSWERED) {
                0 => 60_000,
                _ => self.rng.u64(5..800),
            };
            let timeout = Duration::from_secs_f64(1.0 + 4.0 * self.rng.f64());
            let completes = self.now_micros + 1_000 * takes;
            self.under_way.insert(completes, timer.deadline(timeout));
        }
    }

    /// Pushes all deadlines back.
    pub fn reset_all(&mut self) {
        (0..self.connections.len()).for_each(|index| self.reset(index));
    }

    fn reset(&mut self, index: usize) {
        let connection = self.connections.get(index);
        let is_in_time = connection.is_some_and(|connection| connection.idle.reset());
        self.pushed_back += u64::from(is_in_time);
    }

    /// A whole number that is so large on average.
    fn count(&mut self, expected: f64) -> usize {
        (expected + self.rng.f64()) as usize
    }

    fn accept(&mut self, timer: &Timer) {
        let index = self.connections.len();
        let session = index.is_multiple_of(HAS_SESSION).then(|| {
            let seconds = 60.0 + 240.0 * self.rng.f64();
            timer.deadline(Duration::from_secs_f64(seconds))
        });
        let idle = self.arm_idle(timer, index);
        self.connections.push(Connection {
            idle,
            _session: session,
        });
    }

    fn arm_idle(&mut self, timer: &Timer, index: usize) -> ResetHandle {
        let idle = if self.preset.1 < 1_000 { 12.0 } else { 60.0 };
        // From a third of it to three times as much. Each order of magnitude is as likely.
        let seconds = idle * 9_f64.powf(self.rng.f64() - 0.5);
        let deadline = timer.deadline(Duration::from_secs_f64(seconds));
        let handle = deadline.handle();
        self.idle.push(deadline.map(move |_| index).boxed());
        handle
    }
}
