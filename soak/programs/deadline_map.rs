//! A [`DeadlineMap`] of few keys, with actors that insert and await, and others that call by key or
//! on a handle.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tickwheel::error::{Cancelled, InsertIfAbsentError};
use tickwheel::{DeadlineMap, KeyedDeadline, ResetHandle};
use tickwheel_soak_model::{Act, Call, Due, Kind};

use super::calls::{call, outcome};
use super::{Key, Seen, Shared, World};

pub type Map = DeadlineMap<Key>;

#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Inserts one deadline after the other, and awaits or drops it.
    Hold,
    /// Calls by key and on all keys, and never waits.
    Call,
    /// Does both, and awaits some deadlines together.
    Both,
}

/// An actor awaits so many deadlines together, or fewer at its end.
const TOGETHER: usize = 3;

pub struct Actor<W: World> {
    pub map: Map,
    pub shared: Arc<Shared<W::Time>>,
    pub world: W,
    /// One call in so many that would end a deadline does so, or else only asks for it.
    pub ends: u64,
    /// A deadline that is due later than this is not extended.
    pub longest: Duration,
}

impl<W: World> Actor<W> {
    pub async fn run(mut self, role: Role) {
        let (mut own, mut former) = (Vec::new(), None);
        while self.world.goes_on() {
            self.world.rest().await;
            match role {
                Role::Hold => {
                    if !self.hold().await {
                        return;
                    }
                }
                Role::Call => self.call(&mut former),
                Role::Both => match self.world.below(20) {
                    0..4 => own.extend(self.insert()),
                    4 => drop(own.pop()),
                    _ => self.call(&mut former),
                },
            }
            if own.len() == TOGETHER && !self.finish(std::mem::take(&mut own)).await {
                return;
            }
        }
        self.finish(own).await;
    }

    /// `false` if a wait never ended.
    async fn hold(&mut self) -> bool {
        let Some(mut kept) = self.insert() else {
            self.world.yield_now().await;
            return true;
        };
        match self.world.below(8) {
            0 => return true,
            1 => {
                self.world.yield_now().await;
                let handle = kept.deadline().handle();
                let (was_pending, call) = kept.world.timed(|| handle.cancel());
                kept.note(Act::Cancel, was_pending, call.into());
            }
            _ => {}
        }
        self.finish(vec![kept]).await
    }

    pub fn insert(&mut self) -> Option<Kept<W>> {
        let key = self.shared.random_key(&mut self.world);
        let (timeout, if_absent) = (self.world.delay(), self.world.one_in(3));
        let map = &self.map;
        let (inserted, call) = self.world.timed(|| {
            if if_absent {
                map.insert_if_absent(key, timeout)
            } else {
                map.insert(key, timeout).map_err(Into::into)
            }
        });
        let deadline = match inserted {
            Ok(deadline) => deadline,
            Err(refused) => {
                match refused {
                    InsertIfAbsentError::Occupied(_) => self.note(key, Act::Find, true, call),
                    InsertIfAbsentError::AtCapacity(_) => self.check_rejection(true, call),
                    _ => self.check_rejection(false, call),
                }
                return None;
            }
        };
        let interval = self.shared.new_interval();
        self.shared.check_open(&self.world, interval, call);
        self.check_empty_if_closed();
        let mut kept = Kept {
            deadline: Some(deadline),
            interval,
            world: self.world.fork(),
        };
        kept.note(Act::Begin(Due::After(timeout)), !if_absent, call.into());
        Some(kept)
    }

    /// Awaits them all in one task. `false` if the wait never ended.
    pub async fn finish(&mut self, own: Vec<Kept<W>>) -> bool {
        if own.is_empty() {
            return true;
        }
        let handles: Vec<_> = own.iter().map(Kept::handle).collect();
        let mut world = self.world.fork();
        let part = async move {
            for (mut kept, result, seen) in world.wait(own).await {
                kept.note(Act::End(outcome(result)), true, seen);
            }
        };
        let state = move || format!("{handles:?}");
        self.world.watch(state, Box::pin(part)).await.is_some()
    }

    fn call(&mut self, former: &mut Option<ResetHandle>) {
        if self.world.one_in(self.shared.on_all_keys) {
            return self.call_on_all();
        }
        let key = self.shared.random_key(&mut self.world);
        match self.world.below(64) {
            0 | 1 => {
                let (is_in, call) = self.world.timed(|| self.map.contains_key(&key));
                return self.note(key, Act::Find, is_in, call);
            }
            2 => {
                let mut handles = Vec::new();
                self.map.for_each(|_, handle| handles.push(handle.clone()));
                // Afterwards, because this may wake a task that calls the map.
                let looked = handles.iter().filter_map(ResetHandle::remaining);
                assert!(looked.count() <= handles.len());
                *former = handles.pop();
                return;
            }
            _ => {}
        }
        let (act, by_key) = (self.random_call(key), self.world.one_in(2));
        let (map, at) = (&self.map, |time| self.world.instant(time));
        let answer = || match act {
            Act::Reset if by_key => map.reset(&key),
            Act::ResetFrom(since) => map.reset_from(&key, at(since)),
            Act::Expire => map.expire(&key),
            _ => map
                .handle(&key)
                .is_some_and(|handle| call(&handle, act, at)),
        };
        let (answer, call) = self.world.timed(answer);
        self.note(key, act, answer, call);
        // It may be of any deadline. It must not panic or hang, and its answer is not checked.
        if let Some(handle) = former {
            let _ = (handle.is_pending(), handle.remaining(), handle.deadline());
        }
    }

    fn random_call(&mut self, key: Key) -> Act<W::Time> {
        let delay = self.world.delay();
        let which = self.world.below(32);
        match which {
            0 | 1 if self.may_extend(key) => Act::Extend(delay),
            0..9 => Act::Reset,
            9..11 => Act::ResetFrom(self.world.ago(delay)),
            11 => Act::ResetFrom(self.world.ago(Duration::ZERO) + delay),
            12..16 => Act::Set(Due::After(delay)),
            16..19 => Act::Set(Due::At(self.world.ago(Duration::ZERO) + delay)),
            19..22 => Act::SetTimeout(delay),
            22..24 if self.world.one_in(self.ends) => Act::Expire,
            24..26 if self.world.one_in(self.ends) => Act::Cancel,
            _ => Act::Look,
        }
    }

    /// Not for ever.
    fn may_extend(&self, key: Key) -> bool {
        let left = self.map.handle(&key).and_then(|handle| handle.remaining());
        left.is_none_or(|left| left < self.longest)
    }

    fn call_on_all(&mut self) {
        if self.world.one_in(2) {
            let (count, call) = self.world.timed(|| self.map.expire_all());
            self.world
                .note(None, 0, Act::Expire, count > 0, call.into());
        } else {
            let closes = self.world.one_in(self.shared.closes);
            self.take_all(closes);
        }
    }

    fn take_all(&mut self, closes: bool) {
        let (map, was_closed) = (&self.map, self.shared.is_closed());
        let take = || if closes { map.close() } else { map.drain() };
        let (taken, call) = self.shared.take(&self.world, closes, take);
        self.check_empty_if_closed();
        if was_closed && !taken.is_empty() {
            let text = format!("{} deadlines were pending in a closed map", taken.len());
            self.world.report(Kind::WrongAnswer, &text);
        }
        self.world.note(None, 0, Act::Take, true, call.into());
        for (key, _) in taken {
            self.note(key, Act::Drained, true, call);
        }
    }

    /// An insert that overlaps a close comes wholly before it or is rejected. So once both have
    /// returned, the map holds no key, whichever was the last to return.
    fn check_empty_if_closed(&self) {
        if self.shared.is_closed() && !self.map.is_empty() {
            let text = "a key is left in a closed map";
            self.world.report(Kind::WrongAnswer, text);
        }
    }

    fn check_rejection(&self, is_full: bool, call: Call<W::Time>) {
        self.shared.check_rejection(&self.world, is_full, call);
    }

    fn note(&mut self, key: Key, act: Act<W::Time>, answer: bool, call: Call<W::Time>) {
        self.world.note(Some(key), 0, act, answer, call.into());
    }
}

/// A deadline with its history, and with the moment at which it was dropped.
pub struct Kept<W: World> {
    deadline: Option<KeyedDeadline<Key>>,
    interval: u64,
    /// Dropped after the deadline.
    world: W,
}

impl<W: World> Kept<W> {
    fn deadline(&self) -> &KeyedDeadline<Key> {
        self.deadline.as_ref().expect("it was not dropped")
    }

    fn handle(&self) -> ResetHandle {
        self.deadline().handle()
    }

    fn note(&mut self, act: Act<W::Time>, answer: bool, seen: Seen<W::Time>) {
        let key = *self.deadline().key();
        self.world.note(Some(key), self.interval, act, answer, seen);
    }
}

impl<W: World> Future for Kept<W> {
    type Output = Result<(), Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(self.deadline.as_mut().expect("it was not dropped")).poll(cx)
    }
}

impl<W: World> Drop for Kept<W> {
    fn drop(&mut self) {
        let Some(deadline) = self.deadline.take() else {
            return;
        };
        let (key, interval) = (*deadline.key(), self.interval);
        let ((), call) = self.world.timed(|| drop(deadline));
        self.world
            .note(Some(key), interval, Act::Take, true, call.into());
    }
}
