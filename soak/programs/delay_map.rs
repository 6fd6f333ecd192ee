//! A [`DelayMap`], writers, and the consumer of its stream: each value comes out once, one way, and
//! nothing that is due stays in.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use tickwheel::error::InsertIfAbsentError;
use tickwheel::{DelayMap, Expirations, Expired, Expiry, WeakDelayMap};
use tickwheel_soak_model::{Act, Call, Due, Kind, Outcome};

use super::{Key, Seen, Shared, World};

/// Each value is the number of its interval.
pub type Map = DelayMap<Key, u64>;

pub struct Writer<W: World> {
    pub map: Map,
    pub shared: Arc<Shared<W::Time>>,
    pub world: W,
}

impl<W: World> Writer<W> {
    pub async fn run(mut self) {
        while self.world.goes_on() {
            self.world.rest().await;
            self.call();
        }
    }

    fn call(&mut self) {
        if self.world.one_in(self.shared.on_all_keys) {
            return self.call_on_all();
        }
        let key = self.shared.random_key(&mut self.world);
        match self.world.below(20) {
            0..5 => self.insert(),
            5 | 6 => self.upsert(key),
            7..12 => self.set(key),
            12..15 => self.remove(key),
            15 | 16 => {
                let (is_there, call) = self.world.timed(|| self.map.expire(&key));
                self.note(key, 0, Act::Expire, is_there, call);
            }
            17 => {
                let (is_there, call) = self.world.timed(|| self.map.contains_key(&key));
                self.note(key, 0, Act::Find, is_there, call);
            }
            18 => {
                let (due, call) = self.world.timed(|| self.map.deadline(&key));
                self.note(key, 0, Act::Look, due.is_some(), call);
            }
            _ => {
                let update = || self.map.update(&key, |value| *value);
                let (value, call) = self.world.timed(update);
                self.note(key, 0, Act::Look, value.is_some(), call);
            }
        }
    }

    fn call_on_all(&mut self) {
        match self.world.below(8) {
            0..3 => {
                let closes = self.world.one_in(self.shared.closes);
                self.take_all(closes);
            }
            3 => {
                let (count, call) = self.world.timed(|| self.map.expire_all());
                self.world
                    .note(None, 0, Act::Expire, count > 0, call.into());
            }
            4 | 5 => self.retain(),
            _ => {
                let mut shown = Vec::new();
                let show = |key: &Key, value: &u64, _| shown.push((*key, *value));
                let ((), call) = self.world.timed(|| self.map.for_each(show));
                for (key, value) in shown {
                    self.note(key, value, Act::Look, true, call);
                }
            }
        }
    }

    /// Puts a value under a random key.
    pub fn insert(&mut self) {
        let key = self.shared.random_key(&mut self.world);
        let (value, if_absent) = (self.shared.new_interval(), self.world.one_in(4));
        let (due, life) = self.due();
        let expiry = self.expiry(due, life);
        let map = &self.map;
        let (inserted, call) = self.world.timed(|| {
            if if_absent {
                map.insert_if_absent(key, value, expiry).map(|()| None)
            } else {
                map.insert(key, value, expiry).map_err(Into::into)
            }
        });
        match inserted {
            Ok(older) => {
                self.begin((key, value), (due, life), !if_absent, call);
                self.took(older.map(|older| (key, older)), call);
            }
            Err(refused) => {
                match &refused {
                    InsertIfAbsentError::Occupied(_) => self.note(key, 0, Act::Find, true, call),
                    InsertIfAbsentError::AtCapacity(_) => self.check_rejection(true, call),
                    _ => self.check_rejection(false, call),
                }
                self.check_given_back(refused.into_inner(), (key, value));
            }
        }
    }

    /// Uses the value that is pending under the key, and otherwise a new one.
    fn upsert(&mut self, key: Key) {
        let value = self.shared.new_interval();
        let (due, life) = self.due();
        let expiry = self.expiry(due, life);
        let map = &self.map;
        let (used, call) = self.world.timed(|| {
            let use_it = |value: &mut u64| *value;
            map.upsert(key, expiry, || value, use_it)
        });
        match used {
            Ok(other) if other != value => self.note(key, other, Act::Set(due), true, call),
            // It may have left an older one to the stream, which no call by key finds any more.
            Ok(_) => self.begin((key, value), (due, life), true, call),
            Err(refused) => {
                self.note(key, 0, Act::Look, false, call);
                self.check_given_back(refused.into_inner(), key);
            }
        }
    }

    /// Sets when the value of a key is due. A longest life does not change what it has.
    fn set(&mut self, key: Key) {
        let (due, life) = self.due();
        let expiry = self.expiry(due, life);
        let (map, which) = (&self.map, self.world.below(4));
        let (is_pending, call) = self.world.timed(|| match which {
            0 => map.touch(&key, expiry, |_| ()).is_some(),
            1 => map.set_if(&key, expiry, |_| true),
            _ => map.set(&key, expiry),
        });
        self.note(key, 0, Act::Set(due), is_pending, call);
    }

    fn remove(&mut self, key: Key) {
        let (map, by_value) = (&self.map, self.world.one_in(2));
        let (value, call) = self.world.timed(|| {
            if by_value {
                map.remove_if(&key, |_| true)
            } else {
                map.remove(&key)
            }
        });
        match value {
            Some(value) => self.took_pending((key, value), call),
            None => self.note(key, 0, Act::Look, false, call),
        }
    }

    /// Removes a quarter of the values.
    fn retain(&mut self) {
        let (mut shown, which) = (Vec::new(), self.world.below(4));
        let ((), call) = self.world.timed(|| {
            self.map.retain(|key, value| {
                let stays = *value % 4 != which;
                shown.push(((*key, *value), stays));
                stays
            });
        });
        for ((key, value), stays) in shown {
            if stays {
                self.note(key, value, Act::Look, true, call);
            } else {
                self.took_pending((key, value), call);
            }
        }
    }

    /// Takes all values out. Returns whether there were some.
    pub fn take_all(&mut self, closes: bool) -> bool {
        let (map, was_closed) = (&self.map, self.shared.is_closed());
        let take = || if closes { map.close() } else { map.drain() };
        let (taken, call) = self.shared.take(&self.world, closes, take);
        let has_taken = !taken.is_empty();
        if was_closed && has_taken {
            let text = format!("{} values were in a closed map", taken.len());
            self.world.report(Kind::WrongAnswer, &text);
        }
        self.took(taken.into_iter().map(|(key, value, _)| (key, value)), call);
        has_taken
    }

    /// When something is to be due, and with it a longest life now and then.
    fn due(&mut self) -> (Due<W::Time>, Option<Duration>) {
        let delay = self.world.delay();
        let due = if self.world.one_in(2) {
            Due::After(delay)
        } else {
            Due::At(self.world.ago(Duration::ZERO) + delay)
        };
        let is_limited = self.world.one_in(6);
        (due, is_limited.then(|| self.world.delay()))
    }

    fn expiry(&self, due: Due<W::Time>, life: Option<Duration>) -> Expiry {
        let expiry = match due {
            Due::After(delay) => Expiry::from(delay),
            Due::At(time) => Expiry::from(self.world.instant(time)),
        };
        life.map_or(expiry, |life| expiry.at_most(life))
    }

    /// A value was inserted. `replaces` says whether it may have ended another one.
    fn begin(
        &mut self,
        (key, value): (Key, u64),
        (due, life): (Due<W::Time>, Option<Duration>),
        replaces: bool,
        call: Call<W::Time>,
    ) {
        self.shared.check_open(&self.world, value, call);
        self.note(key, value, Act::Begin(due), replaces, call);
        if let Some(life) = life {
            self.note(key, value, Act::Cap(life), true, call);
        }
    }

    /// A call has removed a value, which must have been pending.
    fn took_pending(&mut self, (key, value): (Key, u64), call: Call<W::Time>) {
        self.note(key, value, Act::Look, true, call);
        self.took([(key, value)], call);
    }

    /// A call has returned values.
    fn took(&mut self, values: impl IntoIterator<Item = (Key, u64)>, call: Call<W::Time>) {
        for (key, value) in values {
            self.note(key, value, Act::End(Outcome::Taken), true, call);
        }
    }

    fn check_rejection(&self, is_full: bool, call: Call<W::Time>) {
        self.shared.check_rejection(&self.world, is_full, call);
    }

    fn check_given_back<T: PartialEq + std::fmt::Debug>(&self, back: T, given: T) {
        if back != given {
            let text = format!("a rejected insert returned {back:?} for {given:?}");
            self.world.report(Kind::ValueLost, &text);
        }
    }

    fn note(&mut self, key: Key, value: u64, act: Act<W::Time>, is: bool, call: Call<W::Time>) {
        self.world.note(Some(key), value, act, is, call.into());
    }
}

pub struct Consumer<W: World> {
    /// `None` while another one takes its place.
    stream: Option<Expirations<Key, u64>>,
    map: WeakDelayMap<Key, u64>,
    shared: Arc<Shared<W::Time>>,
    world: W,
    ways: Ways,
    /// How many values it has received.
    number: usize,
    has_ended: bool,
}

/// How a consumer goes about it: it does each of these once in so many times.
#[derive(Clone, Copy)]
pub struct Ways {
    /// After a value, it replaces the stream by another one.
    pub replaces: u64,
    /// It leaves before the end, when it may go on in another place.
    pub leaves: u64,
}

impl<W: World> Consumer<W> {
    pub fn new(
        stream: Expirations<Key, u64>,
        map: &Map,
        shared: &Arc<Shared<W::Time>>,
        world: W,
        ways: Ways,
    ) -> Consumer<W> {
        Consumer {
            stream: Some(stream),
            map: map.downgrade(),
            shared: shared.clone(),
            world,
            ways,
            number: 0,
            has_ended: false,
        }
    }

    /// The stream has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Receives in one place after the other. `None` if it was ended from outside.
    pub async fn run(mut self) -> Option<Consumer<W>> {
        let mut world = self.world.fork();
        loop {
            let is_short = world.one_in(4);
            let items = if is_short {
                1 + world.below(50)
            } else {
                u64::MAX
            };
            let map = self.map.clone();
            let state = move || format!("{:?}", map.upgrade());
            let part = Box::pin(self.receive(items));
            self = world.watch(state, part).await?;
            if self.has_ended || world.one_in(self.ways.leaves) {
                return Some(self);
            }
        }
    }

    /// Receives so many values, or until the end.
    async fn receive(mut self, items: u64) -> Consumer<W> {
        let way = self.world.below(4);
        let (mut received, mut buffer) = (0, Vec::new());
        while received < items {
            let stream = self.stream.as_mut().expect("it was replaced");
            let seen = if way == 3 && self.world.one_in(2) {
                let ((), call) = self.world.timed(|| {
                    while let Ok(expired) = stream.try_recv() {
                        buffer.push(expired);
                    }
                });
                self.world.yield_now().await;
                call.into()
            } else {
                let receive = poll_fn(|cx| match way {
                    0 => pin!(stream.recv()).poll(cx).map(|one| buffer.extend(one)),
                    1 => Pin::new(&mut *stream)
                        .poll_next(cx)
                        .map(|one| buffer.extend(one)),
                    _ => pin!(stream.recv_many(&mut buffer, 16)).poll(cx).map(drop),
                });
                let (_, (), seen) = self.world.wait(vec![receive]).await.remove(0);
                if buffer.is_empty() {
                    self.end();
                    break;
                }
                seen
            };
            received += buffer.len() as u64;
            let has_received = !buffer.is_empty();
            self.note(&mut buffer, seen);
            if has_received && self.world.one_in(self.ways.replaces) {
                self.replace_stream().await;
            }
        }
        self
    }

    fn end(&mut self) {
        self.has_ended = true;
        if self.shared.closing().is_none() && !self.world.may_have_ended() {
            let text = "a stream ended while its map was open";
            self.world.report(Kind::WrongAnswer, text);
        }
    }

    /// The stream dies while another one goes on. The driver may come to its timer meanwhile.
    async fn replace_stream(&mut self) {
        let Some(map) = self.map.upgrade() else {
            return;
        };
        let (world, stream) = (self.world.fork(), self.stream.take());
        self.world.spawn(async move {
            world.timed(|| drop(stream));
        });
        self.stream = loop {
            match map.expirations() {
                None => self.world.yield_now().await,
                next => break next,
            }
        };
    }

    fn note(&mut self, buffer: &mut Vec<Expired<Key, u64>>, seen: Seen<W::Time>) {
        for Expired {
            key,
            value,
            deadline,
            ..
        } in buffer.drain(..)
        {
            self.shared.check_open(&self.world, value, seen.call);
            let (due, number) = (self.world.time(deadline), self.number);
            self.number += 1;
            let out = Act::End(Outcome::Out { due, number });
            self.world.note(Some(key), value, out, true, seen);
        }
    }
}
