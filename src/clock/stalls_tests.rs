//! Stalls on one thread, and on a model's clock.
//!
//! Not in the file of stalls, because `tests/loom` compiles that one against loom's atomics, which
//! work in a model alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::stalls::{PassedDeadline, Stalls};
use crate::clock::tick::{Moment, Tick, TickLength};

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(10);

fn stalls(tick: Duration) -> Stalls {
    Stalls::new(TickLength::new(tick).unwrap(), true)
}

fn at(ms: u32) -> Moment {
    Moment::after_epoch(ms * MS)
}

fn counting(due: Moment) -> PassedDeadline {
    PassedDeadline {
        due,
        timeout: TIMEOUT,
        is_set_once: false,
    }
}

/// The driver waited from tick `from` on, and comes at `end`.
fn note(stalls: &Stalls, from: u64, end: Moment) {
    stalls.wait_from(Tick::new(from));
    assert!(stalls.turn_begins(end, || false).is_some());
}

#[test]
fn a_stall_is_longer_than_50_ms_and_a_tick() {
    for (tick, longest_delay) in [(MS / 10, 501), (MS, 51), (10 * MS, 6), (100 * MS, 1)] {
        let stalls = stalls(tick);
        for (delay, is_stall) in [(longest_delay, false), (longest_delay + 1, true)] {
            stalls.wait_from(Tick::new(7));
            let now = Moment::after_epoch(tick * (7 + delay));
            let length = stalls.turn_begins(now, || false);
            assert_eq!(length, is_stall.then_some(tick * delay), "{tick:?}");
        }
    }
}

#[test]
fn a_spared_deadline_is_moved_by_the_length_of_the_stall() {
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
    assert_eq!(grace(999, 9_000), None, "due before the stall");
    assert_eq!(grace(1_000, 9_000), Some(at(4_100)), "100 ms are left");
    assert_eq!(grace(1_500, 9_000), Some(at(4_500)));
    assert_eq!(grace(4_000, 9_000), Some(at(7_000)));
    assert_eq!(grace(3_999, 2_000), Some(at(6_000)), "at most the timeout");
    assert_eq!(grace(3_999, 50), Some(at(4_050)));
    assert_eq!(
        grace(8_000, 9_000),
        Some(at(10_000)),
        "half of it is made up"
    );
    assert_eq!(grace(16_000, 90_000), None, "all of it");
    assert_eq!(grace(8_000, 4_001), Some(at(8_001)));
    assert_eq!(grace(8_000, 4_000), None, "reset since then");
    assert_eq!(of(4_000, 9_000, true), Some(at(7_000)));
    assert_eq!(of(4_001, 9_000, true), None, "it may be set since then");
    note(&stalls, 4_500, at(4_560));
    assert_eq!(of(4_510, 9_000, true), Some(at(4_660)), "at least 100 ms");
    assert_eq!(grace(1_500, 9_000), Some(at(4_500)), "as before");
    let of_the_longer = 4_700 + 3_000 - 700 / 4;
    assert_eq!(grace(4_700, 9_000), Some(at(of_the_longer)));
    assert_eq!((stalls.count(), stalls.total()), (2, 3_060 * MS));
}

#[test]
fn a_stall_keeps_deadlines_in_their_order() {
    let stalls = stalls(MS);
    note(&stalls, 1_000, at(1_300));
    let ends = (0..2_600_u32).map(|ms| {
        let due = at(500 + ms);
        stalls.grace_end(counting(due)).unwrap_or(due)
    });
    assert!(ends.is_sorted());
}

#[test]
fn a_grace_is_over_at_its_end() {
    let stalls = stalls(MS);
    note(&stalls, 1_000, at(4_000));
    let deadline = counting(at(1_500));
    let end = stalls.grace_end(deadline).unwrap();
    let at_its_end = stalls.grace_at(deadline, end, || false);
    let before = Moment::from_bits(end.to_bits() - 1);
    assert_eq!(stalls.grace_at(deadline, before, || false), Some(end));
    assert_eq!(at_its_end, None);
}

#[test]
fn a_short_stall_takes_no_grace_of_a_longer_one_away() {
    let stalls = stalls(MS);
    note(&stalls, 90_000, at(100_000));
    let deadline = counting(at(105_000));
    let moved = stalls.grace_end(deadline);
    assert!(moved > Some(at(105_000)));
    note(&stalls, 100_940, at(101_000));
    assert_eq!(stalls.grace_end(deadline), moved);
}

#[test]
fn a_stall_is_forgotten_when_all_that_it_moved_has_ended() {
    let stalls = stalls(MS);
    for start in (0..100_000).step_by(1_000) {
        note(&stalls, start.into(), at(start + 60));
    }
    assert_eq!(stalls.kept(), 1);
    assert_eq!(stalls.grace_end(counting(at(98_010))), None);
    let moved = stalls.grace_end(counting(at(99_010)));
    assert_eq!(moved, Some(at(99_160)));
    assert_eq!(stalls.count(), 100);
}

#[test]
fn without_grace_a_stall_counts_all_the_same() {
    let stalls = Stalls::new(TickLength::new(MS).unwrap(), false);
    note(&stalls, 1_000, at(4_000));
    assert_eq!(stalls.grace_end(counting(at(1_500))), None);
    let going_on = stalls.grace_at(counting(at(4_500)), at(9_000), || false);
    assert_eq!((going_on, stalls.count()), (None, 1));
}

/// A driver and deadlines that nothing resets, on a model's clock. One falls due in each `gap`, and
/// to expire it costs `cost`. The driver is held up for 300 ms at 1 s. Returns when each expired.
fn expire(stalls: &Stalls, gap: Duration, cost: Duration) -> Vec<Moment> {
    const BATCH: usize = 128;
    let tick = TickLength::new(MS).unwrap();
    let dues = (1..100_000).map(|nth| Moment::after_epoch(gap * nth));
    let mut linked: BTreeMap<_, _> = dues.map(|due| ((tick.due(due), due), due)).collect();
    let (mut expired, mut now) = (Vec::new(), Moment::EPOCH);
    while let Some((&(next, _), _)) = linked.first_key_value() {
        stalls.turn_ends(next, now);
        let is_before = now < at(1_000);
        now = now.max(tick.start_of(next));
        if is_before && now >= at(1_000) {
            now = at(1_300);
        }
        stalls.turn_begins(now, || false);
        let present = tick.current(now);
        let mut batch = 0;
        while let Some(first) = linked.first_entry().filter(|it| it.key().0 <= present) {
            let due = first.remove();
            let grace = stalls.grace_end(counting(due)).map(|end| tick.due(end));
            match grace.filter(|&end| end > present) {
                Some(end) => drop(linked.insert((end, due), due)),
                None => {
                    expired.push(now);
                    now = now.after(cost);
                }
            }
            batch += 1;
            if batch % BATCH == 0 {
                stalls.turn_begins(now, || false);
            }
        }
    }
    expired
}

#[test]
fn deadlines_that_a_stall_spared_expire_as_far_apart_as_they_were_due() {
    let stalls = stalls(MS);
    let expired = expire(&stalls, Duration::from_micros(50), Duration::ZERO);
    let mut within_20_ms = BTreeMap::new();
    for expired in expired {
        *within_20_ms
            .entry(expired.since(Moment::EPOCH).as_millis() / 20)
            .or_default() += 1;
    }
    let fullest: u32 = within_20_ms.into_values().max().unwrap();
    assert!(fullest <= 3_000, "{fullest}, of 400 otherwise");
    assert_eq!((stalls.count(), stalls.total().as_millis()), (1, 300));
}

/// A busy driver is late by its own work. If that were a stall, it would put off what makes the
/// next one.
#[test]
fn stalls_die_out_when_expiring_costs_most_of_the_time() {
    let (gap, stalls) = (Duration::from_micros(50), stalls(MS));
    let expired = expire(&stalls, gap, gap * 3 / 5);
    assert_eq!(stalls.count(), 1);
    let last = Moment::after_epoch(gap * 99_999);
    assert!(expired.last().unwrap().since(last) < 2 * MS, "it caught up");
}
