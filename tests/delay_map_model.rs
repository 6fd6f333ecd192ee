//! A `DelayMap` of thousands of keys beside a model of it: outcomes, exact order, wake-ups, the
//! paused clock and memory, all in one run of random operations.

mod common;
#[path = "common/memory.rs"]
mod memory;

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::ops::RangeInclusive;

use tickwheel::{DelayMap, Duration, Expirations, Instant, Timer};
use tokio_test::task::{self, Spawn};

use crate::common::{MS, paused};
use crate::memory::{grown_since, used};

const KEYS: u64 = 5_000;
const OPERATIONS: u32 = 30_000;
/// Small stores that the parts of an empty map may keep.
const KEPT: usize = 800_000;

/// Where a value comes in the order: when it was due, the deadline that it had, which setting.
type Place = (Instant, Instant, u64);

/// What the map promises, said plainly.
#[derive(Default)]
struct Model {
    values: HashMap<u64, (u64, Place)>,
    order: BTreeSet<(Place, u64)>,
    settings: u64,
}

impl Model {
    fn set(&mut self, key: u64, value: Option<u64>, deadline: Instant) -> Option<u64> {
        self.settings += 1;
        let place = (deadline, deadline, self.settings);
        let old = self.remove(key);
        let value = value.or(old)?;
        self.values.insert(key, (value, place));
        self.order.insert((place, key));
        old
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let (value, place) = self.values.remove(&key)?;
        self.order.remove(&(place, key));
        Some(value)
    }

    /// Makes a value due that is not, and says whether it was not.
    fn expire(&mut self, key: u64, now: Instant) -> bool {
        let Some((_, place)) = self.values.get_mut(&key) else {
            return false;
        };
        let is_pending = place.0 > now;
        if is_pending {
            self.order.remove(&(*place, key));
            place.0 = now;
            self.order.insert((*place, key));
        }
        is_pending
    }

    fn expire_all(&mut self, now: Instant) -> usize {
        let keys: Vec<u64> = self.values.keys().copied().collect();
        keys.into_iter()
            .filter(|&key| self.expire(key, now))
            .count()
    }

    fn first_due(&self, now: Instant) -> Option<(u64, Instant)> {
        let &((due_at, ..), key) = self.order.first()?;
        (due_at <= now).then_some((key, due_at))
    }
}

struct Run {
    map: DelayMap<u64, u64>,
    expired: Spawn<Expirations<u64, u64>>,
    model: Model,
    random: fastrand::Rng,
    /// The stream was told to wait, and has to be woken for whatever is due since.
    waits: bool,
}

impl Run {
    fn delay(&mut self) -> Duration {
        match self.random.u8(..10) {
            0 => Duration::ZERO,
            1..=5 => MS * self.random.u32(..40),
            6 | 7 => Duration::from_micros(self.random.u64(..5_000)),
            _ => MS * self.random.u32(..20_000),
        }
    }

    async fn step(&mut self) {
        let key = self.random.u64(..KEYS);
        let now = Instant::now();
        match self.random.u8(..100) {
            0..=39 => self.insert(key, now),
            40..=59 => {
                let delay = self.delay();
                let is_there = self.model.values.contains_key(&key);
                assert_eq!(self.map.reset(&key, delay), is_there);
                if is_there {
                    self.model.set(key, None, now + delay);
                }
            }
            60..=64 => {
                let past = now.checked_sub(self.delay()).unwrap_or(now);
                let is_there = self.model.values.contains_key(&key);
                assert_eq!(self.map.reset_at(&key, past), is_there);
                if is_there {
                    self.model.set(key, None, past);
                }
            }
            65..=74 => assert_eq!(self.map.remove(&key), self.model.remove(key)),
            75..=79 => assert_eq!(self.map.expire(&key), self.model.expire(key, now)),
            80..=89 => {
                let by = Duration::from_micros(self.random.u64(..8_000));
                tokio::time::sleep(by).await;
                // tokio's own rounding, and not more.
                let passed = now.elapsed();
                assert!(
                    passed <= by + 2 * MS,
                    "the clock was pulled along: {passed:?}"
                );
            }
            90 | 91 => tokio::time::advance(Duration::from_micros(self.random.u64(..800))).await,
            92..=97 => self.take(0..=30),
            98 if self.random.u8(..20) == 0 => {
                assert_eq!(self.map.expire_all(), self.model.expire_all(now));
                // Once more while the first ones are not found yet.
                (0..20).for_each(|_| {
                    let key = self.random.u64(..KEYS);
                    self.insert(key, now);
                });
                self.take(0..=3);
                assert_eq!(self.map.expire_all(), self.model.expire_all(Instant::now()));
            }
            99 if self.random.u8(..60) == 0 => {
                let mut taken = self.map.take_all();
                taken.sort_unstable();
                let model = std::mem::take(&mut self.model);
                self.model.settings = model.settings;
                let left = |(due_at, ..): Place| due_at.saturating_duration_since(now);
                let values = model.values.into_iter();
                let mut expected: Vec<_> = values
                    .map(|(key, (value, place))| (key, value, left(place)))
                    .collect();
                expected.sort_unstable();
                assert_eq!(taken, expected);
            }
            _ => {}
        }
        assert_eq!(self.map.len(), self.model.values.len());
        let told = self.model.values.get(&key).map(|(_, place)| place.0);
        assert_eq!(self.map.deadline(&key), told);
    }

    fn insert(&mut self, key: u64, now: Instant) {
        let (value, delay) = (self.random.u64(..), self.delay());
        let replaced = self.map.insert(key, value, delay).unwrap();
        assert_eq!(replaced, self.model.set(key, Some(value), now + delay));
    }

    /// Takes some values, each the one that the model has first.
    fn take(&mut self, count: RangeInclusive<u32>) {
        let now = Instant::now();
        let first = self.model.first_due(now);
        assert!(
            !self.waits || first.is_none_or(|(_, at)| at + 2 * MS > now) || self.expired.is_woken(),
            "nobody woke the stream for {first:?}"
        );
        self.waits = false;
        for _ in 0..self.random.u32(count) {
            let taken = self.poll();
            let expected = self.model.first_due(now);
            let place = |key: Option<(u64, Instant)>| key.map(|(key, _)| self.model.values[&key].1);
            assert_eq!(
                taken.map(|(key, _)| (key, place(taken))),
                expected.map(|(key, _)| (key, place(expected))),
                "not the first of what is due"
            );
            match taken {
                Some((key, _)) => drop(self.model.remove(key)),
                None => return self.waits = true,
            }
        }
    }

    fn poll(&mut self) -> Option<(u64, Instant)> {
        loop {
            // A long search lets other tasks have their turn, and says so by a wake-up.
            let polled = self
                .expired
                .enter(|cx, expired| expired.get_mut().poll_recv(cx));
            match polled {
                std::task::Poll::Ready(expired) => {
                    let expired = expired.expect("the map is open");
                    let value = self.model.values[&expired.key].0;
                    assert_eq!(expired.value, value);
                    return Some((expired.key, expired.deadline));
                }
                std::task::Poll::Pending if self.expired.is_woken() => {}
                std::task::Poll::Pending => return None,
            }
        }
    }
}

/// Without the cooperative budget, which would end a test that polls in a loop.
fn block_on(future: impl Future<Output = ()>) {
    let runtime = paused();
    runtime.block_on(tokio::task::unconstrained(future));
}

#[test]
fn thousands_of_keys_do_what_the_model_does() {
    for seed in 0..12 {
        block_on(async {
            let timer = Timer::builder().slots([64, 4][seed % 2]).build().unwrap();
            // What a program sets up once is not the map's.
            drop(DelayMap::<u64, u64>::new(&timer));
            let before = used();
            let (map, expired) = DelayMap::new(&timer);
            let mut run = Run {
                map,
                expired: task::spawn(expired),
                model: Model::default(),
                random: fastrand::Rng::with_seed(seed as u64),
                waits: false,
            };
            for _ in 0..OPERATIONS {
                run.step().await;
            }
            while let Some(&((due_at, ..), _)) = run.model.order.first() {
                tokio::time::sleep_until(due_at).await;
                run.take(1..=1);
            }
            let now = Instant::now();
            tokio::task::yield_now().await;
            assert_eq!(Instant::now(), now, "an empty map pulled the clock along");
            drop(run.model);
            let kept = grown_since(before);
            assert!(kept <= KEPT, "seed {seed}: {kept} bytes for an empty map");
        });
    }
}
