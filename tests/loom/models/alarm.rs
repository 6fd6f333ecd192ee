//! The lock of the alarm and the next expiries of the shards: every interleaving of arms with
//! turns. The driver is a copy of what `driver::mod` does with the lock. Its shards are only their
//! next expiries.

use loom::sync::Arc;
use loom::thread;

use super::with_few_preemptions;
use crate::clock::next_check::NextCheck;
use crate::clock::tick::{Moment, Tick};
use crate::driver::alarm::{Alarm, AlarmLock, SetOutcome};
use crate::shard::lock::LockHeld;
use crate::shard::shard_tick::{ExpiryChange, ShardTick};
use crate::sync::{self, AtomicU64, Mutex, Ordering};

struct Driven {
    alarm: AlarmLock,
    next_check: NextCheck,
    /// Each with the lock of its shard.
    expiries: [(ShardTick, Mutex<()>); 2],
    turns: AtomicU64,
    /// Firings that found the lock taken.
    left: AtomicU64,
    /// Set while a turn works with no lock.
    is_turning: AtomicU64,
}

/// An alarm that is only a number.
struct Number(Tick);

impl Alarm for Number {
    fn at(&self) -> Tick {
        self.0
    }

    fn set(&mut self, tick: Tick) -> SetOutcome {
        self.0 = tick;
        SetOutcome::Done
    }

    fn note_fired(&mut self) -> Moment {
        self.0 = Tick::NEVER;
        Moment::EPOCH
    }
}

impl Driven {
    /// Its alarm is set for tick 1.
    fn new() -> Arc<Driven> {
        let driven = Driven {
            alarm: AlarmLock::new(),
            next_check: NextCheck::new(Tick::new(1)),
            expiries: [0, 1].map(|_| (ShardTick::new(Tick::NEVER), Mutex::new(()))),
            turns: AtomicU64::new(0),
            left: AtomicU64::new(0),
            is_turning: AtomicU64::new(0),
        };
        let alarm = Box::new(Number(Tick::new(1)));
        driven.alarm.lock().state.alarm = Some(alarm);
        Arc::new(driven)
    }

    fn arm(&self, shard: usize, tick: u64) {
        let tick = Tick::new(tick);
        let (expiry, lock) = &self.expiries[shard];
        let locked = sync::lock(lock);
        let change = expiry.lower_to(tick, LockHeld::by(&locked));
        drop(locked);
        if change == ExpiryChange::None || self.next_check.comes_by(tick) {
            return;
        }
        self.set(Some(expiry));
    }

    /// Sets the alarm for a lowered expiry, or for the earliest one.
    fn set(&self, mut lowered: Option<&ShardTick>) {
        while let Some(mut locked) = self.alarm.try_lock() {
            if !locked.is_turning() {
                let tick = match lowered {
                    Some(expiry) => expiry.get().min(self.next_check.tick()),
                    None => self.next_check.begin(|| self.earliest()),
                };
                self.next_check.at(tick);
                locked.state.alarm.as_mut().unwrap().set(tick);
            }
            drop(locked);
            if !self.alarm.is_asked_again() {
                return;
            }
            lowered = None;
        }
    }

    fn earliest(&self) -> Tick {
        let expiries = self.expiries.iter().map(|(expiry, _)| expiry.get());
        expiries.min().unwrap()
    }

    fn fire(&self) {
        let Some(mut locked) = self.alarm.try_lock() else {
            self.left.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let Some(mut wakers) = locked.begin_turn() else {
            return;
        };
        loop {
            locked.alive().unwrap().note_fired();
            self.next_check.at(Tick::FIRST);
            drop(locked);
            assert_eq!(self.is_turning.swap(1, Ordering::Relaxed), 0, "one turns");
            self.turns.fetch_add(1, Ordering::Relaxed);
            self.is_turning.store(0, Ordering::Relaxed);
            locked = self.alarm.lock();
            let next = self.next_check.begin(|| self.earliest());
            self.next_check.at(next);
            locked.state.alarm.as_mut().unwrap().set(next);
            if locked.end_turn(&mut wakers) {
                break;
            }
        }
        drop(locked);
        if self.alarm.is_asked_again() {
            self.set(None);
        }
    }

    /// How many firings led to a turn, or were left to a thread that sets the alarm.
    fn fired(&self) -> u64 {
        self.turns.load(Ordering::Relaxed) + self.left.load(Ordering::Relaxed)
    }

    fn is_set_for(&self) -> Tick {
        self.alarm.lock().state.alarm.as_ref().unwrap().at()
    }
}

/// Fails when `NextCheck` has no fence between its two steps, on either side, when a turn reads the
/// expiries before it takes the lock again, and when `try_lock` does not try again or
/// `is_asked_again` has no fence.
#[test]
fn no_arm_is_lost_beside_a_turn_or_another_arm() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let arms = [(0, 7), (1, 5)].map(|(shard, tick)| {
            let driven = driven.clone();
            thread::spawn(move || driven.arm(shard, tick))
        });
        driven.fire();
        for arm in arms {
            arm.join().unwrap();
        }
        assert_eq!(driven.is_set_for(), Tick::new(5));
        assert_eq!(driven.fired(), 1);
    });
}

/// Fails when `end_turn` forgets that the alarm has fired again, and when `begin_turn` lets two
/// turn.
#[test]
fn a_turn_follows_each_firing_and_none_is_made_beside_another() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let arms = {
            let driven = driven.clone();
            thread::spawn(move || driven.arm(0, 3))
        };
        let fires = {
            let driven = driven.clone();
            thread::spawn(move || driven.fire())
        };
        driven.fire();
        fires.join().unwrap();
        arms.join().unwrap();
        assert_eq!(driven.fired(), 2);
        assert_eq!(driven.is_set_for(), Tick::new(3));
    });
}
