//! From its due on a value of a `DelayMap` belongs to the stream: what each call answers then.

use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DelayMap, Duration, Expirations, Instant, Timer};

use crate::common::{HOUR, MS, current_thread};

/// With a tick of 100 ms the codes are over at 40 ms, and come out at 100 ms.
#[tokio::test(start_paused = true)]
async fn no_code_is_accepted_after_its_end_and_each_comes_out() {
    const CODES: u32 = 24;
    for (tick, late) in [(MS, 0), (MS, 30), (100 * MS, 0), (100 * MS, 30)] {
        let timer = Timer::builder().tick(tick).build().unwrap();
        let (codes, mut ended) = DelayMap::new(&timer);
        (0..CODES).for_each(|code| assert_eq!(codes.insert(code, code, 40 * MS), Ok(None)));
        tokio::time::advance((40 + late) * MS).await;
        let accepted = (0..CODES).filter(|code| codes.remove(code).is_some());
        assert_eq!(accepted.count(), 0, "{tick:?}, {late} ms late");
        let shown = |code: &u32| -> bool { panic!("{code} is shown") };
        let accepted = (0..CODES).filter(|code| codes.remove_if(code, shown).is_some());
        assert_eq!(accepted.count(), 0, "{tick:?}, {late} ms late");
        let mut came = Vec::new();
        while !codes.is_empty() {
            came.push(ended.recv().await.unwrap().value);
        }
        came.sort_unstable();
        assert!(came.into_iter().eq(0..CODES), "{tick:?}, {late} ms late");
    }
}

/// A map with the value 7 under the key 1, which is due now, and its stream.
async fn with_a_due_value(tick: Duration) -> (DelayMap<u8, u8>, Expirations<u8, u8>, Instant) {
    let timer = Timer::builder().tick(tick).build().unwrap();
    let (map, ended) = DelayMap::new(&timer);
    map.insert(1, 7, MS).unwrap();
    tokio::time::advance(MS).await;
    (map, ended, Instant::now())
}

#[tokio::test(start_paused = true)]
async fn no_call_reads_changes_moves_or_removes_what_is_over() {
    type Call = fn(&DelayMap<u8, u8>) -> bool;
    let calls: [(&str, Call); 10] = [
        ("reset", |map| map.reset(&1, HOUR)),
        ("reset to an instant", |map| {
            map.reset(&1, Instant::now() + HOUR)
        }),
        ("touch", |map| {
            map.touch(&1, HOUR, |value| *value += 1).is_some()
        }),
        ("update", |map| {
            map.update(&1, |value| *value += 1).is_some()
        }),
        ("deadline", |map| map.deadline(&1).is_some()),
        ("expire", |map| map.expire(&1)),
        ("expire_all", |map| map.expire_all() > 0),
        ("remove", |map| map.remove(&1).is_some()),
        ("for_each", |map| {
            let mut is_shown = false;
            map.for_each(|_, _, _| is_shown = true);
            is_shown
        }),
        ("retain", |map| {
            let mut is_shown = false;
            map.retain(|_, value| {
                *value += 1;
                is_shown = true;
                false
            });
            is_shown
        }),
    ];
    for tick in [MS, 100 * MS] {
        for (name, call) in calls {
            let (map, mut ended, due) = with_a_due_value(tick).await;
            assert!(!call(&map), "{name}, {tick:?}");
            assert!(map.contains_key(&1) && map.len() == 1, "{name}, {tick:?}");
            assert!(
                map.insert_if_absent(1, 8, HOUR).is_err(),
                "{name}, {tick:?}"
            );
            let expired = ended.recv().await.unwrap();
            let told = (expired.value, expired.deadline);
            assert_eq!(told, (7, due), "{name}, {tick:?}");
            assert!(map.is_empty(), "{name}, {tick:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_insert_a_drain_and_a_close_give_what_is_over() {
    type Call = fn(&DelayMap<u8, u8>) -> Option<u8>;
    let taken = |all: Vec<(u8, u8, Duration)>| match all[..] {
        [(1, value, Duration::ZERO)] => Some(value),
        _ => None,
    };
    let calls: [(&str, Call); 2] = [
        ("insert", |map| map.insert(1, 8, HOUR).unwrap()),
        ("touch_or_insert_with", |map| {
            map.touch_or_insert_with(1, HOUR, || 8, |_| ()).unwrap().1
        }),
    ];
    for tick in [MS, 100 * MS] {
        for (name, call) in calls {
            let (map, mut ended, _) = with_a_due_value(tick).await;
            assert_eq!(call(&map), Some(7), "{name}, {tick:?}");
            tokio::time::advance(tick).await;
            assert!(
                ended.try_recv().is_err(),
                "{name}, {tick:?}: it comes out once"
            );
            assert_eq!(map.remove(&1), Some(8), "{name}, {tick:?}");
        }
        for take in [DelayMap::drain, DelayMap::close] {
            let (map, mut ended, _) = with_a_due_value(tick).await;
            assert_eq!(taken(take(&map)), Some(7), "{tick:?}");
            tokio::time::advance(tick).await;
            assert!(ended.try_recv().is_err(), "{tick:?}: it comes out once");
        }
    }
}

/// The value of its key is still there, but no value can be put in any more.
#[test]
fn an_insert_after_the_end_of_the_runtime_is_closed_and_not_occupied() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let (map, expired) = DelayMap::new(&timer);
    map.insert(1, 7, HOUR).unwrap();
    drop(runtime);
    let again = map.insert_if_absent(1, 8, HOUR);
    assert_eq!(again, Err(InsertIfAbsentError::Closed((1, 8))));
    assert!(map.contains_key(&1));
    drop(expired);
}
