//! The order in which values come out: that of their deadlines, also when some were made due at
//! once.

use std::task::Poll;

use futures::stream::StreamExt;
use tickwheel::{DelayMap, Duration, Expired, Instant, Timer, sleep};
use tokio_test::assert_pending;

use crate::common::{HOUR, MS};
use crate::{map, take_due};

#[tokio::test(start_paused = true)]
async fn values_come_out_in_the_order_of_their_deadlines() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    for delay in [30, 10, 50, 20, 40] {
        assert_eq!(map.insert(delay, (), delay * MS), Ok(None));
    }
    for delay in [10, 20, 30, 40, 50] {
        let expired = expirations.next().await.unwrap();
        assert_eq!((expired.key, expired.deadline), (delay, start + delay * MS));
        assert_eq!(start.elapsed(), delay * MS);
    }
    assert!(map.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_is_due_at_once() {
    let timer = Timer::builder().tick(HOUR).build().unwrap();
    let (map, mut expirations) = DelayMap::new(&timer);
    tokio::time::advance(HOUR / 3).await;
    map.insert(1, (), Duration::ZERO).unwrap();
    let start = Instant::now();
    assert_eq!(expirations.next().await.unwrap().key, 1);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn equal_deadlines_come_out_in_the_order_in_which_they_were_set() {
    let (map, mut expirations) = map();
    for key in 0..100 {
        map.insert(key, (), 5 * MS).unwrap();
    }
    assert!(map.reset(&7, 5 * MS));
    sleep(5 * MS).await;
    let keys: Vec<_> = take_due(&mut expirations)
        .into_iter()
        .map(|(key, ())| key)
        .collect();
    let expected: Vec<_> = (0..100).filter(|key| *key != 7).chain([7]).collect();
    assert_eq!(keys, expected);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_values_come_out_in_the_order_of_their_due() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    let mut seed = 1_u64;
    for key in 0..100_000_u32 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        map.insert(key, (), Duration::from_millis(seed >> 44))
            .unwrap();
    }
    let mut last = start;
    for _ in 0..100_000 {
        let Expired { deadline, .. } = expirations.next().await.unwrap();
        assert!(deadline >= last && deadline <= Instant::now());
        assert!(Instant::now() <= deadline + 2 * MS);
        last = deadline;
    }
    assert!(map.is_empty());
}

#[tokio::test(start_paused = true)]
async fn expire_all_counts_and_brings_all_out_now_and_in_order() {
    let (map, mut expirations) = map();
    for key in [5, 3, 8, 1, 9, 2] {
        map.insert(key, (), key * MS).unwrap();
    }
    assert_pending!(expirations.poll_next());
    sleep(2 * MS).await;
    let now = Instant::now();
    assert_eq!(map.expire_all(), 4, "two were due already");
    assert!(expirations.is_woken());
    let mut keys = Vec::new();
    while let Poll::Ready(Some(expired)) = expirations.poll_next() {
        assert!(expired.deadline <= now);
        keys.push(expired.key);
    }
    assert_eq!(keys, [1, 2, 3, 5, 8, 9]);
    assert_eq!((map.expire_all(), map.len()), (0, 0));
    map.insert(1, (), 5 * MS).unwrap();
    assert_pending!(expirations.poll_next());
}

#[tokio::test(start_paused = true)]
async fn what_is_made_due_at_once_comes_after_what_was_due_before_it() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..30 {
        let (map, mut expired) = DelayMap::<u32, ()>::new(&Timer::current());
        for key in 0..500 {
            map.insert(key, (), random.u32(1..200) * MS).unwrap();
        }
        let mut last = Instant::now();
        let mut out = 0;
        while out < 500 {
            tokio::time::advance(random.u32(0..30) * MS).await;
            for _ in 0..random.u32(0..20) {
                let key = random.u32(..500);
                match random.u8(..5) {
                    0 => drop(map.expire(&key)),
                    1 => drop(map.reset(&key, Duration::ZERO)),
                    2 => drop(map.reset(&key, random.u32(..50) * MS)),
                    3 if random.u8(..20) == 0 => drop(map.expire_all()),
                    _ => {}
                }
            }
            for _ in 0..random.u32(0..60) {
                let Ok(value) = expired.try_recv() else { break };
                assert!(value.deadline >= last, "{:?} before", last - value.deadline);
                assert!(value.deadline <= Instant::now());
                last = value.deadline;
                out += 1;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_great_many_that_are_expired_together_come_out_in_order() {
    const KEYS: u32 = 5_000;
    let (map, mut expired) = DelayMap::new(&Timer::current());
    for key in 0..KEYS {
        let place = key * 7_919 % KEYS;
        map.insert(place, (), (1_000 + place) * MS).unwrap();
    }
    assert_eq!(map.expire_all(), KEYS as usize);
    for place in 0..KEYS {
        assert_eq!(expired.recv().await.unwrap().key, place);
    }
}

#[tokio::test(start_paused = true)]
async fn what_passed_within_a_tick_comes_before_what_is_made_due_now() {
    let (map, mut expired) = DelayMap::new(&Timer::current());
    let start = Instant::now();
    let deadline = start + Duration::from_micros(5_300);
    map.insert("passed", (), Duration::from_micros(5_300))
        .unwrap();
    tokio::time::advance(Duration::from_micros(5_400)).await;
    assert_eq!(map.expire_all(), 0, "it is due already");
    assert_eq!(map.deadline("passed"), Some(deadline));
    map.insert("at once", (), Duration::ZERO).unwrap();
    let (first, second) = (expired.recv().await.unwrap(), expired.recv().await.unwrap());
    assert_eq!((first.key, first.deadline), ("passed", deadline));
    assert_eq!(second.deadline, start + Duration::from_micros(5_400));
}
