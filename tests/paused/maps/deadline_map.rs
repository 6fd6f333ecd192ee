//! `DeadlineMap`: what a drained deadline says, and wakers that use the map.

use std::sync::{Arc, Mutex, mpsc};

use tickwheel::{DeadlineMap, Timer};

use crate::common::{HOUR, MS, arm, waker_fn};
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
        let keyed = Arc::new(Mutex::new((1..5).map(insert).collect::<Vec<_>>()));
        let (used, all) = (map.clone(), keyed.clone());
        let meddling = waker_fn(move || {
            used.reset(&2);
            drop(used.insert(77, HOUR));
            let all = std::mem::take(&mut *all.lock().unwrap());
            drop(all);
        });
        for keyed in keyed.lock().unwrap().iter_mut() {
            arm(keyed, &meddling);
        }
        settle().await;
        move_the_clock_only(10 * MS);
        act(&map);
    }
}

/// Where it was told under the lock, the call of its waker would wait for ever, or panic.
#[tokio::test(start_paused = true)]
async fn the_waiter_of_a_replaced_deadline_is_woken_under_no_lock() {
    let map = DeadlineMap::new(&Timer::current());
    let mut older = map.insert(1, HOUR).unwrap();
    let (asked, (tells, told)) = (map.clone(), mpsc::channel());
    let asks = move || {
        let is_there = asked.contains_key(&1) && asked.reset(&1);
        tells.send(is_there).unwrap();
    };
    arm(&mut older, &waker_fn(asks));
    let _newer = map.insert(1, HOUR).unwrap();
    assert_eq!(told.try_recv(), Ok(true), "it found the newer one");
    assert!(older.await.unwrap_err().is_replaced());
}
