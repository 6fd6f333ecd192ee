//! The end: closing and draining the map, dropping its handles or its stream, and the end of its
//! runtime.

use std::sync::Arc;
use std::thread;

use futures::stream::StreamExt;
use tickwheel::error::InsertError;
use tickwheel::{DelayMap, Expirations, Timer, sleep};
use tokio::sync::mpsc::error::TryRecvError;
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, PATIENCE, current_thread, multi_thread, settle};
use crate::{map, take_due};

#[tokio::test(start_paused = true)]
async fn the_stream_ends_when_no_handle_is_left_and_the_map_is_empty() {
    let (map, mut expirations) = DelayMap::new(&Timer::current());
    let other = map.clone();
    map.insert(1, (), 10 * MS).unwrap();
    drop(map);
    other.insert(2, (), 20 * MS).unwrap();
    drop(other);
    assert_eq!(
        expirations.next().await.unwrap().key,
        1,
        "what is pending lives on"
    );
    assert_eq!(expirations.next().await.unwrap().key, 2);
    assert!(expirations.next().await.is_none());
    assert!(expirations.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn close_drains_ends_the_stream_and_refuses_later_inserts() {
    let (map, mut expirations) = map();
    map.insert(1, "one", HOUR).unwrap();
    assert_pending!(expirations.poll_next());
    assert_eq!(map.close(), [(1, "one")]);
    assert_eq!(map.close(), []);
    assert!(expirations.is_woken());
    assert!(assert_ready!(expirations.poll_next()).is_none());
    let refused = map.clone().insert(1, "again", HOUR).unwrap_err();
    assert_eq!(refused, InsertError::Closed("again"));
    assert_eq!(refused.into_inner(), "again");
    assert!(!map.reset(&1, MS) && map.remove(&1).is_none());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_closes_the_map() {
    let (map, expirations) = map();
    let value = Arc::new(());
    map.insert(1, value.clone(), HOUR).unwrap();
    drop(expirations);
    assert_eq!(Arc::strong_count(&value), 1, "what it held is dropped");
    assert!(matches!(
        map.insert(2, value, HOUR),
        Err(InsertError::Closed(_))
    ));
    assert_eq!((map.len(), map.expire_all()), (0, 0));
}

#[test]
fn after_its_runtime_the_stream_ends_and_inserts_are_refused() {
    for pending in [false, true] {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, expirations) = DelayMap::new(&timer);
        let mut expirations = task::spawn(expirations);
        if pending {
            map.insert(1, "one", HOUR).unwrap();
        }
        assert_pending!(expirations.poll_next());
        drop(runtime);
        assert!(expirations.is_woken(), "also when nothing was pending");
        assert!(assert_ready!(expirations.poll_next()).is_none());
        assert_eq!(map.insert(2, "two", HOUR), Err(InsertError::Closed("two")));
        assert!(!map.reset(&2, MS) && map.remove(&2).is_none());
        assert_eq!(
            map.drain().len(),
            usize::from(pending),
            "what was pending can be drained"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_terminated_only_once_it_has_said_so() {
    use futures::stream::FusedStream;
    let (map, mut expirations) = map::<u8, u8>();
    assert!(!expirations.is_terminated());
    drop(map);
    assert!(!expirations.is_terminated(), "no poll has seen that yet");
    assert!(assert_ready!(expirations.poll_next()).is_none());
    assert!(expirations.is_terminated());
    assert!(assert_ready!(expirations.poll_next()).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_received_ends_as_a_channel_does() {
    let (map, mut expired) = DelayMap::<u32, u32>::with_capacity(&Timer::current(), 100);
    for key in 0..10 {
        map.insert(key, key, (1 + key / 5) * MS).unwrap();
    }
    let mut buffer = Vec::new();
    assert_eq!(expired.recv_many(&mut buffer, 0).await, 0);
    assert_eq!(expired.recv_many(&mut buffer, 3).await, 3);
    assert_eq!(expired.recv_many(&mut buffer, 100).await, 2);
    let weak = map.downgrade();
    assert_eq!(weak.upgrade().unwrap().len(), 5);
    drop(map);
    assert!(weak.clone().upgrade().is_none());
    assert_eq!(expired.recv_many(&mut buffer, 100).await, 5);
    assert_eq!(expired.try_recv().unwrap_err(), TryRecvError::Disconnected);
    assert!(expired.recv().await.is_none());
    assert_eq!(expired.recv_many(&mut buffer, 100).await, 0);
    let keys: Vec<_> = buffer.iter().map(|value| value.key).collect();
    assert_eq!(keys, (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_was_drained_can_be_inserted_again_until_the_close() {
    let (map, mut expirations) = map();
    for key in 0..50 {
        map.insert(key, key, 5 * MS).unwrap();
    }
    for (key, value) in map.drain() {
        map.insert(key, value + 100, 7 * MS).unwrap();
    }
    assert_eq!(map.len(), 50);
    assert_pending!(expirations.poll_next());
    sleep(7 * MS).await;
    let due = take_due(&mut expirations);
    assert_eq!(due.len(), 50);
    assert!(due.iter().all(|(key, value)| *value == key + 100));
    map.insert(1, 1, 5 * MS).unwrap();
    for (key, value) in map.close() {
        assert_eq!(map.insert(key, value, MS), Err(InsertError::Closed(1)));
    }
    assert!(assert_ready!(expirations.poll_next()).is_none());
}

#[test]
fn a_drain_beside_a_close_leaves_no_stream_waiting() {
    let runtime = multi_thread(2);
    for _ in 0..20 {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let (map, mut expired) = DelayMap::<u32, u32>::new(&timer);
        for key in 0..20_000 {
            map.insert(key, key, HOUR).unwrap();
        }
        let ended = runtime.spawn(async move { while expired.recv().await.is_some() {} });
        thread::scope(|scope| {
            scope.spawn(|| map.drain());
            scope.spawn(|| map.close());
        });
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, ended).await });
        assert!(ended.is_ok(), "the stream waits for nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_at_every_stage_nothing_leaks() {
    let value = Arc::new(());
    type Stage = fn(&DelayMap<u32, Arc<()>>, &mut task::Spawn<Expirations<u32, Arc<()>>>);
    let stages: [Stage; 5] = [
        |_, _| {},
        |_, expirations| drop(expirations.poll_next()),
        |map, _| drop(map.remove(&1)),
        |map, _| drop(map.drain()),
        |map, _| assert!(map.expire_all() <= 3),
    ];
    for stage in stages {
        for advance in [false, true] {
            for map_first in [false, true] {
                let (map, mut expirations) = map();
                for key in 0..3 {
                    map.insert(key, value.clone(), (key + 1) * MS).unwrap();
                }
                let _ = expirations.poll_next();
                if advance {
                    sleep(2 * MS).await;
                }
                stage(&map, &mut expirations);
                if map_first {
                    drop(map);
                    drop(expirations);
                } else {
                    drop(expirations);
                    drop(map);
                }
                assert_eq!(Arc::strong_count(&value), 1);
            }
        }
    }
    settle().await;
    assert_eq!(Timer::current().metrics().pending, 0);
}
