//! A [`DeadlineMap`] of few keys, with holders that insert and await, and others that call by key
//! or on a handle.

use std::sync::{Arc, OnceLock};

use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DeadlineMap, KeyedDeadline, ResetHandle};
use tokio::time::{Duration, Instant};

use super::{Lengths, Pace};
use crate::calls;
use crate::checker::{Act, Call, Due, Rules, timed};
use crate::finding::Kind;
use crate::program::{Clock, Program};
use crate::record::{ALL_KEYS, Record, Subject};
use crate::wait::{Latest, Wait};
use crate::world::Place;

const LONGEST: Duration = Duration::from_millis(301);

struct Shared {
    program: Arc<Program>,
    clock: Clock,
    map: DeadlineMap<u32>,
    number: u32,
    keys: u32,
    limit: Option<usize>,
    lengths: Lengths,
    latest: Latest,
    /// Before the first call that closes it, and after one.
    closing: OnceLock<Instant>,
    closed: OnceLock<Instant>,
}

/// Looks at the map when the last actor has let go of it.
impl Drop for Shared {
    fn drop(&mut self) {
        let mut shown = 0;
        self.map.for_each(|_, _| shown += 1);
        let left = (self.map.len(), shown);
        if left != (0, 0) {
            let text = format!("{left:?} keys are left where nobody holds a deadline");
            self.program.report(Kind::Counts, &text);
        }
    }
}

pub fn start(program: &Arc<Program>, random: &mut fastrand::Rng) {
    let clock = program.clocks[random.usize(..program.clocks.len())].clone();
    let most = *random.choice(&[3, 40]).unwrap();
    let keys = random.u32(1..most);
    let limit = random.bool().then(|| random.usize(1..=keys as usize));
    let shared = Arc::new(Shared {
        map: match limit {
            Some(limit) => DeadlineMap::with_limit(&clock.timer, limit),
            None => DeadlineMap::new(&clock.timer),
        },
        number: program.new_map(Rules::Deadline, &clock),
        keys,
        limit,
        lengths: Lengths::random(random),
        latest: Latest::new(Instant::now()),
        closing: OnceLock::new(),
        closed: OnceLock::new(),
        program: program.clone(),
        clock,
    });
    for _ in 0..random.u8(1..10) {
        let place = Place::random(random, program.runtimes.len());
        program.start(place, hold(shared.clone(), random.fork()));
    }
    for _ in 0..random.u8(..4) {
        let place = Place::random(random, program.runtimes.len());
        program.start(place, call(shared.clone(), random.fork()));
    }
}

/// Inserts, awaits, removes and drops.
async fn hold(shared: Arc<Shared>, mut random: fastrand::Rng) {
    let (program, clock) = (shared.program.clone(), shared.clock.clone());
    let mut rounds = 0;
    while program.is_busy() && rounds < 20_000 {
        rounds += 1;
        let key = random.u32(..shared.keys);
        let subject = shared.subject(key);
        let timeout = shared.lengths.draw(&mut random);
        let due = Due::After(timeout);
        let if_absent = random.bool();
        let mut record = program.record();
        let (inserted, call) = timed(|| {
            if if_absent {
                shared.map.insert_if_absent(key, timeout)
            } else {
                shared.map.insert(key, timeout).map_err(Into::into)
            }
        });
        shared.push(Act::Reset);
        let deadline = match inserted {
            Ok(deadline) => deadline,
            Err(refused) => {
                match refused {
                    InsertIfAbsentError::Occupied(_) => {
                        record.keep(subject, Act::Find, (true, call));
                    }
                    refused => shared.check_refusal(&refused, call),
                }
                super::yield_now().await;
                continue;
            }
        };
        shared.check_insert(call);
        let wait = shared.wait(deadline.handle());
        let mut kept = Kept {
            deadline: Some(deadline),
            record,
            subject,
            interval: program.new_interval(),
            _shared: shared.clone(),
        };
        kept.keep(Act::Begin(due), (!if_absent, call));
        match random.u8(..16) {
            0 | 1 => continue,
            2 | 3 => {
                super::yield_now().await;
                let removed = timed(|| shared.map.compare_and_remove(kept.deadline()));
                kept.keep(Act::Remove, removed);
            }
            _ => {}
        }
        let waiting = Box::pin(kept.ended());
        if program
            .wait(&mut random, &clock, wait, waiting)
            .await
            .is_none()
        {
            return;
        }
    }
}

/// A deadline with its history, and with the moment at which it was dropped.
struct Kept {
    deadline: Option<KeyedDeadline<u32>>,
    record: Record,
    subject: Subject,
    interval: u64,
    /// Dropped after the deadline.
    _shared: Arc<Shared>,
}

impl Kept {
    fn keep(&mut self, act: Act, answer: (bool, Call)) {
        self.record
            .keep_of(self.subject, self.interval, act, answer);
    }

    fn deadline(&mut self) -> &mut KeyedDeadline<u32> {
        self.deadline.as_mut().expect("it was not dropped")
    }

    /// Waits for the outcome and keeps it.
    async fn ended(mut self) {
        let result = self.deadline().await;
        let ((), ended) = timed(|| {});
        self.keep(Act::End(calls::outcome(result)), (true, ended));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let ((), dropped) = timed(|| drop(self.deadline.take()));
        self.keep(Act::Take, (true, dropped));
    }
}

/// Calls by key and on all keys.
async fn call(shared: Arc<Shared>, mut random: fastrand::Rng) {
    let (program, map) = (shared.program.clone(), &shared.map);
    let (mut record, pace) = (program.record(), Pace::random(&mut random));
    let mut handle: Option<(Subject, ResetHandle)> = None;
    let mut rounds = 0;
    while program.is_busy() && rounds < 20_000 {
        rounds += 1;
        shared.push(Act::Reset);
        pace.rest(&mut random).await;
        let key = random.u32(..shared.keys);
        let subject = shared.subject(key);
        // What ends all deadlines is rare.
        match random.u16(..40_000) {
            0 => {
                shared.take_all(&mut record, DeadlineMap::drain);
                continue;
            }
            3 => {
                shared.close(&mut record);
                continue;
            }
            100..1_000 => {
                let answer = timed(|| map.contains_key(&key));
                record.keep(subject, Act::Find, answer);
                continue;
            }
            1..3 => {
                let (count, call) = timed(|| map.expire_all());
                record.keep(shared.subject(ALL_KEYS), Act::Expire, (count > 0, call));
                continue;
            }
            4..100 => {
                let mut handles = Vec::new();
                map.for_each(|_, handle| handles.push(handle.clone()));
                // Afterwards, because who waits may be woken here, and may call the map.
                let looked = handles.iter().filter_map(ResetHandle::remaining);
                assert!(looked.count() <= handles.len());
                handle = map.handle(&key).map(|handle| (subject, handle));
                continue;
            }
            _ => {}
        }
        let act = shared.random_call(&mut random);
        shared.push(act);
        let answer = timed(|| {
            let key = &key;
            match act {
                Act::ResetFrom(since) => map.reset_from(key, since),
                Act::Expire => map.expire(key),
                Act::Reset => map.reset(key),
                _ => map
                    .handle(key)
                    .is_some_and(|keyed| calls::call(&keyed, act, |at| at)),
            }
        });
        record.keep(subject, act, answer);
        // A handle that was taken earlier leads to an unknown interval: it must not panic or
        // hang, and what it answers is not checked.
        if let Some((_, handle)) = &handle {
            let _ = (handle.is_pending(), handle.remaining(), handle.deadline());
        }
    }
    if random.u8(..4) == 0 {
        shared.close(&mut record);
    }
}

impl Shared {
    fn random_call(&self, random: &mut fastrand::Rng) -> Act {
        let length = self.lengths.draw(random);
        // Not for ever.
        let may_extend = self.latest.get() < Instant::now() + 2 * LONGEST;
        // Seldom, so that the driver comes to most of them.
        let may_end = random.u8(..64) == 0;
        match random.u8(..32) {
            0 | 1 if may_extend => Act::Extend(length),
            0..9 => Act::Reset,
            9..12 => Act::ResetFrom(if random.bool() {
                Instant::now() + length
            } else {
                Instant::now() - length
            }),
            12..17 => Act::Set(Due::After(length)),
            17..21 => Act::Set(Due::At(Instant::now() + length)),
            21..23 => Act::SetTimeout(length),
            23 if may_end => Act::Expire,
            24 if may_end => Act::Cancel,
            _ => Act::Look,
        }
    }

    /// What the latest due may be after a call that comes, with room for the timeouts of others.
    fn push(&self, act: Act) {
        self.latest
            .push(Instant::now() + LONGEST + 2 * self.clock.tick);
        if let Act::Extend(by) = act {
            self.latest.extend(by + self.clock.tick);
        }
    }

    fn wait(&self, handle: ResetHandle) -> Wait {
        let (latest, timer) = (self.latest.clone(), self.clock.timer.clone());
        Wait {
            what: "a keyed deadline",
            due: Box::new(move || Some(latest.get())),
            state: Box::new(move || format!("{handle:?}, {:?}", timer.metrics())),
        }
    }

    /// Takes all keys out, and tells of each that was pending.
    fn take_all(
        &self,
        record: &mut Record,
        take: impl FnOnce(&DeadlineMap<u32>) -> Vec<(u32, Duration)>,
    ) -> usize {
        let (drained, call) = timed(|| take(&self.map));
        record.keep(self.subject(ALL_KEYS), Act::Take, (true, call));
        for (key, _) in &drained {
            record.keep(self.subject(*key), Act::Drained, (true, call));
        }
        drained.len()
    }

    fn close(&self, record: &mut Record) {
        let was_closed = self.closed.get().is_some();
        let _ = self.closing.set(Instant::now());
        let drained = self.take_all(record, DeadlineMap::close);
        let _ = self.closed.set(Instant::now());
        if was_closed && drained > 0 {
            let text = format!("{drained} deadlines were pending in a closed map");
            self.program.report(Kind::WrongAnswer, &text);
        }
    }

    fn check_insert(&self, call: Call) {
        if self
            .closed
            .get()
            .is_some_and(|closed| *closed < call.before)
        {
            let text = "a deadline was put into a closed map";
            self.program.report(Kind::WrongAnswer, text);
        }
    }

    fn check_refusal(&self, refused: &InsertIfAbsentError<u32>, call: Call) {
        let may_be = match refused {
            InsertIfAbsentError::AtCapacity(_) => self.limit.is_some(),
            _ => self
                .closing
                .get()
                .is_some_and(|closing| *closing < call.after),
        };
        if !may_be && self.program.end_began(self.clock.runtime).is_none() {
            let text = format!("an insert was refused: {refused}");
            self.program.report(Kind::WrongAnswer, &text);
        }
    }

    fn subject(&self, key: u32) -> Subject {
        Subject {
            map: self.number,
            key,
        }
    }
}
