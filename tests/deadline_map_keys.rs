//! `DeadlineMap`: what is done by a borrowed key, to all keys, and to places when a key's own code
//! panics.

mod common;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tickwheel::error::InsertError;
use tickwheel::{DeadlineMap, Instant, KeyedDeadline, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};

use crate::common::{Brittle, HOUR, MS, break_at_call, multi_thread};

fn runtime() -> (tokio::runtime::Runtime, Timer) {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    (runtime, timer)
}

#[tokio::test(start_paused = true)]
async fn a_key_is_found_by_what_it_borrows_as() {
    let map: DeadlineMap<String> = DeadlineMap::new(&Timer::current());
    let keyed = map.insert("one".to_owned(), HOUR).unwrap();
    assert!(map.contains_key("one") && map.handle("one").is_some());
    assert!(map.reset("one") && map.reset_after("one", MS));
    assert!(map.reset_at("one", Instant::now() + 2 * MS));
    assert_eq!(map.remaining("one"), Some(2 * MS));
    assert!(map.set_timeout("one", 3 * MS));
    assert_eq!(map.deadline("one"), Some(Instant::now() + 3 * MS));
    assert!(map.expire("one") && !map.cancel("one"));
    assert_eq!((map.deadline("one"), map.remaining("one")), (None, None));
    assert_eq!(keyed.await, Ok(()));
    assert!(!map.set_timeout("one", MS));
    assert_eq!((map.deadline("one"), map.remaining("one")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn what_is_inserted_at_an_instant_expires_then_and_resets_by_the_distance() {
    let map = DeadlineMap::new(&Timer::current());
    sleep(MS).await;
    let at = Instant::now() + 7 * MS;
    let keyed = map.insert_at(1, at).unwrap();
    assert_eq!(
        (map.deadline(&1), map.remaining(&1)),
        (Some(at), Some(7 * MS))
    );
    assert_eq!(map.handle(&1).unwrap().timeout(), 7 * MS);
    sleep(4 * MS).await;
    assert!(map.reset(&1));
    assert_eq!(map.deadline(&1), Some(Instant::now() + 7 * MS));
    keyed.await.unwrap();
    assert_eq!(Instant::now(), at + 4 * MS);
    let mut past = task::spawn(map.insert_at(2, Instant::now() - MS).unwrap());
    assert_ready_eq!(past.poll(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_insert_if_absent_leaves_what_is_there_alone() {
    let map = DeadlineMap::with_limit(&Timer::current(), 1);
    let keyed = map.insert_if_absent(1, 5 * MS).unwrap().unwrap();
    assert!(map.insert_if_absent(1, HOUR).unwrap().is_none());
    assert_eq!(
        map.insert_if_absent(2, MS).unwrap_err(),
        InsertError::AtCapacity(())
    );
    assert_eq!(map.remaining(&1), Some(5 * MS));
    assert!(map.expire(&1));
    assert!(
        map.insert_if_absent(1, HOUR).unwrap().is_none(),
        "expired, but there"
    );
    drop(keyed);
    let again = map.insert_if_absent(1, HOUR).unwrap().unwrap();
    map.close();
    assert_eq!(
        map.insert_if_absent(1, MS).unwrap_err(),
        InsertError::Closed(())
    );
    drop(again);
}

#[test]
fn of_inserts_if_absent_that_race_one_gets_the_deadline() {
    let (_runtime, timer) = runtime();
    let map = DeadlineMap::new(&timer);
    for round in 0..2_000 {
        let got = thread::scope(|scope| {
            let racers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| map.insert_if_absent(round, HOUR).unwrap()))
                .collect();
            let got: Vec<_> = racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect();
            got.into_iter().flatten().collect::<Vec<_>>()
        });
        assert_eq!((got.len(), map.len()), (1, 1));
        assert!(got[0].handle().is_pending() && map.reset(&round));
    }
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_remove_takes_out_its_own_deadline_and_no_newer_one() {
    let timer = Timer::current();
    let (map, other) = (DeadlineMap::with_limit(&timer, 1), DeadlineMap::new(&timer));
    let mut older = task::spawn(map.insert(1, HOUR).unwrap());
    assert_pending!(older.poll());
    let newer = map.insert(1, HOUR).unwrap();
    assert!(!map.remove(&older) && !other.remove(&newer) && map.reset(&1));
    let mut newer = task::spawn(newer);
    assert_pending!(newer.poll());
    assert!(map.remove(&newer) && newer.is_woken() && map.is_empty());
    let error = assert_ready!(newer.poll()).unwrap_err();
    assert!(!error.is_replaced() && !error.is_drained() && !error.is_shutdown());
    assert!(!map.remove(&newer));
    let next = map.insert(2, HOUR).unwrap();
    drop((older, newer));
    assert_eq!(map.len(), 1);
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_drained_deadline_says_so() {
    let map = DeadlineMap::new(&Timer::current());
    let (one, mut two) = (map.insert(1, HOUR).unwrap(), map.insert(2, HOUR).unwrap());
    assert!(map.cancel(&2));
    assert_eq!(map.drain(), [(1, HOUR)]);
    let error = one.await.unwrap_err();
    assert!(error.is_drained() && !error.is_replaced() && !error.is_shutdown());
    assert!(error.to_string().contains("all others"));
    assert!(!(&mut two).await.unwrap_err().is_drained());
    let three = map.insert(3, HOUR).unwrap();
    assert_eq!(map.close(), [(3, HOUR)]);
    assert!(three.await.unwrap_err().is_drained());
    two.restart();
    assert!(two.handle().is_pending(), "as one that no key leads to");
}

#[tokio::test(start_paused = true)]
async fn keys_and_for_each_show_every_key_once_and_may_use_the_map() {
    let map = DeadlineMap::new(&Timer::current());
    let mut keyed: Vec<_> = (0..5_000)
        .map(|key| map.insert(key, HOUR).unwrap())
        .collect();
    assert!(map.cancel(&17));
    let sorted: BTreeSet<_> = map.keys().into_iter().collect();
    assert_eq!((map.keys().len(), sorted), (5_000, (0..5_000).collect()));
    let (mut seen, mut pending) = (Vec::new(), 0);
    map.for_each(|&key, handle| {
        seen.push(key);
        pending += usize::from(handle.remaining() == Some(HOUR));
        // Whatever is done here meets no lock.
        assert!(map.reset(&key) || key == 17 || key > 4_000);
        if keyed.len() > 4_001 {
            keyed.pop();
        }
        drop(map.insert(key + 1_000_000, HOUR));
    });
    seen.retain(|&key| key <= 4_000);
    let once: BTreeSet<_> = seen.iter().copied().collect();
    assert_eq!((seen.len(), once), (4_001, (0..=4_000).collect()));
    assert!(pending >= 4_000);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_for_each_leaves_the_map_as_it_was() {
    let map = DeadlineMap::new(&Timer::current());
    let keyed: Vec<_> = (0..3_000)
        .map(|key| map.insert(key, HOUR).unwrap())
        .collect();
    let _ = catch_unwind(AssertUnwindSafe(|| {
        map.for_each(|_, _| panic!("on purpose"));
    }));
    assert_eq!(map.keys().len(), 3_000);
    drop(keyed);
    assert_eq!((map.len(), map.keys().len()), (0, 0));
}

/// All keys collide, as they may with a hasher of one's own.
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
async fn any_hasher_and_any_capacity_give_the_same_map() {
    async fn check<S: BuildHasher>(map: DeadlineMap<u32, S>) {
        let mut keyed: Vec<_> = (0..1_500)
            .map(|key| map.insert(key, 5 * MS).unwrap())
            .collect();
        assert!((0..1_500).all(|key| map.reset(&key)) && !map.contains_key(&1_500));
        keyed.truncate(700);
        assert!((0..1_500).all(|key| map.contains_key(&key) == (key < 700)));
        assert_eq!((map.len(), map.expire_all()), (700, 700));
        assert_eq!((map.close(), map.len()), (vec![], 0));
    }
    let timer = Timer::current();
    check(DeadlineMap::with_hasher(&timer, Constant)).await;
    check(DeadlineMap::with_hasher(&timer, RandomState::new()).clone()).await;
    check(DeadlineMap::with_capacity(&timer, 1_000)).await;
    check(DeadlineMap::with_capacity(&timer, 0)).await;
    check(DeadlineMap::with_capacity_and_hasher(&timer, 10, Constant)).await;
    check(DeadlineMap::with_limit_and_hasher(&timer, 1_500, Constant)).await;
}

/// Every call of a key's own code is made to panic, in every call of the map, one after another.
#[tokio::test(start_paused = true)]
async fn no_panic_of_a_keys_code_costs_a_place_or_harms_another_key() {
    type Call = fn(&DeadlineMap<Brittle>);
    let calls: [Call; 9] = [
        |map| drop(map.insert(Brittle::whole(1), HOUR)),
        |map| drop(map.insert(Brittle::whole(77), HOUR)),
        |map| drop(map.insert_if_absent(Brittle::whole(1), HOUR)),
        |map| drop(map.insert_if_absent(Brittle::whole(78), HOUR)),
        |map| drop(map.insert_at(Brittle::whole(79), Instant::now())),
        |map| {
            map.reset(&Brittle::whole(1));
        },
        |map| drop(map.keys()),
        |map| map.for_each(|_, _| {}),
        |map| drop(map.drain()),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        for panic_in in 1..30 {
            let map = DeadlineMap::with_limit(&Timer::current(), 6);
            let keyed: Vec<_> = (0..4)
                .map(|key| map.insert(Brittle::whole(key), HOUR).unwrap())
                .collect();
            if panic_in % 2 == 0 {
                // Its drain finds a key whose deadline is over, and drops that.
                map.cancel(&Brittle::whole(2));
            }
            break_at_call(panic_in);
            let _ = catch_unwind(AssertUnwindSafe(|| call(&map)));
            break_at_call(0);
            let is_drained = number == 8;
            assert_eq!(
                map.keys().len(),
                map.len(),
                "call {number}, panic {panic_in}"
            );
            for key in [0, 3] {
                assert_eq!(
                    map.reset(&Brittle::whole(key)),
                    !is_drained,
                    "call {number}, panic {panic_in}"
                );
            }
            // Each place can still be taken, and no more than there are.
            let more: Vec<_> = (100..106)
                .map(|key| map.insert(Brittle::whole(key), HOUR))
                .collect();
            let taken = more.iter().filter(|inserted| inserted.is_ok()).count();
            assert_eq!(map.len(), 6, "call {number}, panic {panic_in}");
            assert!(
                taken == 2 || taken == 3 && number < 3 || is_drained,
                "{number}, {taken}"
            );
            drop((keyed, more));
            assert_eq!(
                (map.len(), map.keys().len()),
                (0, 0),
                "call {number}, panic {panic_in}"
            );
        }
    }
    assert_eq!(Timer::current().metrics().pending, 0);
}

/// Drains race with deadlines that are dropped, removed, restarted, and walked through. At the end
/// no place is taken, and none more than there are keys was given back.
#[test]
fn places_are_right_whatever_races_with_a_drain() {
    const KEYS: u64 = 3_000;
    let (_runtime, timer) = runtime();
    let map: DeadlineMap<u64> = DeadlineMap::with_limit(&timer, KEYS as usize + 5);
    let drained: usize = thread::scope(|scope| {
        let inserters: Vec<_> = (0..3_u64)
            .map(|thread| {
                let map = &map;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    let mut random = fastrand::Rng::with_seed(thread);
                    for round in 0..60_000 {
                        let key = random.u64(..KEYS);
                        kept.push(map.insert(key, HOUR).unwrap());
                        if kept.len() > 1_500 {
                            let mut keyed = kept.swap_remove(random.usize(..kept.len()));
                            match round % 3 {
                                0 => drop(map.remove(&keyed)),
                                1 => keyed.restart(),
                                _ => {}
                            }
                        }
                    }
                })
            })
            .collect();
        let mut drained = 0;
        while !inserters.iter().all(|inserter| inserter.is_finished()) {
            drained += map.drain().len();
            assert!(map.len() <= KEYS as usize);
            map.expire_all();
            map.for_each(|key, handle| assert!(*key < KEYS && handle.timeout() == HOUR));
        }
        drained
    });
    assert!(drained > 0);
    assert_eq!((map.len(), map.keys().len()), (0, 0));
    assert_eq!(timer.metrics().pending, 0);
}

/// What a thread knows of the keys that it alone uses.
#[derive(Debug, Default)]
struct Known {
    keyed: BTreeMap<u64, KeyedDeadline<u64>>,
    pending: BTreeSet<u64>,
}

/// Random calls on thousands of keys that no other thread uses, each answer compared with what is
/// known.
fn compare_with_what_is_known(map: &DeadlineMap<u64>, thread: u64, threads: u64) {
    let mut random = fastrand::Rng::with_seed(thread);
    let mut known = Known::default();
    for round in 0..60_000_u64 {
        // The range of keys grows and shrinks, so that there are many, then few, then many.
        let range = if round / 10_000 % 2 == 0 { 4_000 } else { 50 };
        let key = random.u64(..range) * threads + thread;
        match random.u8(..12) {
            0..3 => {
                known.keyed.insert(key, map.insert(key, HOUR).unwrap());
                known.pending.insert(key);
            }
            3 => {
                let inserted = map.insert_if_absent(key, HOUR).unwrap();
                assert_eq!(inserted.is_some(), !known.keyed.contains_key(&key));
                if let Some(keyed) = inserted {
                    known.keyed.insert(key, keyed);
                    known.pending.insert(key);
                }
            }
            4 => {
                let any = known.keyed.keys().next().copied().unwrap_or(key);
                known.keyed.remove(&any);
                known.pending.remove(&any);
                assert!(!map.contains_key(&any));
            }
            5 => {
                if let Some(keyed) = known.keyed.remove(&key) {
                    assert!(map.remove(&keyed) && !map.remove(&keyed));
                    assert!(!keyed.handle().is_pending());
                    known.pending.remove(&key);
                }
            }
            6 => assert_eq!(map.cancel(&key), known.pending.remove(&key)),
            7 => assert_eq!(map.expire(&key), known.pending.remove(&key)),
            8 => assert_eq!(map.remaining(&key).is_some(), known.pending.contains(&key)),
            9 => assert_eq!(map.contains_key(&key), known.keyed.contains_key(&key)),
            10 => assert_eq!(map.set_timeout(&key, HOUR), known.pending.contains(&key)),
            _ => assert_eq!(map.reset(&key), known.pending.contains(&key)),
        }
        if round % 5_000 == 0 {
            let mut shown = BTreeSet::new();
            map.for_each(|&key, handle| {
                if key % threads == thread {
                    assert!(shown.insert(key), "{key} was shown twice");
                    assert_eq!(handle.is_pending(), known.pending.contains(&key));
                }
            });
            assert!(shown.iter().eq(known.keyed.keys()));
        }
    }
}

#[test]
fn several_threads_find_the_keys_of_their_own_as_they_know_them() {
    let (_runtime, timer) = runtime();
    let map = DeadlineMap::new(&timer);
    thread::scope(|scope| {
        for number in 0..3 {
            let map = &map;
            scope.spawn(move || compare_with_what_is_known(map, number, 3));
        }
    });
    assert_eq!((map.len(), timer.metrics().pending), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_of_one_thread_finds_its_keys_as_it_knows_them() {
    let map = DeadlineMap::new(&Timer::current());
    compare_with_what_is_known(&map, 0, 1);
    assert_eq!((map.len(), Timer::current().metrics().pending), (0, 0));
}
