//! The bell of the driver and the plans of its shards: every interleaving of arms with a turn and
//! with those who attend.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::with_few_preemptions;
use crate::driver::bell::{Bell, Request};
use crate::shard::lock_held;
use crate::shard::plan::{Change, Plan};
use crate::sync::{AtomicU64, Ordering};
use crate::time::tick::NEVER;

/// A driver with two shards of which only the plans are left, and an alarm that is only a number.
struct Driven {
    bell: Bell,
    /// Each with the lock of its shard.
    plans: [(Plan, Mutex<()>); 2],
    /// Under a lock only to be seen by all; nobody but the attendant has it.
    alarm: Mutex<u64>,
    turns: AtomicU64,
}

impl Driven {
    /// Its alarm has just fired, at tick 1.
    fn new() -> Arc<Driven> {
        let driven = Driven {
            bell: Bell::new(),
            plans: [0, 1].map(|_| (Plan::never(), Mutex::new(()))),
            alarm: Mutex::new(NEVER),
            turns: AtomicU64::new(0),
        };
        driven.bell.set_for(1);
        Arc::new(driven)
    }

    fn arm(&self, shard: usize, tick: u64) {
        let (plan, lock) = &self.plans[shard];
        let locked = lock.lock().unwrap();
        let change = plan.lower_to(tick, &lock_held());
        drop(locked);
        if change != Change::None && !self.bell.is_set_by(tick) {
            self.bell.ask_for(tick);
            self.attend(Request::Plan);
        }
    }

    fn attend(&self, request: Request) {
        if !self.bell.ring(request) {
            return;
        }
        loop {
            let requests = self.bell.take_requests();
            let mut alarm = self.alarm.try_lock().expect("one attends at a time");
            if requests.has(Request::Fired) {
                *alarm = NEVER;
                self.turns.fetch_add(1, Ordering::Relaxed);
                self.bell.begin_to_read_plans();
                for (plan, _) in &self.plans {
                    *alarm = plan.tick().min(*alarm);
                }
            } else {
                *alarm = self.bell.take_asked_for().min(*alarm);
            }
            self.bell.set_for(*alarm);
            drop(alarm);
            if self.bell.leave() {
                return;
            }
        }
    }
}

/// Fails when `NextLook` has no fence between its two steps, on either side.
#[test]
fn no_arm_is_lost_between_a_turn_and_who_attends() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let arms = [(0, 7), (1, 5)].map(|(shard, tick)| {
            let driven = driven.clone();
            thread::spawn(move || driven.arm(shard, tick))
        });
        driven.attend(Request::Fired);
        for arm in arms {
            arm.join().unwrap();
        }
        assert_eq!(*driven.alarm.lock().unwrap(), 5);
        assert_eq!(driven.turns.load(Ordering::Relaxed), 1);
    });
}

/// Fails when `Bell::leave` stores in place of the exchange.
#[test]
fn what_is_requested_of_an_attendant_that_leaves_is_done() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let fire = {
            let driven = driven.clone();
            thread::spawn(move || driven.attend(Request::Fired))
        };
        driven.attend(Request::Fired);
        driven.attend(Request::Fired);
        fire.join().unwrap();
        let turns = driven.turns.load(Ordering::Relaxed);
        assert!((1..=3).contains(&turns), "{turns} turns");
        assert!(driven.bell.ring(Request::Plan), "nobody is left attending");
    });
}
