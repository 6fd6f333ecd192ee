//! What is done to all keys at once: drain, close, expire, the limit, and the end of the runtime.

use tickwheel::error::InsertError;
use tickwheel::{DeadlineMap, Duration, Instant, KeyedDeadline, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, current_thread, move_the_clock_only, settle};
use crate::map;

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
fn after_its_runtime_every_call_returns_and_deadlines_say_so() {
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

/// Any call that finds a deadline passed wakes its waiter. This waiter uses the map and drops other
/// deadlines of it. If the call held a lock meanwhile, the test would hang.
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
