//! What a program has made so far, and how it does an operation.

mod shutdown;
mod time;

use std::collections::{BTreeMap, HashMap};
use std::thread;

use fastrand::Rng;
use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DeadlineMap, Duration, KeyedDeadline, ResetHandle, Timer};
use tokio::runtime::Handle;

use super::clock::{Clock, FAR, MS, Ticks, after, line_until};
use super::deadlines::{End, Timed, ask_dropped};
use super::delay_maps::Delayed;
use super::program::{Nth, Op, Program, duration};
use super::sleepers::{Now, On, Sleeper};
use crate::same;

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

type Admitted = Result<(), InsertIfAbsentError<u32>>;

/// Runs a program. Returns how many timers fired, what is left at the end, and when that is.
pub(super) async fn run(program: &Program) -> Result<(u64, World, Now), String> {
    let clock = Clock::start();
    if program.made_after > 0 {
        tokio::time::advance(duration(program.made_after)).await;
    }
    let mut world = World::new(program, clock);
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
    let timers = world.timers.iter().filter_map(|made| made.timer.as_ref());
    let fired = timers.map(|timer| timer.metrics().fired()).sum();
    let now = world.now();
    Ok((fired, world, now))
}

impl World {
    fn new(program: &Program, clock: Clock) -> World {
        let handle = Handle::current();
        let made = |&(tick, shards): &(u64, u8)| {
            let tick = duration(tick);
            let builder = Timer::builder().tick(tick).shards(shards.into());
            let build = || builder.build_on(&handle).expect("it is in range");
            let timer = if program.is_made_outside {
                thread::scope(|scope| scope.spawn(build).join().unwrap())
            } else {
                build()
            };
            Made {
                timer: Some(timer),
                ticks: Ticks::new(tick, clock.now(), program.is_made_outside),
            }
        };
        let timers: Vec<Made> = program.timers.iter().map(made).collect();
        let first = on(&timers, 0, clock).expect("it was made just now");
        World {
            clock,
            map: DeadlineMap::new(first.timer),
            map_timer: 0,
            map_limit: usize::MAX,
            map_is_closed: false,
            delayed: Delayed::new(first, 0),
            timers,
            sleepers: Vec::new(),
            deadlines: Vec::new(),
            dropped: Vec::new(),
            settled: line_until(clock.now()),
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
        on(&self.timers, timer, self.clock)
    }

    async fn step(&mut self, op: &Op) -> Result<(), String> {
        let ran_from = self.pass_time(op).await?;
        self.make_sleeper(op)?;
        self.use_sleeper(op).await?;
        self.make_deadline(op)?;
        self.use_deadline(op).await?;
        self.use_deadline_map(op)?;
        self.use_values(op).await?;
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
            Op::Sleep(timer, ..)
            | Op::SleepUntil(timer, ..)
            | Op::Timeout(timer, ..)
            | Op::TimeoutAt(timer, ..) => self.on(timer).and_then(|on| on.make(op, now)),
            Op::WithDeadline(timer, from_now, inner, after) => {
                let each = duration(after.max(1_000));
                let due = self.clock.from(now.at, from_now);
                let on = self.on(timer).zip(self.on(inner));
                on.map(|(on, inner)| on.with_deadline(due, inner, each, now))
            }
            Op::Burst(timer, count, after, spread, seed) => {
                let mut random = Rng::with_seed(seed);
                for number in 0..count {
                    let micros = after.saturating_add(random.u64(..=spread));
                    let one = Op::Sleep(timer, micros);
                    let Some(mut sleeper) = self.on(timer).and_then(|on| on.make(&one, now)) else {
                        break;
                    };
                    sleeper.poll(usize::from(number % 2), now)?;
                    self.sleepers.push(sleeper);
                }
                None
            }
            _ => None,
        };
        self.sleepers.extend(made);
        Ok(())
    }

    async fn use_sleeper(&mut self, op: &Op) -> Result<(), String> {
        let now = self.now();
        let count = self.sleepers.len();
        if count == 0 {
            return Ok(());
        }
        let of = |nth: Nth| usize::from(nth) % count;
        match *op {
            Op::Poll(nth, waker) => self.poll_sleeper(of(nth), waker.into())?,
            Op::PollAll(waker) => {
                for number in (0..count).rev() {
                    self.poll_sleeper(number, waker.into())?;
                }
            }
            Op::PollSpent(nth) => {
                if let Some(which) = self.sleepers[of(nth)].poll_spent() {
                    let which = which?;
                    self.settle().await;
                    let waiter = &mut self.sleepers[of(nth)].waiter;
                    waiter.must_be_woken(which, "a poll without a budget")?;
                    self.poll_sleeper(of(nth), which)?;
                }
            }
            Op::Finish(nth) => self.sleepers[of(nth)].finish(),
            Op::SleepResetAt(nth, from_now) => {
                let due = self.clock.from(now.at, from_now);
                self.sleepers[of(nth)].reset_at(due, now);
            }
            Op::SleepResetAfter(nth, after) => {
                self.sleepers[of(nth)].reset_after(duration(after), now);
            }
            Op::DropSleeper(nth) => drop(self.sleepers.swap_remove(of(nth))),
            Op::DropSleepers(some) => {
                self.sleepers.truncate(count.saturating_sub(some.into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn poll_sleeper(&mut self, number: usize, waker: usize) -> Result<(), String> {
        let now = self.now();
        if self.sleepers[number].poll(waker, now)? {
            drop(self.sleepers.swap_remove(number));
        }
        Ok(())
    }

    fn make_deadline(&mut self, op: &Op) -> Result<(), String> {
        let now = self.now();
        let (key, timeout, if_absent) = match *op {
            Op::Deadline(timer, timeout) => {
                let made = self.on(timer).map(|on| on.deadline(duration(timeout), now));
                self.deadlines.extend(made);
                return Ok(());
            }
            Op::Insert(key, timeout) => (u32::from(key), duration(timeout), false),
            Op::InsertIfAbsent(key, timeout) => (u32::from(key), duration(timeout), true),
            Op::InsertMany(first, count, after, spread, seed) => {
                let mut random = Rng::with_seed(seed);
                let mut held: HashMap<_, _> =
                    self.in_map().map(|(number, key)| (key, number)).collect();
                for key in (first..first + count).map(u32::from) {
                    let timeout = duration(after.saturating_add(random.u64(..=spread)));
                    let told = self.map.insert(key, timeout).map_err(Into::into);
                    let older = held.get(&key).copied();
                    let is_full = held.len() >= self.map_limit;
                    let expected = self.admits(key, false, older, is_full);
                    if expected.is_ok() {
                        held.insert(key, self.deadlines.len());
                    }
                    self.inserted(timeout, told, expected, older)?;
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let told = if if_absent {
            self.map.insert_if_absent(key, timeout)
        } else {
            self.map.insert(key, timeout).map_err(Into::into)
        };
        let older = self.keyed(key);
        let is_full = self.in_map().count() >= self.map_limit;
        let expected = self.admits(key, if_absent, older, is_full);
        self.inserted(timeout, told, expected, older)
    }

    /// What an insert must answer where `older` has its key.
    fn admits(&self, key: u32, if_absent: bool, older: Option<usize>, is_full: bool) -> Admitted {
        if self.map_is_closed {
            Err(InsertIfAbsentError::Closed(key))
        } else if if_absent && older.is_some() {
            Err(InsertIfAbsentError::Occupied(key))
        } else if is_full && older.is_none() {
            Err(InsertIfAbsentError::AtCapacity(key))
        } else {
            Ok(())
        }
    }

    /// Compares the answer of an insert, and keeps the deadline if there is one.
    fn inserted(
        &mut self,
        timeout: Duration,
        told: Result<KeyedDeadline<u32>, InsertIfAbsentError<u32>>,
        expected: Admitted,
        older: Option<usize>,
    ) -> Result<(), String> {
        let now = self.now();
        let (keyed, told) = match told {
            Ok(keyed) => (Some(keyed), Ok(())),
            Err(error) => (None, Err(error)),
        };
        same("an insert", told, expected)?;
        let Some(keyed) = keyed else { return Ok(()) };
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
        self.deadlines.push(on.keyed(keyed, timeout, now));
        Ok(())
    }

    /// Which deadlines have their keys in the map.
    fn in_map(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let numbered = self.deadlines.iter().enumerate();
        numbered.filter_map(|(number, timed)| Some((number, timed.key?)))
    }

    fn keyed(&self, key: u32) -> Option<usize> {
        let mut in_map = self.in_map();
        Some(in_map.find(|&(_, other)| other == key)?.0)
    }

    async fn use_deadline(&mut self, op: &Op) -> Result<(), String> {
        let (now, clock) = (self.now(), self.clock);
        let (Op::PollDeadline(nth, _)
        | Op::PollDeadlineSpent(nth)
        | Op::Call(nth, ..)
        | Op::Restart(nth)
        | Op::RemoveByKey(nth)
        | Op::DropDeadline(nth)) = *op
        else {
            return Ok(());
        };
        if self.deadlines.is_empty() {
            return Ok(());
        }
        let number = usize::from(nth) % self.deadlines.len();
        let timed = &mut self.deadlines[number];
        match *op {
            Op::PollDeadline(_, waker) => timed.poll(waker.into(), now)?,
            Op::PollDeadlineSpent(..) => {
                let which = timed.poll_spent()?;
                self.settle().await;
                let now = self.now();
                let timed = &mut self.deadlines[number];
                (timed.waiter).must_be_woken(which, "a poll without a budget")?;
                timed.poll(which, now)?;
            }
            Op::Call(_, by_key, call) => {
                timed.call(call, by_key.then_some(&self.map), now, clock)?;
            }
            Op::Restart(..) => timed.restart(now),
            Op::RemoveByKey(..) => {
                if let Some(key) = timed.key.take() {
                    let told = [self.map.remove(&key), self.map.remove(&key)];
                    same("remove, twice", told, [true, false])?;
                    timed.end(End::Cancelled, now);
                }
            }
            _ => {
                let timed = self.deadlines.swap_remove(number);
                self.dropped.push(timed.handle.clone());
            }
        }
        Ok(())
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
                drop(self.deadlines.drain(..count));
                Ok(())
            }
            Op::ExpireAll => {
                let told = self.map.expire_all();
                let in_map = self
                    .deadlines
                    .iter_mut()
                    .filter(|timed| timed.key.is_some());
                let ended = in_map.filter_map(|timed| timed.end(End::Expired, now));
                same("expire_all", told, ended.count())
            }
            Op::NewDeadlineMap(timer, limit) => {
                let Some(on) = self.on(timer) else {
                    return Ok(());
                };
                let new = match limit {
                    0 => DeadlineMap::new(on.timer),
                    max => DeadlineMap::with_limit(on.timer, max.into()),
                };
                (self.map_timer, self.map_is_closed, self.map) = (on.number, false, new);
                self.map_limit = if limit == 0 { usize::MAX } else { limit.into() };
                // They live on, without a key.
                self.deadlines.iter_mut().for_each(|timed| timed.key = None);
                Ok(())
            }
            Op::Drain => self.has_drained(self.map.drain()),
            Op::CloseDeadlineMap => {
                self.map_is_closed = true;
                self.has_drained(self.map.close())
            }
            _ => Ok(()),
        }
    }

    fn has_drained(&mut self, mut told: Vec<(u32, Duration)>) -> Result<(), String> {
        let now = self.now();
        told.sort_unstable();
        let mut expected = Vec::new();
        for timed in &mut self.deadlines {
            if let Some(key) = timed.key.take() {
                expected.extend(timed.end(End::Drained, now).map(|left| (key, left)));
            }
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

    async fn use_values(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::RecvSpent => {
                if let Some(which) = self.delayed.poll_spent() {
                    let which = which?;
                    self.settle().await;
                    let waiter = &mut self.delayed.waiter;
                    waiter.must_be_woken(which, "a poll without a budget")?;
                    let now = self.now();
                    self.delayed.recv(which, now)?;
                }
            }
            Op::NewDelayMap(timer, limit) => {
                let new = self.on(timer).map(|on| Delayed::new(on, limit.into()));
                if let Some(new) = new {
                    self.delayed = new;
                }
            }
            _ => {
                let now = self.now();
                self.delayed.act(op, now)?;
            }
        }
        Ok(())
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
            let told = timer.metrics().pending();
            if self.number % 8 == 0 {
                same("the snapshot", timer.snapshot().pending(), told)?;
            }
            if told < least || most < told {
                return Err(format!("tells {told} pending, not {least} to {most}"));
            }
        }
        Ok(())
    }

    /// Asks a few of what there is for what they report.
    fn ask(&mut self) -> Result<(), String> {
        let (now, clock) = (self.now(), self.clock);
        let nth = |count: usize| (self.number * 7 + 3) % count.max(1);
        if let Some(sleeper) = self.sleepers.get(nth(self.sleepers.len())) {
            sleeper.ask(now, clock)?;
        }
        let count = self.in_map().count();
        same("len", self.map.len(), count)?;
        same("is_empty", self.map.is_empty(), count == 0)?;
        let number = nth(self.deadlines.len());
        if let Some(timed) = self.deadlines.get_mut(number) {
            timed.ask(now, clock)?;
        }
        if self.number % 8 == 0 {
            let mut shown = BTreeMap::new();
            let mut seen = 0;
            self.map.for_each(|key, handle| {
                seen += 1;
                shown.insert(*key, handle.clone());
            });
            same("the keys of for_each", (seen, shown.len()), (count, count))?;
            for timed in &mut self.deadlines {
                let Some(key) = timed.key else { continue };
                let (shown, handle) = (shown.remove(&key), self.map.handle(&key));
                let (Some(shown), Some(handle)) = (shown, handle) else {
                    return Err(format!("the map does not show {key}"));
                };
                timed.is_shown_by(&[shown, handle], now)?;
            }
            self.delayed.ask_keys(now)?;
        }
        let key = (self.number % 30) as u32;
        let is_in = self.keyed(key).is_some();
        same("contains_key", self.map.contains_key(&key), is_in)?;
        self.delayed.ask((self.number % 13) as u16, now)
    }
}

/// The timer of that number, which counts round, unless its handle was dropped.
fn on(timers: &[Made], timer: u8, clock: Clock) -> Option<On<'_>> {
    let number = usize::from(timer) % timers.len();
    let Made { timer, ticks } = &timers[number];
    Some(On {
        number,
        ticks: *ticks,
        timer: timer.as_ref()?,
        clock,
    })
}
