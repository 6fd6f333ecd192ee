//! The way of each timer through the wheel, for a picture in which each of them is seen.
//!
//! A snapshot counts the timers of a slot and does not tell them apart. So this follows the rule by
//! which the wheel places them: a timer lies in the finest level that reaches its due, until the
//! time of its slot comes.
//!
//! Invariant: the places are those that a snapshot of the timer counts. A test compares the two.

use std::collections::BTreeMap;

use crate::model::{Move, Place, Why};

/// The timers that are followed, at a tick of the wheel.
#[derive(Debug)]
pub struct Ways {
    slots: u64,
    now: u64,
    /// The tick of the last turn. What is armed is placed as seen from here.
    elapsed: u64,
    timers: BTreeMap<u64, Way>,
    armed: u64,
    moves: Vec<Move>,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    /// The wheel knows of a reset only when it comes to the timer.
    due_in_wheel: u64,
    due: u64,
    level: u32,
}

impl Ways {
    pub fn new(slots: usize) -> Ways {
        Ways {
            slots: slots as u64,
            now: 0,
            elapsed: 0,
            timers: BTreeMap::new(),
            armed: 0,
            moves: Vec::new(),
        }
    }

    /// Follows a timer that is due after so many ticks. Gives its number.
    pub fn arm(&mut self, timeout: u64) -> u64 {
        self.armed += 1;
        let due = self.now + timeout;
        let way = self.linked(due);
        self.note(self.armed, None, Some(way), Why::Armed);
        self.armed
    }

    pub fn push_back(&mut self, timer: u64, timeout: u64) {
        if let Some(way) = self.timers.get_mut(&timer) {
            way.due = self.now + timeout;
        }
    }

    /// One that has fired is not followed any more, and stays so.
    pub fn cancel(&mut self, timer: u64) {
        if let Some(&way) = self.timers.get(&timer) {
            self.note(timer, Some(way), None, Why::Cancelled);
        }
    }

    /// What the driver does in the next tick. It sleeps until something is due, and then what is
    /// in the slots whose time has come cascades too.
    pub fn turn(&mut self) {
        self.now += 1;
        let is_due = |way: &Way| way.due_in_wheel <= self.now;
        if !self.timers.values().any(is_due) {
            return;
        }
        self.elapsed = self.now;
        for (timer, way) in self.timers.clone() {
            let width = self.slots.pow(way.level);
            if way.due_in_wheel / width > self.now / width {
                continue;
            }
            let (to, why) = match way.due_in_wheel > self.now {
                true => (Some(self.linked(way.due_in_wheel)), Why::Cascaded),
                false if way.due > self.now => (Some(self.linked(way.due)), Why::PushedBack),
                false => (None, Why::Fired),
            };
            let to = to.map(|to| Way { due: way.due, ..to });
            self.note(timer, Some(way), to, why);
        }
    }

    /// What moved since the last call.
    pub fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.moves)
    }

    /// Begins anew with what is there now.
    pub fn arm_all(&mut self) {
        self.moves.clear();
        for (timer, way) in self.timers.clone() {
            self.note(timer, None, Some(way), Why::Armed);
        }
    }

    fn linked(&self, due: u64) -> Way {
        let reaches = |&level: &u32| {
            let width = self.slots.pow(level);
            due / width - self.elapsed / width < self.slots
        };
        let level = (0..).find(reaches).unwrap_or_default();
        Way {
            due_in_wheel: due,
            due,
            level,
        }
    }

    fn place(&self, way: Way) -> Place {
        let slot = way.due_in_wheel / self.slots.pow(way.level) % self.slots;
        Place {
            level: way.level as usize,
            slot: slot as usize,
        }
    }

    fn note(&mut self, timer: u64, from: Option<Way>, to: Option<Way>, why: Why) {
        match to {
            Some(way) => self.timers.insert(timer, way),
            None => self.timers.remove(&timer),
        };
        let [from, to] = [from, to].map(|way| Some(self.place(way?)));
        self.moves.push(Move {
            timer,
            from,
            to,
            why,
        });
    }
}
