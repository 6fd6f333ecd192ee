//! Code of the user that panics: it costs no place, leaks no value, and harms no other key.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use tickwheel::{DelayMap, Timer, sleep};
use tokio_test::assert_pending;

use crate::common::{Brittle, HOUR, MS};
use crate::map;

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_code_of_a_key_or_a_value_harms_no_other_key() {
    let (map, mut expirations) = map();
    for id in 0..20 {
        assert!(
            map.insert(Brittle::whole(id), Brittle::whole(id), 10 * MS)
                .is_ok()
        );
    }
    for breaks in ["hash", "eq", "drop"] {
        for _ in 0..5 {
            let broken = || Brittle::new(4, breaks);
            let _ = catch_unwind(AssertUnwindSafe(|| {
                drop(map.insert(broken(), broken(), 10 * MS));
            }));
            let _ = catch_unwind(AssertUnwindSafe(|| map.reset(&broken(), 10 * MS)));
            let _ = catch_unwind(AssertUnwindSafe(|| drop(map.remove(&broken()))));
        }
    }
    assert_pending!(expirations.poll_next());
    sleep(10 * MS).await;
    let mut ids = Vec::new();
    while let Ok(Poll::Ready(Some(expired))) =
        catch_unwind(AssertUnwindSafe(|| expirations.poll_next()))
    {
        ids.push(expired.key.id);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(expired)));
    }
    ids.retain(|id| *id != 4);
    ids.sort_unstable();
    assert_eq!(ids, (0..20).filter(|id| *id != 4).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_drop_panics_costs_no_place_and_leaks_no_value() {
    let value = Arc::new(());
    let (map, _expired) = DelayMap::with_limit(&Timer::current(), 1);
    let insert = |breaks| {
        let map = &map;
        let value = value.clone();
        catch_unwind(AssertUnwindSafe(move || {
            map.insert(Brittle::new(1, breaks), value, HOUR).unwrap()
        }))
    };
    assert!(insert("").unwrap().is_none());
    // The key of a replacing insert is not needed.
    assert!(insert("drop").is_err());
    assert_eq!(
        (map.len(), Arc::strong_count(&value)),
        (1, 2),
        "the new value is there alone"
    );
    assert!(map.remove(&Brittle::whole(1)).is_some());
    assert!(insert("drop").unwrap().is_none(), "there is a place");
    let refused = catch_unwind(AssertUnwindSafe(|| {
        map.insert(Brittle::new(2, "drop"), value.clone(), HOUR)
    }));
    assert!(refused.is_err());
    assert_eq!(Arc::strong_count(&value), 2);
    let removed = catch_unwind(AssertUnwindSafe(|| map.remove(&Brittle::whole(1))));
    assert!(removed.is_err());
    assert_eq!((map.len(), Arc::strong_count(&value)), (0, 1));
    assert!(insert("").unwrap().is_none(), "there is a place");
}

/// A value that uses its map when it is dropped. If the map dropped it while it holds a lock, the
/// test would hang.
struct Meddles(Option<DelayMap<u32, Meddles>>);

impl Drop for Meddles {
    fn drop(&mut self) {
        if let Some(map) = self.0.take() {
            map.contains_key(&1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retain_that_panics_drops_under_no_lock_and_keeps_the_order() {
    let (map, mut expired) = DelayMap::new(&Timer::current());
    for key in 0..200_u32 {
        let value = Meddles(Some(map.clone()));
        map.insert(key, value, (1 + key * 31 % 200) * MS).unwrap();
    }
    tokio::time::advance(HOUR).await;
    let mut asked = 0;
    let retained = catch_unwind(AssertUnwindSafe(|| {
        map.retain(|_, _| {
            asked += 1;
            assert!(asked <= 50, "enough");
            false
        });
    }));
    assert!(retained.is_err());
    assert_eq!(map.len(), 150);
    let mut last = 0;
    while let Ok(value) = expired.try_recv() {
        let place = value.key * 31 % 200;
        assert!(place >= last);
        last = place;
    }
    assert!(map.is_empty());
}
