//! Stalls on one thread, and on a model's clock.
//!
//! Not in `stalls.rs`, because `tests/loom` compiles that against loom's atomics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::stalls::Stalls;
use crate::clock::tick::{Moment, Tick, TickLength};
use crate::sync::lock;

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(10);

fn stalls(tick: Duration) -> Stalls {
    Stalls::new(TickLength::new(tick).unwrap(), true)
}

fn at(ms: u32) -> Moment {
    Moment::after_epoch(ms * MS)
}

/// When the grace of a deadline ends, as the driver sees it at `now`, in milliseconds.
fn grace_end(stalls: &Stalls, due: u64, timeout: Duration, now: u32) -> Option<u64> {
    let end = stalls.grace_end(Tick::new(due), timeout, at(now), || false);
    end.map(Tick::get)
}

fn note(stalls: &Stalls, from: u64, end: Moment) {
    stalls.wait_from(Tick::new(from));
    assert!(stalls.turn_begins(end, || false).is_some());
}

#[test]
fn a_stall_is_longer_than_50_ms_and_a_tick() {
    for (tick, longest_delay) in [(MS, 51), (10 * MS, 6), (100 * MS, 1)] {
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
    let grace = |due, timeout| grace_end(&stalls, due, timeout * MS, 4_000);
    assert_eq!(grace(1_500, 2_000), None, "before any stall");
    note(&stalls, 1_000, at(4_000));
    assert_eq!(grace(999, 9_000), None, "due before the stall");
    assert_eq!(grace(1_000, 9_000), Some(4_100), "100 ms are left");
    assert_eq!(grace(1_500, 9_000), Some(4_500));
    let at_its_end = [4_499, 4_500].map(|now| grace_end(&stalls, 1_500, TIMEOUT, now));
    assert_eq!(at_its_end, [Some(4_500), None]);
    assert_eq!(grace(4_000, 9_000), Some(7_000));
    assert_eq!(grace(3_999, 2_000), Some(6_000), "at most the timeout");
    assert_eq!(grace(3_999, 50), Some(4_050));
    assert_eq!(
        grace(4_100, 9_000),
        Some(7_100),
        "its heartbeat may lie unread"
    );
    assert_eq!(grace(4_101, 9_000), None, "later than that");
    assert_eq!(grace(4_060, 60), None, "reset since then");
    assert_eq!(grace(1_500, 0), None, "a sleep");
    note(&stalls, 4_500, at(4_560));
    assert_eq!(grace(4_510, 9_000), Some(4_660), "at least 100 ms");
    assert_eq!(grace(1_500, 9_000), Some(4_500), "as before");
    assert_eq!((stalls.count(), stalls.total()), (2, 3_060 * MS));
}

#[test]
fn a_stall_is_forgotten_when_all_that_it_moved_has_ended() {
    let stalls = stalls(MS);
    for start in (0..100_000).step_by(1_000) {
        note(&stalls, start.into(), at(start + 60));
    }
    assert_eq!(lock(&stalls.recent).len(), 1);
    assert_eq!(grace_end(&stalls, 98_010, TIMEOUT, 99_060), None);
    assert_eq!(grace_end(&stalls, 99_010, TIMEOUT, 99_060), Some(99_160));
    assert_eq!(stalls.count(), 100);
    // The last grace of a long tick ends at the tick's end.
    let stalls = self::stalls(100 * MS);
    note(&stalls, 10, at(1_310));
    note(&stalls, 15, at(1_720));
    assert_eq!(grace_end(&stalls, 14, TIMEOUT, 1_720), Some(18));
    note(&stalls, 17, at(2_030));
    assert_eq!(grace_end(&stalls, 18, TIMEOUT, 2_030), Some(22), "of two");
}

#[test]
fn without_grace_a_stall_counts_all_the_same() {
    let stalls = Stalls::new(TickLength::new(MS).unwrap(), false);
    note(&stalls, 1_000, at(4_000));
    assert_eq!(grace_end(&stalls, 1_500, TIMEOUT, 4_000), None);
    let going_on = grace_end(&stalls, 4_500, TIMEOUT, 9_000);
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
            match stalls.grace_end(tick.due(due), TIMEOUT, now, || false) {
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
fn spared_deadlines_expire_as_far_apart_as_they_were_due() {
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

/// A busy driver is late by its own work. As a stall, that would cause the next one.
#[test]
fn stalls_die_out_when_expiring_costs_most_of_the_time() {
    let (gap, stalls) = (Duration::from_micros(50), stalls(MS));
    let expired = expire(&stalls, gap, gap * 3 / 5);
    assert_eq!(stalls.count(), 1);
    let last = Moment::after_epoch(gap * 99_999);
    assert!(expired.last().unwrap().since(last) < 2 * MS, "it caught up");
}

/// On a loaded machine they may take longer than the grace.
#[test]
fn a_grace_goes_on_until_tasks_have_run() {
    let stalls = stalls(MS);
    stalls.let_tasks_run();
    let grace = |now| grace_end(&stalls, 1_500, 3_000 * MS, now);
    stalls.wait_from(Tick::new(1_000));
    assert!(!stalls.is_left_to_driver(at(1_051)));
    assert!(stalls.is_left_to_driver(at(1_052)) && stalls.may_let_tasks_run(at(1_052)));
    assert!(stalls.turn_begins(at(4_000), || false).is_some());
    stalls.tasks_run_until(Tick::new(4_100));
    assert!(stalls.is_left_to_driver(at(4_000)) && !stalls.may_let_tasks_run(at(9_000)));
    assert_eq!(grace(4_400), Some(4_500), "its time");
    stalls.wait_from(Tick::new(9_999));
    assert_eq!(grace(4_500), Some(4_510));
    assert_eq!(grace(6_995), Some(7_000), "at most the timeout");
    assert_eq!(grace(7_000), None);
    stalls.tasks_have_run();
    assert_eq!([grace(4_499), grace(4_500)], [Some(4_500), None]);
    assert!(!stalls.is_left_to_driver(at(4_500)));
}
