//! Stalls on one thread.
//!
//! Not in the file of stalls, because `tests/loom` compiles that one against loom's atomics, which
//! work in a model alone.

use std::time::Duration;

use super::stalls::{PassedDeadline, Stalls};
use crate::clock::tick::{Moment, Tick, TickLength};

const MS: Duration = Duration::from_millis(1);

fn stalls(tick: Duration) -> Stalls {
    Stalls::new(TickLength::new(tick).unwrap(), true)
}

fn at(ms: u32) -> Moment {
    Moment::after_epoch(ms * MS)
}

fn spared(due: u32) -> PassedDeadline {
    PassedDeadline {
        due: at(due),
        timeout: 10_000 * MS,
        is_set_once: false,
    }
}

/// The driver waited from tick `from` on, and comes at `end`.
fn note(stalls: &Stalls, from: u64, end: Moment) {
    stalls.wait_from(Tick::new(from));
    assert!(stalls.turn_begins(end, || false).is_stall);
}

#[test]
fn a_stall_is_longer_than_50_ms_and_16_ticks() {
    for (tick, longest_delay) in [(MS / 10, 500), (MS, 50), (10 * MS, 16), (100 * MS, 16)] {
        let stalls = stalls(tick);
        for (delay, is_stall) in [(longest_delay, false), (longest_delay + 1, true)] {
            stalls.wait_from(Tick::new(7));
            let now = Moment::after_epoch(tick * u32::try_from(7 + delay).unwrap());
            assert_eq!(stalls.note(now, || false).is_stall, is_stall, "{tick:?}");
        }
    }
}

#[test]
fn a_grace_is_as_long_as_the_stall_within_100_ms_and_the_timeout() {
    let stalls = stalls(MS);
    let of = |due, timeout, is_set_once| {
        stalls.grace_end(PassedDeadline {
            due: at(due),
            timeout: timeout * MS,
            is_set_once,
        })
    };
    let grace = |due, timeout| of(due, timeout, false);
    assert_eq!(grace(1_500, 2_000), None, "before any stall");
    note(&stalls, 1_000, at(4_000));
    assert_eq!(grace(1_500, 10_000), Some(at(7_000)));
    assert_eq!(grace(1_500, 2_000), Some(at(6_000)), "at most the timeout");
    assert_eq!(grace(999, 2_000), None, "due before the stall");
    assert_eq!(grace(4_001, 2_000), Some(at(6_000)), "due shortly after it");
    assert_eq!(grace(6_000, 2_000), None, "reset since then");
    assert_eq!(of(4_000, 2_000, true), Some(at(6_000)));
    assert_eq!(of(4_001, 2_000, true), None, "it may be set since then");
    note(&stalls, 4_500, at(4_560));
    assert_eq!(of(4_510, 2_000, true), Some(at(4_660)), "at least 100 ms");
    assert_eq!(grace(1_500, 10_000), Some(at(7_000)), "as before");
    assert_eq!(stalls.count(), 2);
}

#[test]
fn a_stall_is_forgotten_when_its_grace_is_over() {
    let stalls = stalls(MS);
    for start in (0..100_000).step_by(1_000) {
        note(&stalls, start.into(), at(start + 60));
    }
    assert_eq!(stalls.kept(), 1);
    assert_eq!(stalls.grace_end(spared(98_010)), None);
    assert_eq!(stalls.grace_end(spared(99_010)), Some(at(99_160)));
    assert_eq!(stalls.count(), 100);
}

#[test]
fn without_grace_a_stall_counts_all_the_same() {
    let stalls = Stalls::new(TickLength::new(MS).unwrap(), false);
    note(&stalls, 1_000, at(4_000));
    assert_eq!(stalls.grace_end(spared(1_500)), None);
    assert_eq!(stalls.count(), 1);
}
