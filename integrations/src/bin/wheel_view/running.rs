//! A real [`Timer`] under a load. Only the public API looks at it: `metrics()` and `snapshot()`.
//!
//! The runtime has one thread, because only such a runtime can pause tokio's clock. So a picture
//! that is paused is the timer itself, standing still, and a step advances that clock by one tick.
//!
//! Invariant: while the clock is paused, the runtime is entered for a step and for nothing else.
//! An idle runtime would advance a paused clock by itself.

use std::io;
use std::time::Duration;

use tickwheel::{Instant, Timer};
use tokio::runtime::{self, Runtime};

use crate::load::{Armed, Expired, Load, note_expiry, take};
use crate::model::{Counts, Moment, Own};
use crate::ways::Ways;

/// How long a timer that has fired, and was added by a key, is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(3);

/// How the timer and its load are made.
#[derive(Clone, Debug)]
pub struct Setting {
    pub preset: usize,
    pub tick: Duration,
    pub slots: usize,
    pub seed: u64,
    pub add: Vec<Duration>,
}

/// A timer, its load, and the timers that keys have added.
pub struct Running {
    setting: Setting,
    runtime: Runtime,
    timer: Timer,
    pub load: Load,
    own: Vec<Added>,
    added: usize,
    expired: Expired,
    selected: usize,
    is_paused: bool,
    /// When the load last did its part.
    worked: Instant,
    ways: Option<Ways>,
}

struct Added {
    number: usize,
    timeout: Duration,
    armed: Armed,
    /// When it is due. `None` if that is later than an `Instant` can be. A look must not ask the
    /// deadline itself: it would settle one that has passed and whose tick is not over.
    ends: Option<Instant>,
    fired: Option<Instant>,
}

/// The ticks that `ten_seconds` shows.
const TICKS: u64 = 100;
/// A slot of level 2 comes 6 s after the beginning.
const WARM_UP: u64 = 3 * 16 * 16 - 60;
/// Within the ten seconds: a timer of an hour, for which there is no level yet.
const FAR_ARMED: u64 = 27;
const FAR_CANCELLED: u64 = 86;

/// A moment for each tick of ten seconds, and one for the beginning. A wheel of 16 slots and a tick
/// of 100 ms are slow enough for a person to follow.
pub fn ten_seconds(seed: u64) -> io::Result<Vec<Moment>> {
    let mut running = Running::new(
        Setting {
            preset: 1,
            tick: Duration::from_millis(100),
            slots: 16,
            seed,
            add: Vec::new(),
        },
        true,
    )?;
    running.ways = Some(Ways::new(running.setting.slots));
    for _ in 0..WARM_UP {
        running.step();
    }
    running.ways.iter_mut().for_each(Ways::arm_all);
    let mut moments = vec![running.look()];
    for tick in 1..=TICKS {
        running.step();
        match tick {
            FAR_ARMED => running.add(Duration::from_secs(3_600)),
            FAR_CANCELLED => running.cancel_one(),
            _ => {}
        }
        moments.push(running.look());
    }
    let before = moments[0].counts;
    for Moment { counts, .. } in &mut moments {
        counts.armed -= before.armed;
        counts.pushed_back -= before.pushed_back;
        counts.cancelled -= before.cancelled;
        counts.fired -= before.fired;
    }
    Ok(moments)
}

impl Running {
    /// A new timer, on a clock that runs or stands still.
    pub fn new(setting: Setting, is_paused: bool) -> io::Result<Running> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(is_paused)
            .build()?;
        let timer = Timer::builder()
            .tick(setting.tick)
            .slots(setting.slots)
            .shards(1)
            .build_on(runtime.handle())
            .map_err(io::Error::other)?;
        let context = runtime.enter();
        let worked = Instant::now();
        drop(context);
        let mut running = Running {
            load: Load::new(setting.preset, setting.tick, 1.0, setting.seed),
            runtime,
            timer,
            own: Vec::new(),
            added: 0,
            expired: Expired::default(),
            selected: 0,
            is_paused,
            worked,
            ways: None,
            setting,
        };
        for timeout in running.setting.add.clone() {
            running.add(timeout);
        }
        Ok(running)
    }

    /// Begins anew, with a fresh timer and this load.
    pub fn begin(&mut self, preset: usize) -> io::Result<()> {
        self.setting.preset = preset;
        self.setting.add.clear();
        *self = Running::new(self.setting.clone(), false)?;
        Ok(())
    }

    /// Moves a paused clock by one tick. What is due fires, and then the load does its part.
    pub fn step(&mut self) {
        let tick = self.setting.tick;
        self.runtime.block_on(tokio::time::advance(tick));
        self.ways.iter_mut().for_each(Ways::turn);
        self.load.step(&self.timer, tick, &mut self.ways);
    }

    /// Lets a clock that runs go on for a while, and the load do its part each tick.
    pub fn run_for(&mut self, frame: Duration) {
        let end = self.now() + frame;
        while self.now() < end {
            let tick = self.setting.tick;
            self.runtime
                .block_on(async { tokio::time::sleep(tick).await });
            let now = self.now();
            // A program that was stopped has no work of that time to make up for.
            let elapsed = (now - self.worked).min(2 * frame.max(tick));
            self.worked = now;
            self.load.step(&self.timer, elapsed, &mut self.ways);
        }
    }

    /// What is to be shown now.
    pub fn look(&mut self) -> Moment {
        let now = self.now();
        let snapshot = self.timer.snapshot();
        let metrics = self.timer.metrics();
        for number in take(&self.expired) {
            let own = self.own.iter_mut().find(|own| own.number == number);
            own.into_iter().for_each(|own| own.fired = Some(now));
        }
        let is_shown = |own: &Added| own.fired.is_none_or(|fired| now < fired + SHOWN_AFTER);
        self.own.retain(is_shown);
        self.selected = self.selected.min(self.own.len().saturating_sub(1));
        let own = self.own.iter().enumerate().map(|(place, own)| Own {
            number: own.number,
            timeout: own.timeout,
            remaining: match own.fired {
                Some(_) => None,
                None => Some(own.ends.map_or(own.timeout, |ends| ends - now)),
            },
            is_selected: place == self.selected,
        });
        let pending = snapshot.pending() as u64;
        let shard = snapshot.shards.into_iter().next().unwrap_or_default();
        Moment {
            now: snapshot.now,
            tick: snapshot.tick,
            levels: shard.levels,
            overdue: shard.overdue,
            counts: Counts {
                // Of the same moment as the slots.
                pending,
                armed: metrics.armed,
                pushed_back: self.load.pushed_back(),
                cancelled: metrics.disarmed,
                fired: metrics.fired,
            },
            is_paused: self.is_paused,
            worst_lateness: metrics.lateness,
            load: self.load.rates(),
            own: own.collect(),
            moves: self.ways.as_mut().map(Ways::take_moves).unwrap_or_default(),
        }
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub fn pause_or_go_on(&mut self) {
        self.is_paused = !self.is_paused;
        let is_paused = self.is_paused;
        self.runtime.block_on(async {
            match is_paused {
                true => tokio::time::pause(),
                false => tokio::time::resume(),
            }
        });
    }

    /// A turn of level 0.
    pub fn step_turn(&mut self) {
        (0..self.setting.slots.next_power_of_two()).for_each(|_| self.step());
    }

    pub fn add(&mut self, timeout: Duration) {
        let ends = self.now().checked_add(timeout);
        let mut armed = Armed::new(&self.timer, self.setting.tick, timeout, &mut self.ways);
        self.added += 1;
        note_expiry(&mut armed.deadline, self.added, &self.expired);
        self.own.push(Added {
            number: self.added,
            timeout,
            armed,
            ends,
            fired: None,
        });
        self.selected = self.own.len() - 1;
    }

    pub fn select_next(&mut self) {
        self.selected = (self.selected + 1) % self.own.len().max(1);
    }

    pub fn reset_one(&mut self) {
        let now = self.now();
        if let Some(own) = self.own.get_mut(self.selected) {
            own.reset(now);
        }
    }

    pub fn reset_all(&mut self) {
        let now = self.now();
        self.own.iter_mut().for_each(|own| own.reset(now));
        self.load.reset_all(&mut self.ways);
    }

    pub fn cancel_one(&mut self) {
        if self.selected < self.own.len() {
            let own = self.own.remove(self.selected);
            own.armed.follow(&mut self.ways, Ways::cancel);
        }
    }

    pub fn cancel_all(&mut self) {
        self.own.clear();
        let Setting { tick, seed, .. } = self.setting;
        self.load = Load::new(0, tick, self.load.rate(), seed);
    }

    fn now(&self) -> Instant {
        let _context = self.runtime.enter();
        Instant::now()
    }
}

impl Added {
    fn reset(&mut self, now: Instant) {
        if self.armed.deadline.handle().reset() {
            self.ends = now.checked_add(self.timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Move, Why};

    #[test]
    fn the_moves_lead_to_the_slots_in_which_the_timer_has_its_timers() {
        for seed in 0..20 {
            let mut places = BTreeMap::new();
            for moment in ten_seconds(seed).unwrap() {
                for moved in &moment.moves {
                    let Move {
                        timer, from, to, ..
                    } = moved;
                    assert_eq!(places.remove(timer), *from, "{moved:?}");
                    places.extend(to.map(|place| (*timer, place)));
                }
                let mut slots: Vec<_> = moment
                    .levels
                    .iter()
                    .map(|it| vec![0; it.slots.len()])
                    .collect();
                for place in places.values() {
                    slots[place.level][place.slot] += 1;
                }
                let counted: Vec<_> = moment.levels.iter().map(|it| it.slots.clone()).collect();
                assert_eq!(slots, counted, "seed {seed}, tick {}", moment.now);
            }
        }
    }

    #[test]
    fn the_ten_seconds_show_all_that_can_happen() {
        let moments = ten_seconds(1).unwrap();
        let all = || moments[1..].iter().flat_map(|moment| &moment.moves);
        for why in [
            Why::Armed,
            Why::Cascaded,
            Why::PushedBack,
            Why::Cancelled,
            Why::Fired,
        ] {
            assert!(all().any(|moved| moved.why == why), "{why:?}");
        }
        let from_level_2 = |moved: &Move| {
            moved.why == Why::Cascaded && moved.from.is_some_and(|place| place.level == 2)
        };
        assert!(all().any(from_level_2));
        let mut levels: Vec<_> = moments.iter().map(|moment| moment.levels.len()).collect();
        levels.dedup();
        assert_eq!(levels, [3, 4, 3], "a level comes and goes");
        let counts = moments[TICKS as usize].counts;
        assert!(counts.pushed_back + counts.cancelled > 20 * counts.fired);
    }
}
