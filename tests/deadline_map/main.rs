//! `DeadlineMap`: by key, replaced, drained, limited, and under concurrency and panics.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::thread;

use proptest::prelude::*;
use tickwheel::error::InsertError;
use tickwheel::{DeadlineMap, Duration, Instant, KeyedDeadline, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};

use crate::common::{
    Brittle, HOUR, MS, current_thread, move_the_clock_only, multi_thread, paused, settle,
};

fn map() -> DeadlineMap<u32> {
    DeadlineMap::new(&Timer::current())
}

#[tokio::test(start_paused = true)]
async fn any_task_resets_cancels_and_expires_by_the_key_alone() {
    let map = map();
    let start = Instant::now();
    let kept = map.insert(1, 10 * MS).unwrap();
    let mut cancelled = task::spawn(map.insert(2, 10 * MS).unwrap());
    let mut expired = task::spawn(map.insert(3, 10 * MS).unwrap());
    assert_pending!(cancelled.poll());
    assert_pending!(expired.poll());
    sleep(9 * MS).await;
    assert!(map.reset(&1) && map.cancel(&2) && map.expire(&3));
    assert!(cancelled.is_woken() && expired.is_woken());
    let error = assert_ready!(cancelled.poll()).unwrap_err();
    assert!(!error.is_replaced() && !error.is_shutdown());
    assert_ready_eq!(expired.poll(), Ok(()));
    assert!(!map.reset(&2) && !map.cancel(&2) && !map.expire(&3) && !map.reset(&3));
    kept.await.unwrap();
    assert_eq!(start.elapsed(), 19 * MS);

    let moved = map.insert(4, HOUR).unwrap();
    assert!(map.reset_after(&4, 5 * MS) && map.reset_at(&4, Instant::now() + 7 * MS));
    moved.await.unwrap();
    assert_eq!(start.elapsed(), 26 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_there_answers_false() {
    let map = map();
    assert!(!map.reset(&1) && !map.reset_after(&1, MS) && !map.reset_at(&1, Instant::now()));
    assert!(
        !map.cancel(&1) && !map.expire(&1) && !map.contains_key(&1) && map.handle(&1).is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn replacing_a_key_resolves_the_older_deadline_as_replaced() {
    let map = map();
    let mut older = task::spawn(map.insert(1, HOUR).unwrap());
    assert_pending!(older.poll());
    let mut newer = task::spawn(map.insert(1, HOUR).unwrap());
    assert!(older.is_woken());
    assert!(assert_ready!(older.poll()).unwrap_err().is_replaced());
    assert_pending!(newer.poll());
    assert_eq!(map.len(), 1);
    drop(older);
    assert!(
        map.contains_key(&1),
        "the older deadline does not take the newer one's entry out"
    );
    assert!(map.reset(&1));
    drop(newer);
    assert!(map.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_stays_while_its_deadline_lives_so_that_it_can_be_restarted_and_reset() {
    let map = map();
    let mut keyed = map.insert(7, 5 * MS).unwrap();
    assert_eq!(keyed.key(), &7);
    (&mut keyed).await.unwrap();
    assert!(map.contains_key(&7) && !map.reset(&7));
    keyed.restart();
    sleep(4 * MS).await;
    let start = Instant::now();
    assert!(map.reset(&7) && map.handle(&7).unwrap().reset() && keyed.handle().is_pending());
    keyed.await.unwrap();
    assert_eq!(start.elapsed(), 5 * MS);
    assert!(map.is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_handle_of_map_and_timer_may_go_while_deadlines_are_pending() {
    let timer = Timer::new();
    let map = DeadlineMap::new(&timer);
    let keyed = map.insert(1, 5 * MS).unwrap();
    drop((timer, map));
    keyed.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn drain_cancels_all_and_gives_the_time_that_each_had_left() {
    let map = map();
    let mut pending: Vec<_> = (1..=5)
        .map(|key| task::spawn(map.insert(key, key * 10 * MS).unwrap()))
        .collect();
    for keyed in &mut pending {
        assert_pending!(keyed.poll());
    }
    let mut over = map.insert(9, MS).unwrap();
    sleep(5 * MS).await;
    let mut drained = map.drain();
    drained.sort();
    assert_eq!(
        drained,
        (1..=5)
            .map(|key| (key, key * 10 * MS - 5 * MS))
            .collect::<Vec<_>>()
    );
    assert!(map.is_empty() && map.drain().is_empty());
    for keyed in &mut pending {
        assert!(keyed.is_woken());
        assert!(assert_ready!(keyed.poll()).is_err());
    }
    assert_eq!(
        (&mut over).await,
        Ok(()),
        "what had expired came out by expiring"
    );
    // Set again after a drain.
    let again = map.insert(1, 3 * MS).unwrap();
    drop(pending);
    assert!(map.contains_key(&1));
    again.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn expire_all_expires_what_is_pending_and_counts_it() {
    let map = map();
    let keyed: Vec<_> = (0..100).map(|key| map.insert(key, HOUR).unwrap()).collect();
    assert!(map.cancel(&0));
    let start = Instant::now();
    assert_eq!(map.expire_all(), 99);
    assert_eq!(map.expire_all(), 0);
    for (key, keyed) in keyed.into_iter().enumerate() {
        assert!(
            map.contains_key(&(key as u32)),
            "the keys stay while the deadlines live"
        );
        assert_eq!(keyed.await.is_ok(), key > 0);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn close_drains_and_refuses_every_later_insert() {
    let map = map();
    let keyed = map.insert(1, HOUR).unwrap();
    assert_eq!(map.close(), [(1, HOUR)]);
    assert_eq!(map.close(), [], "a second close finds nothing");
    assert_eq!(map.insert(1, HOUR).unwrap_err(), InsertError::Closed(()));
    assert_eq!(
        map.clone().insert(2, HOUR).unwrap_err(),
        InsertError::Closed(())
    );
    assert!(keyed.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_limit_refuses_new_keys_but_never_a_replacement() {
    let map = DeadlineMap::with_limit(&Timer::current(), 2);
    let one = map.insert(1, HOUR).unwrap();
    let two = map.insert(2, HOUR).unwrap();
    let refused = map.insert(3, HOUR).unwrap_err();
    assert_eq!(refused, InsertError::AtCapacity(()));
    assert!(refused.to_string().contains("limit"));
    let replacement = map.insert(2, HOUR).unwrap();
    drop(two);
    assert_eq!(
        map.insert(3, HOUR).unwrap_err(),
        InsertError::AtCapacity(())
    );
    drop(one);
    let three = map.insert(3, HOUR).unwrap();
    assert_eq!(map.drain().len(), 2);
    let full: Vec<_> = [map.insert(4, HOUR).unwrap(), map.insert(5, HOUR).unwrap()].into();
    assert_eq!(
        map.insert(6, HOUR).unwrap_err(),
        InsertError::AtCapacity(())
    );
    drop((replacement, three, full));
    assert!(map.is_empty());
    let none = DeadlineMap::with_limit(&Timer::current(), 0);
    assert_eq!(
        none.insert(1, HOUR).unwrap_err(),
        InsertError::AtCapacity(())
    );
}

#[test]
fn when_the_runtime_has_gone_every_call_returns_and_deadlines_say_so() {
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let map = DeadlineMap::new(&timer);
    let mut before = task::spawn(map.insert(1, HOUR).unwrap());
    assert_pending!(before.poll());
    drop(runtime);
    assert!(before.is_woken());
    assert!(assert_ready!(before.poll()).unwrap_err().is_shutdown());
    let mut after = task::spawn(map.insert(2, HOUR).unwrap());
    assert!(assert_ready!(after.poll()).unwrap_err().is_shutdown());
    assert!(!map.reset(&1) && !map.cancel(&2) && !map.expire(&2) && !map.reset_after(&1, MS));
    after.restart();
    assert!(assert_ready!(after.poll()).unwrap_err().is_shutdown());
    assert_eq!(
        (map.expire_all(), map.drain(), map.close()),
        (0, vec![], vec![])
    );
}

/// Whatever finds a deadline passed wakes its waiter, here one that uses the map and drops others
/// of it: under a lock of the map's that would never end.
#[tokio::test(start_paused = true)]
async fn the_waiters_of_passed_deadlines_are_woken_under_no_lock() {
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Wake, Waker};
    struct Meddling(DeadlineMap<u32>, Mutex<Vec<KeyedDeadline<u32>>>);
    impl Wake for Meddling {
        fn wake(self: Arc<Self>) {
            self.0.contains_key(&1);
            self.0.reset(&2);
            drop(self.0.insert(77, HOUR));
            let all = std::mem::take(&mut *self.1.lock().unwrap());
            drop(all);
        }
    }
    type Act = fn(&DeadlineMap<u32>);
    let acts: [Act; 8] = [
        |map| assert!(!map.reset(&1)),
        |map| assert!(!map.reset_after(&1, MS)),
        |map| assert!(!map.reset_at(&1, Instant::now() + HOUR)),
        |map| assert!(!map.cancel(&1)),
        |map| assert!(!map.expire(&1)),
        |map| assert_eq!(map.expire_all(), 0),
        |map| assert_eq!(map.drain(), []),
        |map| assert_eq!(map.close(), []),
    ];
    for act in acts {
        let map = map();
        let pool = (1..5)
            .map(|key| map.insert(key, 10 * MS).unwrap())
            .collect();
        let meddling = Arc::new(Meddling(map.clone(), Mutex::new(pool)));
        let waker = Waker::from(meddling.clone());
        for keyed in meddling.1.lock().unwrap().iter_mut() {
            assert!(
                std::pin::Pin::new(keyed)
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        settle().await;
        move_the_clock_only(10 * MS);
        act(&map);
    }
}

/// A key that is replaced again and again is there at every moment.
#[test]
fn a_kick_does_not_miss_a_key_that_is_replaced_meanwhile() {
    let runtime = multi_thread(1);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let map = DeadlineMap::new(&timer);
    let mut kept = map.insert(1, HOUR).unwrap();
    thread::scope(|scope| {
        let kicks = scope.spawn(|| (0..200_000).filter(|_| !map.reset_after(&1, HOUR)).count());
        while !kicks.is_finished() {
            kept = map.insert(1, HOUR).unwrap();
        }
        assert_eq!(kicks.join().unwrap(), 0);
    });
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_keys_own_code_harms_no_other_key() {
    let map = DeadlineMap::new(&Timer::current());
    let mut others: Vec<_> = (0..20)
        .map(|id| task::spawn(map.insert(Brittle::whole(id), 10 * MS).unwrap()))
        .collect();
    for other in &mut others {
        assert_pending!(other.poll());
    }
    for breaks in ["hash", "eq", "clone", "drop"] {
        for _ in 0..10 {
            let broken = || Brittle::new(4, breaks);
            let _ = catch_unwind(AssertUnwindSafe(|| drop(map.insert(broken(), HOUR))));
            let _ = catch_unwind(AssertUnwindSafe(|| map.reset(&broken())));
            let _ = catch_unwind(AssertUnwindSafe(|| map.cancel(&broken())));
        }
        // The key 4 may have been replaced; all others are as they were.
        for id in (0..20).filter(|&id| id != 4) {
            assert!(map.reset(&Brittle::whole(id)), "{breaks} has harmed {id}");
        }
    }
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let replaced = map.insert(Brittle::new(6, "drop"), HOUR);
        drop(replaced);
    }));
    sleep(10 * MS).await;
    settle().await;
    let expired = others.iter_mut().filter_map(|other| match other.poll() {
        Poll::Ready(Ok(())) => Some(other.key().id),
        _ => None,
    });
    let expected: Vec<_> = (0..20).filter(|&id| id != 4 && id != 6).collect();
    assert_eq!(expired.collect::<Vec<_>>(), expected);
}

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

/// Four threads insert, reset and drain at once. Each deadline ends once: it expires, is replaced,
/// or is cancelled and in the result of exactly one drain.
#[test]
fn nothing_is_lost_or_doubled_between_four_threads() {
    const KEYS: u64 = 64;
    const EACH: u64 = 5_000;
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let map: DeadlineMap<u64> = DeadlineMap::new(&timer);
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let map = map.clone();
            let runtime = runtime.handle().clone();
            thread::spawn(move || {
                let mut tasks = Vec::new();
                let mut drained = 0;
                for round in 0..EACH {
                    let number = (round * 4 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                    let key = number % KEYS;
                    let keyed = map
                        .insert(key, Duration::from_micros(number % 3_000))
                        .unwrap();
                    tasks.push(runtime.spawn(keyed));
                    map.reset(&((key + 1) % KEYS));
                    if number % 97 == 0 {
                        drained += map.drain().len();
                    }
                }
                (tasks, drained)
            })
        })
        .collect();
    let (mut expired, mut replaced, mut cancelled, mut drained) = (0, 0, 0, 0);
    for thread in threads {
        let (tasks, drained_by_it) = thread.join().unwrap();
        drained += drained_by_it;
        for task in tasks {
            match runtime.block_on(task).unwrap() {
                Ok(()) => expired += 1,
                Err(error) if error.is_replaced() => replaced += 1,
                Err(_) => cancelled += 1,
            }
        }
    }
    assert_eq!(expired + replaced + cancelled, 4 * EACH);
    assert_eq!(
        cancelled, drained as u64,
        "each cancelled one came out of one drain"
    );
    assert!(
        expired > 0 && replaced > 0 && cancelled > 0,
        "{expired}, {replaced}, {cancelled}"
    );
    assert!(map.is_empty());
    assert_eq!(timer.metrics().pending, 0);
}
