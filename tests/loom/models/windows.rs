//! The windows of stamps: every interleaving of calls that take a stamp with a driver that replaces
//! it and with calls that close its window.

use loom::sync::Arc;
use loom::thread;

use super::with_few_preemptions;
use crate::sync::{AtomicU64, Ordering};
use crate::time::stamp::Windows;
use crate::time::stamp::{Stamp, StampedDue};

/// A clock that goes on by a tick at each reading, so that of two readings the later one is later.
struct Clocked {
    windows: Windows,
    clock: AtomicU64,
}

impl Clocked {
    /// The driver has published tick 0.
    fn new() -> Arc<Clocked> {
        let clocked = Clocked {
            windows: Windows::new(),
            clock: AtomicU64::new(0),
        };
        clocked.windows.publish(Some(0), || 0);
        Arc::new(clocked)
    }

    fn read(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn turn(&self) {
        let now = self.read();
        self.windows.publish(Some(now), || self.read());
    }

    fn look(&self) {
        if let Some(stamp) = self.windows.stamp() {
            if self.read() >= stamp.window_end() {
                self.windows.close(stamp, || self.read());
            }
        }
    }

    /// A call that begins now. Returns when it began, and its stamp.
    fn call(&self) -> (u64, Option<Stamp>) {
        (self.read(), self.windows.stamp())
    }

    /// What the call counts from is never before the call.
    fn assert_not_early(&self, (began, stamp): (u64, Option<Stamp>)) {
        let Some(stamp) = stamp else { return };
        self.windows.publish(None, || self.read());
        let due = StampedDue::new(stamp, 10);
        let true_due = self.windows.log().true_due(due).unwrap();
        assert!(true_due >= began + 10, "{began} {stamp:?} {true_due}");
    }
}

/// Mutation: `close` reads the clock before its swap.
#[test]
fn a_window_that_a_call_closes_ends_after_each_call_in_it() {
    with_few_preemptions(|| {
        let clocked = Clocked::new();
        // The clock has come to where the window should have ended.
        clocked.read();
        let (closing, turning) = (clocked.clone(), clocked.clone());
        let closer = thread::spawn(move || closing.look());
        let driver = thread::spawn(move || turning.turn());
        let call = clocked.call();
        closer.join().unwrap();
        driver.join().unwrap();
        clocked.assert_not_early(call);
    });
}

/// Mutation: `close` does not look again under the lock whether the stamp is still published.
#[test]
fn a_late_closer_closes_no_window_but_that_of_its_stamp() {
    with_few_preemptions(|| {
        let clocked = Clocked::new();
        clocked.read();
        let (closing, turning) = (clocked.clone(), clocked.clone());
        let closer = thread::spawn(move || closing.look());
        let driver = thread::spawn(move || {
            turning.turn();
            // Whatever was published is either still published, or its end was noted.
            let call = turning.call();
            turning.assert_not_early(call);
        });
        closer.join().unwrap();
        driver.join().unwrap();
    });
}

/// Mutation: the end of a window is noted after the log was unlocked.
#[test]
fn who_holds_the_log_sees_a_window_open_or_noted() {
    with_few_preemptions(|| {
        let clocked = Clocked::new();
        clocked.read();
        let closing = clocked.clone();
        let closer = thread::spawn(move || closing.look());
        let log = clocked.windows.log();
        let due = StampedDue::new(Stamp::of(0), 10);
        if let Some(true_due) = log.true_due(due) {
            // The look came at tick 2, and the end of the window is after it.
            assert!(true_due > 12, "{true_due}");
        }
        drop(log);
        closer.join().unwrap();
    });
}
