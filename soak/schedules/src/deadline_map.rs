//! A `DeadlineMap`, a task that awaits two of its deadlines, and three threads that call it and
//! await what they insert.
//!
//! Checked: each deadline has one outcome, and as many have an outcome as calls say. A deadline
//! that no call expires never expires before the resets that were in time allow it. Its task is
//! woken for it in time. Nothing goes into a map that is closed, nor stays in it, and in the end
//! nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DeadlineMap, Instant, KeyedDeadline};
use tickwheel_soak_model::{Outcome, Rules};
use under_std::time::passed;

use crate::calls::call;
use crate::history::{Act, CheckedHistory, History, Key, after};
use crate::record::{Moment, Span};
use crate::wait::await_all;
use crate::world::{Place, World, below, delay, one_in};

type Map = DeadlineMap<Key>;

const KEYS: Key = 2;

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
    assert_eq!(world.timer.metrics().pending(), 0);
    world.end(passed());
}

/// A map is closed while two threads insert. Either an insert came before the close, which has
/// removed its key and ended its deadline, or it is an error.
fn close_beside_inserts() {
    let world = World::begin();
    let map = DeadlineMap::new(&world.timer);
    let inserts = [0, 2].map(|first: Key| {
        let map: Map = map.clone();
        let insert = move |key| map.insert(key, Duration::MAX).ok();
        let insert_all = move || (first..first + 2).map_while(insert).collect::<Vec<_>>();
        world.place().spawn(insert_all)
    });
    let closer = {
        let map = map.clone();
        world.place().spawn(move || map.close().len())
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
    assert_eq!((map.len(), world.timer.metrics().pending()), (0, 0));
    world.end(passed());
}

fn change() {
    let world = World::begin();
    let limit = if one_in(4) { 2 } else { usize::MAX };
    let map = DeadlineMap::with_limit(&world.timer, limit);
    let shared = Shared {
        map: map.clone(),
        history: History::new(Rules::Deadline, KEYS),
        intervals: Arc::default(),
        origin: world.origin,
    };
    let mut own = Vec::new();
    for _ in 0..2 {
        shared.insert(&mut own);
    }
    let consumer = {
        let shared = shared.clone();
        world.place().spawn(move || shared.finish(own))
    };
    let mut threads: Vec<_> = (0..3)
        .map(|_| {
            let (place, shared, number) = (world.place(), shared.clone(), 1 + below(4));
            world.place().spawn(move || {
                let own = shared.act(&place, number);
                shared.finish(own);
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
    let CheckedHistory {
        last,
        intervals,
        calls,
        ..
    } = shared.history.check(&world);
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
    for (outcome, by_calls) in [
        (Outcome::Cancelled, did(|act| matches!(act, Act::Cancel))),
        (Outcome::Drained, did(|act| matches!(act, Act::Drained))),
    ] {
        let ended = intervals
            .iter()
            .filter(|interval| interval.outcome == Some(outcome));
        let seen = ended.count();
        assert!(
            (seen..=seen + dropped).contains(&by_calls),
            "{outcome:?}: {seen} were, {by_calls} by the calls: {calls:#?}"
        );
    }
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    world.end(last);
}

/// Deadlines and their intervals.
type Own = Vec<(KeyedDeadline<Key>, u64)>;

#[derive(Clone)]
struct Shared {
    map: Map,
    history: History,
    intervals: Arc<AtomicU64>,
    origin: Instant,
}

impl Shared {
    fn act(&self, place: &Place, number: u64) -> Own {
        let mut own = Own::new();
        for _ in 0..number {
            place.rest();
            let key = below(KEYS.into()) as Key;
            match below(20) {
                0..4 => self.insert(&mut own),
                15 => {
                    let (count, span) = Span::of(|| self.map.expire_all());
                    self.history.note(None, Act::Expire, count > 0, span);
                }
                16 => self.take_all(false),
                17 if one_in(2) => self.take_all(true),
                18 => own.pop().into_iter().for_each(|one| self.drop(one)),
                which => {
                    let act = self.random_call(which);
                    let (answer, span) = Span::of(|| self.call(key, act, which));
                    self.history.note(Some(key), act, answer, span);
                }
            }
        }
        own
    }

    fn random_call(&self, which: u64) -> Act {
        let delay = delay();
        match which {
            4 | 5 => Act::Reset,
            6 => Act::ResetFrom(Moment::of(passed().saturating_sub(delay))),
            7..12 => match below(4) {
                0 => Act::Extend(delay),
                1 | 2 => Act::Set(after(delay)),
                _ => Act::Reset,
            },
            12 => Act::SetTimeout(delay),
            13 => Act::Expire,
            14 => Act::Cancel,
            _ => Act::Look,
        }
    }

    fn call(&self, key: Key, act: Act, which: u64) -> bool {
        match act {
            Act::Reset if which < 6 => self.map.reset(&key),
            Act::ResetFrom(since) => self.map.reset_from(&key, self.origin + since.at),
            Act::Expire => self.map.expire(&key),
            _ => {
                let handle = self.map.handle(&key);
                let at = |since: Moment| self.origin + since.at;
                handle.is_some_and(|handle| call(&handle, act, at))
            }
        }
    }

    fn take_all(&self, closes: bool) {
        let (taken, span) = Span::of(|| {
            if closes {
                self.map.close()
            } else {
                self.map.drain()
            }
        });
        if closes {
            self.history.note_close(span);
            self.assert_empty_if_closed();
        }
        self.history.note(None, Act::Take, true, span);
        for (key, _) in taken {
            self.history.note(Some(key), Act::Drained, true, span);
        }
    }

    /// After each insert and each close. An insert beside a close comes wholly before it or is an
    /// error. So once both have returned, the map holds no key, whichever was the last to return.
    fn assert_empty_if_closed(&self) {
        let is_left = self.history.is_closed() && !self.map.is_empty();
        assert!(!is_left, "a key is left in a closed map");
    }

    fn insert(&self, own: &mut Own) {
        let (key, timeout) = (below(KEYS.into()) as Key, delay());
        let if_absent = one_in(4);
        let (inserted, span) = Span::of(|| {
            if if_absent {
                self.map.insert_if_absent(key, timeout)
            } else {
                self.map.insert(key, timeout).map_err(Into::into)
            }
        });
        match inserted {
            Ok(keyed) => {
                let interval = 1 + self.intervals.fetch_add(1, Ordering::Relaxed);
                self.history.assert_open(interval, &span);
                self.assert_empty_if_closed();
                let begin = Act::Begin(after(timeout));
                self.history.note_of(key, interval, begin, !if_absent, span);
                own.push((keyed, interval));
            }
            Err(InsertIfAbsentError::Occupied(_)) => {
                self.history.note(Some(key), Act::Find, true, span);
            }
            Err(_) => {}
        }
    }

    fn drop(&self, (keyed, interval): (KeyedDeadline<Key>, u64)) {
        let key = *keyed.key();
        let ((), span) = Span::of(|| drop(keyed));
        self.history.note_of(key, interval, Act::Take, true, span);
    }

    /// Awaits all that is left.
    fn finish(&self, own: Own) {
        for (keyed, interval, ready) in await_all(own) {
            self.history.note_end(*keyed.key(), interval, ready);
            self.drop((keyed, interval));
        }
    }
}
