//! A key's own code that panics: it costs no place, and harms no other key.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use tickwheel::{DeadlineMap, Instant, Timer, sleep};
use tokio_test::{assert_pending, task};

use crate::common::{Brittle, HOUR, MS, break_at_call, settle};

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
        // The key 4 may have been replaced. All others are as they were.
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

/// In every call of the map, each call of a key's own code panics once, one after another.
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
