//! A deadline that has passed within a stall: every interleaving of a thread that looks at it with
//! a driver that notices the stall.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::with_few_preemptions;
use crate::driver::stalls::{Spared, Stalls};
use crate::sync::{AtomicU64, Ordering};
use crate::time::tick::{Moment, TickLength};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u32) -> Moment {
    Moment::after_epoch(ms * MS)
}

/// A driver whose alarm was set for 100 ms, at 4 s.
struct Stalled {
    waits_since: AtomicU64,
    stalls: Stalls,
    tick: TickLength,
}

impl Stalled {
    fn new() -> Arc<Stalled> {
        let tick = TickLength::new(MS).unwrap();
        Arc::new(Stalled {
            waits_since: AtomicU64::new(100),
            stalls: Stalls::new(tick, false),
            tick,
        })
    }

    /// As the running thread does when the alarm has fired.
    fn come(&self) {
        self.stalls.note(100, at(4_000));
        self.waits_since.store(4_000, Ordering::Release);
        self.waits_since.store(5_000, Ordering::Release);
    }

    /// As `Driver::spares` does.
    fn spares(&self, due: Moment) -> bool {
        let since = self.waits_since.load(Ordering::Acquire);
        let late = self.tick.current(at(4_000)).saturating_sub(since);
        let is_stalled = since <= self.tick.due(due) && self.stalls.is_stall(late);
        let deadline = Spared {
            due,
            timeout: 1_000 * MS,
            is_set_once: false,
        };
        is_stalled || self.stalls.grace_end(deadline).is_some()
    }
}

/// Mutation: the stall is noted after `waits_since`, or the thread looks at the stalls first.
#[test]
fn a_deadline_is_spared_before_while_and_after_the_driver_notices() {
    with_few_preemptions(|| {
        let stalled = Stalled::new();
        let coming = stalled.clone();
        let driver = thread::spawn(move || coming.come());
        assert!(stalled.spares(at(1_500)));
        driver.join().unwrap();
        assert!(stalled.spares(at(1_500)));
        assert!(!stalled.spares(at(99)), "due before the stall");
    });
}
