//! The loads, each as one contender's turn: a runtime of its own, the load, and the timers that are
//! armed beside it.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, unconstrained, yield_now};

use super::probes::{Found, Probes};
use super::timers::{Kind, Timers};
use crate::harness::runtime;

/// How many timeouts the load of [`timeouts`] makes in each millisecond.
const EACH_MILLISECOND: usize = 1_000;

/// Beside a burst and a cascade.
const ALWAYS_READY: usize = 200;
const READY_WORK: Duration = Duration::from_micros(20);

/// What a turn needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub contender: &'static str,
    /// 0 is a runtime on the current thread.
    pub workers: usize,
    pub quick: bool,
}

impl Turn {
    /// Runs a load on a fresh runtime, in a task of its own.
    fn run<F>(self, load: impl FnOnce(Timers) -> F) -> Found
    where
        F: Future<Output = Found> + Send + 'static,
    {
        let runtime = runtime(self.workers);
        let _within = runtime.enter();
        let load = load(Timers::of(self.contender));
        let task = runtime.spawn(unconstrained(load));
        runtime.block_on(task).expect("the load does not panic")
    }

    fn either<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Nothing else runs.
pub fn at_rest(turn: Turn) -> Found {
    turn.run(|timers| spread(timers, 60))
}

/// Beside very many timeouts that are made and dropped.
pub fn timeouts(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let load = Background::start(1, |over| make_timeouts(timers.clone(), over));
        let found = spread(timers, turn.either(400, 100)).await;
        load.stop().await;
        found
    })
}

/// Eight tasks whose polls take that long, and make timeouts without pause. What is measured is
/// armed within the load, and due when it is over.
pub fn busy(turn: Turn, poll: Duration) -> Found {
    turn.run(move |timers| async move {
        let begin = Instant::now();
        let tasks: Vec<_> = (0..8)
            .map(|index| {
                let kinds = if index == 0 {
                    Kind::ALL
                } else {
                    &Kind::ALL[..4] // One stream of values is enough.
                };
                tokio::spawn(unconstrained(busy_task(timers.clone(), begin, poll, kinds)))
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await.expect("a timeout does not panic"));
        }
        let mut found = Found::default();
        for probes in all {
            found.merge(probes.collect().await);
        }
        found
    })
}

/// How long the load of [`busy`] lasts, and in which part of it it arms.
const BUSY: Duration = Duration::from_millis(1_000);
const ARMS: Range<Duration> = Duration::from_millis(200)..BUSY;

/// How long the stall of [`stall`] lasts, and the load before it.
const STALL: Duration = Duration::from_millis(500);
const BEFORE_STALL: Duration = Duration::from_millis(300);

/// What [`busy`] and [`stall`] arm is due after the load.
const AFTER: Duration = Duration::from_secs(2);

/// How long a turn of [`busy`] or [`stall`] loads its runtime. The next turn may begin then.
pub const LOAD: Duration = Duration::from_millis(1_100);

async fn busy_task(
    timers: Timers,
    begin: Instant,
    poll: Duration,
    kinds: &'static [Kind],
) -> Probes {
    let mut probes = Probes::new(&timers);
    let mut last_armed = begin;
    while begin.elapsed() < BUSY {
        let start = Instant::now();
        while start.elapsed() < poll {
            timers.arm_and_disarm(32);
            let armed_long_ago = last_armed.elapsed() >= Duration::from_millis(1);
            if armed_long_ago && ARMS.contains(&begin.elapsed()) {
                kinds.iter().for_each(|kind| probes.arm(*kind, AFTER));
                last_armed = Instant::now();
            }
        }
        yield_now().await;
    }
    probes
}

/// One task blocks the one worker, beside very many timeouts. What is measured is armed within the
/// stall, and due long after it.
pub fn stall(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let load = Background::start(1, |over| make_timeouts(timers.clone(), over));
        tokio::time::sleep(BEFORE_STALL).await;
        let mut probes = Probes::new(&timers);
        let begin = Instant::now();
        while begin.elapsed() < STALL {
            Kind::ALL.iter().for_each(|kind| probes.arm(*kind, AFTER));
            thread::sleep(Duration::from_millis(1));
        }
        load.stop().await;
        probes.collect().await
    })
}

/// Very many timers are due at one instant, beside tasks that are always ready: of each kind in
/// turn.
pub fn burst(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let mut found = Found::default();
        for kind in [Kind::Sleep, Kind::Timeout, Kind::Deadline] {
            let mut probes = Probes::new(&timers);
            let due = Instant::now() + Duration::from_millis(150);
            for _ in 0..turn.either(20_000, 5_000) {
                probes.arm(kind, due.saturating_duration_since(Instant::now()));
            }
            let ready = Background::start(ALWAYS_READY, always_ready);
            found.merge(probes.collect().await);
            ready.stop().await;
        }
        found
    })
}

/// Where the third level of a wheel of 64 slots begins, for both contenders: all timers in its
/// first slot move down when this time has passed.
const CASCADE_AT: Duration = Duration::from_millis(4_096);

/// How long a turn of [`cascade`] disturbs others.
pub const CASCADE: Duration = Duration::from_millis(800);

/// Very many timers move from a coarse slot to finer ones and are not due, beside tasks that are
/// always ready. Short sleeps that have nothing to do with them are due about then.
pub fn cascade(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let begin = Instant::now();
        // As tasks arm them, on all workers.
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let timers = timers.clone();
                tokio::spawn(unconstrained(async move {
                    let mut lot = Probes::new(&timers);
                    for _ in 0..25_000 {
                        let due = begin + random(5_500..8_000);
                        lot.arm(Kind::Sleep, due.saturating_duration_since(Instant::now()));
                    }
                    lot
                }))
            })
            .collect();
        let mut lots = Vec::new();
        for task in tasks {
            lots.push(task.await.expect("arming does not panic"));
        }
        let from = begin + CASCADE_AT - Duration::from_millis(300);
        tokio::time::sleep_until(from.into()).await;
        let ready = Background::start(ALWAYS_READY, always_ready);
        let mut probes = Probes::new(&timers);
        for _ in 0..5_000 {
            let due = from + random(100..500);
            probes.arm(Kind::Sleep, due.saturating_duration_since(Instant::now()));
        }
        let found = probes.collect().await;
        ready.stop().await;
        found
    })
}

/// Very many timers lie over a minute, and some of them are looked at while a slot of the third
/// level comes down.
pub fn full(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let timers = timers.clone();
                let count = turn.either(625_000, 12_500);
                tokio::spawn(unconstrained(async move {
                    let other = |_| timers.wait(Kind::Sleep, random(100..60_000), Waker::noop());
                    (0..count).map(other).collect::<Vec<_>>()
                }))
            })
            .collect();
        let mut others = Vec::new();
        for task in tasks {
            others.push(task.await.expect("arming does not panic"));
        }
        let mut probes = Probes::new(&timers);
        let most = turn.either(CASCADE_AT.as_millis() as u64 + 300, 300);
        for _ in 0..5_000 {
            probes.arm(Kind::Sleep, random(100..most));
        }
        let found = probes.collect().await;
        drop(others);
        found
    })
}

/// Timers of all kinds that are due one by one over a short time.
async fn spread(timers: Timers, count: usize) -> Found {
    let mut probes = Probes::new(&timers);
    for _ in 0..count {
        for kind in Kind::ALL {
            probes.arm(*kind, random(5..300));
        }
    }
    probes.collect().await
}

fn random(millis: Range<u64>) -> Duration {
    Duration::from_micros(fastrand::u64(millis.start * 1_000..millis.end * 1_000))
}

/// Makes very many timeouts. An interval of tokio's paces both contenders.
async fn make_timeouts(timers: Timers, over: Arc<AtomicBool>) {
    let mut steps = tokio::time::interval(Duration::from_millis(1));
    while !over.load(Ordering::Relaxed) {
        steps.tick().await;
        timers.arm_and_disarm(EACH_MILLISECOND);
    }
}

/// Such a task has something to do each time.
async fn always_ready(over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        while begin.elapsed() < READY_WORK {}
        yield_now().await;
    }
}

/// Tasks that run until they are stopped.
struct Background {
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Background {
    fn start<F>(count: usize, mut task: impl FnMut(Arc<AtomicBool>) -> F) -> Background
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let over = Arc::new(AtomicBool::new(false));
        let tasks = (0..count)
            .map(|_| tokio::spawn(unconstrained(task(over.clone()))))
            .collect();
        Background { over, tasks }
    }

    async fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("it does not panic");
        }
    }
}
