//! Timers whose lateness is measured: how long after it was due each of them woke its waker.
//!
//! The waker notes the instant itself. So the time that a task waits for a worker is not in the
//! figure, which the scheduler would add to each contender alike.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use super::timers::{Kind, Timers, Wait};

/// A timer that has not fired this long after it was due is lost.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// Some timers that are armed.
pub struct Probes {
    timers: Timers,
    probes: Vec<Probe>,
    last_due: Instant,
}

struct Probe {
    kind: Kind,
    due: Instant,
    woken: Arc<Woken>,
    wait: Wait,
}

/// Notes when it was first woken.
#[derive(Default)]
struct Woken(OnceLock<Instant>);

/// How late some timers were.
#[derive(Default)]
pub struct Found {
    late: Vec<(Kind, Duration)>,
    pub early: usize,
}

impl Probes {
    pub fn new(timers: &Timers) -> Probes {
        Probes {
            timers: timers.clone(),
            probes: Vec::new(),
            last_due: Instant::now(),
        }
    }

    pub fn arm(&mut self, kind: Kind, after: Duration) {
        let woken = Arc::new(Woken::default());
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

    /// Waits until all have fired, and returns how late each was. The task must be unconstrained.
    pub async fn collect(self) -> Found {
        let mut found = Found::default();
        // It does not look sooner, because the look itself would turn the wheels.
        tokio::time::sleep_until((self.last_due + Duration::from_millis(20)).into()).await;
        for mut probe in self.probes {
            let at = loop {
                if let Some(at) = probe.woken.0.get() {
                    break *at;
                }
                assert!(probe.due.elapsed() < LOST_AFTER, "a timer is lost");
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            let mut cx = Context::from_waker(Waker::noop());
            let is_ready = probe.wait.as_mut().poll(&mut cx).is_ready();
            assert!(is_ready, "it was woken for nothing");
            found.add(probe.kind, probe.due, at);
        }
        found
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = self.0.set(Instant::now()); // Only the first one counts.
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

    #[test]
    fn a_quantile_counts_the_timers_of_one_kind() {
        let mut found = Found::default();
        let due = Instant::now();
        for millis in (0..=200).rev() {
            found.add(Kind::Sleep, due, due + Duration::from_millis(millis));
        }
        assert_eq!(found.of(Kind::Sleep), Some([100.0, 198.0, 200.0]));
        assert_eq!(found.of(Kind::Reset), None);
        found.add(Kind::Reset, due + Duration::from_millis(1), due);
        assert_eq!((found.early, found.of(Kind::Reset)), (1, None));
    }
}
