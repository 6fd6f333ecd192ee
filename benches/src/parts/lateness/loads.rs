//! The loads, each as one contender's turn: a runtime of its own, the load, and the timers that are
//! armed with it.

use std::future::Future;
use std::ops::Range;
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, unconstrained, yield_now};

use super::probes::{Found, Probes};
use super::timers::{Kind, Timers};
use crate::harness::{Standing, runtime};

/// How many timeouts the load of [`timeouts`] makes in each millisecond.
const EACH_MILLISECOND: usize = 1_000;

/// Beside a burst.
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
        let _standing = Standing::of(self.contender, &runtime);
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
        let mut load = spawned(1, || make_timeouts(timers.clone()));
        let found = spread(timers, turn.either(400, 100)).await;
        load.shutdown().await;
        found
    })
}

/// Eight tasks whose polls take that long, and make timeouts without pause. What is measured is
/// armed within the load, and due when it is over.
pub fn busy(turn: Turn, poll: Duration) -> Found {
    turn.run(move |timers| async move {
        let begin = Instant::now();
        let all = spawned(8, || busy_task(timers.clone(), begin, poll));
        let mut found = Found::default();
        for probes in all.join_all().await {
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

async fn busy_task(timers: Timers, begin: Instant, poll: Duration) -> Probes {
    let mut probes = Probes::new(&timers);
    let mut last_armed = begin;
    while begin.elapsed() < BUSY {
        let start = Instant::now();
        while start.elapsed() < poll {
            timers.arm_and_disarm(32);
            let armed_long_ago = last_armed.elapsed() >= Duration::from_millis(1);
            if armed_long_ago && ARMS.contains(&begin.elapsed()) {
                Kind::ALL.iter().for_each(|kind| probes.arm(*kind, AFTER));
                last_armed = Instant::now();
            }
        }
        yield_now().await;
    }
    probes
}

/// One task blocks the one worker, and very many timeouts are armed. What is measured is armed
/// within the stall, and due long after it.
pub fn stall(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let mut load = spawned(1, || make_timeouts(timers.clone()));
        tokio::time::sleep(BEFORE_STALL).await;
        let mut probes = Probes::new(&timers);
        let begin = Instant::now();
        while begin.elapsed() < STALL {
            Kind::ALL.iter().for_each(|kind| probes.arm(*kind, AFTER));
            thread::sleep(Duration::from_millis(1));
        }
        load.shutdown().await;
        probes.collect().await
    })
}

/// Very many timers are due at one instant, among tasks that are always ready: of each kind in
/// turn.
pub fn burst(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let mut found = Found::default();
        for kind in [Kind::Sleep, Kind::Deadline] {
            let mut probes = Probes::new(&timers);
            let due = Instant::now() + Duration::from_millis(150);
            for _ in 0..turn.either(20_000, 5_000) {
                probes.arm(kind, due.saturating_duration_since(Instant::now()));
            }
            let mut ready = spawned(ALWAYS_READY, always_ready);
            found.merge(probes.collect().await);
            ready.shutdown().await;
        }
        found
    })
}

/// In milliseconds, where the third level of a wheel of 64 slots begins, for both contenders: all
/// timers in its first slot move down when this time has passed.
const CASCADE_AT: u64 = 4_096;

/// Very many timers lie over a minute, and some of them are looked at while a slot of the third
/// level comes down.
pub fn full(turn: Turn) -> Found {
    turn.run(move |timers| async move {
        let count = turn.either(625_000, 12_500);
        let others = spawned(8, || {
            let timers = timers.clone();
            async move {
                let other = |_| timers.wait(Kind::Sleep, random(100..60_000), Waker::noop());
                (0..count).map(other).collect::<Vec<_>>()
            }
        });
        let _others = others.join_all().await;
        let mut probes = Probes::new(&timers);
        let most = turn.either(CASCADE_AT + 300, 300);
        for _ in 0..5_000 {
            probes.arm(Kind::Sleep, random(100..most));
        }
        probes.collect().await
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
async fn make_timeouts(timers: Timers) {
    let mut steps = tokio::time::interval(Duration::from_millis(1));
    loop {
        steps.tick().await;
        timers.arm_and_disarm(EACH_MILLISECOND);
    }
}

/// Such a task has something to do each time.
async fn always_ready() {
    loop {
        let begin = Instant::now();
        while begin.elapsed() < READY_WORK {}
        yield_now().await;
    }
}

/// Spawns so many tasks.
fn spawned<F>(count: usize, mut task: impl FnMut() -> F) -> JoinSet<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    (0..count).map(|_| unconstrained(task())).collect()
}

#[cfg(test)]
mod tests {
    use itertools::iproduct;

    use super::super::timers::CONTENDERS;
    use super::*;

    #[test]
    fn every_kind_is_measured_and_none_is_early() {
        for contender in CONTENDERS {
            let turn = Turn {
                contender,
                workers: 1,
                quick: true,
            };
            let found = turn.run(|timers| async move {
                let mut probes = Probes::new(&timers);
                for (kind, millis) in iproduct!(Kind::ALL, [10, 20]) {
                    probes.arm(*kind, Duration::from_millis(millis));
                }
                probes.collect().await
            });
            assert_eq!(found.early, 0);
            for kind in Kind::ALL {
                assert!(found.of(*kind).is_some(), "{contender}, {kind:?}");
            }
        }
    }
}
