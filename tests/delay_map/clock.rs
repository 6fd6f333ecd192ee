//! The paused clock: a map pulls it along for what is pending, and for nothing else.

use futures::stream::StreamExt;
use tickwheel::{DelayMap, Duration, Instant, Timer};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, idle_for_a_moment, settle};
use crate::map;

#[tokio::test(start_paused = true)]
async fn what_was_removed_or_moved_does_not_pull_the_clock_along() {
    let (map, mut expirations) = map();
    for key in 0..100 {
        map.insert(key, (), HOUR + key * MS).unwrap();
    }
    assert_pending!(expirations.poll_next());
    settle().await;
    for key in 0..100 {
        assert!(map.reset(&key, 2 * HOUR));
        assert_eq!(map.remove(&key), Some(()));
    }
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_was_removed_pulls_no_clock_while_the_stream_is_unpolled() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    map.insert(1, (), HOUR).unwrap();
    map.insert(2, (), MS).unwrap();
    assert_eq!(expirations.next().await.unwrap().key, 2);
    assert_eq!(
        map.remove(&1),
        Some(()),
        "while the consumer handles another"
    );
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);

    map.insert(3, (), HOUR).unwrap();
    assert!(tickwheel::timeout(MS, expirations.next()).await.is_err());
    assert_eq!(map.drain(), [(3, ())], "after the consumer gave up waiting");
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);

    map.insert(4, (), HOUR).unwrap();
    assert!(tickwheel::timeout(MS, expirations.next()).await.is_err());
    assert_eq!(map.close(), [(4, ())]);
    assert!(expirations.next().await.is_none());
    let start = Instant::now();
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(
        Timer::current().metrics().pending,
        0,
        "a stream that has ended keeps nothing armed"
    );
}

#[tokio::test(start_paused = true)]
async fn many_idle_streams_do_not_make_the_paused_clock_run() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let mut idle: Vec<_> = (0..40)
        .map(|_| {
            let (map, expirations) = DelayMap::<u8, u8>::new(&timer);
            (map, task::spawn(expirations))
        })
        .collect();
    for (_, expirations) in &mut idle {
        assert_pending!(expirations.poll_next());
    }
    let start = Instant::now();
    timer.sleep(MS).await;
    idle_for_a_moment().await;
    assert_eq!(start.elapsed(), MS);
}

#[tokio::test(start_paused = true)]
async fn a_map_emptied_in_whatever_way_does_not_pull_the_clock_along() {
    for way in 0..4 {
        let (map, expired) = DelayMap::<u32, ()>::new(&Timer::current());
        let mut expired = task::spawn(expired);
        map.insert(1, (), HOUR).unwrap();
        assert_pending!(expired.poll_next());
        match way {
            0 => assert_eq!(map.expire_all(), 1),
            1 => assert!(map.reset(&1, Duration::ZERO)),
            2 => assert_eq!(map.insert(1, (), Duration::ZERO), Ok(Some(()))),
            _ => assert!(map.expire(&1)),
        }
        assert!(expired.is_woken());
        assert_eq!(assert_ready!(expired.poll_next()).unwrap().key, 1);
        assert_pending!(expired.poll_next());
        let start = Instant::now();
        // Nothing else is armed: if the clock runs now, it runs for the map.
        idle_for_a_moment().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "way {way}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_clock_runs_to_what_is_left_after_the_earliest_changed() {
    type Act = fn(&DelayMap<u32, ()>);
    let acts: [(Act, Duration); 4] = [
        (
            |map| assert!(map.expire(&1) && map.remove(&1).is_some()),
            Duration::ZERO,
        ),
        (
            |map| assert!(map.expire(&1) && map.reset(&1, 5 * HOUR)),
            5 * HOUR,
        ),
        (
            |map| assert_eq!((map.expire_all(), map.drain().len()), (1, 1)),
            Duration::ZERO,
        ),
        (
            |map| {
                map.insert(2, (), 3 * HOUR).unwrap();
                map.retain(|key, _| *key == 2);
            },
            3 * HOUR,
        ),
    ];
    for (act, left) in acts {
        let (map, expired) = DelayMap::new(&Timer::current());
        let mut expired = task::spawn(expired);
        map.insert(1, (), HOUR).unwrap();
        assert_pending!(expired.poll_next());
        act(&map);
        let start = Instant::now();
        idle_for_a_moment().await;
        assert_eq!(start.elapsed(), left);
    }
}
