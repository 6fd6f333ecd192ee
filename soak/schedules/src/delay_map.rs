//! A `DelayMap`, its stream's consumer, and three writers, whose calls are in `programs`. And races
//! of two or three calls.
//!
//! Checked: each value comes out once. It comes out of the stream at a deadline that one of the
//! calls which may have been the last gave it, never before that, and every answer agrees with it,
//! by the model that the soak has. The consumer is woken for it in time. Nothing goes into a map
//! that is closed, and in the end nothing is left.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::sync::mpsc::channel;
use tickwheel_soak_model::{Outcome, Rules};
use under_std::time::passed;

use crate::history::{Act, History};
use crate::programs::delay_map::{Consumer, Map, Ways, Writer};
use crate::programs::{Key, Shared};
use crate::record::{Span, last_held_up};
use crate::schedule_world::{ScheduleWorld, Threads};
use crate::world::{MS, World, below, one_in};

const KEYS: Key = 3;

/// It goes on to the end.
const NEVER: u64 = u64::MAX;

pub fn run() {
    match below(16) {
        0 => remove_beside_the_stream(),
        1 => hold_at_least_one_value(),
        2 => drain_beside_an_insert(),
        _ => change(),
    }
}

/// A value goes only when another one is in. So no call may find the map empty.
fn hold_at_least_one_value() {
    let world = World::begin();
    let (map, stream) = Map::new(&world.timer);
    let is_in = |map: &Map, key: Key| map.insert(key, 0, Duration::MAX).is_ok();
    if is_in(&map, 0) {
        let others = map.clone();
        let moves = world.context().spawn(move || {
            for key in 1..6 {
                // Or the runtime has ended.
                if is_in(&others, key) {
                    others.remove(&(key - 1));
                }
            }
        });
        for _ in 0..4 {
            assert!(!map.is_empty(), "it holds one value or two");
        }
        moves.join().unwrap();
    }
    world.calls_are_over();
    drop((map, stream));
    world.end(passed());
}

/// The only value is removed while the stream sets its timer. Nothing is due then, so no time
/// passes on a clock that can be paused.
fn remove_beside_the_stream() {
    let world = World::begin();
    let (map, mut stream) = Map::new(&world.timer);
    // The runtime may have ended.
    let _ = map.insert(0, 0, 20 * MS);
    let consumer = world.context().spawn(move || {
        let poll = |cx: &mut Context<'_>| Span::of(|| pin!(stream.recv()).poll(cx)).0;
        block_on(poll_fn(poll)).is_some()
    });
    let remover = {
        let map = map.clone();
        let remove = move || Span::of(|| map.remove(&0).is_some());
        world.context().spawn(remove)
    };
    let (is_removed, span) = remover.join().unwrap();
    world.calls_are_over();
    if is_removed && !world.ends_early {
        world.wait_until_idle();
    }
    drop(map);
    let has_come_out = consumer.join().unwrap();
    assert!(is_removed != has_come_out || world.ends_early);
    let over = span.ended.max(last_held_up());
    world.end(if is_removed { over } else { passed() });
}

/// A drain that takes nothing out leaves the stream its timer for a value that came after it.
fn drain_beside_an_insert() {
    let world = World::begin();
    let (map, mut stream) = Map::new(&world.timer);
    let consumer = world.context().spawn(move || {
        let poll = |cx: &mut Context<'_>| Span::of(|| pin!(stream.recv()).poll(cx)).0;
        block_on(poll_fn(poll)).is_some()
    });
    let drainer = {
        let map = map.clone();
        let drain = move || Span::of(|| map.drain().len()).0;
        world.context().spawn(drain)
    };
    // Or the runtime has ended.
    let is_in = Span::of(|| map.insert(0, 0, 20 * MS).is_ok()).0;
    let is_left = drainer.join().unwrap() == 0 && is_in && !world.ends_early;
    world.calls_are_over();
    if is_left {
        assert!(consumer.join().unwrap(), "it comes out");
        drop(map);
    } else {
        drop(map);
        consumer.join().unwrap();
    }
    world.end(Duration::MAX);
}

fn change() {
    let world = World::begin();
    let capacity = if one_in(4) { 2 } else { usize::MAX };
    let (map, stream) = Map::with_limit(&world.timer, capacity);
    let (history, threads) = (History::new(Rules::Value, KEYS), Threads::default());
    let shared = Arc::new(Shared::new(KEYS, capacity == 2, 6, 3));
    let actor = |calls| ScheduleWorld::new(&world, &history, calls, &threads);
    let writer = |calls| Writer {
        map: map.clone(),
        shared: shared.clone(),
        world: actor(calls),
    };
    let mut own = writer(0);
    for _ in 0..below(3) {
        own.insert();
    }
    let (outs, out) = channel();
    let ways = Ways {
        replaces: 6,
        leaves: NEVER,
    };
    let consumer = Consumer::new(stream, &map, &shared, actor(0).reporting(outs), ways);
    let consumer = world.context().spawn(|| block_on(consumer.run()));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let writer = writer(1 + below(4));
            world.context().spawn(|| block_on(writer.run()))
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    world.calls_are_over();
    if !world.ends_early && one_in(2) {
        // What is left comes out of the stream before anything else wakes the consumer.
        let taken = history.count(|act| matches!(act, Act::End(Outcome::Taken)));
        for _ in taken..history.count(|act| matches!(act, Act::Begin(_))) {
            out.recv().unwrap();
        }
        world.wait_until_idle();
    }
    // The stream ends by a close, or as the last handle goes. It ends by the runtime's end too.
    let is_kept = world.ends_early || one_in(2);
    shared.begins_to_close(&own.world);
    let has_rest = is_kept && !world.ends_early && own.take_all(true);
    let kept = is_kept.then_some(own);
    drop(map);
    let consumer = consumer.join().unwrap();
    assert!(consumer.as_ref().is_some_and(Consumer::has_ended));
    threads.join();
    if let Some(mut own) = kept {
        own.take_all(false);
        assert_eq!(own.map.len(), 0, "the map is empty");
    }
    drop(consumer);
    let last = history.check(&world).last;
    // The clock may just have come to what the close has taken out.
    let last = if has_rest { Duration::MAX } else { last };
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    world.end(last);
}
