//! `Expiry`: which calls set the limit on a value's whole life, and what it bounds.

use tickwheel::{DelayMap, Duration, Expiry, Instant, Timer};

use crate::common::{HOUR, MS};

type Map = DelayMap<u8, u8>;
type Call = fn(&Map, Expiry) -> bool;

/// By each of them a value is inserted under the key 1, if none is pending there.
const INSERTS: [(&str, Call); 3] = [
    ("insert", |map, expiry| map.insert(1, 7, expiry).is_ok()),
    ("insert_if_absent", |map, expiry| {
        map.insert_if_absent(1, 7, expiry).is_ok()
    }),
    ("touch_or_insert_with", use_or_insert),
];

/// Each of them moves a value that is pending.
const RESETS: [(&str, Call); 3] = [
    ("reset", |map, expiry| map.reset(&1, expiry)),
    ("touch", |map, expiry| {
        map.touch(&1, expiry, |_| ()).is_some()
    }),
    ("touch_or_insert_with", use_or_insert),
];

fn use_or_insert(map: &Map, expiry: Expiry) -> bool {
    map.touch_or_insert_with(1, expiry, || 7, |_| ()).is_ok()
}

#[tokio::test(start_paused = true)]
async fn each_insert_sets_a_limit_that_no_reset_moves() {
    for (insert_name, insert) in INSERTS {
        for (reset_name, reset) in RESETS {
            let names = format!("{insert_name}, {reset_name}");
            let (map, mut ended) = Map::new(&Timer::current());
            let start = Instant::now();
            assert!(insert(&map, Expiry::idle(2 * MS).at_most(10 * MS)));
            assert_eq!(map.deadline(&1), Some(start + 2 * MS), "{names}");
            for (to, due) in [
                (HOUR.into(), 10),
                (Expiry::idle(HOUR).at_most(HOUR), 10),
                ((start + HOUR).into(), 10),
                (Expiry::idle(3 * MS).at_most(MS), 3),
                (Expiry::idle(Duration::MAX), 10),
                (Expiry::idle(3 * MS), 3),
            ] {
                assert!(reset(&map, to), "{names}: {to:?}");
                assert_eq!(map.deadline(&1), Some(start + due * MS), "{names}: {to:?}");
            }
            for passed in [2, 4, 6, 8] {
                tokio::time::advance(2 * MS).await;
                assert!(reset(&map, Expiry::idle(3 * MS)), "{names}");
                let due = (passed + 3).min(10);
                assert_eq!(map.deadline(&1), Some(start + due * MS), "{names}");
            }
            let expired = ended.recv().await.unwrap();
            assert_eq!(expired.deadline, start + 10 * MS, "{names}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_gives_a_value_no_limit() {
    for (name, reset) in RESETS {
        let (map, _ended) = Map::new(&Timer::current());
        map.insert(1, 7, MS).unwrap();
        assert!(reset(&map, Expiry::idle(MS).at_most(2 * MS)), "{name}");
        assert!(map.reset(&1, HOUR));
        assert_eq!(map.deadline(&1), Some(Instant::now() + HOUR), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_replaces_another_has_its_own_limit() {
    for (name, insert) in [INSERTS[0], INSERTS[2]] {
        let (map, _ended) = Map::new(&Timer::current());
        map.insert(1, 0, Expiry::idle(MS).at_most(2 * MS)).unwrap();
        tokio::time::advance(MS).await;
        let start = Instant::now();
        assert!(insert(&map, Expiry::idle(4 * MS).at_most(5 * MS)), "{name}");
        assert!(map.reset(&1, HOUR), "{name}");
        assert_eq!(map.deadline(&1), Some(start + 5 * MS), "{name}");
        tokio::time::advance(5 * MS).await;
        assert!(
            insert(&map, HOUR.into()) && map.reset(&1, 2 * HOUR),
            "{name}"
        );
        assert_eq!(map.deadline(&1), Some(Instant::now() + 2 * HOUR), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_a_due_and_a_limit_counts() {
    tokio::time::advance(HOUR).await;
    let (map, _ended) = Map::new(&Timer::current());
    let now = Instant::now();
    for (expiry, due) in [
        (Expiry::from(5 * MS).at_most(9 * MS), 5),
        (Expiry::from(5 * MS).at_most(2 * MS).at_most(3 * MS), 2),
        (Expiry::from(5 * MS).at_most(3 * MS).at_most(2 * MS), 2),
        (Expiry::from(9 * MS).at_most(5 * MS), 5),
        (Expiry::from(now + 5 * MS).at_most(9 * MS), 5),
        (Expiry::from(now + 9 * MS).at_most(5 * MS), 5),
        (Expiry::from(9 * MS).at_most(MS).at_most(5 * MS), 1),
        (Expiry::from(5 * MS).at_most(Duration::MAX), 5),
        (Expiry::from(Duration::MAX).at_most(5 * MS), 5),
        (Expiry::from(now - MS).at_most(5 * MS), 0),
        (Expiry::from(5 * MS).at_most(Duration::ZERO), 0),
    ] {
        map.insert(1, 7, expiry).unwrap();
        let pending = (due > 0).then(|| now + due * MS);
        assert_eq!(map.deadline(&1), pending, "{expiry:?}");
    }
}

/// A conversion of the program's own runs under no lock of the map.
#[tokio::test(start_paused = true)]
async fn a_conversion_to_an_expiry_may_call_the_map() {
    struct Longer<'a>(&'a Map);

    impl From<Longer<'_>> for Expiry {
        fn from(Longer(map): Longer<'_>) -> Expiry {
            let left = map.deadline(&1).map(|deadline| deadline + MS);
            left.map_or(Expiry::idle(MS), Expiry::from)
        }
    }

    let (map, _ended) = Map::new(&Timer::current());
    let start = Instant::now();
    assert_eq!(map.insert_if_absent(1, 7, Longer(&map)), Ok(()));
    assert_eq!(map.insert(1, 7, Longer(&map)), Ok(Some(7)));
    assert!(map.reset(&1, Longer(&map)));
    assert!(map.touch(&1, Longer(&map), |_| ()).is_some());
    let used = map.touch_or_insert_with(1, Longer(&map), || 7, |_| ());
    assert_eq!(used, Ok(((), None)));
    assert_eq!(map.deadline(&1), Some(start + 5 * MS));
}
