//! Keys whose `Hash`, `Eq`, `Clone` or `Drop` panics at a random call, and values whose `Drop` does
//! that or uses the map.
//!
//! A call in which something panics may have done its work for its own key or not. Nothing else may
//! have changed, each value is dropped once, and no place of a limit is lost.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll, Waker};
use std::thread;

use fastrand::Rng;
use futures::StreamExt;
use tickwheel::{DeadlineMap, DelayMap, KeyedDeadline, Timer, WeakDelayMap};

use super::on_paused_clock;
use crate::common::MS;
use crate::paused_clock::settle;

const KEYS: u32 = 12;
const LIMIT: usize = 8;

thread_local! {
    /// How many calls of a key's or value's code there are until one panics; zero if none does.
    static CALLS_LEFT: Cell<u32> = const { Cell::new(0) };
    /// The map that a value uses when it is dropped.
    static MAP: RefCell<Option<WeakDelayMap<Key, Value>>> = const { RefCell::new(None) };
    /// The values that were made and not dropped yet.
    static LIVE: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
}

/// Counts a call, and panics if it is the one. Never during another panic, which would abort.
fn call() {
    let left = CALLS_LEFT.get();
    CALLS_LEFT.set(left.saturating_sub(1));
    if left == 1 && !thread::panicking() {
        resume_unwind(Box::new("broken on purpose"));
    }
}

/// Its hash has three values only, so that a map asks `Eq` too.
#[derive(Debug)]
pub(crate) struct Key(u32);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        call();
        (self.0 % 3).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        call();
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Key {
        call();
        Key(self.0)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        call();
    }
}

#[derive(Debug)]
pub(crate) struct Value(u64);

impl Value {
    fn new(number: u64) -> Value {
        LIVE.with_borrow_mut(|live| live.insert(number));
        Value(number)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let was_live = LIVE.with_borrow_mut(|live| live.remove(&self.0));
        assert!(was_live, "a value is dropped twice");
        let map = MAP.with_borrow(|map| map.as_ref().and_then(WeakDelayMap::upgrade));
        if let Some(map) = map.filter(|_| self.0 % 3 == 0) {
            // It must be able to use the map, as no lock is held here.
            let broken = CALLS_LEFT.replace(0);
            let _ = (
                map.len(),
                map.contains_key(&Key(1)),
                map.set(&Key(2), 5 * MS),
            );
            CALLS_LEFT.set(broken);
        }
        call();
    }
}

/// Runs `act`, in which the n-th call of a key's or value's code panics. `None` if one did.
fn breaking<R>(at: u32, act: impl FnOnce() -> R) -> Option<R> {
    CALLS_LEFT.set(at);
    let outcome = catch_unwind(AssertUnwindSafe(act));
    let was_reached = at > 0 && CALLS_LEFT.replace(0) == 0;
    if was_reached && outcome.is_ok() {
        panic!("a panic of the user's code is swallowed");
    }
    outcome
        .map_err(|panic| match panic.downcast_ref::<&str>() {
            Some(&"broken on purpose") => {}
            _ => resume_unwind(panic),
        })
        .ok()
}

/// As [`breaking`], where no call asks for the answer.
fn try_to<R>(at: u32, act: impl FnOnce() -> R) {
    let _ = breaking(at, act);
}

pub(crate) fn run(seed: u64) -> Result<(), String> {
    on_paused_clock(format!("brittle values, seed {seed}"), move || values(seed))?;
    on_paused_clock(format!("brittle keys, seed {seed}"), move || {
        deadlines(seed)
    })
}

async fn values(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let timer = Timer::builder().build().unwrap();
    let (map, mut stream) = DelayMap::with_limit(&timer, LIMIT);
    MAP.set(Some(map.downgrade()));
    // The value of each key before a call, `None` for one that is due.
    let mut before: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    // How many values an upsert has left to the stream, at most.
    let mut left = 0;
    let mut next = 0;
    for _ in 0..300 {
        let key = random.u32(..KEYS);
        let at = if random.bool() { random.u32(1..12) } else { 0 };
        let delay = random.u32(..8) * MS;
        let mut touches_all = false;
        match random.u8(..16) {
            0..6 => {
                next += 1;
                let value = Value::new(next);
                try_to(at, || map.insert(Key(key), value, delay).is_ok());
            }
            6 => {
                next += 1;
                let value = Value::new(next);
                let insert = || map.insert_if_absent(Key(key), value, delay).is_ok();
                let is_in = breaking(at, insert) == Some(true);
                assert!(!is_in || !before.contains_key(&key), "it was there");
            }
            7 => {
                next += 1;
                left += usize::from(before.get(&key) == Some(&None));
                try_to(at, || {
                    let make = || {
                        call();
                        Value::new(next)
                    };
                    map.upsert(Key(key), delay, make, |value| {
                        call();
                        value.0
                    })
                });
            }
            8 => try_to(at, || {
                map.set(&Key(key), delay);
                map.set_if(&Key(key), delay, |_| {
                    call();
                    true
                });
            }),
            9 => try_to(at, || map.expire(&Key(key))),
            // Dropped before the key of the look-up, whose panic would leak what is returned.
            10 => try_to(at, || drop(map.remove(&Key(key)))),
            11 => {
                touches_all = true;
                try_to(at, || {
                    map.retain(|Key(key), _| {
                        call();
                        key % 2 == 0
                    });
                });
            }
            12 => {
                touches_all = true;
                try_to(at, || map.drain());
            }
            13 => try_to(at, || {
                map.for_each(|_, _, _| call());
                map.update(&Key(key), |_| call());
                map.touch(&Key(key), delay, |_| call());
            }),
            14 => {
                touches_all = true;
                try_to(at, || {
                    let mut cx = Context::from_waker(Waker::noop());
                    while let Poll::Ready(Some(_)) = stream.poll_next_unpin(&mut cx) {}
                });
            }
            _ => {
                tokio::time::advance(random.u32(..4) * MS).await;
                settle().await;
            }
        }
        // What is there now: what was there, and what the call changed.
        let is_in = (0..KEYS).filter(|&key| map.contains_key(&Key(key)));
        let mut now: BTreeMap<_, _> = is_in.map(|key| (key, None)).collect();
        map.for_each(|key, value, _| {
            now.insert(key.0, Some(value.0));
        });
        for other in (0..KEYS).filter(|&other| other != key) {
            let (before, now) = (before.get(&other), now.get(&other));
            let is_gone = touches_all && now.is_none();
            let is_due = before.is_some() && now == Some(&None);
            let is_fine = is_gone || is_due || before == now;
            assert!(is_fine, "{other}: {before:?}, {now:?}");
        }
        let left_now = map.len().checked_sub(now.len());
        assert!(left_now.is_some_and(|now| now <= left), "a permit is lost");
        left = left_now.unwrap_or(0);
        let live = LIVE.with_borrow(BTreeSet::len);
        assert_eq!(live, map.len(), "a value is kept or lost");
        before = now;
    }
    drop(map.drain());
    for key in 0..LIMIT as u32 {
        next += 1;
        let inserted = map.insert(Key(key), Value::new(next), MS);
        assert!(inserted.is_ok(), "a permit is lost");
    }
    MAP.set(None);
    drop((map, stream));
    settle().await;
    assert_eq!(LIVE.with_borrow(BTreeSet::len), 0, "each value was dropped");
    assert_eq!(timer.metrics().pending(), 0);
}

async fn deadlines(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let timer = Timer::builder().build().unwrap();
    let map = DeadlineMap::with_limit(&timer, LIMIT);
    let mut all: Vec<KeyedDeadline<Key>> = Vec::new();
    for _ in 0..300 {
        let key = random.u32(..KEYS);
        let at = if random.bool() { random.u32(1..12) } else { 0 };
        let timeout = random.u32(1..30) * MS;
        let is_in = |key: u32| map.contains_key(&Key(key));
        let before: Vec<bool> = (0..KEYS).map(is_in).collect();
        let mut touched = Some(key);
        match random.u8(..16) {
            0..6 => {
                let inserted = breaking(at, || map.insert(Key(key), timeout).ok());
                all.extend(inserted.flatten());
            }
            6 => {
                let inserted = breaking(at, || map.insert_if_absent(Key(key), timeout).ok());
                all.extend(inserted.flatten());
            }
            7 => try_to(at, || map.reset(&Key(key))),
            8 => try_to(at, || {
                map.handle(&Key(key)).is_some_and(|handle| handle.cancel())
            }),
            9 => try_to(at, || map.expire(&Key(key))),
            10 | 11 if !all.is_empty() => {
                let keyed = all.swap_remove(random.usize(..all.len()));
                touched = Some(keyed.key().0);
                try_to(at, || drop(keyed));
            }
            12 => try_to(at, || map.remove(&Key(key))),
            13 => {
                touched = None;
                try_to(at, || map.drain());
            }
            14 => try_to(at, || {
                map.for_each(|_, handle| {
                    assert!(!handle.timeout().is_zero());
                    call();
                });
            }),
            _ => {
                tokio::time::advance(random.u32(..4) * MS).await;
                settle().await;
            }
        }
        let now: Vec<bool> = (0..KEYS).map(is_in).collect();
        if let Some(touched) = touched {
            let others = (0..KEYS as usize).filter(|&other| other != touched as usize);
            for other in others {
                assert_eq!(before[other], now[other], "{other} was harmed");
            }
        }
        let count = now.iter().filter(|&&is_in| is_in).count();
        assert_eq!(map.len(), count, "a permit is lost");
        let pending = all
            .iter()
            .filter(|keyed| keyed.handle().is_pending())
            .count();
        assert_eq!(timer.metrics().pending(), pending);
    }
    all.clear();
    settle().await;
    assert_eq!((map.len(), timer.metrics().pending()), (0, 0));
    let filled: Vec<_> = (0..LIMIT as u32)
        .map(|key| map.insert(Key(key), MS))
        .collect();
    assert!(filled.iter().all(Result::is_ok), "a permit is lost");
    drop(filled);
}
