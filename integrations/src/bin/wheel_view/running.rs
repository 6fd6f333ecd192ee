//! A real [`Timer`] under a load. Only the public API looks at it: `metrics()` and `snapshot()`.
//!
//! The runtime has one thread, because only such a runtime can pause tokio's clock. So a picture
//! that is paused is the timer itself, standing still, and a step advances that clock by one tick.
//!
//! Invariant: while the clock is paused, the runtime is entered for a step and for nothing else.
//! An idle runtime would advance a paused clock by itself.

use std::io;
use std::time::Duration;

use tickwheel::{Deadline, Instant, Timer};
use tokio::runtime::{self, Runtime};

use crate::Options;
use crate::drawing::{Drawing, short};
use crate::load::Load;

/// A timer, its load, and the timers that keys have added.
pub struct Running {
    options: Options,
    runtime: Runtime,
    timer: Timer,
    pub load: Load,
    own: Vec<Own>,
    added: usize,
    pub is_paused: bool,
    /// When the load last did its part.
    worked: Instant,
}

/// A timer that a key has added.
struct Own {
    number: usize,
    timeout: Duration,
    deadline: Deadline,
}

/// The ticks that `ten_seconds` shows.
const TICKS: u64 = 100;
/// A slot of level 2 comes 6 s after the beginning.
const WARM_UP: u64 = 64 * 64 - 60;
/// Within the ten seconds: a timer of an hour, for which there is no level yet.
const FAR_ARMED: u64 = 27;
const FAR_CANCELLED: u64 = 86;

/// A drawing for each tick of ten seconds, and one for the beginning. A tick of 100 ms is
/// slow enough for a person to follow.
pub fn ten_seconds(options: Options) -> io::Result<Vec<Drawing>> {
    let options = Options {
        preset: 1,
        tick: Duration::from_millis(100),
        ..options
    };
    let mut running = Running::new(options, true)?;
    (0..WARM_UP).for_each(|_| running.step());
    let before = running.look();
    let drawings = (0..=TICKS).map(|tick| {
        if tick > 0 {
            running.step();
        }
        match tick {
            FAR_ARMED => running.add(Duration::from_secs(3_600)),
            FAR_CANCELLED => running.cancel_newest(),
            _ => {}
        }
        let mut drawing = running.look();
        drawing.count_from(&before);
        drawing
    });
    Ok(drawings.collect())
}

impl Running {
    /// A new timer, on a clock that runs or stands still.
    pub fn new(options: Options, is_paused: bool) -> io::Result<Running> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(is_paused)
            .build()?;
        let timer = Timer::builder()
            .tick(options.tick)
            .shards(1)
            .build_on(runtime.handle())
            .map_err(io::Error::other)?;
        let mut running = Running {
            load: Load::new(options.preset.into(), options.seed),
            worked: timer.now(),
            runtime,
            timer,
            own: Vec::new(),
            added: 0,
            is_paused,
            options,
        };
        for timeout in std::mem::take(&mut running.options.add) {
            running.add(timeout);
        }
        Ok(running)
    }

    /// Begins anew, with a fresh timer and this load.
    pub fn begin(&mut self, preset: u8) -> io::Result<()> {
        self.options.preset = preset;
        *self = Running::new(self.options.clone(), false)?;
        Ok(())
    }

    /// Moves a paused clock by one tick. What is due fires, and then the load does its part.
    pub fn step(&mut self) {
        let tick = self.options.tick;
        self.runtime.block_on(tokio::time::advance(tick));
        self.load.step(&self.timer, tick);
    }

    /// A turn of level 0.
    pub fn step_turn(&mut self) {
        (0..64).for_each(|_| self.step());
    }

    /// Lets a clock that runs go on for a while, and the load do its part each tick.
    pub fn run_for(&mut self, frame: Duration) {
        let (tick, end) = (self.options.tick, self.timer.now() + frame);
        while self.timer.now() < end {
            self.runtime
                .block_on(async { tokio::time::sleep(tick).await });
            let now = self.timer.now();
            // A program that was stopped has no work of that time to make up for.
            let elapsed = (now - self.worked).min(2 * frame.max(tick));
            self.worked = now;
            self.load.step(&self.timer, elapsed);
        }
    }

    /// What is to be shown now.
    pub fn look(&self) -> Drawing {
        let own = self.own.iter().rev().map(|own| {
            let left = match own.deadline.remaining() {
                Some(left) => format!("{} left", short(left)),
                None => "fired".to_owned(),
            };
            format!("#{} of {}: {left}", own.number, short(own.timeout))
        });
        let own = own.collect();
        Drawing {
            is_paused: self.is_paused,
            own,
            ..Drawing::new(&self.timer, self.load.pushed_back, self.load.describe())
        }
    }

    pub fn pause_or_go_on(&mut self) {
        self.is_paused = !self.is_paused;
        let set = match self.is_paused {
            true => tokio::time::pause,
            false => tokio::time::resume,
        };
        self.runtime.block_on(async { set() });
    }

    pub fn add(&mut self, timeout: Duration) {
        self.added += 1;
        self.own.push(Own {
            number: self.added,
            timeout,
            deadline: self.timer.deadline(timeout),
        });
    }

    pub fn reset_newest(&mut self) {
        if let Some(own) = self.own.last() {
            own.deadline.handle().reset();
        }
    }

    pub fn reset_all(&mut self) {
        for own in &self.own {
            own.deadline.handle().reset();
        }
        self.load.reset_all();
    }

    pub fn cancel_newest(&mut self) {
        self.own.pop();
    }

    pub fn cancel_all(&mut self) {
        self.own.clear();
        self.load = Load::new(0, self.options.seed);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_ten_seconds_show_all_that_can_happen() {
        let drawings = ten_seconds(Options::parse_from([""])).unwrap();
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
