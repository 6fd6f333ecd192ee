//! A `DelayMap`, its stream's consumer, and three threads.
//!
//! Judged: each value comes out once. It comes out of the stream at a deadline that one of the
//! calls which may have been the last gave it, and never before that. The consumer is woken for it
//! in time. In the end nothing is left.

use std::collections::HashMap;
use std::future::poll_fn;
use std::task::{Context, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::sync::mpsc::{Sender, channel};
use tickwheel::{DelayMap, Expirations, Instant, WeakDelayMap};

use crate::record::{Noting, Record, Span, last_held_up};
use crate::world::{MS, Place, World, below, delay, one_in};

type Key = u8;
type Value = u64;
type Map = DelayMap<Key, Value>;

const KEYS: u64 = 3;

/// What a call did.
#[derive(Debug)]
enum Did {
    /// It set when one value or what is under a key is due: between these times.
    Set(Key, Option<Value>, Duration, Duration),
    /// It made what is under a key, or under any, due at once.
    Expired(Option<Key>),
    Nothing,
}

#[derive(Debug)]
struct Call {
    did: Did,
    span: Span,
}

/// A value that came out of the stream.
#[derive(Debug)]
struct Popped {
    key: Key,
    value: Value,
    deadline: Instant,
    span: Span,
    /// Since when the consumer had waited, and when it was woken.
    woken: Option<(Duration, Duration)>,
}

#[derive(Clone)]
struct Books {
    calls: Record<Call>,
    given: Record<Value>,
    out: Record<Value>,
}

pub fn run() {
    let world = World::begin();
    let limit = if one_in(4) { 2 } else { usize::MAX };
    let (map, stream) = DelayMap::with_limit(&world.timer, limit);
    let books = Books {
        calls: Record::new(),
        given: Record::new(),
        out: Record::new(),
    };
    for number in 0..below(3) {
        insert(&map, &books, 100 + number);
    }
    let (tells, told) = channel();
    let (consumer, threads) = {
        let popped = Record::new();
        let consumer = {
            let (popped, weak) = (popped.clone(), map.downgrade());
            world
                .place()
                .spawn(move || (consume(stream, &weak, &popped, &tells), popped))
        };
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (place, map, books) = (world.place(), map.clone(), books.clone());
                let calls = 1 + below(4);
                world
                    .place()
                    .spawn(move || act(&place, &map, &books, thread * 10, calls))
            })
            .collect();
        (consumer, threads)
    };
    for thread in threads {
        thread.join().unwrap();
    }
    world.calls_are_over();
    if !world.ends_early && one_in(2) {
        // What is left comes out of the stream before anything else wakes the consumer.
        for _ in books.out.len()..books.given.len() {
            told.recv().unwrap();
        }
        world.wait_until_idle();
    }
    // The stream ends by a close, or as the last handle goes. It ends by the runtime's end too.
    let kept = (world.ends_early || one_in(2)).then_some(map);
    let mut has_rest = false;
    if let Some(map) = kept.as_ref().filter(|_| !world.ends_early) {
        let (left, _) = Span::of(|| map.close());
        has_rest = !left.is_empty();
        left.iter().for_each(|&(_, value, _)| books.out.push(value));
    }
    let (stream, popped) = consumer.join().unwrap();
    if let Some(map) = kept {
        map.drain()
            .iter()
            .for_each(|&(_, value, _)| books.out.push(value));
        assert_eq!(map.len(), 0, "the map is empty");
    }
    drop(stream);
    let popped = popped.take();
    let last = judge(&world, &books, &popped);
    // The clock may just have come to what the close has taken out.
    let last = if has_rest { Duration::MAX } else { last };
    assert_eq!(world.timer.metrics().pending, 0, "nothing is armed");
    world.end(last);
}

fn consume(
    mut stream: Expirations<Key, Value>,
    map: &WeakDelayMap<Key, Value>,
    popped: &Record<Popped>,
    tells: &Sender<()>,
) -> Expirations<Key, Value> {
    let mut noting = None;
    let mut waits_since = None;
    loop {
        let next = block_on(poll_fn(|cx: &mut Context<'_>| {
            let noting = noting.get_or_insert_with(|| Noting::new(cx.waker()));
            let woken = waits_since.zip(noting.take());
            let waker = Waker::from(noting.clone());
            let (polled, span) = Span::of(|| stream.poll_recv(&mut Context::from_waker(&waker)));
            waits_since = polled.is_pending().then_some(span.ended);
            polled.map(|expired| (expired, span, woken))
        }));
        match next {
            (Some(expired), span, woken) => {
                popped.push(Popped {
                    key: expired.key,
                    value: expired.value,
                    deadline: expired.deadline,
                    span,
                    woken,
                });
                // Nobody may wait for it any more.
                let _ = tells.send(());
                if let Some(map) = map.upgrade().filter(|_| one_in(6)) {
                    // It dies, and another one goes on. The clock may come to its timer meanwhile.
                    Span::of(|| drop(stream));
                    stream = map.expirations().expect("there is none");
                    waits_since = None;
                }
            }
            (None, ..) => return stream,
        }
    }
}

fn act(place: &Place, map: &Map, books: &Books, first: Value, calls: u64) {
    for number in 0..calls {
        place.rest();
        let key = below(KEYS) as Key;
        match below(16) {
            0..5 => insert(map, books, first + number),
            5..8 => {
                let delay = delay();
                let (is_there, span) = Span::of(|| map.reset(&key, delay));
                books.note(set(is_there, key, delay, span), span);
            }
            8 => {
                let delay = delay();
                let (touched, span) = Span::of(|| map.touch(&key, delay, |_| ()));
                books.note(set(touched.is_some(), key, delay, span), span);
            }
            9 | 10 => {
                let (removed, span) = Span::of(|| map.remove(&key));
                books.note(Did::Nothing, span);
                removed.into_iter().for_each(|value| books.out.push(value));
            }
            11 | 12 => {
                let (is_there, span) = Span::of(|| map.expire(&key));
                books.note(
                    if is_there {
                        Did::Expired(Some(key))
                    } else {
                        Did::Nothing
                    },
                    span,
                );
            }
            13 => {
                let (_, span) = Span::of(|| map.expire_all());
                books.note(Did::Expired(None), span);
            }
            14 => {
                let closes = one_in(3);
                let (left, span) = Span::of(|| if closes { map.close() } else { map.drain() });
                books.note(Did::Nothing, span);
                left.iter().for_each(|&(_, value, _)| books.out.push(value));
            }
            _ => {
                let ((), span) = Span::of(|| {
                    let mut out = Vec::new();
                    map.retain(|_, value| {
                        let keeps = *value % 2 == 0;
                        if !keeps {
                            out.push(*value);
                        }
                        keeps
                    });
                    out.into_iter().for_each(|value| books.out.push(value));
                });
                books.note(Did::Nothing, span);
            }
        }
    }
}

fn insert(map: &Map, books: &Books, value: Value) {
    let (key, delay) = (below(KEYS) as Key, delay());
    let if_absent = one_in(4);
    books.given.push(value);
    let (inserted, span) = Span::of(|| {
        if if_absent {
            map.insert_if_absent(key, value, delay)
        } else {
            map.insert(key, value, delay)
        }
    });
    let did = Did::Set(key, Some(value), span.began + delay, span.ended + delay);
    match inserted {
        Ok(None) => books.note(did, span),
        // It gives the older value, or its own if there is an older one.
        Ok(Some(out)) => {
            books.note(if out == value { Did::Nothing } else { did }, span);
            books.out.push(out);
        }
        Err(refused) => {
            let out = refused.into_inner();
            assert_eq!(out, value);
            books.note(Did::Nothing, span);
            books.out.push(out);
        }
    }
}

fn set(is_there: bool, key: Key, delay: Duration, span: Span) -> Did {
    if is_there {
        Did::Set(key, None, span.began + delay, span.ended + delay)
    } else {
        Did::Nothing
    }
}

impl Books {
    fn note(&self, did: Did, span: Span) {
        self.calls.push(Call { did, span });
    }
}

/// Gives the last moment at which something was called or due.
fn judge(world: &World, books: &Books, popped: &[Popped]) -> Duration {
    let calls = books.calls.take();
    let mut outs: HashMap<Value, u32> = HashMap::new();
    for value in books.out.take() {
        *outs.entry(value).or_default() += 1;
    }
    for popped in popped {
        *outs.entry(popped.value).or_default() += 1;
    }
    let given = books.given.take();
    for value in &given {
        assert_eq!(
            outs.get(value),
            Some(&1),
            "value {value} comes out once: {calls:#?}"
        );
    }
    assert_eq!(outs.len(), given.len(), "no other value comes out");
    let ended = calls.iter().map(|call| call.span.ended);
    let over = ended.fold(last_held_up(), Duration::max);
    for popped in popped {
        let deadline = world.since_origin(popped.deadline);
        assert!(deadline <= popped.span.ended, "early: {popped:#?}");
        assert!(
            may_be_due(deadline, popped, &calls),
            "due at {deadline:?}: {popped:#?} {calls:#?}"
        );
        if let (true, Some((since, woken))) = (world.is_punctual, popped.woken) {
            let in_time = over.max(since).max(deadline) + 2 * MS;
            assert!(
                woken <= in_time,
                "late: {popped:#?}, due at {deadline:?}, {calls:#?}"
            );
        }
    }
    let dues = popped
        .iter()
        .map(|popped| world.since_origin(popped.deadline));
    dues.fold(over, Duration::max)
}

/// Whether one of the calls that may have been the last to say so made a value due then.
fn may_be_due(deadline: Duration, popped: &Popped, calls: &[Call]) -> bool {
    let is_insert =
        |call: &&Call| matches!(call.did, Did::Set(_, Some(value), ..) if value == popped.value);
    let insert = calls.iter().find(is_insert).expect("it was inserted").span;
    let is_of_key = |call: &Call| match call.did {
        Did::Set(_, Some(value), ..) => value == popped.value,
        Did::Set(key, None, ..) => key == popped.key,
        Did::Expired(key) => key.is_none_or(|key| key == popped.key),
        Did::Nothing => false,
    };
    // While the value is in the map, it is what is under its key.
    let surely_sets = |call: &Call| {
        matches!(call.did, Did::Set(_, None, ..))
            && insert.is_before(&call.span)
            && call.span.is_before(&popped.span)
    };
    let of_key = || calls.iter().filter(|&call| is_of_key(call));
    let mut may_be_last = of_key().filter(|call| {
        let is_of_value = !call.span.is_before(&insert) && !popped.span.is_before(&call.span);
        let is_replaced = |other: &Call| surely_sets(other) && call.span.is_before(&other.span);
        is_of_value && !of_key().any(is_replaced)
    });
    may_be_last.any(|call| match call.did {
        Did::Set(_, _, from, to) => (from..=to).contains(&deadline),
        Did::Expired(_) => (call.span.began..=call.span.ended).contains(&deadline),
        Did::Nothing => false,
    })
}
