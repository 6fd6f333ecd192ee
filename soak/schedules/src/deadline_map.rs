//! A `DeadlineMap`, a task that awaits two of its deadlines, and three threads that call it and
//! await what they insert.
//!
//! Judged: each deadline has one outcome, and as many have an outcome as calls say. A deadline that
//! no call expires never expires before the resets that were in time allow it. Its task is woken
//! for it in time. Nothing goes into a map that is closed, and in the end nothing is left.

use std::time::Duration;

use tickwheel::{DeadlineMap, Instant, KeyedDeadline};
use under_std::time::passed;

use crate::due::{self, Act, Move};
use crate::record::{Moment, Record, Span, last_held_up};
use crate::wait::{Outcome, Ready, await_all};
use crate::world::{MS, Place, World, below, delay, grace, one_in};

type Key = u8;
type Map = DeadlineMap<Key>;

const KEYS: u64 = 2;

/// What a call did.
#[derive(Clone, Copy, Debug)]
enum Did {
    Inserted(Key, Duration),
    Moved(Key, Act),
    Expired(Key),
    Cancelled,
    /// It expired, or took out, so many.
    ExpiredAll(usize),
    Drained(usize),
    Nothing,
}

#[derive(Debug)]
struct Call {
    did: Did,
    span: Span,
}

/// A deadline that was awaited.
#[derive(Debug)]
struct Life {
    key: Key,
    made: Span,
    ready: Ready,
}

#[derive(Clone)]
struct Books {
    calls: Record<Call>,
    lives: Record<Life>,
    /// The keys of deadlines that were dropped, pending or not.
    dropped: Record<Key>,
    /// The calls that have closed the map.
    closed: Record<Span>,
}

pub fn run() {
    match below(16) {
        0 => replace(),
        1 => race_for_the_limit(),
        _ => change(),
    }
}

/// Inserts into different parts of a map that may hold one key.
fn race_for_the_limit() {
    let world = World::begin();
    let map = DeadlineMap::with_limit(&world.timer, 1);
    let inserts: Vec<_> = (0..3)
        .map(|key: Key| {
            let map: Map = map.clone();
            world
                .place()
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
    assert_eq!(world.timer.metrics().pending, 0);
    world.end(passed());
}

/// A key is replaced again and again while others reset it. It is in the map and pending all the
/// time, so each of their calls finds it. It is due so far away that no clock comes there.
fn replace() {
    const KEY: Key = 7;
    let world = World::begin();
    let map = DeadlineMap::new(&world.timer);
    let insert = |map: &Map| map.insert(KEY, Duration::MAX).unwrap();
    let first = insert(&map);
    let (place, others) = (world.place(), map.clone());
    let inserts = place.spawn(move || {
        // The older ones are kept, so that none is dropped in between.
        (0..3).map(|_| insert(&others)).collect::<Vec<_>>()
    });
    let resets: Vec<_> = (0..2)
        .map(|_| {
            let (map, ends_early, origin) = (map.clone(), world.ends_early, world.origin);
            world.place().spawn(move || {
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
    assert_eq!((map.len(), world.timer.metrics().pending), (0, 0));
    world.end(passed());
}

fn change() {
    let world = World::begin();
    let limit = if one_in(4) { 2 } else { usize::MAX };
    let map = DeadlineMap::with_limit(&world.timer, limit);
    let books = Books {
        calls: Record::new(),
        lives: Record::new(),
        dropped: Record::new(),
        closed: Record::new(),
    };
    let mut own = Vec::new();
    for _ in 0..2 {
        insert(&map, &books, &mut own);
    }
    let consumer = {
        let books = books.clone();
        world.place().spawn(move || finish(own, &books))
    };
    let mut threads: Vec<_> = (0..3)
        .map(|_| {
            let (place, map, books) = (world.place(), map.clone(), books.clone());
            let (number, origin) = (1 + below(4), world.origin);
            world.place().spawn(move || {
                let own = act(&place, &map, &books, number, origin);
                finish(own, &books);
            })
        })
        .collect();
    threads.push(consumer);
    world.calls_are_over();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(map.len(), 0, "the map is empty");
    assert!(map.close().is_empty());
    let last = judge(&world, &books);
    assert_eq!(world.timer.metrics().pending, 0, "nothing is armed");
    world.end(last);
}

type Own = Vec<(KeyedDeadline<Key>, Span)>;

fn act(place: &Place, map: &Map, books: &Books, number: u64, origin: Instant) -> Own {
    let mut own = Own::new();
    for _ in 0..number {
        place.rest();
        let (key, delay) = (below(KEYS) as Key, delay());
        let ((answer, did), span) = match below(20) {
            0..4 => {
                insert(map, books, &mut own);
                continue;
            }
            4 | 5 => Span::of(|| (map.reset(&key), Did::Moved(key, Act::Reset))),
            6 => {
                let since = passed().saturating_sub(delay);
                let act = Act::ResetFrom(Moment::of(since));
                Span::of(|| (map.reset_from(&key, origin + since), Did::Moved(key, act)))
            }
            7..12 => Span::of(|| {
                let handle = map.handle(&key);
                let act = match below(4) {
                    0 => Act::Extend(delay),
                    1 | 2 => Act::Set(due::after(delay)),
                    _ => Act::Reset,
                };
                let is_moved = handle.is_some_and(|handle| match act {
                    Act::Extend(by) => handle.extend(by),
                    Act::Set(_) => handle.reset_after(delay),
                    _ => handle.reset(),
                });
                (is_moved, Did::Moved(key, act))
            }),
            12 => Span::of(|| {
                let handle = map.handle(&key);
                let is_set = handle.is_some_and(|handle| handle.set_timeout(delay));
                (is_set, Did::Moved(key, Act::SetTimeout(delay)))
            }),
            13 => Span::of(|| (map.expire(&key), Did::Expired(key))),
            14 => Span::of(|| {
                let handle = map.handle(&key);
                (handle.is_some_and(|handle| handle.cancel()), Did::Cancelled)
            }),
            15 => Span::of(|| (true, Did::ExpiredAll(map.expire_all()))),
            16 => Span::of(|| (true, Did::Drained(map.drain().len()))),
            17 if one_in(2) => {
                let closed = Span::of(|| (true, Did::Drained(map.close().len())));
                books.closed.push(closed.1);
                closed
            }
            18 => {
                if let Some((dropped, _)) = own.pop() {
                    books.dropped.push(*dropped.key());
                    let ((), span) = Span::of(|| drop(dropped));
                    books.note(Did::Nothing, span);
                }
                continue;
            }
            _ => Span::of(|| {
                let left = map.handle(&key).and_then(|handle| handle.remaining());
                (left.is_some(), Did::Nothing)
            }),
        };
        books.note(if answer { did } else { Did::Nothing }, span);
    }
    own
}

fn insert(map: &Map, books: &Books, own: &mut Own) {
    let (key, timeout) = (below(KEYS) as Key, delay());
    let if_absent = one_in(4);
    let (inserted, span) = Span::of(|| {
        if if_absent {
            map.insert_if_absent(key, timeout).ok()
        } else {
            map.insert(key, timeout).ok()
        }
    });
    match inserted {
        Some(keyed) => {
            let is_closed = books.closed.any(|closed| closed.is_before(&span));
            assert!(!is_closed, "{key} went into a closed map: {span:?}");
            books.note(Did::Inserted(key, timeout), span);
            own.push((keyed, span));
        }
        None => books.note(Did::Nothing, span),
    }
}

/// Awaits all that is left.
fn finish(own: Own, books: &Books) {
    for (keyed, made, ready) in await_all(own) {
        books.lives.push(Life {
            key: *keyed.key(),
            made,
            ready,
        });
    }
}

impl Books {
    fn note(&self, did: Did, span: Span) {
        self.calls.push(Call { did, span });
    }
}

/// Gives the last moment at which something was called or due.
fn judge(world: &World, books: &Books) -> Duration {
    let (calls, lives) = (books.calls.take(), books.lives.take());
    let (dropped, closed) = (books.dropped.take().len(), books.closed.take());
    let came_to = |outcome| {
        lives
            .iter()
            .filter(|life| life.ready.outcome == outcome)
            .count()
    };
    let did = |count: fn(Did) -> usize| calls.iter().map(|call| count(call.did)).sum::<usize>();
    // A call may have ended one that nobody awaits any more.
    let agrees = |number: usize, outcome| {
        let seen = came_to(outcome);
        let fits = (seen..=seen + dropped).contains(&number);
        assert!(
            fits,
            "{outcome:?}: {seen} were, {number} by the calls: {lives:#?} {calls:#?}"
        );
    };
    agrees(
        did(|did| usize::from(matches!(did, Did::Cancelled))),
        Outcome::Cancelled,
    );
    agrees(
        did(|did| {
            if let Did::Drained(number) = did {
                number
            } else {
                0
            }
        }),
        Outcome::Drained,
    );
    let by_calls = did(|did| match did {
        Did::Expired(_) => 1,
        Did::ExpiredAll(number) => number,
        _ => 0,
    });
    assert!(
        by_calls <= came_to(Outcome::Expired) + dropped,
        "{lives:#?} {calls:#?}"
    );
    assert!(
        world.ends_early || came_to(Outcome::ShutDown) == 0,
        "{lives:#?}"
    );
    let ended = calls.iter().map(|call| call.span.ended);
    let over = ended.fold(last_held_up(), Duration::max);
    let mut last = over;
    for life in &lives {
        let Life { made, ready, .. } = life;
        let is_by_call = |call: &Call| {
            let expires = match call.did {
                Did::Expired(key) => key == life.key,
                Did::ExpiredAll(number) => number > 0,
                _ => false,
            };
            expires && !call.span.is_before(made) && !ready.span.is_before(&call.span)
        };
        if ready.outcome != Outcome::Expired {
            continue;
        }
        let moves = moves(life, &calls);
        let [from, to] = [due::earliest(&moves), due::latest(&moves)];
        last = last.max(over.max(to) + grace(passed()));
        if calls.iter().any(is_by_call) {
            continue;
        }
        assert!(
            ready.span.ended >= from,
            "early: {life:#?}, due at {from:?}: {calls:#?}"
        );
        // A call that takes it out of the map while it is pending settles it, unless another one
        // has just taken it out and has yet to settle it.
        let takes_out = |call: &&Call| match call.did {
            Did::Inserted(key, _) => key == life.key && call.span.first != made.first,
            Did::Drained(_) => true,
            _ => false,
        };
        let is_left = calls.iter().filter(takes_out).any(|call| {
            let overlaps = |other: &Call| {
                let is_same = call.span.first == other.span.first;
                !is_same && !call.span.is_before(&other.span) && !other.span.is_before(&call.span)
            };
            // What was put in beside the call that has closed the map came before that.
            let closes = closed.iter().any(|closed| closed.first == call.span.first);
            (closes || made.is_before(&call.span))
                && call.span.ended < from
                && !calls.iter().filter(takes_out).any(overlaps)
        });
        assert!(
            !is_left,
            "not taken out: {life:#?}, due at {from:?}: {calls:#?}"
        );
        if let (true, Some((since, woken))) = (world.is_punctual, ready.woken) {
            let in_time = over.max(since).max(to) + 4 * MS + grace(woken);
            assert!(
                woken <= in_time,
                "late: {life:#?}, due at {to:?}: {calls:#?}"
            );
        }
    }
    last
}

/// The first of them made it. All came before its end.
fn moves(life: &Life, calls: &[Call]) -> Vec<Move> {
    // Another deadline may have been under the key.
    let is_alone_until = |last: u64| {
        !calls.iter().any(|call| {
            let is_other = call.span.first != life.made.first;
            matches!(call.did, Did::Inserted(key, _) if key == life.key)
                && is_other
                && call.span.first < last
                && call.span.last > life.made.first
        })
    };
    let may_meet =
        |call: &&Call| !call.span.is_before(&life.made) && !life.ready.span.is_before(&call.span);
    let moves = calls.iter().filter(may_meet).filter_map(|call| {
        let (is_sure, to) = match call.did {
            Did::Inserted(_, timeout) if call.span.first == life.made.first => {
                (true, Act::Begin(due::after(timeout)))
            }
            Did::Moved(key, act) if key == life.key => {
                let is_sure = life.made.is_before(&call.span) && is_alone_until(call.span.last);
                (is_sure, act)
            }
            _ => return None,
        };
        let call = call.span.call();
        Some(Move { call, is_sure, to })
    });
    moves.collect()
}
