//! The protocol of turns: interleavings of arms with turns, on the crate's own `Turns`. The
//! driver's shards are only their next expiries, and its alarm is only a number.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::with_few_preemptions;
use crate::clock::tick::{Moment, Tick};
use crate::driver::alarm::{Act, Alarm, Hooks, Late, Step, TurnBy, Turns};
use crate::shard::lock::LockHeld;
use crate::shard::shard_tick::{ExpiryChange, ShardTick};
use crate::sync::{self, AtomicBool, AtomicU64, Mutex, Ordering};

struct Driven {
    turns: Turns,
    /// Each with the lock of its shard.
    expiries: [(ShardTick, Mutex<()>); 2],
    /// The present tick. A turn fires what is due by then.
    present: AtomicU64,
    /// How often a turn has fired what is due.
    made: AtomicU64,
    /// Set while a turn works with no lock.
    is_turning: AtomicU64,
    number: Number,
    closed: AtomicU64,
    notified: AtomicU64,
    /// Whether the next turn waits.
    is_late: AtomicBool,
    waits: AtomicU64,
    /// Whether the wait was held up.
    is_held_up: AtomicBool,
}

/// By when a turn is made that waits.
const WAITS_UNTIL: Tick = Tick::new(9);

/// What a late turn finds.
const LATE: Late = Late {
    by: Some(Duration::from_secs(1)),
    until: WAITS_UNTIL,
};

/// What a wait that was held up finds.
const LATE_AGAIN: Late = Late {
    by: None,
    until: Tick::new(19),
};

/// An alarm that is only a number.
#[derive(Clone)]
struct Number {
    /// tokio's side, whose lock is nothing for loom to order.
    tokio: std::sync::Arc<std::sync::Mutex<TokioSide>>,
    /// The last tick that has passed for the time driver.
    passed: Arc<AtomicU64>,
    /// Whether the alarm shows the end.
    has_ended: Arc<AtomicBool>,
}

struct TokioSide {
    /// `NEVER` for a timer that is not set.
    at: Tick,
    watches_end: bool,
    /// The time driver has ended, as a timer shows that watches the end, or the next one that is
    /// set.
    is_over: bool,
}

impl Alarm for Number {
    fn set(&mut self, tick: Tick) -> Result<(), Tick> {
        // A timer of tokio's that has elapsed fires no more.
        let is_ahead = tick.get() > self.passed.load(Ordering::Acquire);
        let mut tokio = self.tokio.lock().unwrap();
        if tokio.is_over {
            self.has_ended.store(true, Ordering::Release);
            return Ok(());
        }
        tokio.at = if is_ahead { tick } else { Tick::NEVER };
        tokio.watches_end = tick == Tick::NEVER;
        is_ahead.then_some(()).ok_or(tick)
    }

    fn watch_end(&mut self) {
        self.tokio.lock().unwrap().watches_end = true;
    }

    fn ended(&mut self) -> Option<Moment> {
        let has_ended = self.has_ended.load(Ordering::Acquire);
        let tokio = self.tokio.lock().unwrap();
        (has_ended || tokio.is_over && tokio.watches_end).then_some(Moment::EPOCH)
    }
}

impl Driven {
    /// Its alarm is set for tick 1, and nothing is armed.
    fn new() -> Arc<Driven> {
        let driven = Driven {
            turns: Turns::new(),
            expiries: [0, 1].map(|_| (ShardTick::new(Tick::NEVER), Mutex::new(()))),
            present: AtomicU64::new(1),
            made: AtomicU64::new(0),
            is_turning: AtomicU64::new(0),
            number: Number {
                tokio: std::sync::Arc::new(std::sync::Mutex::new(TokioSide {
                    at: Tick::new(1),
                    watches_end: false,
                    is_over: false,
                })),
                passed: Arc::new(AtomicU64::new(0)),
                has_ended: Arc::new(AtomicBool::new(false)),
            },
            closed: AtomicU64::new(0),
            notified: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            waits: AtomicU64::new(0),
            is_held_up: AtomicBool::new(false),
        };
        driven.turns.begin(|| Box::new(driven.number.clone()));
        driven.turns.next_check().set(Tick::new(1));
        Arc::new(driven)
    }

    /// As `Shard::notify_driver` and `Driver::request_turn`.
    fn arm(&self, shard: usize, tick: u64) {
        let tick = Tick::new(tick);
        let (expiry, lock) = &self.expiries[shard];
        let locked = sync::lock(lock);
        let change = expiry.lower_to(tick, LockHeld::by(&locked));
        drop(locked);
        if change != ExpiryChange::None && !self.turns.next_check().comes_by(tick) {
            self.turns.set_earlier(self, expiry, Moment::EPOCH);
        }
    }

    fn fire(&self) {
        self.turns.turn(self, Moment::EPOCH, TurnBy::Alarm);
    }

    /// As the time driver works up to a tick, for which the alarm is set.
    fn fire_by(&self, tick: u64) {
        self.number.passed.store(tick, Ordering::Release);
        self.number.tokio.lock().unwrap().at = Tick::NEVER;
        self.fire();
    }

    /// A time driver that ends fires what is set.
    fn end_time_driver(&self) {
        // Another thread may come before this.
        self.number.passed.load(Ordering::Acquire);
        let fires = {
            let mut tokio = self.number.tokio.lock().unwrap();
            tokio.is_over = true;
            tokio.watches_end || tokio.at != Tick::NEVER
        };
        if fires {
            self.fire();
        }
    }

    fn is_set_for(&self) -> Tick {
        self.number.tokio.lock().unwrap().at
    }
}

impl Hooks for Driven {
    fn expiries(&self) -> [Tick; 2] {
        let expiries = self.expiries.iter().map(|(expiry, _)| expiry.get());
        [expiries.min().unwrap(), Tick::NEVER]
    }

    fn fire(&self, now: Moment, begun: Option<Tick>, _: &mut Vec<std::task::Waker>) -> Moment {
        assert_eq!(self.is_turning.swap(1, Ordering::Relaxed), 0, "one turns");
        if let Some(begun) = begun {
            self.present.fetch_max(begun.get(), Ordering::AcqRel);
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        let present = Tick::new(self.present.load(Ordering::Acquire));
        for (expiry, lock) in &self.expiries {
            let locked = sync::lock(lock);
            if expiry.get() <= present {
                expiry.set(Tick::NEVER, LockHeld::by(&locked));
            }
        }
        self.is_turning.store(0, Ordering::Relaxed);
        now
    }

    fn note(&self, step: Step) -> Option<Late> {
        let (is_late, late) = match step {
            Step::Begins(_) => (&self.is_late, LATE),
            Step::WaitElapses(_) => (&self.is_held_up, LATE_AGAIN),
            _ => return None,
        };
        is_late.swap(false, Ordering::Relaxed).then_some(late)
    }

    fn act(&self, act: Act) {
        let count = match act {
            Act::LetTasksRun(..) => &self.waits,
            Act::NotifyTask => &self.notified,
            Act::Close(_) => &self.closed,
            Act::Report(_) => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two threads arm for a coarse tick that has begun. Fails when the task is not notified.
#[test]
fn what_is_armed_for_a_missed_tick_is_left_to_the_task() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        driven.turns.next_check().set(Tick::new(9));
        driven.number.passed.store(5, Ordering::Release);
        driven.present.store(5, Ordering::Release);
        let other = {
            let driven = driven.clone();
            thread::spawn(move || driven.arm(1, 5))
        };
        driven.arm(0, 5);
        other.join().unwrap();
        assert!(driven.notified.load(Ordering::Relaxed) > 0);
        driven.turns.turn(&*driven, Moment::EPOCH, TurnBy::Task);
        for (expiry, _) in &driven.expiries {
            assert_eq!(expiry.get(), Tick::NEVER);
        }
    });
}

/// The runtime drops the task, and the alarm has fired before. Fails when the end is not watched as
/// a turn is left to the task.
#[test]
fn an_end_is_found_though_a_turn_was_left_to_a_task() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        driven.turns.next_check().set(Tick::new(9));
        let other = {
            let driven = driven.clone();
            thread::spawn(move || {
                driven.fire_by(5);
                driven.end_time_driver();
            })
        };
        // The time driver may have worked up to this tick.
        driven.arm(0, 5);
        other.join().unwrap();
        assert_eq!(driven.closed.load(Ordering::Relaxed), 1);
    });
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
    });
}

/// Fails when another firing ends the wait, and when a request that is noted in the wait sets the
/// alarm for the earliest expiry.
#[test]
fn no_arm_is_lost_beside_a_turn_that_waits() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        driven.is_late.store(true, Ordering::Relaxed);
        let arms = {
            let driven = driven.clone();
            thread::spawn(move || driven.arm(0, 5))
        };
        let fires = {
            let driven = driven.clone();
            thread::spawn(move || driven.fire())
        };
        driven.fire();
        fires.join().unwrap();
        arms.join().unwrap();
        // One of the two firings begins the wait, and the other one is no end of it.
        assert_eq!(driven.waits.load(Ordering::Relaxed), 1);
        assert_eq!(driven.made.load(Ordering::Relaxed), 0, "it waits");
        assert_eq!(driven.is_set_for(), WAITS_UNTIL);
        driven.turns.end_wait(&*driven, Moment::EPOCH);
        assert_eq!(driven.is_set_for(), Tick::new(5));
    });
}

/// Fails when the task that has waited leaves no trace at a taken lock.
#[test]
fn a_wait_that_ends_as_the_lock_is_taken_is_over() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        driven.is_late.store(true, Ordering::Relaxed);
        driven.fire();
        let asks = {
            let driven = driven.clone();
            thread::spawn(move || driven.turns.set_for_earliest(&*driven, Moment::EPOCH))
        };
        driven.turns.end_wait(&*driven, Moment::EPOCH);
        asks.join().unwrap();
        let is_made = driven.made.load(Ordering::Relaxed) > 0;
        assert!(is_made || driven.notified.load(Ordering::Relaxed) > 0);
    });
}

/// Fails when the end of the first wait is not forgotten as the second one begins.
#[test]
fn a_wait_does_not_end_with_the_one_before() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        for waits in 1..=2 {
            driven.is_late.store(true, Ordering::Relaxed);
            let fires = {
                let driven = driven.clone();
                thread::spawn(move || driven.fire())
            };
            driven.fire();
            fires.join().unwrap();
            assert_eq!(driven.waits.load(Ordering::Relaxed), waits);
            assert_eq!(driven.made.load(Ordering::Relaxed), waits - 1, "it waits");
            driven.turns.end_wait(&*driven, Moment::EPOCH);
            assert_eq!(driven.made.load(Ordering::Relaxed), waits);
        }
    });
}

/// The alarm fires as another thread holds its lock. Fails when the request sets nothing.
#[test]
fn a_turn_that_waits_is_made_at_its_last_tick() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        driven.is_late.store(true, Ordering::Relaxed);
        driven.fire();
        driven
            .number
            .passed
            .store(WAITS_UNTIL.get(), Ordering::Release);
        let asks = {
            let driven = driven.clone();
            thread::spawn(move || driven.turns.set_for_earliest(&*driven, Moment::EPOCH))
        };
        // The thread reads this under the lock, so loom lets it come between.
        driven.number.has_ended.store(false, Ordering::Release);
        driven.fire();
        asks.join().unwrap();
        let is_made = driven.made.load(Ordering::Relaxed) > 0;
        assert!(is_made || driven.notified.load(Ordering::Relaxed) > 0);
    });
}

/// Fails when it keeps its last tick, and when it begins again though its tasks have run.
#[test]
fn a_wait_that_was_held_up_begins_again_unless_it_is_over() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        driven.is_late.store(true, Ordering::Relaxed);
        driven.is_held_up.store(true, Ordering::Relaxed);
        driven.fire();
        let fires = {
            let driven = driven.clone();
            thread::spawn(move || driven.fire_by(WAITS_UNTIL.get()))
        };
        driven.arm(0, 5);
        fires.join().unwrap();
        assert_eq!(driven.made.load(Ordering::Relaxed), 0, "it waits");
        let is_left = driven.notified.load(Ordering::Relaxed) > 0;
        assert!(is_left || driven.is_set_for() == LATE_AGAIN.until);
        if is_left {
            driven.turns.turn(&*driven, Moment::EPOCH, TurnBy::Task);
        }
        driven.fire();
        assert_eq!(driven.made.load(Ordering::Relaxed), 0, "it waits");
        assert_eq!(driven.is_set_for(), LATE_AGAIN.until);
        driven.turns.end_wait(&*driven, Moment::EPOCH);
        assert!(driven.made.load(Ordering::Relaxed) > 0);
    });
}

/// Fails when a thread that releases the lock looks for no end while a turn waits.
#[test]
fn an_end_is_found_while_a_turn_waits() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        driven.is_late.store(true, Ordering::Relaxed);
        let ends = {
            let driven = driven.clone();
            thread::spawn(move || {
                driven.number.has_ended.store(true, Ordering::Release);
                driven.fire();
            })
        };
        driven.fire();
        ends.join().unwrap();
        assert_eq!(driven.closed.load(Ordering::Relaxed), 1);
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
        assert_eq!(driven.closed.load(Ordering::Relaxed), 1);
    });
}
