//! Random operations beside a model of the map, and beside what a thread knows of its own keys.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::thread;

use proptest::prelude::*;
use tickwheel::{DeadlineMap, Instant, KeyedDeadline, Timer, sleep};
use tokio_test::{assert_ready, task};

use crate::common::{HOUR, MS, paused, settle};
use crate::{map, runtime};

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32, u32),
    Drop(u32),
    Reset(u32),
    ResetAfter(u32, u32),
    Cancel(u32),
    Expire(u32),
    Restart(u32),
    Drain,
    ExpireAll,
    Advance(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || 0..8_u32;
    prop_oneof![
        6 => (key(), 0..60_u32).prop_map(|(key, timeout)| Operation::Insert(key, timeout)),
        2 => key().prop_map(Operation::Drop),
        6 => key().prop_map(Operation::Reset),
        3 => (key(), 0..90_u32).prop_map(|(key, delay)| Operation::ResetAfter(key, delay)),
        1 => key().prop_map(Operation::Cancel),
        1 => key().prop_map(Operation::Expire),
        2 => key().prop_map(Operation::Restart),
        1 => Just(Operation::Drain),
        1 => Just(Operation::ExpireAll),
        8 => (0..30_u32).prop_map(Operation::Advance),
    ]
}

/// A key's deadline, in the map or not.
struct Modelled {
    keyed: task::Spawn<KeyedDeadline<u32>>,
    timeout: u32,
    /// `Ok` with the due while pending, `Err` with whether it expired after.
    state: Result<Instant, bool>,
    in_map: bool,
}

impl Modelled {
    fn end(&mut self, expired: bool) -> bool {
        let pending = self.state.is_ok();
        if pending {
            self.state = Err(expired);
        }
        pending
    }
}

fn in_map(model: &mut BTreeMap<u32, Modelled>, key: u32) -> Option<&mut Modelled> {
    model.get_mut(&key).filter(|modelled| modelled.in_map)
}

async fn run(operations: Vec<Operation>) {
    let map = map();
    let mut model: BTreeMap<u32, Modelled> = BTreeMap::new();
    for operation in operations {
        let now = Instant::now();
        match operation {
            Operation::Insert(key, timeout) => {
                let mut keyed = task::spawn(map.insert(key, timeout * MS).unwrap());
                let _ = keyed.poll();
                let state = if timeout == 0 {
                    Err(true)
                } else {
                    Ok(now + timeout * MS)
                };
                let newer = Modelled {
                    keyed,
                    timeout,
                    state,
                    in_map: true,
                };
                if let Some(mut older) = model.insert(key, newer) {
                    let pending = older.state.is_ok();
                    let polled = assert_ready!(older.keyed.poll());
                    assert_eq!(
                        polled.is_err_and(|error| error.is_replaced()),
                        pending && older.in_map
                    );
                }
            }
            Operation::Drop(key) => drop(model.remove(&key)),
            Operation::Reset(key) => {
                let modelled = in_map(&mut model, key).filter(|modelled| modelled.state.is_ok());
                assert_eq!(map.reset(&key), modelled.is_some());
                if let Some(modelled) = modelled {
                    modelled.state = Ok(now + modelled.timeout * MS);
                }
            }
            Operation::ResetAfter(key, delay) => {
                let modelled = in_map(&mut model, key).filter(|modelled| modelled.state.is_ok());
                assert_eq!(map.reset_after(&key, delay * MS), modelled.is_some());
                if let Some(modelled) = modelled {
                    modelled.state = Ok(now + delay * MS);
                }
            }
            Operation::Cancel(key) => {
                let ended = in_map(&mut model, key).is_some_and(|modelled| modelled.end(false));
                assert_eq!(map.cancel(&key), ended);
            }
            Operation::Expire(key) => {
                let ended = in_map(&mut model, key).is_some_and(|modelled| modelled.end(true));
                assert_eq!(map.expire(&key), ended);
            }
            Operation::Restart(key) => {
                if let Some(modelled) = in_map(&mut model, key) {
                    modelled.keyed.restart();
                    modelled.state = Ok(now + modelled.timeout * MS);
                }
            }
            Operation::Drain => {
                let mut drained = map.drain();
                drained.sort();
                let mut expected = Vec::new();
                for (key, modelled) in model.iter_mut().filter(|(_, modelled)| modelled.in_map) {
                    if let Ok(due) = modelled.state {
                        expected.push((*key, due - now));
                        modelled.state = Err(false);
                    }
                    modelled.in_map = false;
                }
                assert_eq!(drained, expected);
            }
            Operation::ExpireAll => {
                let expired = model.values_mut().filter(|modelled| modelled.in_map);
                assert_eq!(
                    map.expire_all(),
                    expired
                        .map(|modelled| usize::from(modelled.end(true)))
                        .sum()
                );
            }
            Operation::Advance(by) => sleep(by * MS).await,
        }
        settle().await;
        for (key, modelled) in &mut model {
            if modelled.state.is_ok_and(|due| due <= Instant::now()) {
                modelled.state = Err(true);
            }
            match (modelled.keyed.poll(), modelled.state) {
                (Poll::Pending, Ok(_)) => {}
                (Poll::Ready(result), Err(expired)) if result.is_ok() == expired => {}
                (polled, expected) => panic!("key {key}: polled {polled:?}, expected {expected:?}"),
            }
            assert_eq!(map.contains_key(key), modelled.in_map);
        }
        assert_eq!(
            map.len(),
            model.values().filter(|modelled| modelled.in_map).count()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_map_does_what_its_model_does(operations in proptest::collection::vec(operation(), 0..80)) {
        let runtime = paused();
        runtime.block_on(run(operations));
    }
}

/// What a thread knows of the keys that it alone uses.
#[derive(Debug, Default)]
struct Known {
    keyed: BTreeMap<u64, KeyedDeadline<u64>>,
    pending: BTreeSet<u64>,
}

/// Makes random calls on thousands of keys that no other thread uses, and compares each answer with
/// what is known.
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
