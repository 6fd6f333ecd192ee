//! The lock of the alarm and the next expiries of the shards: every interleaving of arms with
//! turns. The driver is a copy of what `driver::mod` does with the lock. Its shards are only their
//! next expiries.

use loom::sync::Arc;
use loom::thread;

use super::with_few_preemptions;
use crate::clock::next_check::NextCheck;
use crate::clock::tick::{Moment, Tick};
use crate::driver::alarm::{Alarm, AlarmLock, AlarmState, LockedAlarm};
use crate::shard::lock::LockHeld;
use crate::shard::shard_tick::{ExpiryChange, ShardTick};
use crate::sync::{self, AtomicBool, AtomicU64, Mutex, Ordering};

struct Driven {
    alarm: AlarmLock,
    next_check: NextCheck,
    /// Each with the lock of its shard.
    expiries: [(ShardTick, Mutex<()>); 2],
    turns: AtomicU64,
    /// Firings that were left to another thread.
    left: AtomicU64,
    /// Set while a turn works with no lock.
    is_turning: AtomicU64,
    number: Number,
    is_closed: AtomicBool,
}

/// An alarm that is only a number.
#[derive(Clone)]
struct Number {
    /// Used under the alarm's lock, so nothing for loom to order.
    at: std::sync::Arc<std::sync::Mutex<Tick>>,
    has_ended: Arc<AtomicBool>,
}

impl Alarm for Number {
    fn set(&mut self, tick: Tick) -> bool {
        *self.at.lock().unwrap() = tick;
        true
    }

    fn ended(&mut self) -> Option<Moment> {
        let has_ended = self.has_ended.load(Ordering::Acquire);
        has_ended.then_some(Moment::EPOCH)
    }
}

impl Driven {
    /// Its alarm is set for tick 1.
    fn new() -> Arc<Driven> {
        let driven = Driven {
            alarm: AlarmLock::default(),
            next_check: NextCheck::new(Tick::new(1)),
            expiries: [0, 1].map(|_| (ShardTick::new(Tick::NEVER), Mutex::new(()))),
            turns: AtomicU64::new(0),
            left: AtomicU64::new(0),
            is_turning: AtomicU64::new(0),
            number: Number {
                at: std::sync::Arc::new(std::sync::Mutex::new(Tick::new(1))),
                has_ended: Arc::new(AtomicBool::new(false)),
            },
            is_closed: AtomicBool::new(false),
        };
        *driven.alarm.lock() = Some(AlarmState {
            alarm: Box::new(driven.number.clone()),
            wakers: Vec::new(),
        });
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
            if let Some(state) = &mut *locked {
                let tick = match lowered {
                    Some(expiry) => expiry.get().min(self.next_check.tick()),
                    None => self.next_check.begin(|| self.earliest()),
                };
                self.next_check.at(tick);
                state.alarm.set(tick);
            }
            self.unlock(locked);
            if !self.alarm.is_asked_again() {
                return;
            }
            lowered = None;
        }
    }

    fn unlock(&self, mut locked: LockedAlarm<'_>) {
        if locked
            .take_if(|state| state.alarm.ended().is_some())
            .is_some()
        {
            self.is_closed.store(true, Ordering::Relaxed);
        }
    }

    fn earliest(&self) -> Tick {
        let expiries = self.expiries.iter().map(|(expiry, _)| expiry.get());
        expiries.min().unwrap()
    }

    fn fire(&self) {
        let begun = self.alarm.try_lock().and_then(|mut locked| {
            let state = locked.take()?;
            self.next_check.at(Tick::FIRST);
            Some(state)
        });
        let Some(mut state) = begun else {
            self.left.fetch_add(1, Ordering::Relaxed);
            return;
        };
        assert_eq!(self.is_turning.swap(1, Ordering::Relaxed), 0, "one turns");
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.is_turning.store(0, Ordering::Relaxed);
        let mut locked = self.alarm.lock();
        let next = self.next_check.begin(|| self.earliest());
        self.next_check.at(next);
        state.alarm.set(next);
        *locked = Some(state);
        self.unlock(locked);
        if self.alarm.is_asked_again() {
            self.set(None);
        }
    }

    /// How many firings led to a turn, or were left to another thread.
    fn fired(&self) -> u64 {
        self.turns.load(Ordering::Relaxed) + self.left.load(Ordering::Relaxed)
    }

    fn is_set_for(&self) -> Tick {
        *self.number.at.lock().unwrap()
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

/// Fails when a turn leaves the alarm behind the lock.
#[test]
fn no_turn_is_made_beside_another() {
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

/// Fails when a turn looks for the end only as it begins, and when `is_asked_again` is not asked
/// after it.
#[test]
fn an_end_that_fires_the_alarm_beside_a_turn_is_found() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let ends = {
            let driven = driven.clone();
            thread::spawn(move || {
                driven.number.has_ended.store(true, Ordering::Release);
                driven.fire();
            })
        };
        driven.fire();
        ends.join().unwrap();
        assert!(driven.is_closed.load(Ordering::Relaxed));
    });
}
