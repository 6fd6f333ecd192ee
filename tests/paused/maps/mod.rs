//! What the oracle does not hold of `DelayMap` and `DeadlineMap`: user code within the calls, other
//! forms of a key, hashers, and the faults that it alone had found. Threads that race are in
//! `soak/tests/real/map_threads.rs`.

mod closures;
mod delay_map;
mod due;
mod expiry;

use std::cell::Cell;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use tickwheel::{DeadlineMap, DelayMap, Instant, Timer};

use crate::common::{HOUR, MS, arm, panic_of, waker_fn};
use crate::paused_clock::move_the_clock_only;

/// All keys collide, which a hasher of the user's own may cause.
#[derive(Clone, Default)]
struct Constant;

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, _: &[u8]) {}
}

type Colliding = BuildHasherDefault<Constant>;

#[tokio::test(start_paused = true)]
async fn a_drained_deadline_says_so_in_words() {
    let map = DeadlineMap::new(&Timer::current());
    let keyed = map.insert(1, HOUR).unwrap();
    assert_eq!(map.drain(), [(1, HOUR)]);
    assert!(keyed.await.unwrap_err().to_string().contains("all others"));
}

/// The first of its clones that is dropped panics.
#[derive(Clone)]
struct Panics(Arc<AtomicBool>);

impl Drop for Panics {
    fn drop(&mut self) {
        assert!(self.0.swap(true, Ordering::Relaxed), "it is the first");
    }
}

impl Hash for Panics {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Panics {
    fn eq(&self, _: &Panics) -> bool {
        true
    }
}

impl Eq for Panics {}

#[tokio::test(start_paused = true)]
async fn a_refused_key_is_not_leaked_if_its_other_clone_panics() {
    for is_closed in [false, true] {
        let map = DeadlineMap::with_limit(&Timer::current(), 0);
        if is_closed {
            map.close();
        }
        let key = Arc::new(AtomicBool::new(false));
        panic_of(|| map.insert(Panics(key.clone()), HOUR));
        assert_eq!(Arc::strong_count(&key), 1, "{is_closed}");
    }
}

thread_local! {
    static DROP_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// If it is zero, its next drop panics once that is set.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Number(u32);

impl Drop for Number {
    fn drop(&mut self) {
        assert!(self.0 > 0 || !DROP_PANICS.take(), "it is the first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drained_key_that_panics_leaves_no_deadline_pending() {
    let map = DeadlineMap::with_limit_and_hasher(&Timer::current(), 50, Colliding::default());
    let insert = |number| map.insert(Number(number), HOUR).unwrap();
    let keyed: Vec<_> = (0..50).map(insert).collect();
    assert!(keyed[0].handle().expire());
    DROP_PANICS.set(true);
    panic_of(|| map.drain());
    assert!(keyed.iter().all(|keyed| !keyed.handle().is_pending()));
}

/// The waker of the deadline that it finds expired makes a newer one.
#[tokio::test(start_paused = true)]
async fn a_reset_whose_deadline_is_replaced_meanwhile_resets_the_newer_one() {
    let map = DeadlineMap::new(&Timer::current());
    let mut older = map.insert(1, MS).unwrap();
    let (map_of_waker, (keeps, kept)) = (map.clone(), mpsc::channel());
    let replaces = move || keeps.send(map_of_waker.insert(1, HOUR)).unwrap();
    arm(&mut older, &waker_fn(replaces));
    move_the_clock_only(MS);
    assert!(map.reset(&1));
    assert!(kept.recv().unwrap().unwrap().handle().is_pending());
}

#[tokio::test(start_paused = true)]
async fn any_hasher_finds_a_deadline_by_a_borrowed_key() {
    let timer = Timer::current();
    for capacity in [usize::MAX, 500] {
        let map = DeadlineMap::with_limit_and_hasher(&timer, capacity, Colliding::default());
        let insert = |key: u32| map.insert(key.to_string(), HOUR).unwrap();
        let mut keyed: Vec<_> = (0..500).map(insert).collect();
        assert!(map.contains_key("7") && !map.contains_key("500") && map.reset("7"));
        let handle = map.handle("7").unwrap();
        assert!(handle.set_timeout(3 * MS) && map.reset("7"));
        assert_eq!(handle.deadline(), Some(Instant::now() + 3 * MS));
        assert!(map.expire("7") && !handle.cancel() && map.remove("7"));
        keyed.truncate(300);
        let is_in = |key: u32| map.contains_key(key.to_string().as_str());
        assert!((0..500).all(|key| is_in(key) == (key < 300 && key != 7)));
    }
}

#[tokio::test(start_paused = true)]
async fn any_hasher_finds_a_value_by_a_borrowed_key() {
    let timer = Timer::current();
    for capacity in [usize::MAX, 500] {
        let hasher = Colliding::default();
        let (map, _expired) = DelayMap::with_limit_and_hasher(&timer, capacity, hasher);
        let map = map.downgrade().upgrade().unwrap().clone();
        assert!((0..500).all(|key: u32| map.insert(key.to_string(), key, HOUR) == Ok(None)));
        assert!(map.contains_key("7") && !map.contains_key("500") && map.set("7", MS));
        let due = Instant::now() + 2 * MS;
        assert!(map.set("7", due) && map.deadline("7") == Some(due));
        assert_eq!(map.update("7", |value| *value), Some(7));
        assert_eq!(map.touch("7", MS, |value| *value), Some(7));
        assert!(!map.set_if("7", HOUR, |_| false) && map.set_if("7", MS, |value| *value == 7));
        assert_eq!(map.expiry("7"), Some((Instant::now() + MS).into()));
        assert_eq!(map.remove_if("7", |_| false), None);
        assert_eq!(map.remove("7"), Some(7));
        assert!(map.expire("8") && map.remove("8").is_none());
        let remove = |key: u32| map.remove(key.to_string().as_str());
        assert!((0..500).all(|key| remove(key) == (key != 7 && key != 8).then_some(key)));
    }
}
