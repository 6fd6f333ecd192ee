//! A deadline that fell due within a stall: interleavings of a thread that decides on it with a
//! driver that notices the stall.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::with_few_preemptions;
use crate::clock::stalls::Stalls;
use crate::clock::tick::{Moment, Tick, TickLength};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u32) -> Moment {
    Moment::after_epoch(ms * MS)
}

/// `due` is in milliseconds.
fn is_spared(stalls: &Stalls, due: u64) -> bool {
    let timeout = 1_000 * MS;
    stalls
        .grace_end(Tick::new(due), timeout, at(4_000), || false)
        .is_some()
}

/// A driver whose alarm was set for 100 ms comes at 4 s.
///
/// The driver is the first thread to run. It reads `waits_since` before it writes that, and loom
/// remembers only the last access to an atomic. So it would not try a read between the two
/// that came before both.
///
/// Mutation: `turn_begins` notes the stall after `waits_since`, or `grace_end` reads the stalls
/// first.
#[test]
fn a_deadline_is_spared_whenever_the_driver_notices_a_stall() {
    with_few_preemptions(|| {
        let stalls = Arc::new(Stalls::new(TickLength::new(MS).unwrap(), true));
        stalls.wait_from(Tick::new(100));
        let shared = stalls.clone();
        let reader = thread::spawn(move || is_spared(&shared, 1_500));
        stalls.turn_begins(at(4_000), || false);
        stalls.wait_from(Tick::new(5_000));
        assert!(reader.join().unwrap());
        assert!(is_spared(&stalls, 1_500));
        assert!(!is_spared(&stalls, 99), "due before the stall");
    });
}
