//! A `DeadlineMap`, a task that awaits two of its deadlines, and three threads that call it and
//! await what they insert, with the calls of `programs`. And races of a few calls.
//!
//! Checked: each deadline has one outcome, and as many have an outcome as calls say. A deadline
//! that no call expires never expires before the resets that were in time allow it. Its task is
//! woken for it in time. Nothing goes into a map that is closed, nor stays in it, and in the end
//! nothing is left.

use std::sync::Arc;
use std::time::Duration;

use shuttle::future::block_on;
use tickwheel_soak_model::{Outcome, Rules};
use under_std::time::passed;

use crate::history::{Act, CheckedHistory, History};
use crate::programs::deadline_map::{Actor, Map, Role};
use crate::programs::{Key, Shared};
use crate::schedule_world::{ScheduleWorld, Threads};
use crate::world::{LONGEST, World, below, one_in, pick};

const KEYS: Key = 2;

const ROLES: [Role; 4] = [Role::Both, Role::Both, Role::Hold, Role::Call];

pub fn run() {
    match below(16) {
        0 => replace(),
        1 => race_for_the_limit(),
        2 => close_beside_inserts(),
        _ => change(),
    }
}

/// Inserts into different parts of a map that may hold one key.
fn race_for_the_limit() {
    let world = World::begin();
    let map = Map::with_limit(&world.timer, 1);
    let inserts: Vec<_> = (0..3)
        .map(|key: Key| {
            let map: Map = map.clone();
            world
                .context()
                .spawn(move || map.insert(key, Duration::MAX).ok())
        })
        .collect();
    let inserted: Vec<_> = inserts
        .into_iter()
        .map(|insert| insert.join().unwrap())
        .collect();
    let number = inserted.iter().flatten().count();
    assert_eq!((number, map.len()), (1, 1), "the map may hold one key");
    drop(inserted);
    world.calls_are_over();
    assert_eq!(world.timer.metrics().pending(), 0);
    world.end(passed());
}

/// A map is closed while two threads insert. Either an insert came before the close, which has
/// removed its key and ended its deadline, or it is an error.
fn close_beside_inserts() {
    let world = World::begin();
    let map = Map::new(&world.timer);
    let inserts = [0, 2].map(|first: Key| {
        let map: Map = map.clone();
        let insert = move |key| map.insert(key, Duration::MAX).ok();
        let insert_all = move || (first..first + 2).map_while(insert).collect::<Vec<_>>();
        world.context().spawn(insert_all)
    });
    let closer = {
        let map = map.clone();
        world.context().spawn(move || map.close().len())
    };
    let inserted: Vec<_> = inserts
        .into_iter()
        .flat_map(|insert| insert.join().unwrap())
        .collect();
    let drained = closer.join().unwrap();
    assert!(map.is_empty(), "a key is left in a closed map");
    for keyed in &inserted {
        let handle = keyed.handle();
        assert!(!handle.is_pending(), "{keyed:?} has outlived the close");
    }
    // Or the runtime's end has ended some before the close.
    assert!(drained == inserted.len() || world.ends_early);
    drop(inserted);
    world.calls_are_over();
    assert_eq!(world.timer.metrics().pending(), 0);
    world.end(passed());
}

/// A key is replaced again and again while others reset it. It is in the map and pending all the
/// time, so each of their calls finds it. It is due so far away that no clock comes there.
fn replace() {
    const KEY: Key = 7;
    let world = World::begin();
    let map = Map::new(&world.timer);
    let insert = |map: &Map| map.insert(KEY, Duration::MAX).unwrap();
    let first = insert(&map);
    let (context, others) = (world.context(), map.clone());
    let inserts = context.spawn(move || {
        // The older ones are kept, so that none is dropped in between.
        (0..3).map(|_| insert(&others)).collect::<Vec<_>>()
    });
    let resets: Vec<_> = (0..2)
        .map(|_| {
            let (map, ends_early, origin) = (map.clone(), world.ends_early, world.origin);
            world.context().spawn(move || {
                for _ in 0..3 {
                    let is_found = match below(3) {
                        0 => map.handle(&KEY).is_some(),
                        1 => map.reset_from(&KEY, origin),
                        _ => map.reset(&KEY),
                    };
                    assert!(is_found || ends_early, "the key is pending all the time");
                }
            })
        })
        .collect();
    world.calls_are_over();
    for reset in resets {
        reset.join().unwrap();
    }
    drop((first, inserts.join().unwrap()));
    assert_eq!((map.len(), world.timer.metrics().pending()), (0, 0));
    world.end(passed());
}

fn change() {
    let world = World::begin();
    let capacity = if one_in(4) { 2 } else { usize::MAX };
    let map = Map::with_limit(&world.timer, capacity);
    let (history, threads) = (History::new(Rules::Deadline, KEYS), Threads::default());
    let shared = Arc::new(Shared::new(KEYS, capacity == 2, 6, 3));
    let actor = |calls| Actor {
        map: map.clone(),
        shared: shared.clone(),
        world: ScheduleWorld::new(&world, &history, calls, &threads),
        ends: 1,
        longest: LONGEST,
    };
    let mut first = actor(0);
    let own: Vec<_> = (0..2).filter_map(|_| first.insert()).collect();
    let finish = async move { first.finish(own).await };
    let mut awaiting = vec![world.context().spawn(|| {
        block_on(finish);
    })];
    for _ in 0..3 {
        let (actor, role) = (actor(1 + below(4)), pick(&ROLES));
        awaiting.push(world.context().spawn(move || block_on(actor.run(role))));
    }
    world.calls_are_over();
    for thread in awaiting {
        thread.join().unwrap();
    }
    assert_eq!(map.len(), 0, "the map is empty");
    assert!(map.close().is_empty());
    let CheckedHistory {
        last,
        intervals,
        calls,
        ..
    } = history.check(&world);
    let did = |is_it: fn(&Act) -> bool| {
        let did = calls.iter().map(|(_, event)| event);
        did.filter(|event| event.answer && is_it(&event.act))
            .count()
    };
    // A call may have ended a deadline that was dropped.
    let dropped = intervals
        .iter()
        .filter(|interval| interval.outcome.is_none())
        .count();
    // A removal takes out what is pending, and what has ended before.
    let removed = did(|act| matches!(act, Act::Remove));
    for (outcome, by_calls) in [
        (Outcome::Cancelled, did(|act| matches!(act, Act::Cancel))),
        (Outcome::Drained, did(|act| matches!(act, Act::Drained))),
    ] {
        let ended = intervals
            .iter()
            .filter(|interval| interval.outcome == Some(outcome));
        let seen = ended.count();
        assert!(
            (seen.saturating_sub(removed)..=seen + dropped).contains(&by_calls),
            "{outcome:?}: {seen} were, {by_calls} by the calls: {calls:#?}"
        );
    }
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    world.end(last);
}
