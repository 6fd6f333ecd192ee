//! What a program has made so far, and how it does an operation.

mod shutdown;
mod time;

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;
use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DeadlineMap, Duration, KeyedDeadline, ResetHandle, Timer};

use super::Report;
use super::clock::{At, Clock, FAR, MS, START, Ticks, after, line_until};
use super::deadlines::{By, End, Timed, ask_dropped};
use super::delay_maps::{Delay, Delayed, Put};
use super::program::{Op, Program, duration};
use super::sleepers::{After, Now, On, Sleeper};

struct Made {
    /// `None` once its handle was dropped.
    timer: Option<Timer>,
    ticks: Ticks,
}

pub(super) struct World {
    clock: Clock,
    timers: Vec<Made>,
    sleepers: Vec<Sleeper>,
    deadlines: Vec<Timed>,
    dropped: Vec<ResetHandle>,
    map: DeadlineMap<u32>,
    map_timer: usize,
    map_number: usize,
    map_limit: usize,
    map_is_closed: bool,
    delayed: Delayed,
    /// The line of the grid up to which the driver has surely worked.
    settled: u64,
    turns: u64,
    /// So many operations follow before the driver gets a turn.
    unseen: u8,
    /// A moment of real time took too long for the rest to say anything.
    is_void: bool,
    number: usize,
}

/// Runs a program. Returns what is left at the end, and when that is.
pub(super) async fn run(program: &Program) -> Result<(Report, World, Now), String> {
    let mut world = World::new(program);
    for (number, op) in program.ops.iter().enumerate() {
        world.number = number;
        let done = world.step(op).await;
        done.map_err(|message| format!("{message} (operation {number}: {op:?})"))?;
        if world.is_void {
            break;
        }
    }
    if !world.is_void {
        world
            .end(program.ending)
            .await
            .map_err(|message| format!("{message} (at the end)"))?;
    }
    let fired = world.timers.iter().filter_map(|made| made.timer.as_ref());
    let report = Report {
        operations: program.ops.len(),
        timers_fired: fired.map(|timer| timer.metrics().fired).sum(),
    };
    let now = world.now();
    Ok((report, world, now))
}

impl World {
    fn new(program: &Program) -> World {
        let clock = Clock::start();
        let timers: Vec<Made> = program
            .timers
            .iter()
            .map(|&(tick, shards)| {
                let tick = duration(tick);
                let builder = Timer::builder().tick(tick);
                Made {
                    timer: Some(
                        builder
                            .shards(shards.into())
                            .build()
                            .expect("it is in range"),
                    ),
                    ticks: Ticks::new(tick, clock.now()),
                }
            })
            .collect();
        let first = timers[0].timer.as_ref().expect("it was made just now");
        World {
            clock,
            map: DeadlineMap::new(first),
            map_timer: 0,
            map_number: 0,
            map_limit: usize::MAX,
            map_is_closed: false,
            delayed: Delayed::new(first, 0, timers[0].ticks, 0, clock),
            timers,
            sleepers: Vec::new(),
            deadlines: Vec::new(),
            dropped: Vec::new(),
            settled: line_until(START),
            turns: 0,
            unseen: 0,
            is_void: false,
            number: 0,
        }
    }

    pub(super) fn is_void(&self) -> bool {
        self.is_void
    }

    fn now(&self) -> Now {
        Now {
            at: self.clock.now(),
            settled: self.settled,
            turns: self.turns,
        }
    }

    fn on(&self, timer: u8) -> Option<On<'_>> {
        self.on_number(usize::from(timer) % self.timers.len())
    }

    fn on_number(&self, number: usize) -> Option<On<'_>> {
        let made = &self.timers[number];
        let timer = made.timer.as_ref()?;
        Some(On {
            number,
            ticks: made.ticks,
            timer,
            clock: self.clock,
        })
    }

    /// The time that lies so many microseconds from now.
    fn at(&self, from_now: i64) -> At {
        self.now().at.saturating_add_signed(from_now * 1_000)
    }

    async fn step(&mut self, op: &Op) -> Result<(), String> {
        let mut ran_from = None;
        match *op {
            Op::Sleep(..)
            | Op::SleepUntil(..)
            | Op::Timeout(..)
            | Op::TimeoutAt(..)
            | Op::Interval(..)
            | Op::Scope(..)
            | Op::Burst(..) => self.make_sleeper(op)?,
            Op::Poll(..)
            | Op::PollAll(..)
            | Op::PollSpent(..)
            | Op::Finish(..)
            | Op::SleepResetAt(..)
            | Op::SleepResetAfter(..)
            | Op::IntervalReset(..)
            | Op::IntervalResetImmediately(..)
            | Op::DropSleeper(..)
            | Op::DropSleepers(..) => self.use_sleeper(op).await?,
            Op::Deadline(..) | Op::Insert(..) | Op::InsertIfAbsent(..) => {
                self.make_deadline(op)?;
            }
            Op::InsertMany(first, count, after, spread, seed) => {
                let mut random = Rng::with_seed(seed);
                let mut held: HashMap<_, _> =
                    self.in_map().map(|(number, key)| (key, number)).collect();
                for key in (first..first + count).map(u32::from) {
                    let timeout = duration(after.saturating_add(random.u64(..=spread)));
                    let told = self.map.insert(key, timeout).map_err(Into::into);
                    let older = held.get(&key).copied();
                    let is_full = held.len() >= self.map_limit;
                    if self.has_inserted(timeout, told, older, is_full)? {
                        held.insert(key, self.deadlines.len() - 1);
                    }
                }
            }
            Op::PollDeadline(..)
            | Op::PollDeadlineSpent(..)
            | Op::Reset(..)
            | Op::ResetFrom(..)
            | Op::ResetAfter(..)
            | Op::ResetAt(..)
            | Op::Extend(..)
            | Op::SetTimeout(..)
            | Op::Cancel(..)
            | Op::Expire(..)
            | Op::Restart(..)
            | Op::Remove(..)
            | Op::RemoveByKey(..)
            | Op::DropDeadline(..) => self.use_deadline(op).await?,
            Op::DropDeadlines(..)
            | Op::ResetDropped(..)
            | Op::Drain
            | Op::ExpireAll
            | Op::CloseDeadlineMap
            | Op::NewDeadlineMap(..) => self.use_deadline_map(op)?,
            Op::Advance(..)
            | Op::AdvanceUnseen(..)
            | Op::RunFor(..)
            | Op::Idle
            | Op::Resume(..)
            | Op::DropTimer(..) => ran_from = self.pass_time(op).await?,
            _ => self.use_values(op).await?,
        }
        if self.is_void {
            return Ok(());
        }
        if self.unseen > 0 {
            self.unseen -= 1;
        } else {
            self.settle().await;
        }
        self.check(ran_from)?;
        self.ask()
    }

    /// Lets the driver do all that there is to do. The clock stands, as this task is always ready.
    async fn settle(&mut self) {
        let rounds = 8 + (self.sleepers.len() + self.deadlines.len()) / 64;
        for _ in 0..rounds {
            tokio::task::yield_now().await;
        }
        self.has_turned();
    }

    fn has_turned(&mut self) {
        self.settled = line_until(self.clock.now());
        self.turns += 1;
        self.unseen = 0;
    }

    fn make_sleeper(&mut self, op: &Op) -> Result<(), String> {
        let now = self.now();
        let made = match *op {
            Op::Sleep(timer, after) => self.on(timer).map(|on| on.sleep(duration(after), now)),
            Op::SleepUntil(timer, from_now) => self
                .on(timer)
                .map(|on| on.sleep_until(self.at(from_now), now)),
            Op::Timeout(timer, after) => self.on(timer).map(|on| on.timeout(duration(after), now)),
            Op::TimeoutAt(timer, from_now) => self
                .on(timer)
                .map(|on| on.timeout_at(self.at(from_now), now)),
            Op::Interval(timer, from_now, period, behavior) => {
                let start = self.at(from_now);
                self.on(timer)
                    .map(|on| on.interval(start, duration(period), behavior, now))
            }
            Op::Scope(timer, from_now, inner, after) => {
                let each = duration(after.max(1_000));
                let due = self.at(from_now);
                let on = self.on(timer).zip(self.on(inner));
                on.map(|(on, inner)| on.scope(due, inner, each, now))
            }
            Op::Burst(timer, count, after, spread, seed) => {
                let mut random = Rng::with_seed(seed);
                for number in 0..count {
                    let micros = after.saturating_add(random.u64(..=spread));
                    let Some(on) = self.on(timer) else { break };
                    let mut sleeper = on.sleep(duration(micros), now);
                    sleeper.poll(usize::from(number % 2), now, self.clock)?;
                    self.sleepers.push(sleeper);
                }
                None
            }
            _ => unreachable!("not a sleeper's"),
        };
        self.sleepers.extend(made);
        Ok(())
    }

    async fn use_sleeper(&mut self, op: &Op) -> Result<(), String> {
        let (now, clock) = (self.now(), self.clock);
        let count = self.sleepers.len();
        if count == 0 {
            return Ok(());
        }
        let of = |nth: u16| usize::from(nth) % count;
        match *op {
            Op::Poll(nth, waker) => self.poll_sleeper(of(nth), waker)?,
            Op::PollAll(waker) => {
                for number in (0..count).rev() {
                    self.poll_sleeper(number, waker)?;
                }
            }
            Op::PollSpent(nth) => {
                if let Some(which) = self.sleepers[of(nth)].poll_spent()? {
                    self.settle().await;
                    self.sleepers[of(nth)].was_woken_after_spent(which)?;
                    self.poll_sleeper(of(nth), which as u8)?;
                }
            }
            Op::Finish(nth) => self.sleepers[of(nth)].finish(),
            Op::SleepResetAt(nth, from_now) => {
                let due = self.at(from_now);
                self.sleepers[of(nth)].reset_at(due, now, clock);
            }
            Op::SleepResetAfter(nth, after) => {
                self.sleepers[of(nth)].reset_after(duration(after), now);
            }
            Op::IntervalReset(nth) => self.sleepers[of(nth)].reset_interval(false, now),
            Op::IntervalResetImmediately(nth) => {
                self.sleepers[of(nth)].reset_interval(true, now);
            }
            Op::DropSleeper(nth) => drop(self.sleepers.swap_remove(of(nth))),
            Op::DropSleepers(some) => {
                self.sleepers.truncate(count.saturating_sub(some.into()));
            }
            _ => unreachable!("not a sleeper's"),
        }
        Ok(())
    }

    fn poll_sleeper(&mut self, number: usize, waker: u8) -> Result<(), String> {
        let now = self.now();
        match self.sleepers[number].poll(waker.into(), now, self.clock)? {
            After::Stays => {}
            After::IsOver => drop(self.sleepers.swap_remove(number)),
        }
        Ok(())
    }

    fn make_deadline(&mut self, op: &Op) -> Result<(), String> {
        let now = self.now();
        let (key, timeout) = match *op {
            Op::Deadline(timer, timeout) => {
                let made = self.on(timer).map(|on| on.deadline(duration(timeout), now));
                self.deadlines.extend(made);
                return Ok(());
            }
            Op::Insert(key, timeout) | Op::InsertIfAbsent(key, timeout) => {
                (u32::from(key), duration(timeout))
            }
            _ => unreachable!("makes no deadline"),
        };
        let told = match *op {
            Op::Insert(..) => self.map.insert(key, timeout).map_err(Into::into),
            _ => self.map.insert_if_absent(key, timeout),
        };
        if let Err(error) = told {
            if error.into_inner() != key {
                return Err(format!("{error:?} gives another key back"));
            }
        }
        let older = self.keyed(key);
        let is_full = self.in_map().count() >= self.map_limit;
        let is_if_absent = matches!(op, Op::InsertIfAbsent(..));
        if self.has_inserted(timeout, told, older, is_full)? && is_if_absent && older.is_some() {
            return Err("insert_if_absent replaces".to_owned());
        }
        Ok(())
    }

    /// Compares the answer of an insert with what the map holds, and keeps the deadline if there is
    /// one. `older` is the one that has its key.
    fn has_inserted(
        &mut self,
        timeout: Duration,
        told: Result<KeyedDeadline<u32>, InsertIfAbsentError<u32>>,
        older: Option<usize>,
        is_full: bool,
    ) -> Result<bool, String> {
        let now = self.now();
        let keyed = match told {
            Err(InsertIfAbsentError::Closed(_)) if self.map_is_closed => return Ok(false),
            Err(InsertIfAbsentError::AtCapacity(_)) if is_full && older.is_none() => {
                return Ok(false);
            }
            Err(InsertIfAbsentError::Occupied(_)) if older.is_some() && !self.map_is_closed => {
                return Ok(false);
            }
            Ok(keyed) if !self.map_is_closed && (older.is_some() || !is_full) => keyed,
            told => return Err(format!("an insert answers {told:?}")),
        };
        if let Some(older) = older {
            self.deadlines[older].end(End::Replaced, now);
            self.deadlines[older].key = None;
        }
        let made = &self.timers[self.map_timer];
        // The map keeps its timer alive, and so does this.
        let timer = made.timer.clone().unwrap_or_else(Timer::current);
        let on = On {
            number: self.map_timer,
            ticks: made.ticks,
            timer: &timer,
            clock: self.clock,
        };
        self.deadlines
            .push(on.keyed(keyed, timeout, now, self.map_number));
        Ok(true)
    }

    /// Which deadlines have their keys in the map.
    fn in_map(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let numbered = self.deadlines.iter().enumerate();
        numbered
            .filter(|(_, timed)| timed.map == self.map_number)
            .filter_map(|(number, timed)| Some((number, timed.key?)))
    }

    fn keyed(&self, key: u32) -> Option<usize> {
        self.in_map()
            .find(|&(_, other)| other == key)
            .map(|(number, _)| number)
    }

    async fn use_deadline(&mut self, op: &Op) -> Result<(), String> {
        let (now, clock) = (self.now(), self.clock);
        let count = self.deadlines.len();
        if count == 0 {
            return Ok(());
        }
        let of = |nth: u16| usize::from(nth) % count;
        let number = match *op {
            Op::PollDeadline(nth, _)
            | Op::PollDeadlineSpent(nth)
            | Op::Reset(nth, _)
            | Op::ResetFrom(nth, _, _)
            | Op::ResetAfter(nth, _, _)
            | Op::ResetAt(nth, _, _)
            | Op::Extend(nth, _, _)
            | Op::SetTimeout(nth, _, _)
            | Op::Cancel(nth, _)
            | Op::Expire(nth, _)
            | Op::Restart(nth)
            | Op::Remove(nth)
            | Op::RemoveByKey(nth)
            | Op::DropDeadline(nth) => of(nth),
            _ => unreachable!("not a deadline's"),
        };
        let at = |from_now: i64| now.at.saturating_add_signed(from_now * 1_000);
        let map_number = self.map_number;
        let timed = &mut self.deadlines[number];
        let key = timed.key.filter(|_| timed.map == map_number);
        let by = |by_key: bool| match key {
            Some(key) if by_key => By::Key(&self.map, key),
            _ => By::Handle,
        };
        match *op {
            Op::PollDeadline(_, waker) => timed.poll(waker.into(), now),
            Op::PollDeadlineSpent(..) => {
                let which = timed.poll_spent()?;
                self.settle().await;
                let now = self.now();
                self.deadlines[number].was_woken_after_spent(which)?;
                self.deadlines[number].poll(which, now)
            }
            Op::Reset(_, by_key) => timed.reset(by(by_key), now),
            Op::ResetFrom(_, from_now, by_key) => {
                let since = at(from_now);
                timed.reset_from(by(by_key), (since, clock.instant(since)), now)
            }
            Op::ResetAfter(_, after, by_key) => timed.reset_after(by(by_key), duration(after), now),
            Op::ResetAt(_, from_now, by_key) => {
                let due = at(from_now);
                timed.reset_at(by(by_key), (due, clock.instant(due)), now)
            }
            Op::Extend(_, later, by_key) => timed.extend(by(by_key), duration(later), now),
            Op::SetTimeout(_, timeout, by_key) => {
                timed.set_timeout(by(by_key), duration(timeout), now)
            }
            Op::Cancel(_, by_key) => timed.settle(by(by_key), End::Cancelled, now),
            Op::Expire(_, by_key) => timed.settle(by(by_key), End::Expired, now),
            Op::Restart(..) => {
                timed.restart(now);
                Ok(())
            }
            Op::Remove(..) => {
                let Some(keyed) = timed.keyed() else {
                    return Ok(());
                };
                let told = self.map.compare_and_remove(keyed);
                if told != key.is_some() {
                    return Err(format!("compare_and_remove answers {told}"));
                }
                if told {
                    timed.end(End::Cancelled, now);
                    timed.key = None;
                }
                Ok(())
            }
            Op::RemoveByKey(..) => {
                let Some(key) = key else { return Ok(()) };
                if !self.map.remove(&key) || self.map.remove(&key) {
                    return Err("a key is not removed once".to_owned());
                }
                timed.end(End::Cancelled, now);
                timed.key = None;
                Ok(())
            }
            _ => {
                let timed = self.deadlines.swap_remove(number);
                self.dropped.push(timed.handle.clone());
                Ok(())
            }
        }
    }

    fn use_deadline_map(&mut self, op: &Op) -> Result<(), String> {
        let now = self.now();
        match *op {
            Op::ResetDropped(nth) => match self.dropped.len() {
                0 => Ok(()),
                count => ask_dropped(&self.dropped[usize::from(nth) % count]),
            },
            Op::DropDeadlines(count) => {
                // The oldest ones, whose places are the first.
                let count = self.deadlines.len().min(count.into());
                let dropped = self.deadlines.drain(..count);
                drop(dropped);
                Ok(())
            }
            Op::ExpireAll => {
                let told = self.map.expire_all();
                let in_map: Vec<_> = self.in_map().collect();
                let ended = in_map
                    .iter()
                    .filter(|(number, _)| self.deadlines[*number].end(End::Expired, now).is_some());
                let expected = ended.count();
                match told == expected {
                    true => Ok(()),
                    false => Err(format!("expire_all answers {told}, not {expected}")),
                }
            }
            Op::NewDeadlineMap(timer, limit) => {
                let number = usize::from(timer) % self.timers.len();
                let Some(on) = self.on(timer) else {
                    return Ok(());
                };
                self.map = match limit {
                    0 => DeadlineMap::new(on.timer),
                    max => DeadlineMap::with_limit(on.timer, max.into()),
                };
                self.map_limit = if limit == 0 { usize::MAX } else { limit.into() };
                (self.map_timer, self.map_is_closed) = (number, false);
                self.map_number += 1;
                Ok(())
            }
            _ => {
                let closes = matches!(op, Op::CloseDeadlineMap);
                let mut told = if closes {
                    self.map.close()
                } else {
                    self.map.drain()
                };
                told.sort_unstable();
                self.map_is_closed |= closes;
                let mut expected = Vec::new();
                let in_map: Vec<_> = self.in_map().collect();
                for (number, key) in in_map {
                    let timed = &mut self.deadlines[number];
                    timed.key = None;
                    expected.extend(timed.end(End::Drained, now).map(|left| (key, left)));
                }
                expected.sort_unstable();
                // They are rounded down to a millisecond.
                let is_far = |left: Duration| after(now.at + MS, left) >= FAR;
                let is_same = |((key, left), (other, expected)): (&(u32, _), &(u32, _))| {
                    key == other && (left == expected || is_far(*left) && is_far(*expected))
                };
                if told.len() != expected.len() || !told.iter().zip(&expected).all(is_same) {
                    return Err(format!("drained {told:?}, not {expected:?}"));
                }
                Ok(())
            }
        }
    }

    async fn use_values(&mut self, op: &Op) -> Result<(), String> {
        let now = self.now();
        let at = |from_now: i64| now.at.saturating_add_signed(from_now * 1_000);
        let delayed = &mut self.delayed;
        match *op {
            Op::Put(key, after) => delayed.put(key.into(), Put::After(duration(after)), now),
            Op::PutAt(key, from_now) => delayed.put(key.into(), Put::At(at(from_now)), now),
            Op::PutIfAbsent(key, after) => {
                delayed.put(key.into(), Put::IfAbsent(duration(after)), now)
            }
            Op::PutWithTtl(key, after, life) => {
                let how = Put::WithTtl(duration(after), duration(life));
                delayed.put(key.into(), how, now)
            }
            Op::PutMany(first, count, after, spread, seed) => {
                let mut random = Rng::with_seed(seed);
                for key in first..first + count {
                    let micros = after.saturating_add(random.u64(..=spread));
                    delayed.put(key.into(), Put::After(duration(micros)), now)?;
                }
                Ok(())
            }
            Op::Update(key) => delayed.update(key.into(), now),
            Op::Churn(keys, count, seed) => {
                let mut random = Rng::with_seed(seed);
                (0..count).try_for_each(|_| delayed.churn(&mut random, keys.into(), now))
            }
            Op::Delay(key, after) => delayed.delay(key.into(), Delay::After(duration(after)), now),
            Op::DelayUntil(key, from_now) => {
                delayed.delay(key.into(), Delay::Until(at(from_now)), now)
            }
            Op::Touch(key, after) => delayed.delay(key.into(), Delay::Touch(duration(after)), now),
            Op::TouchOrPut(key, after) => delayed.touch_or_put(key.into(), duration(after), now),
            Op::ExpireValue(key) => delayed.expire(key.into(), now),
            Op::Take(key) => delayed.take(key.into()),
            Op::Retain(rest) => delayed.retain(rest.into()),
            Op::DrainValues => delayed.drain(false, now),
            Op::CloseDelayMap => delayed.drain(true, now),
            Op::ExpireValues => delayed.expire_all(now),
            Op::CloneHandle => {
                delayed.clone_handle();
                Ok(())
            }
            Op::DropHandle => {
                delayed.drop_handle();
                Ok(())
            }
            Op::Upgrade => delayed.upgrade(),
            Op::Recv(waker, count) => {
                for _ in 0..count {
                    if !delayed.recv(waker.into(), now)? {
                        break;
                    }
                }
                Ok(())
            }
            Op::RecvMany(waker, limit) => delayed.recv_many(waker.into(), limit.into(), now),
            Op::RecvSpent => {
                let Some(which) = delayed.poll_spent()? else {
                    return Ok(());
                };
                self.settle().await;
                let now = self.now();
                self.delayed.was_woken_after_spent(which)?;
                self.delayed.recv(which, now).map(drop)
            }
            Op::TryRecv(count) => (0..count).try_for_each(|_| delayed.try_recv(now)),
            Op::DropStream => {
                delayed.drop_stream();
                Ok(())
            }
            Op::TakeStream => delayed.take_stream(),
            Op::NewDelayMap(timer, limit) => {
                let Some(on) = self.on(timer) else {
                    return Ok(());
                };
                let new = Delayed::new(on.timer, on.number, on.ticks, limit.into(), self.clock);
                self.delayed = new;
                Ok(())
            }
            _ => unreachable!("not a value's"),
        }
    }

    fn check(&mut self, ran_from: Option<u64>) -> Result<(), String> {
        let now = self.now();
        let mut pending = vec![(0, 0); self.timers.len()];
        let mut count = |timer: usize, (least, most): (usize, usize)| {
            pending[timer].0 += least;
            pending[timer].1 += most;
        };
        for sleeper in &mut self.sleepers {
            sleeper.check(now, ran_from)?;
            let (own, within) = sleeper.armed(now);
            count(sleeper.timer, own);
            count(sleeper.inner_timer, within);
        }
        for timed in &mut self.deadlines {
            timed.check(now, ran_from)?;
            count(timed.timer, timed.armed(now));
        }
        self.delayed.check(now, ran_from)?;
        count(self.delayed.timer, self.delayed.armed());
        for (made, (least, most)) in self.timers.iter().zip(pending) {
            let Some(timer) = &made.timer else { continue };
            let told = timer.metrics().pending;
            if self.number % 8 == 0 && timer.snapshot().pending() != told {
                return Err("the snapshot tells another number than the metrics".to_owned());
            }
            if told < least || most < told {
                return Err(format!("tells {told} pending, not {least} to {most}"));
            }
        }
        Ok(())
    }

    /// Asks a few of what there is what it tells of itself.
    fn ask(&mut self) -> Result<(), String> {
        let (now, clock) = (self.now(), self.clock);
        let nth = |count: usize| (self.number * 7 + 3) % count.max(1);
        if let Some(sleeper) = self.sleepers.get(nth(self.sleepers.len())) {
            sleeper.ask(now, clock)?;
        }
        let count = self.in_map().count();
        if self.map.len() != count || self.map.is_empty() != (count == 0) {
            return Err(format!(
                "the map tells {} keys, not {count}",
                self.map.len()
            ));
        }
        let number = nth(self.deadlines.len());
        let map_number = self.map_number;
        if let Some(timed) = self.deadlines.get_mut(number) {
            let by = match timed.key.filter(|_| timed.map == map_number) {
                Some(key) if self.number % 2 == 0 => By::Key(&self.map, key),
                _ => By::Handle,
            };
            timed.ask(by, now, clock)?;
        }
        if self.number % 8 == 0 {
            let mut shown = BTreeMap::new();
            let mut twice = false;
            (self.map)
                .for_each(|key, handle| twice |= shown.insert(*key, handle.clone()).is_some());
            if twice {
                return Err("the map shows a key twice".to_owned());
            }
            let deadlines = self.in_map().map(|(number, key)| (key, number));
            for (key, number) in deadlines.collect::<Vec<_>>() {
                let (shown, handle) = (shown.remove(&key), self.map.handle(&key));
                let (Some(shown), Some(handle)) = (shown, handle) else {
                    return Err(format!("the map does not show {key}"));
                };
                self.deadlines[number].is_shown_by(&[shown, handle], now)?;
            }
            if !shown.is_empty() {
                return Err(format!("the map shows {shown:?} too"));
            }
            self.delayed.ask_keys()?;
        }
        let key = (self.number % 30) as u32;
        if self.map.contains_key(&key) != self.keyed(key).is_some() {
            return Err(format!("the map is wrong about the key {key}"));
        }
        self.delayed.ask((self.number % 13) as u32, now)
    }
}
