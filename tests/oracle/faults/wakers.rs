//! Wakers that panic, and wakers that arm, reset, cancel, drop and drain while they are woken.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use fastrand::Rng;
use futures::{FutureExt, StreamExt};
use tickwheel::{Deadline, DeadlineMap, DelayMap, Expirations, Instant, ResetHandle, Sleep, Timer};

use super::on_paused_clock;
use crate::common::{MS, poll_with};
use crate::paused_clock::{move_the_clock_only, settle};

/// What the wakers use while they are woken.
struct Ground {
    timer: Timer,
    deadlines: DeadlineMap<u32>,
    values: DelayMap<u32, u32>,
    handles: Mutex<Vec<ResetHandle>>,
    /// Armed sleeps and deadlines that a waker may drop.
    droppable: Mutex<(Vec<Sleep>, Vec<Deadline>)>,
    random: Mutex<Rng>,
    /// How often a waker has panicked on purpose.
    panics: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ground {
    fn number(&self, below: usize) -> usize {
        lock(&self.random).usize(..below.max(1))
    }

    /// Does something at random that a program may do in a waker.
    fn meddle(&self, waker: &Waker) {
        let handle = {
            let handles = lock(&self.handles);
            handles.get(self.number(handles.len())).cloned()
        };
        let key = self.number(200) as u32;
        match (self.number(18), handle) {
            (0, _) => {
                let mut sleep = self.timer.sleep(self.number(5) as u32 * MS);
                let _ = poll_with(&mut sleep, waker);
                lock(&self.droppable).0.push(sleep);
            }
            (1, _) => lock(&self.droppable).1.push(self.timer.deadline(3 * MS)),
            (2, _) => drop(lock(&self.droppable).0.pop()),
            (3, _) => drop(lock(&self.droppable).1.pop()),
            (4, _) => drop(self.deadlines.drain()),
            (5, _) => drop(self.values.drain()),
            (6, _) => drop(self.values.insert(
                self.number(9) as u32,
                0,
                self.number(4) as u32 * MS,
            )),
            (7, Some(handle)) => _ = handle.reset(),
            (8, Some(handle)) => _ = handle.reset_after(self.number(4) as u32 * MS),
            (9, Some(handle)) => _ = handle.cancel(),
            (10, Some(handle)) => _ = handle.expire(),
            (11, Some(handle)) => _ = handle.set_timeout(4 * MS),
            (12, _) => _ = self.deadlines.reset(&key),
            (13, _) => _ = self.deadlines.expire(&key),
            (14, _) => _ = self.deadlines.expire_all(),
            // It takes the place of an older one.
            (15, _) => drop(self.deadlines.insert(key, 4 * MS)),
            (16, _) => _ = self.values.expire_all(),
            _ => {
                let pending = self.timer.metrics().pending();
                assert!(pending < 10_000 && self.values.len() <= 9);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counts,
    Panics,
    Meddles,
}

struct Faulty {
    kind: Kind,
    ground: Arc<Ground>,
    count: AtomicU32,
}

impl Wake for Faulty {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        match self.kind {
            Kind::Counts => {}
            Kind::Panics => {
                self.ground.panics.fetch_add(1, Ordering::Relaxed);
                std::panic::resume_unwind(Box::new("a waker that panics"))
            }
            Kind::Meddles => self.ground.meddle(Waker::noop()),
        }
    }
}

fn faulty(kind: Kind, ground: &Arc<Ground>) -> Arc<Faulty> {
    Arc::new(Faulty {
        kind,
        ground: ground.clone(),
        count: AtomicU32::new(0),
    })
}

/// One that waits, and when it is due.
struct Waiting {
    future: Pin<Box<dyn Future<Output = bool>>>,
    due: Instant,
    waker: Arc<Faulty>,
    /// A waker may move it, end it, or take it out.
    is_shared: bool,
}

impl Waiting {
    fn poll(&mut self) -> bool {
        poll_with(&mut self.future, &Waker::from(self.waker.clone())).is_ready()
    }

    fn wakes(&self) -> u32 {
        self.waker.count.load(Ordering::Relaxed)
    }
}

pub(crate) fn run(seed: u64) -> Result<(), String> {
    on_paused_clock(format!("faulty wakers, seed {seed}"), move || rounds(seed))
}

async fn rounds(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let timer = Timer::builder()
        .shards(random.choice([1, 4]).unwrap())
        .build()
        .unwrap();
    let (values, mut stream) = DelayMap::new(&timer);
    let ground = Arc::new(Ground {
        deadlines: DeadlineMap::new(&timer),
        values,
        handles: Mutex::default(),
        droppable: Mutex::default(),
        random: Mutex::new(Rng::with_seed(seed)),
        panics: AtomicU64::new(0),
        timer: timer.clone(),
    });
    for _ in 0..4 {
        round(&mut random, &ground, &mut stream).await;
        lock(&ground.handles).clear();
        let dropped = std::mem::take(&mut *lock(&ground.droppable));
        drop(dropped);
        drop((ground.deadlines.drain(), ground.values.drain()));
        settle().await;
        let pending = timer.metrics().pending();
        // A stream that was polled may be counted as one.
        assert!(pending <= 1, "{pending} are pending, and nothing is left");
        assert_eq!((ground.values.len(), ground.deadlines.len()), (0, 0));
        // A call under a lock of its own map would panic too, or hang.
        let panics = ground.panics.load(Ordering::Relaxed);
        assert_eq!(timer.metrics().waker_panics(), panics, "on purpose");
    }
    drop((stream, ground));
    settle().await;
    assert_eq!(timer.metrics().pending(), 0, "nothing is left");
}

async fn round(random: &mut Rng, ground: &Arc<Ground>, stream: &mut Expirations<u32, u32>) {
    let mut all = Vec::new();
    let start = Instant::now();
    for number in 0..random.u32(1..200) {
        let kind = random.choice([Kind::Counts, Kind::Counts, Kind::Panics, Kind::Meddles]);
        let waker = faulty(kind.unwrap(), ground);
        let after = random.u32(1..12) * MS;
        let (timer, way) = (&ground.timer, random.u8(..4));
        let future: Pin<Box<dyn Future<Output = bool>>> = match way {
            0 => {
                let deadline = timer.deadline(after);
                lock(&ground.handles).push(deadline.handle());
                Box::pin(deadline.map(|ended| ended.is_ok()))
            }
            1 => {
                let keyed = ground.deadlines.insert(number, after).unwrap();
                Box::pin(keyed.map(|ended| ended.is_ok()))
            }
            2 => Box::pin(timer.sleep(after).map(|()| true)),
            _ => Box::pin(
                timer
                    .timeout(after, pending::<()>())
                    .map(|ended| ended.is_err()),
            ),
        };
        let mut waiting = Waiting {
            future,
            due: start + after,
            waker,
            is_shared: way < 2,
        };
        assert!(!waiting.poll(), "it lies ahead");
        all.push(waiting);
        if random.bool() {
            let delay = random.u32(..12) * MS;
            let _ = ground.values.insert(number % 9, number, delay);
        }
    }
    let kind = random.choice([Kind::Counts, Kind::Panics, Kind::Meddles]);
    let for_stream = faulty(kind.unwrap(), ground);
    for _ in 0..20 {
        take_values(stream, &for_stream);
        match random.u8(..3) {
            0 => tokio::time::advance(random.u32(..3) * MS).await,
            1 => tokio::time::sleep(random.u32(..3) * MS).await,
            _ => {
                // The call may find what has passed before the driver does.
                move_the_clock_only(random.u32(..3) * MS);
                ground.meddle(Waker::noop());
            }
        }
        settle().await;
        let now = Instant::now();
        for waiting in all.iter().filter(|waiting| !waiting.is_shared) {
            let is_due = u32::from(waiting.due <= now);
            assert_eq!(waiting.wakes(), is_due, "woken, once, when it is due");
        }
        if random.u8(..4) == 0 && !all.is_empty() {
            drop(all.swap_remove(random.usize(..all.len())));
        }
    }
    tokio::time::sleep(30 * MS).await;
    settle().await;
    for waiting in &mut all {
        assert!(waiting.wakes() > 0, "nothing sleeps on, whatever others do");
        assert!(waiting.is_shared || waiting.poll(), "it is due");
    }
    take_values(stream, &for_stream);
    let due = ground.values.len();
    assert_eq!(due, 0, "{due} values are due and do not come out");
}

fn take_values(stream: &mut Expirations<u32, u32>, waker: &Arc<Faulty>) {
    let waker = Waker::from(waker.clone());
    let mut cx = Context::from_waker(&waker);
    for _ in 0..10_000 {
        if stream.poll_next_unpin(&mut cx).is_pending() {
            return;
        }
    }
    panic!("the stream has no end");
}
