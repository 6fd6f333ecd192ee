//! `Expiry`: which calls set a value's longest life, what it bounds, and what is left of it.

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
    ("upsert", upsert),
];

/// Each of them moves a value that is pending.
const SETS: [(&str, Call); 4] = [
    ("set", |map, expiry| map.set(&1, expiry)),
    ("set_if", |map, expiry| map.set_if(&1, expiry, |_| true)),
    ("touch", |map, expiry| {
        map.touch(&1, expiry, |_| ()).is_some()
    }),
    ("upsert", upsert),
];

fn upsert(map: &Map, expiry: Expiry) -> bool {
    map.upsert(1, expiry, || 7, |_| ()).is_ok()
}

#[tokio::test(start_paused = true)]
async fn each_insert_sets_a_longest_life_that_no_set_moves() {
    for (insert_name, insert) in INSERTS {
        for (set_name, set) in SETS {
            let names = format!("{insert_name}, {set_name}");
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
                assert!(set(&map, to), "{names}: {to:?}");
                assert_eq!(map.deadline(&1), Some(start + due * MS), "{names}: {to:?}");
            }
            for passed in [2, 4, 6, 8] {
                tokio::time::advance(2 * MS).await;
                assert!(set(&map, Expiry::idle(3 * MS)), "{names}");
                let due = (passed + 3).min(10);
                assert_eq!(map.deadline(&1), Some(start + due * MS), "{names}");
            }
            let expired = ended.recv().await.unwrap();
            assert_eq!(expired.deadline, start + 10 * MS, "{names}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_gives_a_value_no_longest_life() {
    for (name, set) in SETS {
        let (map, _ended) = Map::new(&Timer::current());
        map.insert(1, 7, MS).unwrap();
        assert!(set(&map, Expiry::idle(MS).at_most(2 * MS)), "{name}");
        assert!(map.set(&1, HOUR));
        assert_eq!(map.deadline(&1), Some(Instant::now() + HOUR), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_replaces_another_has_its_own_longest_life() {
    for (name, insert) in [INSERTS[0], INSERTS[2]] {
        let (map, _ended) = Map::new(&Timer::current());
        map.insert(1, 0, Expiry::idle(MS).at_most(2 * MS)).unwrap();
        tokio::time::advance(MS).await;
        let start = Instant::now();
        assert!(insert(&map, Expiry::idle(4 * MS).at_most(5 * MS)), "{name}");
        assert!(map.set(&1, HOUR), "{name}");
        assert_eq!(map.deadline(&1), Some(start + 5 * MS), "{name}");
        tokio::time::advance(5 * MS).await;
        assert!(insert(&map, HOUR.into()) && map.set(&1, 2 * HOUR), "{name}");
        assert_eq!(map.deadline(&1), Some(Instant::now() + 2 * HOUR), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_a_due_and_the_end_of_a_longest_life_counts() {
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
    assert!(map.set(&1, Longer(&map)));
    assert!(map.touch(&1, Longer(&map), |_| ()).is_some());
    assert!(map.set_if(&1, Longer(&map), |_| true));
    assert_eq!(map.upsert(1, Longer(&map), || 7, |_| ()), Ok(()));
    assert_eq!(map.deadline(&1), Some(start + 6 * MS));
}

#[tokio::test(start_paused = true)]
async fn an_insert_with_what_is_left_goes_on_where_the_value_was() {
    let (map, mut ended) = Map::new(&Timer::current());
    let start = Instant::now();
    for (key, expiry) in [
        (1, Expiry::idle(4 * MS)),
        (2, Expiry::idle(4 * MS).at_most(10 * MS)),
        (3, Expiry::idle(40 * MS).at_most(10 * MS)),
        (4, Expiry::from(start + 4 * MS).at_most(10 * MS)),
        (5, Expiry::idle(4 * MS).at_most(Duration::MAX)),
    ] {
        map.insert(key, key, expiry).unwrap();
    }
    tokio::time::advance(3 * MS).await;
    let (moved, mut moved_ended) = Map::new(&Timer::current());
    map.for_each(|&key, &value, left| {
        assert_eq!(
            left.deadline_from(Instant::now()),
            left.deadline_from(start + HOUR)
        );
        moved.insert(key, value, left).unwrap();
    });
    for key in 1..=5 {
        let left = map.expiry(&key).unwrap();
        assert_eq!(left, moved.expiry(&key).unwrap(), "{key}");
        let life = matches!(key, 2..=4).then_some(7 * MS);
        assert_eq!(left.longest_life(), life, "{key}");
        let due = start + if key == 3 { 10 * MS } else { 4 * MS };
        assert_eq!(left.deadline_from(Instant::now()), due, "{key}");
        assert!(map.set(&key, HOUR) && moved.set(&key, HOUR), "{key}");
        assert_eq!(map.deadline(&key), moved.deadline(&key), "{key}");
    }
    tokio::time::advance(HOUR).await;
    for stream in [&mut ended, &mut moved_ended] {
        let mut came: Vec<_> = (0..5).map(|_| stream.try_recv().unwrap().key).collect();
        came.sort_unstable();
        assert_eq!(came, [1, 2, 3, 4, 5]);
    }
    assert_eq!(map.expiry(&1), None, "it has come out");
}

#[test]
fn the_deadline_of_an_expiry_saturates() {
    let now = Instant::now();
    let far = Expiry::idle(Duration::MAX);
    let year = 365 * 24 * HOUR;
    let years = |expiry: Expiry| (expiry.deadline_from(now) - now).as_secs() / year.as_secs();
    for (expiry, expected) in [
        (far, 146),
        (far.at_most(100 * year), 100),
        (Expiry::idle(150 * year), 146),
        (Expiry::idle(145 * year), 145),
        (Expiry::from(now + 500 * year), 146),
    ] {
        assert_eq!(years(expiry), expected, "{expiry:?}");
    }
    assert_eq!(far.at_most(HOUR).deadline_from(now), now + HOUR);
    assert_eq!(
        Expiry::from(now).at_most(Duration::MAX).deadline_from(now),
        now
    );
}
