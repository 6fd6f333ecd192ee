//! A real [`Timer`] under a load: connections with an idle deadline that heartbeats push back, and
//! requests with a timeout that nearly all complete in time.
//!
//! Invariant: the load is a function of its seed and of the steps that were made. It asks no clock:
//! tokio's is paused, and a step advances it by one tick.

use std::io;
use std::time::Duration;

use fastrand::Rng;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tickwheel::wheel::Wheel;
use tickwheel::{Deadline, ResetHandle, Timer};
use tokio::runtime::{self, Runtime};

use crate::drawing::Drawing;

/// Slow enough for a person to follow.
pub const TICK: Duration = Duration::from_millis(100);

const CONNECTIONS: usize = 20;
/// In a second. The connection of a heartbeat is chosen by chance.
const HEARTBEATS: f64 = 18.0;
const REQUESTS: f64 = 5.0;
pub const LOAD: &str = "20 connections, 18 heartbeats/s, 5 requests/s";

/// One in so many requests is never answered.
const UNANSWERED: u32 = 50;
/// One in so many connections has a timer of minutes too, which nothing pushes back.
const HAS_SESSION: usize = 3;
/// The connections come within this time, not all at once.
const ACCEPTED_WITHIN: f64 = 4.0;

/// The ticks that `ten_seconds` shows.
const TICKS: u64 = 100;
/// A slot of level 2 comes 6 s after the beginning.
const WARM_UP: u64 = 64 * 64 - 60;
/// What becomes of the timers is counted from so many ticks before the picture, so that its first
/// frame, which a viewer without animation shows, has counts.
const COUNTED_BEFORE: u64 = 200;
/// Within the ten seconds: a timer of an hour, for which there is no level yet.
const FAR_ARMED: u64 = 27;
const FAR_CANCELLED: u64 = 86;

pub struct Running {
    runtime: Runtime,
    pub timer: Timer,
    rng: Rng,
    connections: Vec<Connection>,
    /// The idle deadlines. Each gives the index of its connection when it has expired.
    idle: FuturesUnordered<BoxFuture<'static, usize>>,
    /// The requests under way, by the microsecond at which they complete.
    under_way: Wheel<Deadline>,
    now_micros: u64,
    /// How many resets were in time.
    pushed_back: u64,
}

struct Connection {
    idle: ResetHandle,
    _session: Option<Deadline>,
}

/// A drawing for each tick of ten seconds, and one for the beginning.
pub fn ten_seconds(seed: u64) -> io::Result<Vec<Drawing>> {
    let mut running = Running::new(seed)?;
    (0..WARM_UP - COUNTED_BEFORE).for_each(|_| running.step());
    let before = running.look();
    (0..COUNTED_BEFORE).for_each(|_| running.step());
    let mut far = None;
    let drawings = (0..=TICKS).map(|tick| {
        if tick > 0 {
            running.step();
        }
        match tick {
            FAR_ARMED => far = Some(running.timer.deadline(Duration::from_secs(3_600))),
            FAR_CANCELLED => far = None,
            _ => {}
        }
        let mut drawing = running.look();
        drawing.count_from(&before);
        drawing
    });
    Ok(drawings.collect())
}

impl Running {
    pub fn new(seed: u64) -> io::Result<Running> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let timer = Timer::builder()
            .tick(TICK)
            .shards(1)
            .build_on(runtime.handle())
            .map_err(io::Error::other)?;
        Ok(Running {
            runtime,
            timer,
            rng: Rng::with_seed(seed),
            connections: Vec::new(),
            idle: FuturesUnordered::new(),
            under_way: Wheel::new(),
            now_micros: 0,
            pushed_back: 0,
        })
    }

    /// Moves the clock by one tick. What is due fires, and then the load does its part.
    pub fn step(&mut self) {
        self.runtime.block_on(tokio::time::advance(TICK));
        let seconds = TICK.as_secs_f64();
        // Clients whose connections were closed connect again.
        while let Some(Some(closed)) = self.idle.next().now_or_never() {
            self.connections[closed].idle = self.arm_idle(closed);
        }
        let missing = CONNECTIONS - self.connections.len();
        let accepted = CONNECTIONS as f64 / ACCEPTED_WITHIN;
        for _ in 0..self.count(accepted * seconds).min(missing) {
            self.accept();
        }
        for _ in 0..self.count(HEARTBEATS * seconds) {
            let chosen = self.rng.usize(..self.connections.len().max(1));
            let connection = self.connections.get(chosen);
            let is_in_time = connection.is_some_and(|connection| connection.idle.reset());
            self.pushed_back += u64::from(is_in_time);
        }
        self.now_micros += TICK.as_micros() as u64;
        self.under_way.advance(self.now_micros).for_each(drop);
        for _ in 0..self.count(REQUESTS * seconds) {
            let takes = match self.rng.u32(..UNANSWERED) {
                0 => 60_000,
                _ => self.rng.u64(5..800),
            };
            let timeout = Duration::from_secs_f64(1.0 + 4.0 * self.rng.f64());
            let completes = self.now_micros + 1_000 * takes;
            self.under_way
                .insert(completes, self.timer.deadline(timeout));
        }
    }

    fn look(&self) -> Drawing {
        Drawing::new(&self.timer, self.pushed_back)
    }

    /// A whole number that is so large on average.
    fn count(&mut self, expected: f64) -> usize {
        (expected + self.rng.f64()) as usize
    }

    fn accept(&mut self) {
        let index = self.connections.len();
        let session = index.is_multiple_of(HAS_SESSION).then(|| {
            let seconds = 60.0 + 240.0 * self.rng.f64();
            self.timer.deadline(Duration::from_secs_f64(seconds))
        });
        let idle = self.arm_idle(index);
        self.connections.push(Connection {
            idle,
            _session: session,
        });
    }

    fn arm_idle(&mut self, index: usize) -> ResetHandle {
        // From a third of 12 s to three times as much. Each order of magnitude is as likely.
        let seconds = 12.0 * 9_f64.powf(self.rng.f64() - 0.5);
        let deadline = self.timer.deadline(Duration::from_secs_f64(seconds));
        let handle = deadline.handle();
        self.idle.push(deadline.map(move |_| index).boxed());
        handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_seconds_show_all_that_can_happen() {
        let drawings = ten_seconds(1).unwrap();
        let mut levels: Vec<_> = drawings.iter().map(|it| it.levels().count()).collect();
        levels.dedup();
        assert_eq!(levels, [2, 3, 2], "a level comes and goes");
        let timers = |name| drawings[TICKS as usize].row(name).unwrap().timers;
        let [armed, fired] = ["armed", "fired"].map(timers);
        assert!(armed > 0 && fired > 0);
        let ended = timers("pushed back") + timers("cancelled");
        assert!(ended > 20 * fired, "few fire");
    }
}
