//! The requests of the driver and the next expiries of its shards: every interleaving of arms with
//! a turn and of running threads.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::with_few_preemptions;
use crate::clock::tick::Tick;
use crate::driver::requests::{Request, Requests};
use crate::shard::lock::ShardLock;
use crate::shard::next_expiry::{ExpiryChange, NextExpiry};
use crate::sync::{AtomicU64, Ordering};

/// A driver with two shards of which only the next expiries are left, and an alarm that is only a
/// number.
struct Driven {
    requests: Requests,
    /// Each with the lock of its shard.
    expiries: [(NextExpiry, ShardLock<()>); 2],
    /// Under a lock only to be seen by all; only the running thread takes it.
    alarm: Mutex<Tick>,
    turns: AtomicU64,
}

impl Driven {
    /// Its alarm has just fired, at tick 1.
    fn new() -> Arc<Driven> {
        let driven = Driven {
            requests: Requests::new(),
            expiries: [0, 1].map(|_| (NextExpiry::never(), ShardLock::new(()))),
            alarm: Mutex::new(Tick::NEVER),
            turns: AtomicU64::new(0),
        };
        let mut running = driven.requests.submit(Request::TURN).unwrap();
        running.take();
        running.set_for(Tick::new(1));
        assert!(running.release().is_none());
        Arc::new(driven)
    }

    fn arm(&self, shard: usize, tick: u64) {
        let tick = Tick::new(tick);
        let (expiry, lock) = &self.expiries[shard];
        let locked = lock.lock();
        let change = expiry.lower_to(tick, locked.held());
        drop(locked);
        if change != ExpiryChange::None && !self.requests.is_set_by(tick) {
            self.requests.ask_for(tick);
            self.run(Request::SET_ALARM);
        }
    }

    fn run(&self, request: Request) {
        self.requests.run(request, |running, requests| {
            let mut alarm = self.alarm.try_lock().expect("one runs it at a time");
            if requests.has(Request::FIRED) {
                self.turns.fetch_add(1, Ordering::Relaxed);
                let expiries = self.expiries.iter().map(|(expiry, _)| expiry.tick());
                *alarm = running.read(|| expiries.min()).unwrap();
            } else {
                *alarm = running.take_asked_for().min(*alarm);
            }
            running.set_for(*alarm);
        });
    }
}

/// Fails when `NextCheck` has no fence between its two steps, on either side.
#[test]
fn no_arm_is_lost_beside_a_turn_or_another_running_thread() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let arms = [(0, 7), (1, 5)].map(|(shard, tick)| {
            let driven = driven.clone();
            thread::spawn(move || driven.arm(shard, tick))
        });
        driven.run(Request::FIRED);
        for arm in arms {
            arm.join().unwrap();
        }
        assert_eq!(*driven.alarm.lock().unwrap(), Tick::new(5));
        assert_eq!(driven.turns.load(Ordering::Relaxed), 1);
    });
}

/// Fails when `Requests::release` stores in place of the exchange.
#[test]
fn what_is_requested_of_a_running_thread_that_stops_is_done() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let fire = {
            let driven = driven.clone();
            thread::spawn(move || driven.run(Request::FIRED))
        };
        driven.run(Request::FIRED);
        driven.run(Request::FIRED);
        fire.join().unwrap();
        let turns = driven.turns.load(Ordering::Relaxed);
        assert!((1..=3).contains(&turns), "{turns} turns");
        let next = driven.requests.submit(Request::SET_ALARM);
        assert!(next.is_some(), "a thread is still running");
    });
}
