//! A [`DelayMap`] with writers and one consumer that moves about: each value comes out once, one
//! way, and nothing that is due stays in.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use futures::StreamExt;
use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DelayMap, Expirations, Expired, Expiry, WeakDelayMap};
use tokio::time::{Duration, Instant};

use super::{Lengths, Pace, yield_now};
use crate::checker::{Act, Call, Due, Outcome, Rules, timed};
use crate::finding::Kind;
use crate::program::{Clock, Program};
use crate::record::{ALL_KEYS, Record, Subject};
use crate::wait::{Latest, Wait};
use crate::world::Place;

/// Each value is the number of its interval.
type Map = DelayMap<u32, u64>;

struct Shared {
    program: Arc<Program>,
    clock: Clock,
    map: WeakDelayMap<u32, u64>,
    number: u32,
    keys: u32,
    lengths: Lengths,
    /// All writers are threads that never rest.
    is_crowd: bool,
    latest: Latest,
    writers: AtomicU64,
    /// When the map is closed or its last handle goes: an empty stream ends then.
    closed: OnceLock<Instant>,
    is_consumed: AtomicBool,
}

pub fn start(program: &Arc<Program>, random: &mut fastrand::Rng) {
    let clock = program.clocks[random.usize(..program.clocks.len())].clone();
    let keys = if random.bool() {
        50
    } else {
        random.u32(1..200)
    };
    let limit = match random.u8(..3) {
        0 => random.usize(1..=keys as usize),
        _ => usize::MAX,
    };
    let (map, stream) = Map::with_limit(&clock.timer, limit);
    // Three threads at full speed, or anything.
    let is_crowd = random.bool();
    let writers = if is_crowd { 3 } else { random.u8(1..5) };
    let lengths = if is_crowd {
        Lengths::Short
    } else {
        Lengths::random(random)
    };
    let shared = Arc::new(Shared {
        map: map.downgrade(),
        number: program.new_map(Rules::Value, &clock),
        keys,
        lengths,
        is_crowd,
        latest: Latest::new(Instant::now()),
        writers: AtomicU64::new(writers.into()),
        closed: OnceLock::new(),
        is_consumed: AtomicBool::new(false),
        program: program.clone(),
        clock: clock.clone(),
    });
    let consumer = Consumer {
        stream: Some(stream),
        has_ended: false,
        number: 0,
        record: program.record(),
        shared: shared.clone(),
    };
    let place = if is_crowd {
        Place::Task(clock.runtime.unwrap_or(0))
    } else {
        Place::random(random, program.runtimes.len())
    };
    program.start(place, consume(consumer, random.fork()));
    for _ in 0..writers {
        let place = if is_crowd || random.bool() {
            Place::Plain
        } else {
            Place::random(random, program.runtimes.len())
        };
        let writer = Writer {
            map: map.clone(),
            record: program.record(),
            shared: shared.clone(),
        };
        program.start(place, writer.run(random.fork()));
    }
    let finishing = finish(map, shared, random.fork());
    program.start(Place::Plain, finishing);
}

struct Writer {
    map: Map,
    record: Record,
    shared: Arc<Shared>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.writers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Writer {
    async fn run(mut self, mut random: fastrand::Rng) {
        let program = self.shared.program.clone();
        let pace = if self.shared.is_crowd {
            Pace::Full
        } else {
            Pace::random(&mut random)
        };
        let mut rounds = 0;
        while program.is_busy() && rounds < 20_000 {
            rounds += 1;
            self.call(&mut random);
            pace.rest(&mut random).await;
        }
    }

    fn call(&mut self, random: &mut fastrand::Rng) {
        let shared = self.shared.clone();
        let key = random.u32(..shared.keys);
        let subject = shared.subject(key);
        let delay = shared.lengths.draw(random);
        let at = Instant::now() + delay;
        let due = if random.bool() {
            Due::After(delay)
        } else {
            Due::At(at)
        };
        match random.u16(..1_000) {
            0..300 => self.insert(random, subject, due),
            300..350 => self.use_or_insert(random, subject, due),
            350..550 => self.reset(random, subject, due),
            550..750 => {
                let by_value = random.bool();
                let (value, call) = timed(|| {
                    if by_value {
                        self.map.remove_if(&key, |_| true)
                    } else {
                        self.map.remove(&key)
                    }
                });
                match value {
                    Some(value) => self.remove(subject, value, call),
                    None => self.record.keep(subject, Act::Look, (false, call)),
                }
            }
            750..800 => {
                let answer = timed(|| self.map.expire(&key));
                self.record.keep(subject, Act::Expire, answer);
            }
            800..990 => {
                let which = random.u8(..4);
                if which == 0 {
                    let answer = timed(|| self.map.contains_key(&key));
                    return self.record.keep(subject, Act::Find, answer);
                }
                let answer = timed(|| match which {
                    1 => self.map.deadline(&key).is_some(),
                    _ => self.map.update(&key, |value| *value).is_some(),
                });
                self.record.keep(subject, Act::Look, answer);
            }
            990..994 => {
                let (drained, call) = timed(|| self.map.drain());
                self.all_out(drained, call);
            }
            994 => {
                let (count, call) = timed(|| self.map.expire_all());
                let all = shared.subject(ALL_KEYS);
                self.record.keep(all, Act::Expire, (count > 0, call));
            }
            995..998 => self.retain(random),
            _ => {
                let mut shown = Vec::new();
                let show = |key: &u32, value: &u64, _| shown.push((*key, *value));
                let ((), call) = timed(|| self.map.for_each(show));
                for (key, value) in shown {
                    self.keep(shared.subject(key), value, Act::Look, (true, call));
                }
            }
        }
    }

    /// A limit that a reset ignores, now and then.
    fn reset(&mut self, random: &mut fastrand::Rng, subject: Subject, due: Due) {
        let (expiry, _) = self.expiry(random, due);
        let (map, key, touches) = (&self.map, &subject.key, random.bool());
        let answer = timed(|| {
            if touches {
                map.touch(key, expiry, |_| ()).is_some()
            } else {
                map.reset(key, expiry)
            }
        });
        self.record.keep(subject, Act::Set(due), answer);
        self.shared.push(due);
    }

    /// With a limit now and then, which is returned too.
    fn expiry(&self, random: &mut fastrand::Rng, due: Due) -> (Expiry, Option<Duration>) {
        let expiry = match due {
            Due::After(delay) => Expiry::from(delay),
            Due::At(instant) => Expiry::from(instant),
        };
        let limit = (random.u8(..8) == 0).then(|| self.shared.lengths.draw(random));
        let limited = limit.map_or(expiry, |limit| expiry.at_most(limit));
        (limited, limit)
    }

    fn insert(&mut self, random: &mut fastrand::Rng, subject: Subject, due: Due) {
        let shared = self.shared.clone();
        let value = shared.program.new_interval();
        let (key, if_absent) = (subject.key, random.u8(..4) == 0);
        let (expiry, limit) = self.expiry(random, due);
        let map = &self.map;
        let (inserted, call) = timed(|| {
            if if_absent {
                map.insert_if_absent(key, value, expiry).map(|()| None)
            } else {
                map.insert(key, value, expiry).map_err(Into::into)
            }
        });
        shared.push(due);
        match inserted {
            Err(InsertIfAbsentError::Occupied(_)) => {
                self.record.keep(subject, Act::Find, (true, call));
            }
            Ok(replaced) => {
                self.begin(subject, value, (due, limit), (!if_absent, call));
                self.take_out(subject, replaced, call);
            }
            Err(_) => {}
        }
    }

    /// Uses the value that is pending under the key, and otherwise a new one.
    fn use_or_insert(&mut self, random: &mut fastrand::Rng, subject: Subject, due: Due) {
        let shared = self.shared.clone();
        let value = shared.program.new_interval();
        let (expiry, limit) = self.expiry(random, due);
        let map = &self.map;
        let (used, call) = timed(|| {
            let use_it = |value: &mut u64| *value;
            map.touch_or_insert_with(subject.key, expiry, || value, use_it)
        });
        shared.push(due);
        match used {
            Ok((other, _)) if other != value => {
                self.keep(subject, other, Act::Set(due), (true, call));
            }
            Ok((_, replaced)) => {
                self.begin(subject, value, (due, limit), (replaced.is_some(), call));
                if let Some(replaced) = replaced {
                    self.keep(subject, replaced, Act::Look, (false, call));
                }
                self.take_out(subject, replaced, call);
            }
            Err(_) => self.record.keep(subject, Act::Look, (false, call)),
        }
    }

    /// A value was inserted with a due and perhaps a limit. The answer says whether it may have
    /// replaced another one.
    fn begin(
        &mut self,
        subject: Subject,
        value: u64,
        (due, limit): (Due, Option<Duration>),
        answer: (bool, Call),
    ) {
        self.keep(subject, value, Act::Begin(due), answer);
        if let Some(limit) = limit {
            self.keep(subject, value, Act::Cap(limit), (true, answer.1));
        }
    }

    fn retain(&mut self, random: &mut fastrand::Rng) {
        let (shared, mut shown) = (self.shared.clone(), Vec::new());
        let ((), call) = timed(|| {
            self.map.retain(|key, value| {
                let stays = random.u8(..4) > 0;
                shown.push((shared.subject(*key), *value, stays));
                stays
            });
        });
        for (subject, value, stays) in shown {
            if stays {
                self.keep(subject, value, Act::Look, (true, call));
            } else {
                self.remove(subject, value, call);
            }
        }
    }

    /// A call has removed a value, which must have been pending.
    fn remove(&mut self, subject: Subject, value: u64, call: Call) {
        self.keep(subject, value, Act::Look, (true, call));
        self.take_out(subject, Some(value), call);
    }

    fn take_out(&mut self, subject: Subject, value: Option<u64>, call: Call) {
        if let Some(value) = value {
            self.keep(subject, value, Act::End(Outcome::Taken), (true, call));
        }
    }

    fn all_out(&mut self, taken: Vec<(u32, u64, Duration)>, call: Call) {
        for (key, value, _) in taken {
            self.take_out(self.shared.subject(key), Some(value), call);
        }
    }

    fn keep(&mut self, subject: Subject, value: u64, act: Act, answer: (bool, Call)) {
        self.record.keep_of(subject, value, act, answer);
    }
}

impl Shared {
    fn subject(&self, key: u32) -> Subject {
        Subject {
            map: self.number,
            key,
        }
    }

    fn push(&self, due: Due) {
        let ((), now) = timed(|| {});
        self.latest.push(due.latest(now) + 2 * self.clock.tick);
    }

    fn len(&self) -> Option<usize> {
        self.map.upgrade().map(|map| map.len())
    }
}

/// Waits until all has come out by itself, and ends the map.
async fn finish(map: Map, shared: Arc<Shared>, mut random: fastrand::Rng) {
    let rest = || std::thread::sleep(Duration::from_millis(2));
    while shared.program.is_busy() || shared.writers.load(Ordering::SeqCst) > 0 {
        rest();
    }
    let mut writer = Writer {
        map,
        record: shared.program.record(),
        shared: shared.clone(),
    };
    shared.writers.fetch_add(1, Ordering::SeqCst);
    let is_consumed = || shared.is_consumed.load(Ordering::SeqCst);
    while !writer.map.is_empty() && !is_consumed() {
        rest();
    }
    let (drained, call) = timed(|| writer.map.drain());
    writer.all_out(drained, call);
    let _ = shared.closed.set(Instant::now());
    if random.bool() {
        let (drained, call) = timed(|| writer.map.close());
        writer.all_out(drained, call);
    }
}

struct Consumer {
    stream: Option<Expirations<u32, u64>>,
    has_ended: bool,
    /// How many values it has received.
    number: usize,
    record: Record,
    shared: Arc<Shared>,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let shared = &self.shared;
        // What a stream leaves behind that ended with its runtime can still be drained, until the
        // stream is dropped.
        shared.is_consumed.store(true, Ordering::SeqCst);
        let (stream, map) = (self.stream.take(), shared.map.upgrade());
        // What it leaves behind counts as lost, and nothing comes after it.
        let ((), call) = timed(|| {
            drop(stream);
            drop(map.map(|map| map.close()));
        });
        if !self.has_ended || shared.program.end_began(shared.clock.runtime).is_some() {
            let all = shared.subject(ALL_KEYS);
            self.record.keep(all, Act::Take, (true, call));
        }
    }
}

/// Receives at one place after the other.
async fn consume(mut consumer: Consumer, mut random: fastrand::Rng) {
    let shared = consumer.shared.clone();
    let program = shared.program.clone();
    loop {
        let (one, other) = (shared.clone(), shared.clone());
        let wait = Wait {
            what: "the stream of a delay map",
            due: Box::new(move || match one.len() {
                Some(1..) => Some(one.latest.get()),
                _ => one.closed.get().copied(),
            }),
            state: Box::new(move || {
                let (map, timer) = (other.map.upgrade(), &other.clock.timer);
                format!("{map:?} {:?}", timer.metrics())
            }),
        };
        let items = if random.u8(..4) == 0 {
            random.u32(1..50)
        } else {
            u32::MAX
        };
        let stint = Box::pin(consumer.receive(items, random.fork()));
        match program.wait(&mut random, &shared.clock, wait, stint).await {
            Some(back) if !back.has_ended => consumer = back,
            _ => return,
        }
        if random.u8(..64) == 0 {
            return;
        }
    }
}

impl Consumer {
    /// Receives so many values, or until the end.
    async fn receive(mut self, items: u32, mut random: fastrand::Rng) -> Consumer {
        let way = random.u8(..4);
        let mut received = 0;
        let mut buffer = Vec::new();
        while received < items {
            let stream = self.stream.as_mut().expect("it goes on");
            if way == 3 && random.bool() {
                // Polled by hand, and left.
                let ((), call) = timed(|| {
                    while let Ok(value) = stream.try_recv() {
                        buffer.push(value);
                    }
                });
                received += buffer.len() as u32;
                self.keep(&mut buffer, call);
                yield_now().await;
                continue;
            }
            // The clock before the poll that gives the value, and not before the wait for it.
            let (count, call) = std::future::poll_fn(|cx| {
                let before = Instant::now();
                std::task::ready!(match way {
                    0 => pin!(stream.recv())
                        .poll(cx)
                        .map(|value| buffer.extend(value)),
                    1 => stream.poll_next_unpin(cx).map(|value| buffer.extend(value)),
                    _ => pin!(stream.recv_many(&mut buffer, 16)).poll(cx).map(drop),
                });
                let count = buffer.len();
                let after = Instant::now();
                std::task::Poll::Ready((count, Call { before, after }))
            })
            .await;
            if count == 0 {
                self.has_ended = true;
                let shared = &self.shared;
                let may_end = shared.closed.get().is_some()
                    || shared.program.end_began(shared.clock.runtime).is_some();
                if !may_end {
                    let text = "a stream ended while its map was open";
                    shared.program.report(Kind::WrongAnswer, text);
                }
                break;
            }
            received += count as u32;
            self.keep(&mut buffer, call);
        }
        self
    }

    fn keep(&mut self, buffer: &mut Vec<Expired<u32, u64>>, call: Call) {
        for expired in buffer.drain(..) {
            let subject = self.shared.subject(expired.key);
            let (due, number) = (expired.deadline, self.number);
            self.number += 1;
            let outcome = Act::End(Outcome::Out { due, number });
            self.record
                .keep_of(subject, expired.value, outcome, (true, call));
        }
    }
}
