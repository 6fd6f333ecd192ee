//! `DeadlineMap`: forms of a key, hashers, and user code in its calls.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use tickwheel::{DeadlineMap, Instant, KeyedDeadline, Timer};

use crate::common::{HOUR, MS, arm, move_the_clock_only, settle};

#[tokio::test(start_paused = true)]
async fn a_key_is_found_by_what_it_borrows_as() {
    let map: DeadlineMap<String> = DeadlineMap::new(&Timer::current());
    let keyed = map.insert("one".to_owned(), HOUR).unwrap();
    assert!(map.contains_key("one") && map.reset("one"));
    assert!(map.handle("one").unwrap().reset_after(2 * MS));
    assert_eq!(map.remaining("one"), Some(2 * MS));
    assert!(map.set_timeout("one", 3 * MS) && map.reset("one"));
    assert_eq!(map.deadline("one"), Some(Instant::now() + 3 * MS));
    assert!(map.expire("one") && !map.cancel("one"));
    assert_eq!(keyed.await, Ok(()));
    assert!(!map.set_timeout("one", MS) && map.handle("one").is_none());
    assert_eq!((map.deadline("one"), map.remaining("one")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_drained_deadline_says_so_in_words() {
    let map = DeadlineMap::new(&Timer::current());
    let keyed = map.insert(1, HOUR).unwrap();
    assert_eq!(map.drain(), [(1, HOUR)]);
    assert!(keyed.await.unwrap_err().to_string().contains("all others"));
}

#[tokio::test(start_paused = true)]
async fn a_removed_key_is_gone_and_its_deadline_cancelled() {
    let timer = Timer::current();
    let map: DeadlineMap<String> = DeadlineMap::with_limit(&timer, 1);
    let mut keyed = map.insert("one".to_owned(), HOUR).unwrap();
    assert!(map.remove("one") && !map.remove("one") && !map.remove("two"));
    let cancelled = (&mut keyed).await.unwrap_err();
    assert!(!cancelled.is_replaced() && !cancelled.is_drained());
    keyed.restart();
    assert!(!map.reset("one"), "no key leads to it");
    let newer = map.insert("one".to_owned(), HOUR).unwrap();
    assert!(!map.compare_and_remove(&keyed) && map.compare_and_remove(&newer));
    drop(keyed);
    assert_eq!((map.len(), timer.metrics().pending), (0, 0));
}

/// All keys collide, which a hasher of the user's own may cause.
#[derive(Clone, Default)]
struct Constant;

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, _: &[u8]) {}
}

impl BuildHasher for Constant {
    type Hasher = Constant;

    fn build_hasher(&self) -> Constant {
        Constant
    }
}

#[tokio::test(start_paused = true)]
async fn any_hasher_gives_the_same_map() {
    fn check<S: BuildHasher>(map: DeadlineMap<u32, S>) {
        let insert = |key| map.insert(key, 5 * MS).unwrap();
        let mut keyed: Vec<_> = (0..1_500).map(insert).collect();
        assert!((0..1_500).all(|key| map.reset(&key)) && !map.contains_key(&1_500));
        keyed.truncate(700);
        assert!((0..1_500).all(|key| map.contains_key(&key) == (key < 700)));
        assert_eq!((map.len(), map.expire_all()), (700, 700));
        assert_eq!((map.close(), map.len()), (vec![], 0));
    }
    let timer = Timer::current();
    check(DeadlineMap::with_hasher(&timer, Constant));
    check(DeadlineMap::with_hasher(&timer, RandomState::new()).clone());
    check(DeadlineMap::with_limit_and_hasher(&timer, 1_500, Constant));
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
        |map| assert!(!map.set_timeout(&1, HOUR)),
        |map| assert!(!map.cancel(&1)),
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
