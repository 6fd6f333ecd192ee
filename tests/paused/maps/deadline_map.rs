//! `DeadlineMap`: what a drained deadline says, and wakers that use the map.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use tickwheel::{DeadlineMap, KeyedDeadline, Timer};

use crate::common::{HOUR, MS, arm};
use crate::paused_clock::{move_the_clock_only, settle};

#[tokio::test(start_paused = true)]
async fn a_drained_deadline_says_so_in_words() {
    let map = DeadlineMap::new(&Timer::current());
    let keyed = map.insert(1, HOUR).unwrap();
    assert_eq!(map.drain(), [(1, HOUR)]);
    assert!(keyed.await.unwrap_err().to_string().contains("all others"));
}

/// Any call that finds a deadline passed wakes its waiter. This waiter uses the map and drops other
/// deadlines of it. If the call held a lock meanwhile, the test would hang.
#[tokio::test(start_paused = true)]
async fn the_waiters_of_passed_deadlines_are_woken_under_no_lock() {
    struct Meddling(DeadlineMap<u32>, Mutex<Vec<KeyedDeadline<u32>>>);
    impl Wake for Meddling {
        fn wake(self: Arc<Self>) {
            self.0.reset(&2);
            drop(self.0.insert(77, HOUR));
            let all = std::mem::take(&mut *self.1.lock().unwrap());
            drop(all);
        }
    }
    let acts: [fn(&DeadlineMap<u32>); 7] = [
        |map| assert!(!map.reset(&1)),
        |map| assert!(!map.handle(&1).unwrap().set_timeout(HOUR)),
        |map| assert!(!map.handle(&1).unwrap().cancel()),
        |map| assert!(!map.expire(&1)),
        |map| assert_eq!(map.expire_all(), 0),
        |map| assert_eq!(map.drain(), []),
        |map| assert_eq!(map.close(), []),
    ];
    for act in acts {
        let map = DeadlineMap::new(&Timer::current());
        let insert = |key| map.insert(key, 10 * MS).unwrap();
        let keyed = (1..5).map(insert).collect();
        let meddling = Arc::new(Meddling(map.clone(), Mutex::new(keyed)));
        let waker = Waker::from(meddling.clone());
        for keyed in meddling.1.lock().unwrap().iter_mut() {
            arm(keyed, &waker);
        }
        settle().await;
        move_the_clock_only(10 * MS);
        act(&map);
    }
}

/// Where it was told under the lock, the call of its waker would wait for ever, or panic.
#[tokio::test(start_paused = true)]
async fn the_waiter_of_a_replaced_deadline_is_woken_under_no_lock() {
    struct Asks(DeadlineMap<u32>, AtomicBool);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let is_there = self.0.contains_key(&1) && self.0.reset(&1);
            self.1.store(is_there, Ordering::Relaxed);
        }
    }
    let map = DeadlineMap::new(&Timer::current());
    let mut older = map.insert(1, HOUR).unwrap();
    let asks = Arc::new(Asks(map.clone(), AtomicBool::new(false)));
    arm(&mut older, &Waker::from(asks.clone()));
    let _newer = map.insert(1, HOUR).unwrap();
    assert!(asks.1.load(Ordering::Relaxed), "it found the newer one");
    assert!(older.await.unwrap_err().is_replaced());
}
