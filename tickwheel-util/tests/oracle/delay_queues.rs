//! A `DelayQueue` beside tokio-util's and a sorted list, under a paused clock: random calls of all
//! that the two have.
//!
//! The sorted list says exactly what comes out here, ties included. tokio-util's says what is ready
//! and who is woken; within a millisecond its values come in any order. What differs on purpose is
//! left out: a key that is no longer good is given to ours alone, because there it may be another
//! value's, and no delay is beyond two years.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use fastrand::Rng;
use futures::Stream;
use tickwheel::{Duration, Instant, Timer};
use tickwheel_util::time::delay_queue;
use tokio::task::coop::unconstrained;
use tokio_test::task;
use tokio_util::time::delay_queue as peer;

use crate::common::catch;
use crate::paused_clock::{paused, settle};
use crate::programs::same;
use crate::shrink::shrink;

/// Times are in microseconds, and values are numbered in the order of their inserts.
#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64),
    InsertAt(i64),
    Reset(usize, u64),
    ResetAt(usize, i64),
    Remove(usize),
    TryRemove(usize),
    Deadline(usize),
    /// Takes the next value, by the waker of this number.
    Poll(usize),
    PollStream(usize),
    /// Takes all that is due.
    PollAll(usize),
    Clear,
    Reserve(usize),
    ShrinkToFit,
    Compact,
    Advance(u64),
    RunFor(u64),
}

fn ops(seed: u64, count: usize) -> Vec<Op> {
    let mut random = Rng::with_seed(seed);
    // Between two milliseconds the grids of the queue, the timer and tokio lie apart.
    let step = if random.bool() { 1_000 } else { 1 };
    let is_busy = random.bool();
    (0..count).map(|_| op(&mut random, step, is_busy)).collect()
}

fn op(random: &mut Rng, step: u64, is_busy: bool) -> Op {
    let nth = random.usize(..64);
    let waker = random.usize(..2);
    let span = |random: &mut Rng| {
        let most = match random.u8(..12) {
            0 => return 0,
            1..5 => 5_000,
            5..9 => 200_000,
            9 | 10 => 20_000_000,
            _ => 3_600_000_000 << random.u32(..13),
        };
        random.u64(..most) / step * step
    };
    let at = |random: &mut Rng| {
        let at = span(random) as i64;
        if random.u8(..4) == 0 { -at } else { at }
    };
    match random.u8(..100) {
        0..12 => Op::Insert(span(random)),
        12..24 => Op::InsertAt(at(random)),
        24..31 => Op::Reset(nth, span(random)),
        31..38 => Op::ResetAt(nth, at(random)),
        38..43 => Op::Remove(nth),
        43..49 => Op::TryRemove(nth),
        49 => Op::Deadline(nth),
        50..58 => Op::Poll(waker),
        58..62 => Op::PollStream(waker),
        62..76 => Op::PollAll(waker),
        76 if !is_busy => Op::Clear,
        77 => Op::Reserve(nth),
        78 => Op::ShrinkToFit,
        79 => Op::Compact,
        80..90 => Op::Advance(span(random)),
        _ => Op::RunFor(span(random)),
    }
}

/// Who polls one of the two queues.
struct Poller {
    wakers: [task::Spawn<()>; 2],
    last: usize,
    is_pending: bool,
    /// How often it was woken for nothing.
    spurious: u32,
}

impl Poller {
    fn new() -> Poller {
        Poller {
            wakers: [task::spawn(()), task::spawn(())],
            last: 0,
            is_pending: false,
            spurious: 0,
        }
    }

    /// Since its last poll.
    fn is_woken(&self) -> bool {
        self.wakers[self.last].is_woken()
    }

    /// Polls outside of the task's budget. Says also whether it was ready without a wake-up.
    fn poll<R>(
        &mut self,
        waker: usize,
        poll: impl FnMut(&mut Context<'_>) -> Poll<R>,
    ) -> (Poll<R>, bool) {
        let (has_waited, was_woken) = (self.is_pending, self.is_woken());
        self.last = waker;
        let polled = pin!(unconstrained(std::future::poll_fn(poll)));
        let polled = self.wakers[waker].enter(|cx, _| polled.poll(cx));
        self.is_pending = polled.is_pending();
        self.spurious += u32::from(has_waited && was_woken && self.is_pending);
        let is_unexpected = has_waited && !was_woken && polled.is_ready();
        (polled, is_unexpected)
    }
}

struct Value {
    key: delay_queue::Key,
    peers: peer::Key,
    /// Its place in the sorted list while it is in.
    place: Option<(u64, u64)>,
    /// Its deadline had passed when it was set, which tokio-util's does not keep.
    was_past: bool,
}

struct Both {
    start: Instant,
    queue: delay_queue::DelayQueue<usize>,
    peer: peer::DelayQueue<usize>,
    poller: Poller,
    peers_poller: Poller,
    values: Vec<Value>,
    order: BTreeMap<(u64, u64), usize>,
    settings: u64,
}

impl Both {
    fn new() -> Both {
        Both {
            start: Instant::now(),
            queue: Default::default(),
            peer: Default::default(),
            poller: Poller::new(),
            peers_poller: Poller::new(),
            values: Vec::new(),
            order: BTreeMap::new(),
            settings: 0,
        }
    }

    fn set(&mut self, value: usize, when: Instant) {
        let since = when.saturating_duration_since(self.start);
        self.take(value);
        self.settings += 1;
        let place = (since.as_nanos().div_ceil(1_000_000) as u64, self.settings);
        self.values[value].place = Some(place);
        self.values[value].was_past = when <= Instant::now();
        self.order.insert(place, value);
    }

    fn take(&mut self, value: usize) {
        if let Some(place) = self.values[value].place.take() {
            self.order.remove(&place);
        }
    }

    fn inserted(&mut self, key: delay_queue::Key, peers: peer::Key, when: Instant) {
        self.values.push(Value {
            key,
            peers,
            place: None,
            was_past: false,
        });
        self.set(self.values.len() - 1, when);
    }

    fn instant(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }

    async fn run(&mut self, op: Op) -> Result<(), String> {
        let now = Instant::now();
        let was_empty = self.order.is_empty();
        let after = Duration::from_micros;
        let at = |micros: i64| {
            let apart = after(micros.unsigned_abs());
            if micros < 0 { now - apart } else { now + apart }
        };
        let number = self.values.len();
        match op {
            Op::Insert(micros) => {
                let key = self.queue.insert(number, after(micros));
                let peers = self.peer.insert(number, after(micros));
                self.inserted(key, peers, now + after(micros));
            }
            Op::InsertAt(micros) => {
                let key = self.queue.insert_at(number, at(micros));
                let peers = self.peer.insert_at(number, at(micros));
                self.inserted(key, peers, at(micros));
            }
            Op::Reset(nth, _)
            | Op::ResetAt(nth, _)
            | Op::Remove(nth)
            | Op::TryRemove(nth)
            | Op::Deadline(nth) => {
                // Nearly always one of the last ones.
                if let Some(value) = number.checked_sub(1 + nth * nth / 64) {
                    self.by_key(op, value, at)?;
                }
            }
            Op::Poll(waker) | Op::PollStream(waker) => {
                let is_stream = matches!(op, Op::PollStream(_));
                self.poll(waker, is_stream).await?;
            }
            Op::PollAll(waker) => while self.poll(waker, false).await? {},
            Op::Clear => {
                self.queue.clear();
                self.peer.clear();
                self.order.clear();
                self.values.iter_mut().for_each(|value| value.place = None);
            }
            Op::Reserve(additional) => {
                self.queue.reserve(additional);
                self.peer.reserve(additional);
                let wanted = self.order.len() + additional;
                same(
                    "capacity",
                    self.queue.capacity() >= wanted,
                    self.peer.capacity() >= wanted,
                )?;
            }
            Op::ShrinkToFit => {
                self.queue.shrink_to_fit();
                self.peer.shrink_to_fit();
            }
            Op::Compact => {
                self.queue.compact();
                self.peer.compact();
                let enough = self.queue.capacity() >= self.peer.capacity();
                same("capacity", enough, true)?;
            }
            Op::Advance(micros) => tokio::time::advance(after(micros)).await,
            Op::RunFor(micros) => tokio::time::sleep(after(micros)).await,
        }
        settle().await;
        // What the stream's end or a new begin is to whoever polled last.
        let must_wake = (was_empty || self.order.is_empty()) && self.peers_poller.is_woken();
        same("woken", self.poller.is_woken() || !must_wake, true)?;
        self.compare()
    }

    fn by_key(&mut self, op: Op, value: usize, at: impl Fn(i64) -> Instant) -> Result<(), String> {
        let Value {
            key,
            peers,
            place,
            was_past,
        } = self.values[value];
        let Some((tick, _)) = place else {
            return same(
                "a key of no value",
                self.queue.try_remove(&key).is_some(),
                false,
            );
        };
        let deadline = self.instant(tick);
        same("deadline", self.queue.deadline(&key), deadline)?;
        let peers_deadline = self.peer.deadline(&peers);
        let is_right = peers_deadline == deadline || was_past && peers_deadline > deadline;
        same("the peer's deadline", is_right, true)?;
        match op {
            Op::Reset(_, micros) => {
                let after = Duration::from_micros(micros);
                self.queue.reset(&key, after);
                self.peer.reset(&peers, after);
                self.set(value, Instant::now() + after);
            }
            Op::ResetAt(_, micros) => {
                self.queue.reset_at(&key, at(micros));
                self.peer.reset_at(&peers, at(micros));
                self.set(value, at(micros));
            }
            Op::Remove(_) | Op::TryRemove(_) => {
                let (removed, peers) = match op {
                    Op::Remove(_) => (self.queue.remove(&key), self.peer.remove(&peers)),
                    _ => {
                        let peers = self.peer.try_remove(&peers).expect("it is there");
                        (self.queue.try_remove(&key).ok_or("lost")?, peers)
                    }
                };
                same("removed", *removed.get_ref(), *peers.get_ref())?;
                let told = (removed.key(), removed.deadline(), removed.into_inner());
                same("removed", told, (key, deadline, value))?;
                self.take(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes values out of both until these are the same. Says whether there were any.
    async fn poll(&mut self, waker: usize, is_stream: bool) -> Result<bool, String> {
        let (mut taken, mut peers) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let mut polled = self.poll_once(waker, is_stream)?;
            let mut peers_polled = self.poll_peer(waker, is_stream);
            if polled.is_pending() != peers_polled.is_pending() {
                // At the first poll of a sleep tokio's waits for the driver, and this crate's looks
                // at the clock.
                settle().await;
                if polled.is_pending() {
                    polled = self.poll_once(waker, is_stream)?;
                } else {
                    peers_polled = self.poll_peer(waker, is_stream);
                }
            }
            let (Poll::Ready(Some(value)), Poll::Ready(Some(peers_value))) = (polled, peers_polled)
            else {
                same("poll", polled, peers_polled)?;
                same("taken", &taken, &peers)?;
                return Ok(false);
            };
            taken.insert(value);
            peers.insert(peers_value);
            if taken == peers {
                return Ok(true);
            }
        }
    }

    fn poll_once(&mut self, waker: usize, is_stream: bool) -> Result<Poll<Option<usize>>, String> {
        let Both { queue, poller, .. } = self;
        let (polled, is_unexpected) = poller.poll(waker, |cx| {
            if is_stream {
                Pin::new(&mut *queue).poll_next(cx)
            } else {
                queue.poll_expired(cx)
            }
        });
        same("ready without a wake-up", is_unexpected, false)?;
        match &polled {
            Poll::Ready(None) => same("is empty", self.order.is_empty(), true)?,
            Poll::Ready(Some(expired)) => {
                let (&(tick, _), &value) = self.order.first_key_value().ok_or("none is left")?;
                let deadline = self.instant(tick);
                let told = (*expired.get_ref(), expired.key(), expired.deadline());
                same("expired", told, (value, self.values[value].key, deadline))?;
                same("early", deadline > Instant::now(), false)?;
                self.take(value);
            }
            Poll::Pending => {}
        }
        Ok(polled.map(|expired| expired.map(delay_queue::Expired::into_inner)))
    }

    fn poll_peer(&mut self, waker: usize, is_stream: bool) -> Poll<Option<usize>> {
        let peer = &mut self.peer;
        let (polled, _) = self.peers_poller.poll(waker, |cx| {
            if is_stream {
                Pin::new(&mut *peer).poll_next(cx)
            } else {
                peer.poll_expired(cx)
            }
        });
        polled.map(|expired| expired.map(peer::Expired::into_inner))
    }

    fn compare(&self) -> Result<(), String> {
        let first = self.order.values().next();
        let key = first.map(|&value| self.values[value].key);
        same("peek", self.queue.peek(), key)?;
        same("len", self.queue.len(), self.peer.len())?;
        same("is_empty", self.queue.is_empty(), self.peer.is_empty())?;
        same("len", self.queue.len(), self.order.len())?;
        // A wait has one timer, and an empty queue none.
        let armed = Timer::current().metrics().pending();
        let is_waiting = self.poller.is_pending && !self.poller.is_woken();
        let least = u64::from(is_waiting);
        let most = u64::from(!self.order.is_empty());
        same("armed", (least..=most).contains(&(armed as u64)), true)
    }
}

/// How often the task of the one and of the other was woken for nothing.
type Spurious = [u32; 2];

fn run_all(ops: &[Op]) -> Result<Spurious, String> {
    let run = async {
        let mut both = Both::new();
        for (step, &op) in ops.iter().enumerate() {
            let outcome = both.run(op).await;
            outcome.map_err(|message| format!("step {step}: {message}"))?;
        }
        Ok([both.poller.spurious, both.peers_poller.spurious])
    };
    catch(|| paused().block_on(run)).unwrap_or_else(|(message, _)| Err(message))
}

pub(crate) fn run(seed: u64, count: usize) -> Result<Spurious, String> {
    shrink(ops(seed, count), run_all)
        .map_err(|(ops, message)| format!("seed {seed}: {ops:#?}\n{message}"))
}
