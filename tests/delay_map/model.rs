//! Random operations beside a model of the map, and every phase of a set and a move.

use std::collections::BTreeMap;
use std::task::Poll;

use futures::stream::StreamExt;
use proptest::prelude::*;
use tickwheel::{DelayMap, Instant, Timer, sleep};
use tokio_test::task;

use crate::common::{MS, paused, settle};
use crate::take_due;

/// A value is set at each phase within a rotation, and moved after each gap to each delay. In some
/// of these combinations a wheel that moves without relinking would lose a round.
#[tokio::test(start_paused = true)]
async fn every_phase_of_a_set_and_a_move_fires_once_and_in_time() {
    let timer = Timer::builder().slots(8).build().unwrap();
    let (map, expirations) = DelayMap::new(&timer);
    let mut expirations = task::spawn(expirations);
    for phase in 0..12_u32 {
        for delay in 1..25_u32 {
            for gap in 0..25_u32 {
                sleep(phase * MS).await;
                map.insert(1, (), 20 * MS).unwrap();
                let _ = expirations.poll_next();
                sleep(gap.min(19) * MS).await;
                assert!(take_due(&mut expirations).is_empty());
                assert!(map.reset(&1, delay * MS));
                let moved_to = Instant::now() + delay * MS;
                let _ = expirations.poll_next();
                sleep((delay - 1) * MS).await;
                assert!(
                    take_due(&mut expirations).is_empty(),
                    "early: {phase}, {delay}, {gap}"
                );
                sleep(MS).await;
                let expired = match expirations.poll_next() {
                    Poll::Ready(Some(expired)) => expired,
                    _ => panic!("late: {phase}, {delay}, {gap}"),
                };
                assert_eq!(expired.deadline, moved_to);
                assert!(
                    take_due(&mut expirations).is_empty(),
                    "twice: {phase}, {delay}, {gap}"
                );
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32, u32),
    Reset(u32, u32),
    Remove(u32),
    Drain,
    ExpireAll,
    Advance(u32),
    Take(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let delay = || prop_oneof![4 => 0..40_u32, 1 => 0..5_000_u32];
    prop_oneof![
        8 => (0..12_u32, delay()).prop_map(|(key, delay)| Operation::Insert(key, delay)),
        6 => (0..12_u32, delay()).prop_map(|(key, delay)| Operation::Reset(key, delay)),
        3 => (0..12_u32).prop_map(Operation::Remove),
        1 => Just(Operation::Drain),
        1 => Just(Operation::ExpireAll),
        8 => (0..50_u32).prop_map(Operation::Advance),
        4 => (0..4_usize).prop_map(Operation::Take),
    ]
}

async fn run(operations: Vec<Operation>, slots: usize) {
    let timer = Timer::builder().slots(slots).build().unwrap();
    let (map, expirations) = DelayMap::new(&timer);
    let mut expirations = task::spawn(expirations);
    // For each key its value, its deadline, and when it was expired before that.
    let mut model: BTreeMap<u32, (u32, Instant, Option<Instant>)> = BTreeMap::new();
    let mut next_value = 0;
    for operation in operations {
        let now = Instant::now();
        match operation {
            Operation::Insert(key, delay) => {
                next_value += 1;
                let old = model.insert(key, (next_value, now + delay * MS, None));
                let replaced = map.insert(key, next_value, delay * MS).unwrap();
                assert_eq!(replaced, old.map(|(value, ..)| value));
            }
            Operation::Reset(key, delay) => {
                let entry = model.get_mut(&key);
                assert_eq!(map.reset(&key, delay * MS), entry.is_some());
                if let Some((_, deadline, expired)) = entry {
                    (*deadline, *expired) = (now + delay * MS, None);
                }
            }
            Operation::Remove(key) => {
                assert_eq!(
                    map.remove(&key),
                    model.remove(&key).map(|(value, ..)| value)
                );
            }
            Operation::Drain => {
                let mut drained = map.drain();
                drained.sort();
                let expected: Vec<_> = std::mem::take(&mut model)
                    .into_iter()
                    .map(|(key, (value, ..))| (key, value))
                    .collect();
                assert_eq!(drained, expected);
            }
            Operation::ExpireAll => {
                let mut pending = 0;
                for (_, deadline, expired) in model.values_mut() {
                    if expired.is_none() && *deadline > now {
                        *expired = Some(now);
                        pending += 1;
                    }
                }
                assert_eq!(map.expire_all(), pending);
            }
            Operation::Advance(by) => sleep(by * MS).await,
            Operation::Take(count) => {
                for _ in 0..count {
                    let due = model
                        .values()
                        .filter(|entry| entry.2.is_some() || entry.1 <= now)
                        .count();
                    match expirations.poll_next() {
                        Poll::Ready(Some(expired)) => {
                            let (value, deadline, expired_at) =
                                model.remove(&expired.key).expect("it was not there");
                            assert_eq!(expired.value, value);
                            let due_at = expired_at.unwrap_or(deadline);
                            assert!(due_at <= now, "early");
                            assert_eq!(expired.deadline, due_at);
                        }
                        Poll::Ready(None) => panic!("the stream has ended"),
                        Poll::Pending => assert_eq!(due, 0, "slept through"),
                    }
                }
            }
        }
        settle().await;
        assert_eq!(map.len(), model.len());
        for (key, (_, deadline, expired_at)) in &model {
            assert_eq!(map.deadline(key), Some(expired_at.unwrap_or(*deadline)));
        }
    }
    // Each of the rest comes out once, within two ticks of its deadline, in order.
    let mut expirations = expirations.into_inner();
    drop(map);
    let mut last = None;
    while let Some(expired) = expirations.next().await {
        let (value, deadline, expired_at) = model
            .remove(&expired.key)
            .expect("it was not there, or twice");
        assert_eq!(expired.value, value);
        assert!(expired_at.unwrap_or(deadline) <= Instant::now());
        if expired_at.is_none() && deadline > last.unwrap_or(deadline) {
            assert!(Instant::now() <= deadline + 2 * MS, "late");
        }
        last = Some(Instant::now());
    }
    assert!(model.is_empty(), "lost: {model:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_map_does_what_its_model_does(
        operations in proptest::collection::vec(operation(), 0..100),
        slots in prop_oneof![Just(64_usize), Just(4)],
    ) {
        let runtime = paused();
        runtime.block_on(run(operations, slots));
    }
}
