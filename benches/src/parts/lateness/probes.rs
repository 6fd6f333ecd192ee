//! Timers whose lateness is told: how long after it was due each of them woke its waker.
//!
//! The waker notes the instant itself. So the time that a task waits for a worker is not in the
//! figure, which the scheduler would add to each contender alike. A value comes out of a stream, so
//! its figure ends where the task that reads the stream has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::task::unconstrained;

use super::timers::{Kind, Timers, Values, Wait};

/// A timer that has not fired this long after it was due is lost.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// Some timers that are armed.
pub struct Probes {
    timers: Timers,
    origin: Instant,
    probes: Vec<Probe>,
    /// Made by the first value.
    values: Option<Values>,
    last_due: Instant,
}

struct Probe {
    kind: Kind,
    due: Instant,
    woken: Arc<Woken>,
    wait: Wait,
}

/// Notes when it was first woken, in nanoseconds from an origin; 0 before.
struct Woken {
    origin: Instant,
    at: AtomicU64,
}

/// How late some timers were.
#[derive(Default)]
pub struct Found {
    late: Vec<(Kind, Duration)>,
    pub early: usize,
}

impl Probes {
    pub fn new(timers: &Timers) -> Probes {
        let now = Instant::now();
        Probes {
            timers: timers.clone(),
            origin: now,
            probes: Vec::new(),
            values: None,
            last_due: now,
        }
    }

    pub fn arm(&mut self, kind: Kind, after: Duration) {
        if kind == Kind::Value {
            let values = self.values.get_or_insert_with(|| Values::new(&self.timers));
            values.insert(after);
            self.last_due = self.last_due.max(Instant::now() + after);
            return;
        }
        let woken = Arc::new(Woken {
            origin: self.origin,
            at: AtomicU64::new(0),
        });
        let waker = Waker::from(woken.clone());
        let (wait, due) = self.timers.wait(kind, after, &waker);
        self.last_due = self.last_due.max(due);
        self.probes.push(Probe {
            kind,
            due,
            woken,
            wait,
        });
    }

    /// Waits until all have fired, and tells how late each was. The task must be unconstrained.
    pub async fn collect(mut self) -> Found {
        let mut found = Found::default();
        if let Some(mut values) = self.values.take() {
            // In a task, which has a worker of its own kind to run on.
            let all = tokio::spawn(unconstrained(async move {
                let mut late = Vec::new();
                for _ in 0..values.len() {
                    let due = values.next().await;
                    late.push((due, Instant::now()));
                }
                late
            }));
            for (due, at) in all.await.expect("the stream does not panic") {
                found.add(Kind::Value, due, at);
            }
        }
        // It does not look sooner, because the look itself would turn the wheels.
        tokio::time::sleep_until((self.last_due + Duration::from_millis(20)).into()).await;
        for mut probe in self.probes {
            let at = loop {
                if let Some(at) = probe.woken.at() {
                    break at;
                }
                assert!(probe.due.elapsed() < LOST_AFTER, "a timer is lost");
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            assert!(probe.is_ready(), "it was woken for nothing");
            found.add(probe.kind, probe.due, at);
        }
        found
    }
}

impl Probe {
    fn is_ready(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.wait.as_mut().poll(&mut cx).is_ready()
    }
}

impl Woken {
    fn at(&self) -> Option<Instant> {
        match self.at.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(self.origin + Duration::from_nanos(nanos)),
        }
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let nanos = self.origin.elapsed().as_nanos() as u64;
        // Only the first one counts, and no probe is due at its origin.
        let _ = self
            .at
            .compare_exchange(0, nanos, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl Found {
    fn add(&mut self, kind: Kind, due: Instant, at: Instant) {
        match at.checked_duration_since(due) {
            Some(late) => self.late.push((kind, late)),
            None => self.early += 1,
        }
    }

    pub fn merge(&mut self, other: Found) {
        self.late.extend(other.late);
        self.early += other.early;
    }

    /// Median, 99 % and the latest of one kind, in milliseconds. `None` if there was none of it.
    pub fn of(&self, kind: Kind) -> Option<[f64; 3]> {
        let of_kind = self.late.iter().filter(|(known, _)| *known == kind);
        let mut late: Vec<Duration> = of_kind.map(|(_, late)| *late).collect();
        late.sort();
        let last = late.len().checked_sub(1)?;
        let at = |percent: usize| late[last * percent / 100].as_secs_f64() * 1e3;
        Some([at(50), at(99), at(100)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::runtime;
    use crate::parts::lateness::timers::CONTENDERS;

    #[test]
    fn every_kind_is_told_and_none_is_early() {
        for contender in CONTENDERS {
            let runtime = runtime(1);
            let _within = runtime.enter();
            let timers = Timers::of(contender);
            let found = runtime.spawn(unconstrained(async move {
                let mut probes = Probes::new(&timers);
                for kind in Kind::ALL {
                    probes.arm(*kind, Duration::from_millis(10));
                    probes.arm(*kind, Duration::from_millis(20));
                }
                probes.collect().await
            }));
            let found = runtime.block_on(found).expect("it does not panic");
            assert_eq!(found.early, 0);
            for kind in Kind::ALL {
                let of_kind = found.late.iter().filter(|(known, _)| known == kind);
                assert_eq!(of_kind.count(), 2, "{contender}, {kind:?}");
            }
        }
    }

    #[test]
    fn a_quantile_is_that_of_its_kind() {
        let mut found = Found::default();
        let due = Instant::now();
        for millis in (0..=200).rev() {
            found.add(Kind::Sleep, due, due + Duration::from_millis(millis));
        }
        assert_eq!(found.of(Kind::Sleep), Some([100.0, 198.0, 200.0]));
        assert_eq!(found.of(Kind::Value), None);
        found.add(Kind::Value, due + Duration::from_millis(1), due);
        assert_eq!((found.early, found.of(Kind::Value)), (1, None));
    }
}
