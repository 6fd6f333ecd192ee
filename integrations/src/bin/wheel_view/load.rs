//! The load: connections with an idle deadline that heartbeats push back, and requests with a
//! timeout that nearly all complete in time.
//!
//! Invariant: the load is a function of its seed and of the steps that were made. It asks no clock.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use fastrand::Rng;
use tickwheel::wheel::Wheel;
use tickwheel::{Deadline, ResetHandle, Timer};

use crate::model::Rates;

/// What a number key chooses.
pub struct Preset {
    pub name: &'static str,
    connections: usize,
    /// A connection that is silent for about this long is closed.
    idle: Duration,
    /// A second, for all connections together. A connection is chosen by chance for each. At six
    /// heartbeats in the time that a connection may be idle, about 1 in 100 comes too late.
    heartbeats: f64,
    /// A second.
    requests: f64,
}

/// The keys `0` to `5`.
pub const PRESETS: [Preset; 6] = [
    Preset {
        name: "nothing",
        connections: 0,
        idle: Duration::ZERO,
        heartbeats: 0.0,
        requests: 0.0,
    },
    Preset {
        name: "20 connections",
        connections: 20,
        idle: Duration::from_secs(8),
        heartbeats: 15.0,
        requests: 4.0,
    },
    Preset {
        name: "500 connections",
        connections: 500,
        idle: Duration::from_secs(12),
        heartbeats: 250.0,
        requests: 60.0,
    },
    Preset {
        name: "10,000 connections",
        connections: 10_000,
        idle: Duration::from_secs(60),
        heartbeats: 1_000.0,
        requests: 1_000.0,
    },
    Preset {
        name: "100,000 connections",
        connections: 100_000,
        idle: Duration::from_secs(60),
        heartbeats: 10_000.0,
        requests: 5_000.0,
    },
    Preset {
        name: "300,000 busy connections",
        connections: 300_000,
        idle: Duration::from_secs(60),
        heartbeats: 250_000.0,
        requests: 20_000.0,
    },
];

/// The timeouts of requests, in seconds.
const REQUEST_TIMEOUTS: [u64; 3] = [1, 2, 5];
/// One in so many requests is never answered.
const UNANSWERED: u32 = 200;
/// The connections come within this time, not all at once.
const ACCEPTED_WITHIN: f64 = 4.0;
/// One in so many connections has a session too, a timer of minutes that nothing pushes back.
const HAS_SESSION: usize = 10;

pub struct Load {
    preset: &'static Preset,
    /// What heartbeats and requests are multiplied by.
    rate: f64,
    rng: Rng,
    connections: Vec<Connection>,
    /// Requests by the microsecond at which they complete.
    requests: Wheel<Deadline>,
    now_micros: u64,
    /// Fractions of operations that are left from the steps before.
    owed: [f64; 3],
    expired: Arc<Mutex<Vec<usize>>>,
    pushed_back: u64,
}

struct Connection {
    deadline: Deadline,
    handle: ResetHandle,
    // Cancelled with the connection.
    _session: Option<Deadline>,
}

impl Load {
    pub fn new(preset: &'static Preset, rate: f64, seed: u64) -> Load {
        Load {
            preset,
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
    pub fn step(&mut self, timer: &Timer, elapsed: Duration) {
        self.reap();
        let seconds = elapsed.as_secs_f64();
        let connections = self.preset.connections as f64;
        let accepted = self.operations(0, connections / ACCEPTED_WITHIN * seconds);
        let missing = self.preset.connections - self.connections.len();
        for _ in 0..accepted.min(missing) {
            self.accept(timer);
        }
        let heartbeats = self.operations(1, self.preset.heartbeats * self.rate * seconds);
        if !self.connections.is_empty() {
            for _ in 0..heartbeats {
                let chosen = self.rng.usize(..self.connections.len());
                self.pushed_back += u64::from(self.connections[chosen].handle.reset());
            }
        }
        self.now_micros += elapsed.as_micros() as u64;
        self.requests.advance(self.now_micros).for_each(drop);
        let requests = self.operations(2, self.preset.requests * self.rate * seconds);
        for _ in 0..requests {
            let takes = match self.rng.u32(..UNANSWERED) {
                0 => Duration::from_secs(60),
                _ => Duration::from_millis(self.rng.u64(5..800)),
            };
            let complete = self.now_micros + takes.as_micros() as u64;
            let timeout = REQUEST_TIMEOUTS[self.rng.usize(..REQUEST_TIMEOUTS.len())];
            let timeout = timer.deadline(Duration::from_secs(timeout));
            self.requests.insert(complete, timeout);
        }
    }

    /// Pushes all deadlines back.
    pub fn reset_all(&mut self) {
        for connection in &self.connections {
            self.pushed_back += u64::from(connection.handle.reset());
        }
    }

    fn operations(&mut self, kind: usize, due: f64) -> usize {
        let owed = &mut self.owed[kind];
        *owed += due;
        let whole = owed.floor();
        *owed -= whole;
        whole as usize
    }

    fn accept(&mut self, timer: &Timer) {
        let idle = self.preset.idle.mul_f64(0.6 + self.rng.f64());
        let mut deadline = timer.deadline(idle);
        let handle = deadline.handle();
        let expires = Waker::from(Arc::new(Expires {
            index: self.connections.len(),
            expired: self.expired.clone(),
        }));
        // If it has expired already, the next heartbeat finds it so.
        let _ = poll(&mut deadline, &expires);
        let session = self.connections.len().is_multiple_of(HAS_SESSION).then(|| {
            let minutes = self.rng.u64(3..90);
            timer.deadline(Duration::from_secs(60 * minutes))
        });
        self.connections.push(Connection {
            deadline,
            handle,
            _session: session,
        });
    }

    /// Replaces the connections whose deadlines have expired by new ones, as clients that connect
    /// again.
    fn reap(&mut self) {
        let expired = std::mem::take(&mut *lock(&self.expired));
        for index in expired {
            let Some(connection) = self.connections.get_mut(index) else {
                continue;
            };
            connection.deadline.restart();
            let expires = Waker::from(Arc::new(Expires {
                index,
                expired: self.expired.clone(),
            }));
            let _ = poll(&mut connection.deadline, &expires);
        }
    }
}

/// What the driver wakes when the deadline of a connection expires.
struct Expires {
    index: usize,
    expired: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Expires {
    fn wake(self: Arc<Self>) {
        lock(&self.expired).push(self.index);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn poll(deadline: &mut Deadline, waker: &Waker) -> Poll<()> {
    let mut context = Context::from_waker(waker);
    Pin::new(deadline).poll(&mut context).map(drop)
}
