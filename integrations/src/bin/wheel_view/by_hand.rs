//! A small [`Wheel`] that is turned by hand for ten seconds, with the way of each timer.
//!
//! It has 16 slots a level and a tick of 100 ms, so that a person can follow it. Its timers are
//! treated as a `Deadline` is: a heartbeat does not touch the wheel. When the slot of a deadline
//! comes that was pushed back, it is linked again.
//!
//! Invariant: each moment's moves lead from the places of the moment before to its own. Those of
//! the first moment arm what it holds.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use tickwheel::wheel::{Key, Wheel};

use crate::model::{Counts, Level, Moment, Move, Place, Why, place};

const TICK: Duration = Duration::from_millis(100);
const SLOTS: usize = 16;
/// Ten seconds.
pub const TICKS: u64 = 100;

/// A slot of level 2 comes at this tick, 6 s after the beginning.
const COARSE_SLOT: u64 = 8 * 256;
const BEGIN: u64 = COARSE_SLOT - 60;
/// The load has run for so long before.
const WARM_UP: u64 = 700;
/// Within the ten seconds: a timer of an hour, for which there is no level yet.
pub const FAR_ARMED: u64 = 27;
pub const FAR_CANCELLED: u64 = 86;
const FAR: u64 = 36_000;

const CONNECTIONS: usize = 22;
/// Timers of minutes, which nobody touches.
const SESSIONS: usize = 9;
/// A request comes each so many ticks.
const REQUEST_EACH: u64 = 2;
/// One in so many is never answered.
const UNANSWERED: u64 = 16;

struct Timer {
    number: u64,
    /// Later than the wheel's due if heartbeats came.
    due: u64,
    life: Life,
}

#[derive(Clone, Copy)]
enum Life {
    Connection { idle: u64, next_heartbeat: u64 },
    EndsAt(u64),
}

struct ByHand {
    wheel: Wheel<Timer>,
    rng: Rng,
    armed: u64,
    counts: Counts,
    moves: Vec<Move>,
}

/// A moment for each tick of ten seconds, and one for the beginning.
pub fn ten_seconds(seed: u64) -> Vec<Moment> {
    let mut by_hand = ByHand {
        wheel: Wheel::with_slots(SLOTS).starting_at(BEGIN - WARM_UP),
        rng: Rng::with_seed(seed),
        armed: 0,
        counts: Counts::default(),
        moves: Vec::new(),
    };
    for _ in 0..CONNECTIONS {
        by_hand.connect();
    }
    for session in 0..SESSIONS as u64 {
        let minutes = WARM_UP + 300 + session * 190 + by_hand.rng.u64(..200);
        by_hand.arm(minutes, Life::EndsAt(u64::MAX));
    }
    for _ in 0..WARM_UP {
        by_hand.tick();
    }
    by_hand.counts = Counts::default();
    by_hand.moves = by_hand.places().into_iter().map(armed_at).collect();
    let mut moments = vec![by_hand.look()];
    for tick in 1..=TICKS {
        by_hand.tick();
        if tick == FAR_ARMED {
            by_hand.arm(FAR, Life::EndsAt(BEGIN + FAR_CANCELLED));
        }
        moments.push(by_hand.look());
    }
    moments
}

fn armed_at((timer, to): (u64, Place)) -> Move {
    Move {
        timer,
        from: None,
        to: Some(to),
        why: Why::Armed,
    }
}

impl ByHand {
    fn tick(&mut self) {
        self.turn();
        self.load();
    }

    /// What the driver does in a tick.
    fn turn(&mut self) {
        let before = self.places();
        let now = self.wheel.now() + 1;
        let due: Vec<_> = self.wheel.advance(now).map(|(_, timer)| timer).collect();
        let mut gone = Vec::new();
        for timer in due {
            let (number, true_due) = (timer.number, timer.due);
            if true_due > now {
                self.wheel.insert(true_due, timer);
                self.note(number, &before, Why::PushedBack);
            } else {
                self.counts.fired += 1;
                self.note(number, &before, Why::Fired);
                if matches!(timer.life, Life::Connection { .. }) {
                    self.connect();
                }
            }
            gone.push(number);
        }
        for (number, place) in self.places() {
            if before.get(&number).is_some_and(|&lay| lay != place) && !gone.contains(&number) {
                self.note(number, &before, Why::Cascaded);
            }
        }
    }

    /// What the program does in a tick: heartbeats, answers and new requests.
    fn load(&mut self) {
        let now = self.wheel.now();
        let before = self.places();
        let timers = self.wheel.iter();
        let mut lives: Vec<(Key, u64, Life)> = timers
            .map(|(key, _, timer)| (key, timer.number, timer.life))
            .collect();
        lives.sort_unstable_by_key(|&(_, number, _)| number);
        for (key, number, life) in lives {
            match life {
                Life::EndsAt(end) if end <= now => {
                    self.wheel.remove(key);
                    self.counts.cancelled += 1;
                    self.note(number, &before, Why::Cancelled);
                }
                Life::Connection {
                    idle,
                    next_heartbeat,
                } if next_heartbeat <= now => {
                    let next_heartbeat = now + self.rng.u64(5..20).min(idle / 2);
                    self.counts.pushed_back += 1;
                    if let Some(timer) = self.wheel.get_mut(key) {
                        timer.due = now + idle;
                        timer.life = Life::Connection {
                            idle,
                            next_heartbeat,
                        };
                    }
                }
                _ => {}
            }
        }
        if now.is_multiple_of(REQUEST_EACH) {
            let takes = match now / REQUEST_EACH % UNANSWERED {
                0 => u64::MAX,
                _ => now + self.rng.u64(4..14),
            };
            let timeout = self.rng.u64(15..60);
            self.arm(timeout, Life::EndsAt(takes));
        }
    }

    fn connect(&mut self) {
        // From 1.5 to 60 seconds. Each order of magnitude is as likely.
        let idle = (15.0 * 40_f64.powf(self.rng.f64())) as u64;
        let next_heartbeat = self.wheel.now() + self.rng.u64(1..15);
        let life = Life::Connection {
            idle,
            next_heartbeat,
        };
        self.arm(idle, life);
    }

    fn arm(&mut self, timeout: u64, life: Life) {
        let now = self.wheel.now();
        let (number, due) = (self.armed, now + timeout);
        self.armed += 1;
        self.counts.armed += 1;
        self.wheel.insert(due, Timer { number, due, life });
        self.note(number, &BTreeMap::new(), Why::Armed);
    }

    fn note(&mut self, timer: u64, before: &BTreeMap<u64, Place>, why: Why) {
        let from = before.get(&timer).copied();
        let to = self.places().get(&timer).copied();
        let moved = Move {
            timer,
            from,
            to,
            why,
        };
        self.moves.push(moved);
    }

    /// Where each timer lies, by its number.
    fn places(&self) -> BTreeMap<u64, Place> {
        let now = self.wheel.now();
        let timers = self.wheel.iter();
        timers
            .filter_map(|(_, due, timer)| Some((timer.number, place(due, now, SLOTS)?)))
            .collect()
    }

    fn look(&mut self) -> Moment {
        let now = self.wheel.now();
        let levels = 0..self.wheel.levels();
        let mut levels: Vec<_> = levels
            .map(|number| Level::empty(number, SLOTS, now, TICK))
            .collect();
        for place in self.places().into_values() {
            levels[place.level].slots[place.slot] += 1;
        }
        Moment {
            now,
            tick: TICK,
            levels,
            counts: Counts {
                pending: self.wheel.len() as u64,
                ..self.counts
            },
            moves: std::mem::take(&mut self.moves),
            ..Moment::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moves_lead_from_each_moment_to_the_next() {
        let mut places = BTreeMap::new();
        for moment in ten_seconds(1) {
            for Move {
                timer, from, to, ..
            } in &moment.moves
            {
                assert_eq!(places.remove(timer), *from);
                places.extend(to.map(|place| (*timer, place)));
            }
            for (number, level) in moment.levels.iter().enumerate() {
                for (slot, &timers) in level.slots.iter().enumerate() {
                    let here = |place: &&Place| (place.level, place.slot) == (number, slot);
                    assert_eq!(places.values().filter(here).count(), timers);
                }
            }
            assert_eq!(places.len() as u64, moment.counts.pending);
        }
    }

    #[test]
    fn the_ten_seconds_show_all_that_can_happen() {
        let moments = ten_seconds(1);
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
        let levels = moments.iter().map(|moment| moment.levels.len());
        let mut levels: Vec<_> = levels.collect();
        levels.dedup();
        assert_eq!(levels, [3, 4, 3], "a level comes and goes");
        let counts = moments.last().expect("there are some").counts;
        assert!(counts.pushed_back + counts.cancelled > 20 * counts.fired);
    }
}
