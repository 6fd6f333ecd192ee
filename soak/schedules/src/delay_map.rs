//! A `DelayMap`, its stream's consumer, and three threads.
//!
//! Checked: each value comes out once. It comes out of the stream at a deadline that one of the
//! calls which may have been the last gave it, never before that, and every answer agrees with it,
//! by the model that the soak has. The consumer is woken for it in time. Nothing goes into a map
//! that is closed, and in the end nothing is left.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::sync::mpsc::{Sender, channel};
use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DelayMap, Expirations, Expiry, Instant, WeakDelayMap};
use tickwheel_soak_model::{Outcome, Rules};
use under_std::time::passed;

use crate::history::{Act, History, Key, after};
use crate::record::{Moment, Noting, Span, last_held_up};
use crate::wait::Ready;
use crate::world::{MS, Place, World, below, delay, one_in};

type Value = u64;
type Map = DelayMap<Key, Value>;

const KEYS: Key = 3;

pub fn run() {
    match below(16) {
        0 => remove_beside_the_stream(),
        1 => hold_at_least_one_value(),
        2 => drain_beside_an_insert(),
        _ => change(),
    }
}

/// A value goes only when another one is in. So nobody may find the map empty.
fn hold_at_least_one_value() {
    let world = World::begin();
    let (map, stream) = Map::new(&world.timer);
    let is_in = |map: &Map, key| map.insert(key, 0, Duration::MAX).is_ok();
    if is_in(&map, 0) {
        let others = map.clone();
        let moves = world.place().spawn(move || {
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
    let consumer = world.place().spawn(move || {
        let poll = |cx: &mut Context<'_>| Span::of(|| pin!(stream.recv()).poll(cx)).0;
        block_on(poll_fn(poll)).is_some()
    });
    let remover = {
        let map = map.clone();
        let remove = move || Span::of(|| map.remove(&0).is_some());
        world.place().spawn(remove)
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
    let consumer = world.place().spawn(move || {
        let poll = |cx: &mut Context<'_>| Span::of(|| pin!(stream.recv()).poll(cx)).0;
        block_on(poll_fn(poll)).is_some()
    });
    let drainer = {
        let map = map.clone();
        let drain = move || Span::of(|| map.drain().len()).0;
        world.place().spawn(drain)
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
    let limit = if one_in(4) { 2 } else { usize::MAX };
    let (map, stream) = DelayMap::with_limit(&world.timer, limit);
    let history = History::new(Rules::Value, KEYS);
    for number in 0..below(3) {
        insert(&map, &history, 100 + number);
    }
    let (ends, ended) = channel();
    let consumer = {
        let (history, weak) = (history.clone(), map.downgrade());
        let (place, origin) = (world.place(), world.origin);
        world
            .place()
            .spawn(move || consume(&place, stream, &weak, &history, &ends, origin))
    };
    let threads: Vec<_> = (1..4)
        .map(|thread| {
            let (place, map, history) = (world.place(), map.clone(), history.clone());
            let calls = 1 + below(4);
            world
                .place()
                .spawn(move || act(&place, &map, &history, thread * 10, calls))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    world.calls_are_over();
    if !world.ends_early && one_in(2) {
        // What is left comes out of the stream before anything else wakes the consumer.
        let taken = history.count(|act| matches!(act, Act::End(Outcome::Taken)));
        for _ in taken..history.count(|act| matches!(act, Act::Begin(_))) {
            ended.recv().unwrap();
        }
        world.wait_until_idle();
    }
    // The stream ends by a close, or as the last handle goes. It ends by the runtime's end too.
    let kept = (world.ends_early || one_in(2)).then_some(map);
    let mut has_rest = false;
    if let Some(map) = kept.as_ref().filter(|_| !world.ends_early) {
        let (left, span) = Span::of(|| map.close());
        has_rest = !left.is_empty();
        took(
            &history,
            left.iter().map(|&(key, value, _)| (key, value)),
            span,
        );
    }
    let stream = consumer.join().unwrap();
    if let Some(map) = kept {
        let (left, span) = Span::of(|| map.drain());
        took(
            &history,
            left.iter().map(|&(key, value, _)| (key, value)),
            span,
        );
        assert_eq!(map.len(), 0, "the map is empty");
    }
    drop(stream);
    let last = history.check(&world).last;
    // The clock may just have come to what the close has taken out.
    let last = if has_rest { Duration::MAX } else { last };
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    world.end(last);
}

fn consume(
    place: &Place,
    mut stream: Expirations<Key, Value>,
    map: &WeakDelayMap<Key, Value>,
    history: &History,
    tells: &Sender<()>,
    origin: Instant,
) -> Expirations<Key, Value> {
    let mut noting = None;
    let mut waits_since = None;
    let mut former = Vec::new();
    for number in 0.. {
        let next = block_on(poll_fn(|cx: &mut Context<'_>| {
            let noting = noting.get_or_insert_with(|| Noting::new(cx.waker()));
            let woken = waits_since.zip(noting.take());
            let waker = Waker::from(noting.clone());
            let (polled, span) =
                Span::of(|| pin!(stream.recv()).poll(&mut Context::from_waker(&waker)));
            waits_since = polled.is_pending().then_some(span.ended);
            polled.map(|expired| (expired, span, woken))
        }));
        let (Some(expired), span, woken) = next else {
            break;
        };
        let deadline = expired.deadline.duration_since(origin);
        let value = expired.value;
        history.assert_open(value, &span);
        let due = Moment::of(deadline);
        let ready = Ready {
            outcome: Outcome::Out { due, number },
            span,
            woken,
        };
        history.note_end(expired.key, value, ready);
        // Nobody may wait for it any more.
        let _ = tells.send(());
        if let Some(map) = map.upgrade().filter(|_| one_in(6)) {
            // It dies while another one goes on. The clock may come to its timer meanwhile.
            let dies = move || Span::of(|| drop(stream));
            former.push(place.clone().spawn(dies));
            stream = loop {
                match map.expirations() {
                    Some(next) => break next,
                    None => shuttle::thread::yield_now(),
                }
            };
            waits_since = None;
        }
    }
    former.into_iter().for_each(|dies| drop(dies.join()));
    stream
}

fn act(place: &Place, map: &Map, history: &History, first: Value, calls: u64) {
    for number in 0..calls {
        place.rest();
        let key = below(KEYS.into()) as Key;
        match below(18) {
            0 | 1 => touch_or_insert(map, history, first + number),
            2..5 => insert(map, history, first + number),
            5..9 => {
                let (delay, touches) = (delay(), one_in(4));
                let (is_there, span) = Span::of(|| {
                    if touches {
                        map.touch(&key, delay, |_| ()).is_some()
                    } else {
                        map.reset(&key, delay)
                    }
                });
                history.note(Some(key), Act::Set(after(delay)), is_there, span);
            }
            9 | 10 => {
                let (removed, span) = Span::of(|| map.remove(&key));
                match removed {
                    Some(value) => took_pending(history, [(key, value)], span),
                    None => history.note(Some(key), Act::Look, false, span),
                }
            }
            11 | 12 => {
                let (is_there, span) = Span::of(|| map.expire(&key));
                history.note(Some(key), Act::Expire, is_there, span);
            }
            13 => {
                let (count, span) = Span::of(|| map.expire_all());
                history.note(None, Act::Expire, count > 0, span);
            }
            14 => {
                let closes = one_in(3);
                let (left, span) = Span::of(|| if closes { map.close() } else { map.drain() });
                if closes {
                    history.note_close(span);
                }
                took(
                    history,
                    left.iter().map(|&(key, value, _)| (key, value)),
                    span,
                );
            }
            15 | 16 => {
                let (is_pending, span) = Span::of(|| map.update(&key, |_| ()).is_some());
                history.note(Some(key), Act::Look, is_pending, span);
            }
            _ => {
                let mut out = Vec::new();
                let ((), span) = Span::of(|| {
                    map.retain(|&key, value| {
                        let keeps = *value % 2 == 0;
                        if !keeps {
                            out.push((key, *value));
                        }
                        keeps
                    });
                });
                took_pending(history, out, span);
            }
        }
    }
}

fn insert(map: &Map, history: &History, value: Value) {
    let (key, delay) = (below(KEYS.into()) as Key, delay());
    let (expiry, limit) = expiry(delay);
    let if_absent = one_in(4);
    let (inserted, span) = Span::of(|| {
        if if_absent {
            map.insert_if_absent(key, value, expiry).map(|()| None)
        } else {
            map.insert(key, value, expiry).map_err(Into::into)
        }
    });
    match inserted {
        Err(InsertIfAbsentError::Occupied(own)) => {
            assert_eq!(own, (key, value));
            history.note(Some(key), Act::Find, true, span);
        }
        Ok(older) => {
            begin(history, (key, value), (delay, limit), !if_absent, span);
            took(history, older.map(|older| (key, older)), span);
        }
        Err(refused) => assert_eq!(refused.into_inner(), (key, value)),
    }
}

/// Each use of a key meets a value: one that is pending, or a new one.
fn touch_or_insert(map: &Map, history: &History, value: Value) {
    let (key, delay) = (below(KEYS.into()) as Key, delay());
    let (expiry, limit) = expiry(delay);
    let use_it = |value: &mut Value| *value;
    let (used, span) = Span::of(|| map.touch_or_insert_with(key, expiry, || value, use_it));
    match used {
        Ok((other, replaced)) if other != value => {
            assert_eq!(replaced, None, "{value} was not made");
            history.note_of(key, other, Act::Set(after(delay)), true, span);
        }
        Ok((_, replaced)) => {
            let replaces = replaced.is_some();
            begin(history, (key, value), (delay, limit), replaces, span);
            if let Some(older) = replaced {
                history.note_of(key, older, Act::Look, false, span);
            }
            took(history, replaced.map(|older| (key, older)), span);
        }
        Err(refused) => {
            assert_eq!(refused.into_inner(), key);
            history.note(Some(key), Act::Look, false, span);
        }
    }
}

/// With a limit now and then, which is returned too.
fn expiry(delay: Duration) -> (Expiry, Option<Duration>) {
    let limit = one_in(4).then(crate::world::delay);
    let expiry = Expiry::idle(delay);
    (limit.map_or(expiry, |limit| expiry.at_most(limit)), limit)
}

/// A value was inserted. `replaces` says whether it may have ended another one.
fn begin(
    history: &History,
    (key, value): (Key, Value),
    (delay, limit): (Duration, Option<Duration>),
    replaces: bool,
    span: Span,
) {
    history.assert_open(value, &span);
    history.note_of(key, value, Act::Begin(after(delay)), replaces, span);
    if let Some(limit) = limit {
        history.note_of(key, value, Act::Cap(limit), true, span);
    }
}

/// Values that a call removed. It takes only what is pending.
fn took_pending(history: &History, values: impl IntoIterator<Item = (Key, Value)>, span: Span) {
    for (key, value) in values {
        history.note_of(key, value, Act::Look, true, span);
        took(history, [(key, value)], span);
    }
}

/// Values that a call gave back.
fn took(history: &History, values: impl IntoIterator<Item = (Key, Value)>, span: Span) {
    for (key, value) in values {
        history.note_of(key, value, Act::End(Outcome::Taken), true, span);
    }
}
