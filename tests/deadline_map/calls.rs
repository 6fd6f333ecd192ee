//! What each call does to a key and its deadline, and to no other.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use tickwheel::error::InsertError;
use tickwheel::{DeadlineMap, Instant, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};

use crate::common::{HOUR, MS};
use crate::map;

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
async fn a_key_stays_while_its_deadline_lives_and_can_be_restarted() {
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
async fn deadlines_outlive_every_handle_of_map_and_timer() {
    let timer = Timer::new();
    let map = DeadlineMap::new(&timer);
    let keyed = map.insert(1, 5 * MS).unwrap();
    drop((timer, map));
    keyed.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_found_by_what_it_borrows_as() {
    let map: DeadlineMap<String> = DeadlineMap::new(&Timer::current());
    let keyed = map.insert("one".to_owned(), HOUR).unwrap();
    assert!(map.contains_key("one") && map.handle("one").is_some());
    assert!(map.reset("one") && map.reset_after("one", MS));
    assert!(map.reset_at("one", Instant::now() + 2 * MS));
    assert_eq!(map.remaining("one"), Some(2 * MS));
    assert!(map.set_timeout("one", 3 * MS) && map.reset("one"));
    assert_eq!(map.deadline("one"), Some(Instant::now() + 3 * MS));
    assert!(map.expire("one") && !map.cancel("one"));
    assert_eq!((map.deadline("one"), map.remaining("one")), (None, None));
    assert_eq!(keyed.await, Ok(()));
    assert!(!map.set_timeout("one", MS));
    assert_eq!((map.deadline("one"), map.remaining("one")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn an_insert_at_expires_then_and_resets_by_the_distance() {
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
