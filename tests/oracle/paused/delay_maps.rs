//! The model of `DelayMap` and its stream, beside the real ones.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::task::Poll;

use fastrand::Rng;
use futures::{FutureExt, StreamExt};
use tickwheel::error::{InsertError, InsertIfAbsentError, TryRecvError};
use tickwheel::{DelayMap, Duration, Expirations, Expired, Expiry, WeakDelayMap};

use super::clock::{At, Clock, FAR, MS, Ticks, after, line_from};
use super::program::{Count, Limit, Offset, Op, ValueKey, duration};
use super::sleepers::{Armed, Now, On};
use super::waiter::{Expected, Waiter};
use crate::same;

type Map = DelayMap<ValueKey, u64>;

/// By how much a value grows when a program changes it.
const CHANGE: u64 = 1 << 32;

fn change(value: &mut u64) -> u64 {
    *value += CHANGE;
    *value
}

fn within(expiry: impl Into<Expiry>, life: Limit) -> Expiry {
    let expiry = expiry.into();
    life.map_or(expiry, |life| expiry.at_most(duration(life)))
}

/// When the longest life ends of a value that is inserted now.
fn latest_due(life: Limit, now: Now) -> At {
    life.map_or(FAR, |life| after(now.at, duration(life)))
}

/// The deadline of a pending item, and the rest of its longest life.
fn left_of(item: &Item, now: Now) -> (At, Option<Duration>) {
    let is_bounded = item.latest_due < FAR;
    let life = is_bounded.then(|| Duration::from_nanos(item.latest_due - now.at));
    (item.deadline, life)
}

#[derive(Clone, Copy, Debug)]
struct Item {
    value: u64,
    /// What is told as its deadline.
    deadline: At,
    /// However often its due is set again, it comes out by then.
    latest_due: At,
    /// It may come out from then on.
    due: At,
    /// It comes out from then on, when the stream is polled.
    ready: At,
    /// The line of the grid at which the stream is woken for it, at the latest.
    wakes: u64,
    /// Its tick, by which it comes out: what is made due at once counts from the present one.
    tick: u64,
}

impl Item {
    fn new(value: u64, deadline: At, latest_due: At, ticks: Ticks, now: At) -> Item {
        let deadline = deadline.min(latest_due);
        let (own, present) = (ticks.due(deadline), ticks.current(now));
        let at_once = line_from(now);
        let item = Item {
            value,
            deadline,
            latest_due,
            due: deadline,
            ready: ticks.begin_of(own),
            wakes: ticks.fires(deadline),
            tick: own,
        };
        if deadline > now {
            return item;
        }
        Item {
            due: now,
            ready: at_once * MS,
            wakes: at_once,
            tick: present,
            ..item
        }
    }
}

pub(crate) struct Delayed {
    handles: Vec<Map>,
    weak: WeakDelayMap<ValueKey, u64>,
    stream: Option<Expirations<ValueKey, u64>>,
    pub(crate) timer: usize,
    ticks: Ticks,
    clock: Clock,
    pub(crate) waiter: Waiter,
    items: HashMap<ValueKey, Item>,
    /// The items by their ticks.
    by_tick: BTreeSet<(u64, ValueKey)>,
    /// What was due when an upsert gave its key to a newer value. The stream gives it all the same.
    left: Vec<(ValueKey, Item)>,
    capacity: usize,
    is_closed: bool,
    /// The consumer knows that the stream has ended.
    has_ended: bool,
    next_value: u64,
    /// Whether its stream was ever polled, and so may have a timer.
    was_polled: bool,
    inserted: u64,
    expired: u64,
}

impl Delayed {
    pub(crate) fn new(on: On<'_>, capacity: usize) -> Delayed {
        let (map, stream) = match capacity {
            0 => DelayMap::new(on.timer),
            _ => DelayMap::with_limit(on.timer, capacity),
        };
        Delayed {
            weak: map.downgrade(),
            handles: vec![map],
            stream: Some(stream),
            timer: on.number,
            ticks: on.ticks,
            clock: on.clock,
            waiter: Waiter::new(on.clock),
            items: HashMap::new(),
            by_tick: BTreeSet::new(),
            left: Vec::new(),
            capacity: if capacity == 0 { usize::MAX } else { capacity },
            is_closed: false,
            has_ended: false,
            next_value: 0,
            was_polled: false,
            inserted: 0,
            expired: 0,
        }
    }

    /// Does what an operation does with the values, but for polls without a budget.
    pub(crate) fn act(&mut self, op: &Op, now: Now) -> Result<(), String> {
        match *op {
            Op::Upgrade => return self.upgrade(),
            Op::DropHandle => drop(self.drop_handle()),
            Op::DropStream => self.drop_stream(),
            Op::Recv(which, count) => {
                for _ in 0..count {
                    if !self.recv(which.into(), now)? {
                        break;
                    }
                }
            }
            Op::RecvMany(which, limit) => return self.recv_many(which.into(), limit.into(), now),
            Op::TryRecv(count) => return (0..count).try_for_each(|_| self.try_recv(now)),
            Op::PutMany(first, count, after, spread, seed) => {
                let mut random = Rng::with_seed(seed);
                for key in first..first + count {
                    let micros = after.saturating_add(random.u64(..=spread));
                    self.act(&Op::Put(key, micros), now)?;
                }
            }
            Op::Churn(keys, count, seed) => {
                let mut random = Rng::with_seed(seed);
                for _ in 0..count {
                    self.act(&churned(&mut random, keys), now)?;
                }
            }
            _ => {
                let map = self.handles.last().cloned();
                return map.map_or(Ok(()), |map| self.call(&map, op, now));
            }
        }
        Ok(())
    }

    fn call(&mut self, map: &Map, op: &Op, now: Now) -> Result<(), String> {
        match *op {
            Op::Put(key, micros) => {
                let delay = duration(micros);
                let put = |value| map.insert(key, value, delay).map_err(Into::into);
                self.put(key, put, (after(now.at, delay), FAR), false, now)
            }
            Op::PutAt(key, from_now, limit) => {
                let (deadline, instant) = self.clock.from(now.at, from_now);
                let expiry = within(instant, limit);
                let put = |value| map.insert(key, value, expiry).map_err(Into::into);
                self.put(key, put, (deadline, latest_due(limit, now)), false, now)
            }
            Op::PutIfAbsent(key, micros, limit) => {
                let expiry = within(duration(micros), limit);
                let put = |value| map.insert_if_absent(key, value, expiry).map(|()| None);
                let ends = (after(now.at, duration(micros)), latest_due(limit, now));
                self.put(key, put, ends, true, now)
            }
            Op::PutWithin(key, micros, limit) => {
                let expiry = within(duration(micros), limit);
                let put = |value| map.insert(key, value, expiry).map_err(Into::into);
                let ends = (after(now.at, duration(micros)), latest_due(limit, now));
                self.put(key, put, ends, false, now)
            }
            Op::Delay(key, micros, limit) => {
                let told = map.set(&key, within(duration(micros), limit));
                self.delayed(key, told, after(now.at, duration(micros)), now)
            }
            Op::DelayUntil(key, from_now) => {
                let (deadline, instant) = self.clock.from(now.at, from_now);
                self.delayed(key, map.set(&key, instant), deadline, now)
            }
            Op::Touch(key, micros, limit) => {
                let told = map.touch(&key, within(duration(micros), limit), |value| *value);
                let item = self.pending(key, now);
                same("touch", told, item.map(|item| item.value))?;
                self.delayed(key, told.is_some(), after(now.at, duration(micros)), now)
            }
            Op::SetIf(key, micros, limit) => {
                let expiry = within(duration(micros), limit);
                self.set_if(map, key, expiry, after(now.at, duration(micros)), now)
            }
            Op::Upsert(key, micros, limit) => {
                let expiry = within(duration(micros), limit);
                let ends = (after(now.at, duration(micros)), latest_due(limit, now));
                self.upsert(map, key, expiry, ends, now)
            }
            Op::Update(key) => {
                let told = map.update(&key, change);
                let expected = self.pending(key, now).map(|item| item.value + CHANGE);
                if let (Some(value), Some(item)) = (expected, self.items.get_mut(&key)) {
                    item.value = value;
                }
                same("update", told, expected)
            }
            Op::ExpireValue(key) => same("expire", map.expire(&key), self.make_due(key, now)),
            Op::ExpireValues => {
                let told = map.expire_all();
                self.make_left_due(now);
                let keys: Vec<_> = self.items.keys().copied().collect();
                let was_pending = keys.into_iter().filter(|&key| self.make_due(key, now));
                same("expire_all", told, was_pending.count())
            }
            Op::Take(key) => self.take(map, key, now),
            Op::Retain(rest) => {
                let stays = |key: &ValueKey| *key % 3 != ValueKey::from(rest);
                let mut seen = HashMap::new();
                map.retain(|key, value| {
                    let before = seen.insert(*key, *value);
                    assert_eq!(before, None, "{key} was shown twice");
                    change(value);
                    stays(key)
                });
                same("the values of retain", seen, self.all_pending(now))?;
                // What is due stays, and is as it was.
                let is_pending = |item: &Item| item.deadline > now.at;
                let items = &mut self.items;
                items.retain(|key, item| stays(key) || !is_pending(item));
                self.by_tick.retain(|(_, key)| items.contains_key(key));
                let pending = items.values_mut().filter(|item| is_pending(item));
                pending.for_each(|item| _ = change(&mut item.value));
                Ok(())
            }
            Op::DrainValues => self.drained(map.drain(), now),
            Op::CloseDelayMap => {
                self.is_closed = true;
                self.drained(map.close(), now)
            }
            Op::CloneHandle => {
                self.handles.push(map.clone());
                Ok(())
            }
            Op::TakeStream => {
                let stream = map.expirations();
                same("expirations", stream.is_some(), self.stream.is_none())?;
                if stream.is_some() {
                    self.stream = stream;
                    (self.has_ended, self.was_polled) = (false, false);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set(&mut self, key: ValueKey, value: u64, ends: (At, At), now: Now) -> Option<u64> {
        let item = Item::new(value, ends.0, ends.1, self.ticks, now.at);
        let old = self.remove(key);
        self.by_tick.insert((item.tick, key));
        self.items.insert(key, item);
        old.map(|old| old.value)
    }

    /// The value of a key, unless it is due. From then on it belongs to the stream.
    fn pending(&self, key: ValueKey, now: Now) -> Option<Item> {
        let item = self.items.get(&key).copied();
        item.filter(|item| item.deadline > now.at)
    }

    /// The values of all keys that are pending.
    fn all_pending(&self, now: Now) -> HashMap<ValueKey, u64> {
        let items = self.items.iter();
        let pending = items.filter(|(_, item)| item.deadline > now.at);
        pending.map(|(&key, item)| (key, item.value)).collect()
    }

    /// Removes the value of a key, if it is pending.
    fn take(&mut self, map: &Map, key: ValueKey, now: Now) -> Result<(), String> {
        let expected = self.pending(key, now).map(|item| item.value);
        let told = if self.next_value % 2 == 0 {
            map.remove(&key)
        } else {
            let mut shown = None;
            let kept = map.remove_if(&key, |value| {
                shown = Some(*value);
                false
            });
            same("remove_if of another one", kept, None)?;
            same("what remove_if shows", shown, expected)?;
            map.remove_if(&key, |_| true)
        };
        same("remove", told, expected)?;
        if expected.is_some() {
            self.remove(key);
        }
        Ok(())
    }

    fn remove(&mut self, key: ValueKey) -> Option<Item> {
        let item = self.items.remove(&key)?;
        self.by_tick.remove(&(item.tick, key));
        Some(item)
    }

    /// All that the stream has not given, with what was left to it.
    fn all(&self) -> impl Iterator<Item = &Item> {
        self.items
            .values()
            .chain(self.left.iter().map(|(_, item)| item))
    }

    fn len(&self) -> usize {
        self.items.len() + self.left.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Inserts the next value, with a deadline and the latest one.
    fn put(
        &mut self,
        key: ValueKey,
        put: impl FnOnce(u64) -> Result<Option<u64>, InsertIfAbsentError<(ValueKey, u64)>>,
        ends: (At, At),
        if_absent: bool,
        now: Now,
    ) -> Result<(), String> {
        self.next_value += 1;
        let back = (key, self.next_value);
        let told = put(self.next_value);
        let expected = if self.is_closed {
            Err(InsertIfAbsentError::Closed(back))
        } else if if_absent && self.items.contains_key(&key) {
            Err(InsertIfAbsentError::Occupied(back))
        } else if !self.items.contains_key(&key) && self.is_full() {
            Err(InsertIfAbsentError::AtCapacity(back))
        } else {
            self.inserted += 1;
            Ok(self.set(key, self.next_value, ends, now))
        };
        same("an insert", told, expected)
    }

    /// A call that sets the delay of what is pending has told whether something was.
    fn delayed(&mut self, key: ValueKey, told: bool, to: At, now: Now) -> Result<(), String> {
        let item = self.pending(key, now);
        if let Some(Item {
            value, latest_due, ..
        }) = item
        {
            self.set(key, value, (to, latest_due), now);
        }
        same("a set", told, item.is_some())
    }

    /// Sets the due of a value that is the caller's, and leaves another one as it is.
    fn set_if(
        &mut self,
        map: &Map,
        key: ValueKey,
        expiry: Expiry,
        to: At,
        now: Now,
    ) -> Result<(), String> {
        let expected = self.pending(key, now).map(|item| item.value);
        let mut shown = None;
        let told = map.set_if(&key, expiry, |value| {
            shown = Some(*value);
            false
        });
        same("set_if of another one", told, false)?;
        same("what set_if shows", shown, expected)?;
        self.ask(key, now)?;
        let told = map.set_if(&key, expiry, |value| Some(*value) == expected);
        self.delayed(key, told, to, now)
    }

    /// Changes a value that is pending, and else inserts one, with a deadline and the latest one.
    /// What is due under the key is left to the stream.
    fn upsert(
        &mut self,
        map: &Map,
        key: ValueKey,
        expiry: Expiry,
        ends: (At, At),
        now: Now,
    ) -> Result<(), String> {
        self.next_value += 1;
        let told = map.upsert(key, expiry, || self.next_value, change);
        let expected = match self.pending(key, now) {
            Some(Item {
                value, latest_due, ..
            }) => {
                self.set(key, value + CHANGE, (ends.0, latest_due), now);
                Ok(value + CHANGE)
            }
            None if self.is_closed => Err(InsertError::Closed(key)),
            None if self.is_full() => Err(InsertError::AtCapacity(key)),
            None => {
                let value = self.next_value + CHANGE;
                self.inserted += 1;
                let due = self.remove(key).map(|due| (key, due));
                self.left.extend(due);
                self.set(key, value, ends, now);
                Ok(value)
            }
        };
        same("upsert", told, expected)
    }

    fn make_due(&mut self, key: ValueKey, now: Now) -> bool {
        let Some(item) = self.items.get(&key).copied() else {
            return false;
        };
        let is_pending = item.deadline > now.at;
        // Its deadline may have come, and its tick not have begun.
        if is_pending || item.tick > self.ticks.current(now.at) {
            let deadline = item.deadline.min(now.at);
            self.set(key, item.value, (deadline, item.latest_due), now);
        }
        is_pending
    }

    /// Only a call on all values does this to what was left to the stream.
    fn make_left_due(&mut self, now: Now) {
        for (_, item) in &mut self.left {
            if item.tick > self.ticks.current(now.at) {
                *item = Item::new(
                    item.value,
                    item.deadline,
                    item.latest_due,
                    self.ticks,
                    now.at,
                );
            }
        }
    }

    fn take_model(&mut self) -> Vec<(ValueKey, Item)> {
        self.by_tick.clear();
        let mut items: Vec<_> = self.items.drain().chain(self.left.drain(..)).collect();
        items.sort_unstable_by_key(|(key, item)| (*key, item.value));
        items
    }

    fn drained(
        &mut self,
        mut told: Vec<(ValueKey, u64, Duration)>,
        now: Now,
    ) -> Result<(), String> {
        told.sort_unstable();
        let items = self.take_model();
        let is_same = |(told, (key, item)): (&(ValueKey, u64, Duration), &(ValueKey, Item))| {
            let left = Duration::from_nanos(item.deadline.saturating_sub(now.at));
            (told.0, told.1) == (*key, item.value) && (told.2 == left || item.deadline >= FAR)
        };
        if told.len() != items.len() || !told.iter().zip(&items).all(is_same) {
            return Err(format!("drained {told:?}, not {items:?}"));
        }
        Ok(())
    }

    /// Drops a handle, and returns whether there was one.
    pub(crate) fn drop_handle(&mut self) -> bool {
        self.handles.pop().is_some()
    }

    /// A number above all keys of the map. Zero without a handle, by which no key can be taken.
    pub(crate) fn keys_below(&self) -> ValueKey {
        let keys = self.items.keys().filter(|_| !self.handles.is_empty());
        keys.max().map_or(0, |key| key + 1)
    }

    /// When the last value that is not far comes out.
    pub(crate) fn last_deadline(&self) -> Option<At> {
        let deadlines = self.all().map(|item| item.deadline);
        deadlines.filter(|&deadline| deadline < FAR).max()
    }

    fn upgrade(&mut self) -> Result<(), String> {
        let upgraded = self.weak.upgrade();
        same("upgrade", upgraded.is_some(), !self.handles.is_empty())?;
        self.handles.extend(upgraded);
        Ok(())
    }

    pub(crate) fn drop_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            drop(stream);
            if self.handles.is_empty() {
                drop(self.take_model());
            }
            self.waiter = Waiter::new(self.clock);
        }
    }

    fn is_finished(&self) -> bool {
        self.len() == 0 && (self.is_closed || self.handles.is_empty())
    }

    /// What came out of the stream must be the first of what is due.
    fn came_out(&mut self, expired: Expired<ValueKey, u64>, now: Now) -> Result<(), String> {
        let is_it =
            |(key, item): &(ValueKey, Item)| (*key, item.value) == (expired.key, expired.value);
        let item = match self.left.iter().position(is_it) {
            Some(at) => Some(self.left.swap_remove(at).1),
            None => self.remove(expired.key),
        };
        let Some(item) = item else {
            return Err(format!("{} came out, and was not there", expired.key));
        };
        self.expired += 1;
        let told = (expired.value, self.clock.at(expired.deadline));
        same("what came out", told, (item.value, item.deadline))?;
        if item.due > now.at {
            return Err(format!("a value came out {} ns early", item.due - now.at));
        }
        let before = self.by_tick.range(..(item.tick, 0));
        let left = self.left.iter().map(|(_, left)| left);
        let left = left.filter(|left| left.tick < item.tick);
        let mut before = before.map(|(_, key)| &self.items[key]).chain(left);
        match before.find(|other| other.ready <= now.at) {
            None => Ok(()),
            Some(other) => Err(format!("{item:?} came out before {other:?}")),
        }
    }

    /// Polls as a task does: again for as long as it wakes itself. Returns whether a value came.
    pub(crate) fn recv(&mut self, which: usize, now: Now) -> Result<bool, String> {
        for _ in 0..50 {
            let Some(stream) = &mut self.stream else {
                return Ok(false);
            };
            self.was_polled = true;
            self.waiter.forget_wakes(which);
            match self.waiter.poll(which, |cx| stream.poll_next_unpin(cx)) {
                Poll::Ready(Some(expired)) => return self.came_out(expired, now).map(|()| true),
                Poll::Ready(None) => return self.ends().map(|()| false),
                Poll::Pending if self.waiter.forget_wakes(which) > 0 => {}
                Poll::Pending => return self.stays_empty(now).map(|()| false),
            }
        }
        Err("a stream spins".to_owned())
    }

    fn recv_many(&mut self, which: usize, limit: usize, now: Now) -> Result<(), String> {
        let mut buffer = Vec::new();
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        self.was_polled = true;
        if limit == 0 {
            let polled = stream.recv_many(&mut buffer, 0).now_or_never();
            return same("recv_many of nothing", polled, Some(0));
        }
        let polled = self.waiter.poll(which, |cx| {
            pin!(stream.recv_many(&mut buffer, limit)).poll(cx)
        });
        let taken = buffer.len();
        for expired in buffer {
            self.came_out(expired, now)?;
        }
        match polled {
            Poll::Ready(0) => self.ends(),
            Poll::Ready(count) if count != taken || count > limit => {
                Err(format!("recv_many tells {count} of {taken}"))
            }
            Poll::Ready(_) => Ok(()),
            Poll::Pending if self.waiter.forget_wakes(which) > 0 => self.recv(which, now).map(drop),
            Poll::Pending => self.stays_empty(now),
        }
    }

    fn try_recv(&mut self, now: Now) -> Result<(), String> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        match stream.try_recv() {
            Ok(expired) => {
                // Who takes the last value need not be woken to hear that it was the last.
                let took = self.came_out(expired, now);
                self.has_ended |= self.is_finished();
                took
            }
            Err(TryRecvError::Disconnected) => self.ends(),
            Err(TryRecvError::Empty) => self.stays_empty(now),
        }
    }

    fn ends(&mut self) -> Result<(), String> {
        self.has_ended = true;
        same("the end of the stream", true, self.is_finished())
    }

    fn stays_empty(&self, now: Now) -> Result<(), String> {
        let is_due = |item: &Item| item.ready <= now.at && item.deadline < FAR;
        if self.all().any(is_due) {
            return Err("the stream tells that nothing is due".to_owned());
        }
        same("the end of the stream", false, self.is_finished())
    }

    /// `None` if there is no stream, or if it has ended.
    pub(crate) fn poll_spent(&mut self) -> Option<Result<usize, String>> {
        let Delayed { stream, waiter, .. } = self;
        let stream = stream.as_mut().filter(|_| !self.has_ended)?;
        Some(waiter.poll_spent(|cx| stream.poll_next_unpin(cx)))
    }

    pub(crate) fn check(&mut self, now: Now, ran_from: Option<u64>) -> Result<(), String> {
        let wakes = |item: &Item| item.deadline < FAR && item.wakes <= now.settled;
        let lines = self.all().map(|item| item.wakes);
        let expected = Expected {
            may_from: Some(0),
            must: self.all().any(wakes) || self.is_finished() && !self.has_ended,
            by_line: lines.min().unwrap_or(u64::MAX),
            may_look: true,
        };
        self.waiter.check(expected, ran_from).map(drop)
    }

    /// What can be asked at any time, of all keys or of one.
    pub(crate) fn ask(&self, key: ValueKey, now: Now) -> Result<(), String> {
        let Some(map) = self.handles.last() else {
            return Ok(());
        };
        let (item, is_in) = (self.pending(key, now), self.items.contains_key(&key));
        same("len", map.len(), self.len())?;
        same("is_empty", map.is_empty(), self.len() == 0)?;
        let told = map.metrics();
        let counts = (self.len(), self.inserted, self.expired);
        same(
            "metrics",
            (told.len(), told.inserted(), told.expired()),
            counts,
        )?;
        same("contains_key", map.contains_key(&key), is_in)?;
        let told = map.update(&key, |value| *value);
        same("a look", told, item.map(|item| item.value))?;
        let told = map.deadline(&key).map(|deadline| self.clock.at(deadline));
        let told = told.map(|told| told.min(FAR));
        same("deadline", told, item.map(|item| item.deadline))?;
        let told = map.expiry(&key).map(|left| self.told_of(left, now));
        same("expiry", told, item.map(|item| left_of(&item, now)))
    }

    /// The deadline and the rest of the longest life that an `Expiry` tells now.
    fn told_of(&self, left: Expiry, now: Now) -> (At, Option<Duration>) {
        let deadline = left.deadline_from(self.clock.instant(now.at));
        let life = left.longest_life();
        let life = life.filter(|&life| after(now.at, life) < FAR);
        (self.clock.at(deadline).min(FAR), life)
    }

    pub(crate) fn ask_keys(&self, now: Now) -> Result<(), String> {
        let Some(map) = self.handles.last() else {
            return Ok(());
        };
        let mut shown = HashMap::new();
        let mut seen = 0;
        map.for_each(|key, value, left| {
            seen += 1;
            shown.insert(*key, (*value, self.told_of(left, now)));
        });
        same("the keys of for_each", seen, shown.len())?;
        let left = |key| left_of(&self.items[&key], now);
        let pending = self.all_pending(now).into_iter();
        let expected = pending.map(|(key, value)| (key, (value, left(key))));
        same("for_each", shown, expected.collect())
    }

    /// When the runtime is gone, the stream was woken and ends, and nothing can be put in.
    pub(crate) fn after_shutdown(&mut self, now: Now) -> Result<(), String> {
        if self.stream.is_some() {
            self.waiter.must_hear_of_the_end()?;
        }
        // It is the stream that notices the end.
        if self.stream.is_none() {
            self.stream = self.handles.last().and_then(DelayMap::expirations);
        }
        if let Some(stream) = &mut self.stream {
            // Either call is the first to notice the end in some programs.
            for _ in 0..self.next_value % 3 {
                let tried = stream.try_recv();
                if !matches!(tried, Err(TryRecvError::Disconnected)) {
                    return Err(format!("after the end a try tells {tried:?}"));
                }
            }
            let polled = self.waiter.poll(0, |cx| stream.poll_next_unpin(cx));
            if !matches!(polled, Poll::Ready(None)) {
                return Err(format!("after the end the stream tells {polled:?}"));
            }
        }
        if let Some(map) = self.handles.last() {
            let told = map.insert(ValueKey::MAX, 7, Duration::from_secs(1));
            let expected = Err(InsertError::Closed((ValueKey::MAX, 7)));
            same("an insert after the end", told, expected)?;
        }
        self.act(&Op::Delay(1, 0, None), now)?;
        self.act(&Op::ExpireValues, now)?;
        // What was pending can still be taken out.
        self.act(&Op::DrainValues, now)?;
        self.act(&Op::CloseDelayMap, now)
    }

    pub(crate) fn armed(&self) -> Armed {
        let is_counted = self.stream.is_some() && self.was_polled;
        (0, usize::from(is_counted && self.len() > 0))
    }

    /// When it makes time run, if it does.
    pub(crate) fn runs_to(&self) -> Option<(u64, At)> {
        // A stream that was woken to look may have its timer all the same.
        self.stream.as_ref().filter(|_| self.was_polled)?;
        let dues = self.all().map(|item| (item.wakes, item.deadline));
        dues.min()
    }
}

/// A random call by one of so many keys, or one that takes what is due.
fn churned(random: &mut Rng, keys: Count) -> Op {
    let key = random.u32(..u32::from(keys)) as ValueKey;
    let delay = match random.u8(..10) {
        0 => 0,
        1..6 => 1_000 * random.u64(..40),
        6..8 => random.u64(..5_000),
        _ => random.u64(..20_000_000),
    };
    let past = -1_000 * random.u64(..40) as Offset;
    match random.u8(..40) {
        0..14 => Op::Put(key, delay),
        14 => Op::PutAt(key, past, None),
        15 => Op::PutWithin(key, delay, Some(5 * delay / 4)),
        16..24 => Op::Delay(key, delay, None),
        24..26 => Op::DelayUntil(key, past),
        26 => match random.u8(..3) {
            0 => Op::Touch(key, delay, None),
            1 => Op::SetIf(key, delay, None),
            _ => Op::Upsert(key, delay, Some(5 * delay / 4)),
        },
        27..29 => Op::ExpireValue(key),
        29..33 => Op::Take(key),
        33 => Op::Update(key),
        34 if random.u8(..40) == 0 => Op::ExpireValues,
        _ => Op::TryRecv(1),
    }
}
