//! The model of `DelayMap` and its stream, beside the real ones.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::task::Poll;

use fastrand::Rng;
use futures::{FutureExt, StreamExt};
use tickwheel::error::{InsertError, InsertIfAbsentError, TryRecvError};
use tickwheel::{DelayMap, Duration, Expirations, Expired, Timer, WeakDelayMap};

use super::clock::{At, Clock, FAR, MS, Ticks, after, line_from};
use super::sleepers::{Armed, Now};
use super::waiter::{Expected, Waiter};

/// By how much a value grows when a program changes it.
const CHANGE: u64 = 1 << 32;

#[derive(Clone, Copy, Debug)]
struct Item {
    value: u64,
    /// What is told as its deadline.
    deadline: At,
    /// However often its delay starts anew, it comes out by then.
    end: At,
    /// It may come out from then on.
    due: At,
    /// It comes out from then on, when the stream is polled.
    ready: At,
    /// The line of the grid at which the stream is woken for it, at the latest.
    wakes: u64,
    /// Its tick, by which it has its place: what is made due at once counts from the present one.
    tick: u64,
}

impl Item {
    fn new(value: u64, deadline: At, end: At, ticks: Ticks, now: At) -> Item {
        let deadline = deadline.min(end);
        let (own, present) = (ticks.due(deadline), ticks.current(now));
        let at_once = line_from(now);
        let item = Item {
            value,
            deadline,
            end,
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
    handles: Vec<DelayMap<u32, u64>>,
    weak: WeakDelayMap<u32, u64>,
    stream: Option<Expirations<u32, u64>>,
    pub(crate) timer: usize,
    ticks: Ticks,
    clock: Clock,
    waiter: Waiter,
    items: HashMap<u32, Item>,
    /// The items by the tick at which they have their place.
    places: BTreeSet<(u64, u32)>,
    limit: usize,
    is_closed: bool,
    /// The consumer knows that the stream has ended.
    has_ended: bool,
    next_value: u64,
    /// Whether its stream was ever polled, and so may have a timer.
    was_polled: bool,
}

impl Delayed {
    pub(crate) fn new(
        timer: &Timer,
        number: usize,
        ticks: Ticks,
        limit: usize,
        clock: Clock,
    ) -> Delayed {
        let (map, stream) = match limit {
            0 => DelayMap::new(timer),
            max => DelayMap::with_limit(timer, max),
        };
        Delayed {
            weak: map.downgrade(),
            handles: vec![map],
            stream: Some(stream),
            timer: number,
            ticks,
            clock,
            waiter: Waiter::new(clock),
            items: HashMap::new(),
            places: BTreeSet::new(),
            limit: if limit == 0 { usize::MAX } else { limit },
            is_closed: false,
            has_ended: false,
            next_value: 0,
            was_polled: false,
        }
    }

    fn map(&self) -> Option<&DelayMap<u32, u64>> {
        self.handles.last()
    }

    fn set(&mut self, key: u32, value: u64, deadline: At, end: At, now: Now) -> Option<u64> {
        let item = Item::new(value, deadline, end, self.ticks, now.at);
        let old = self.remove(key);
        self.places.insert((item.tick, key));
        self.items.insert(key, item);
        old.map(|old| old.value)
    }

    /// The value of a key, unless it is due. From then on it belongs to the stream.
    fn pending(&self, key: u32, now: Now) -> Option<Item> {
        let item = self.items.get(&key).copied();
        item.filter(|item| item.deadline > now.at)
    }

    fn remove(&mut self, key: u32) -> Option<Item> {
        let item = self.items.remove(&key)?;
        self.places.remove(&(item.tick, key));
        Some(item)
    }

    /// What an insert must answer: `Err` if it is refused.
    fn admits(&self, key: u32) -> Result<(), &'static str> {
        if self.is_closed {
            Err("closed")
        } else if !self.items.contains_key(&key) && self.items.len() >= self.limit {
            Err("at capacity")
        } else {
            Ok(())
        }
    }

    /// Inserts a value in one of the four ways.
    pub(crate) fn put(&mut self, key: u32, how: Put, now: Now) -> Result<(), String> {
        self.next_value += 1;
        let value = self.next_value;
        let Some(map) = self.map() else { return Ok(()) };
        let (told, deadline, end) = match how {
            Put::After(delay) => {
                let told = map.insert(key, value, delay).map_err(Into::into);
                (told, after(now.at, delay), FAR)
            }
            Put::At(at) => {
                let told = map.insert_at(key, value, self.clock.instant(at));
                (told.map_err(Into::into), at, FAR)
            }
            Put::IfAbsent(delay) => {
                let told = map.insert_if_absent(key, value, delay).map(|()| None);
                (told, after(now.at, delay), FAR)
            }
            Put::WithTtl(delay, ttl) => {
                let told = map.insert_with_ttl(key, value, delay, ttl);
                let ends = (after(now.at, delay), after(now.at, ttl));
                (told.map_err(Into::into), ends.0, ends.1)
            }
        };
        let back = (key, value);
        let expected = match (self.admits(key), how) {
            (Err("closed"), _) => Err(InsertIfAbsentError::Closed(back)),
            (Ok(()), Put::IfAbsent(_)) if self.items.contains_key(&key) => {
                Err(InsertIfAbsentError::Occupied(back))
            }
            (Err(_), _) => Err(InsertIfAbsentError::AtCapacity(back)),
            (Ok(()), _) => Ok(self.set(key, value, deadline, end, now)),
        };
        if told != expected {
            return Err(format!("an insert answers {told:?}, not {expected:?}"));
        }
        Ok(())
    }

    /// Sets a delay, by `reset`, `reset_at` or `touch`.
    pub(crate) fn delay(&mut self, key: u32, how: Delay, now: Now) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let item = self.pending(key, now);
        let (told, deadline) = match how {
            Delay::After(delay) => (map.reset(&key, delay), after(now.at, delay)),
            Delay::Until(at) => (map.reset_at(&key, self.clock.instant(at)), at),
            Delay::Touch(delay) => {
                let told = map.touch(&key, delay, |value| *value);
                if told != item.map(|item| item.value) {
                    return Err(format!("touch shows {told:?}"));
                }
                (told.is_some(), after(now.at, delay))
            }
        };
        if told != item.is_some() {
            return Err(format!("a reset of a value answers {told}"));
        }
        if let Some(Item { value, end, .. }) = item {
            self.set(key, value, deadline, end, now);
        }
        Ok(())
    }

    /// Changes a value that is pending, and else puts one in.
    pub(crate) fn touch_or_put(
        &mut self,
        key: u32,
        delay: Duration,
        now: Now,
    ) -> Result<(), String> {
        self.next_value += 1;
        let new = self.next_value;
        let Some(map) = self.map() else { return Ok(()) };
        let told = map.touch_or_insert_with(
            key,
            delay,
            || new,
            |value| {
                *value += CHANGE;
                *value
            },
        );
        let deadline = after(now.at, delay);
        let expected = match (self.pending(key, now), self.admits(key)) {
            (Some(Item { value, end, .. }), _) => {
                self.set(key, value + CHANGE, deadline, end, now);
                Ok((value + CHANGE, None))
            }
            (None, Err("closed")) => Err(InsertError::Closed(key)),
            (None, Err(_)) => Err(InsertError::AtCapacity(key)),
            (None, Ok(())) => {
                let value = new + CHANGE;
                Ok((value, self.set(key, value, deadline, FAR, now)))
            }
        };
        if told != expected {
            return Err(format!(
                "touch_or_insert_with answers {told:?}, not {expected:?}"
            ));
        }
        Ok(())
    }

    pub(crate) fn expire(&mut self, key: u32, now: Now) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let told = map.expire(&key);
        let expected = self.make_due(key, now);
        if told != expected {
            return Err(format!("expire of a value answers {told}, not {expected}"));
        }
        Ok(())
    }

    fn make_due(&mut self, key: u32, now: Now) -> bool {
        match self.items.get(&key).copied() {
            Some(Item {
                value,
                deadline,
                end,
                ..
            }) if deadline > now.at => {
                self.set(key, value, now.at, end, now);
                true
            }
            // Its deadline may have passed, and its tick not have begun.
            Some(item) => {
                let present = self.ticks.current(now.at);
                if item.tick > present {
                    self.set(key, item.value, item.deadline, item.end, now);
                }
                false
            }
            None => false,
        }
    }

    pub(crate) fn expire_all(&mut self, now: Now) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let told = map.expire_all();
        let keys: Vec<u32> = self.items.keys().copied().collect();
        let expected = keys
            .into_iter()
            .filter(|&key| self.make_due(key, now))
            .count();
        if told != expected {
            return Err(format!("expire_all answers {told}, not {expected}"));
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, key: u32) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let told = match self.next_value % 2 {
            0 => map.remove(&key),
            _ if map.remove_if(&key, |_| false).is_some() => None,
            _ => map.remove_if(&key, |_| true),
        };
        let expected = self.remove(key).map(|item| item.value);
        if told != expected {
            return Err(format!("remove answers {told:?}, not {expected:?}"));
        }
        Ok(())
    }

    pub(crate) fn retain(&mut self, rest: u32) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let mut seen = 0;
        map.retain(|key, value| {
            seen += 1;
            *value += CHANGE;
            key % 3 != rest
        });
        if seen != self.items.len() {
            return Err(format!("retain shows {seen} of {}", self.items.len()));
        }
        self.items.retain(|key, item| {
            item.value += CHANGE;
            key % 3 != rest
        });
        self.places.retain(|(_, key)| key % 3 != rest);
        Ok(())
    }

    pub(crate) fn update(&mut self, key: u32, now: Now) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let told = map.update(&key, |value| {
            *value += CHANGE;
            *value
        });
        let expected = self.pending(key, now).map(|item| item.value + CHANGE);
        if let (Some(value), Some(item)) = (expected, self.items.get_mut(&key)) {
            item.value = value;
        }
        if told != expected {
            return Err(format!("update shows {told:?}, not {expected:?}"));
        }
        Ok(())
    }

    /// Makes a random call by one of so many keys, or takes what is due.
    pub(crate) fn churn(&mut self, random: &mut Rng, keys: u32, now: Now) -> Result<(), String> {
        let key = random.u32(..keys);
        let delay = Duration::from_micros(match random.u8(..10) {
            0 => 0,
            1..6 => 1_000 * random.u64(..40),
            6..8 => random.u64(..5_000),
            _ => random.u64(..20_000_000),
        });
        let past = now.at.saturating_sub(random.u64(..40) * MS);
        match random.u8(..40) {
            0..14 => self.put(key, Put::After(delay), now),
            14 => self.put(key, Put::At(past), now),
            15 => self.put(key, Put::WithTtl(delay, 5 * delay / 4), now),
            16..24 => self.delay(key, Delay::After(delay), now),
            24..26 => self.delay(key, Delay::Until(past), now),
            26 if random.bool() => self.touch_or_put(key, delay, now),
            26 => self.delay(key, Delay::Touch(delay), now),
            27..29 => self.expire(key, now),
            29..33 => self.take(key),
            33 => self.update(key, now),
            34 if random.u8(..40) == 0 => self.expire_all(now),
            _ => self.try_recv(now),
        }
    }

    fn take_model(&mut self) -> Vec<(u32, Item)> {
        self.places.clear();
        let mut items: Vec<_> = self.items.drain().collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        items
    }

    pub(crate) fn drain(&mut self, close: bool, now: Now) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let mut told = if close { map.close() } else { map.drain() };
        told.sort_unstable();
        self.is_closed |= close;
        let items = self.take_model();
        let is_same = |(told, (key, item)): (&(u32, u64, Duration), &(u32, Item))| {
            let left = Duration::from_nanos(item.deadline.saturating_sub(now.at));
            (told.0, told.1) == (*key, item.value) && (told.2 == left || item.deadline >= FAR)
        };
        if told.len() != items.len() || !told.iter().zip(&items).all(is_same) {
            return Err(format!("drained {told:?}, not {items:?}"));
        }
        Ok(())
    }

    pub(crate) fn clone_handle(&mut self) {
        if let Some(map) = self.map().cloned() {
            self.handles.push(map);
        }
    }

    /// Drops a handle, and returns whether there was one.
    pub(crate) fn drop_handle(&mut self) -> bool {
        self.handles.pop().is_some()
    }

    /// A number above all keys of the map. Zero without a handle, by which no key can be taken.
    pub(crate) fn keys_below(&self) -> u32 {
        let keys = self.items.keys().filter(|_| !self.handles.is_empty());
        keys.max().map_or(0, |key| key + 1)
    }

    /// When the last value that is not far comes out.
    pub(crate) fn last_deadline(&self) -> Option<At> {
        let deadlines = self.items.values().map(|item| item.deadline);
        deadlines.filter(|&deadline| deadline < FAR).max()
    }

    pub(crate) fn upgrade(&mut self) -> Result<(), String> {
        let upgraded = self.weak.upgrade();
        if upgraded.is_some() == self.handles.is_empty() {
            return Err("a weak handle is upgraded where there is none, or is not".to_owned());
        }
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

    pub(crate) fn take_stream(&mut self) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let stream = map.expirations();
        if stream.is_some() == self.stream.is_some() {
            return Err(format!("expirations answers {stream:?}"));
        }
        if stream.is_some() {
            self.stream = stream;
            (self.has_ended, self.was_polled) = (false, false);
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.items.is_empty() && (self.is_closed || self.handles.is_empty())
    }

    fn has_due(&self, now: Now) -> bool {
        self.items
            .values()
            .any(|item| item.ready <= now.at && item.deadline < FAR)
    }

    /// What came out of the stream must be the first of what is due.
    fn came_out(&mut self, expired: Expired<u32, u64>, now: Now) -> Result<(), String> {
        let Some(item) = self.remove(expired.key) else {
            return Err(format!("{} came out, and was not there", expired.key));
        };
        if expired.value != item.value {
            return Err(format!("{} came out with another value", expired.key));
        }
        if item.due > now.at {
            return Err(format!("a value came out {} ns early", item.due - now.at));
        }
        let told = self.clock.at(expired.deadline);
        if told != item.deadline {
            return Err(format!("a value tells {told}, not {}", item.deadline));
        }
        let before = self.places.range(..(item.tick, 0));
        let mut before = before.map(|(_, key)| &self.items[key]);
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

    pub(crate) fn recv_many(&mut self, which: usize, limit: usize, now: Now) -> Result<(), String> {
        let mut buffer = Vec::new();
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        self.was_polled = true;
        if limit == 0 {
            return match stream.recv_many(&mut buffer, 0).now_or_never() {
                Some(0) => Ok(()),
                polled => Err(format!("recv_many of nothing tells {polled:?}")),
            };
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

    pub(crate) fn try_recv(&mut self, now: Now) -> Result<(), String> {
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
        self.is_finished()
            .then_some(())
            .ok_or_else(|| "the stream has ended".to_owned())
    }

    fn stays_empty(&self, now: Now) -> Result<(), String> {
        if self.has_due(now) {
            return Err("the stream tells that nothing is due".to_owned());
        }
        if self.is_finished() {
            return Err("the stream does not end".to_owned());
        }
        Ok(())
    }

    /// Polls with the budget used up. `None` if there is no stream, or if it has ended.
    pub(crate) fn poll_spent(&mut self) -> Result<Option<usize>, String> {
        let which = self.waiter.registered().unwrap_or(0);
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        if self.has_ended {
            return Ok(None);
        }
        match self
            .waiter
            .poll_spent(which, |cx| stream.poll_next_unpin(cx))
        {
            Poll::Ready(_) => Err("ready without a budget".to_owned()),
            Poll::Pending => Ok(Some(which)),
        }
    }

    pub(crate) fn was_woken_after_spent(&mut self, which: usize) -> Result<(), String> {
        match self.waiter.forget_wakes(which) {
            0 => Err("a poll without a budget wakes nobody".to_owned()),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&mut self, now: Now, ran_from: Option<u64>) -> Result<(), String> {
        let wakes = |item: &Item| item.deadline < FAR && item.wakes <= now.settled;
        let expected = Expected {
            may_from: Some(0),
            must: self.items.values().any(wakes) || self.is_finished() && !self.has_ended,
            by_line: self
                .items
                .values()
                .map(|item| item.wakes)
                .min()
                .unwrap_or(u64::MAX),
            may_look: true,
        };
        self.waiter.check(expected, ran_from)?;
        Ok(())
    }

    /// What can be asked at any time, of all keys or of one.
    pub(crate) fn ask(&self, key: u32, now: Now) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        if map.len() != self.items.len() || map.is_empty() != self.items.is_empty() {
            return Err(format!(
                "tells {} values, not {}",
                map.len(),
                self.items.len()
            ));
        }
        let item = self.pending(key, now);
        if map.contains_key(&key) != self.items.contains_key(&key)
            || map.update(&key, |value| *value) != item.map(|item| item.value)
        {
            return Err(format!("does not tell the truth of key {key}"));
        }
        let told = map.deadline(&key).map(|deadline| self.clock.at(deadline));
        if told.map(|told| told.min(FAR)) != item.map(|item| item.deadline) {
            return Err(format!("tells the deadline {told:?} of {item:?}"));
        }
        Ok(())
    }

    pub(crate) fn ask_keys(&self) -> Result<(), String> {
        let Some(map) = self.map() else { return Ok(()) };
        let (mut wrong, mut seen) = (None, 0);
        map.for_each(|key, value, deadline| {
            seen += 1;
            let item = &self.items[key];
            if self.clock.at(deadline).min(FAR) != item.deadline || *value != item.value {
                wrong = Some(format!(
                    "for_each shows {value} at {deadline:?} of {item:?}"
                ));
            }
        });
        if seen != self.items.len() {
            return Err(format!("for_each shows {seen} of {}", self.items.len()));
        }
        wrong.map_or(Ok(()), Err)
    }

    /// When the runtime is gone, the stream was woken and ends, and nothing can be put in.
    pub(crate) fn after_shutdown(&mut self, now: Now) -> Result<(), String> {
        if let Some(which) = self.waiter.registered() {
            if self.stream.is_some() && self.waiter.forget_wakes(which) == 0 {
                return Err("the stream sleeps on, though its runtime is gone".to_owned());
            }
        }
        // It is the stream that notices the end.
        if self.stream.is_none() {
            self.stream = self.map().and_then(DelayMap::expirations);
        }
        if let Some(stream) = &mut self.stream {
            let polled = self.waiter.poll(0, |cx| stream.poll_next_unpin(cx));
            if !matches!(polled, Poll::Ready(None)) {
                return Err(format!(
                    "the runtime is gone, and the stream tells {polled:?}"
                ));
            }
        }
        let Some(map) = self.map() else { return Ok(()) };
        let told = map.insert(u32::MAX, 7, Duration::from_secs(1));
        if told != Err(InsertError::Closed((u32::MAX, 7))) {
            return Err(format!(
                "the runtime is gone, and an insert answers {told:?}"
            ));
        }
        self.delay(1, Delay::After(Duration::ZERO), now)?;
        self.expire_all(now)?;
        // What was pending can still be taken out.
        self.drain(false, now)?;
        self.drain(true, now)
    }

    pub(crate) fn armed(&self) -> Armed {
        let is_counted = self.stream.is_some() && self.was_polled;
        (0, usize::from(is_counted && !self.items.is_empty()))
    }

    /// When it makes time run, if it does.
    pub(crate) fn runs_to(&self) -> Option<(u64, At)> {
        // A stream that was woken to look may have its timer all the same.
        self.stream.as_ref().filter(|_| self.was_polled)?;
        let dues = self.items.values().map(|item| (item.wakes, item.deadline));
        dues.min()
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Put {
    After(Duration),
    At(At),
    IfAbsent(Duration),
    WithTtl(Duration, Duration),
}

#[derive(Clone, Copy)]
pub(crate) enum Delay {
    After(Duration),
    Until(At),
    Touch(Duration),
}
