//! The plan of a shard, with one thread.
//!
//! Invariant: each test holds the lock's token, and so is the only writer.

use super::locked_word::LockHeld;
use super::plan::{Change, Plan};
use crate::time::tick::NEVER;

fn planned_at(tick: u64) -> (Plan, LockHeld) {
    let (plan, held) = (Plan::never(), LockHeld::by_lock_of_shard());
    plan.set(tick, &held);
    (plan, held)
}

fn assert_planned_at(plan: &Plan, tick: u64) {
    assert_eq!((plan.tick(), plan.tick_about()), (tick, tick));
}

#[test]
fn a_new_plan_is_for_never() {
    assert_planned_at(&Plan::never(), NEVER);
}

#[test]
fn an_earlier_due_lowers_the_plan_and_tells() {
    let (plan, held) = (Plan::never(), LockHeld::by_lock_of_shard());
    assert_eq!(plan.lower_to(50, &held), Change::Earlier(50));
    assert_planned_at(&plan, 50);
    assert_eq!(plan.lower_to(7, &held), Change::Earlier(7));
    assert_planned_at(&plan, 7);
}

#[test]
fn a_due_at_the_plan_or_later_changes_nothing() {
    let (plan, held) = planned_at(7);
    for due in [7, 8, NEVER] {
        assert_eq!(plan.lower_to(due, &held), Change::None);
        assert_planned_at(&plan, 7);
    }
}

#[test]
fn a_plan_that_is_put_off_tells_where_it_was() {
    let (plan, held) = planned_at(7);
    assert_eq!(plan.put_off(&held, |_| Some(9)), Change::Later(7));
    assert_planned_at(&plan, 9);
    assert_eq!(plan.put_off(&held, |_| Some(NEVER)), Change::Later(9));
    assert_planned_at(&plan, NEVER);
}

#[test]
fn a_plan_is_never_put_off_to_an_earlier_tick() {
    let (plan, held) = planned_at(7);
    for next in [None, Some(0), Some(6), Some(7)] {
        assert_eq!(plan.put_off(&held, |_| next), Change::None);
        assert_planned_at(&plan, 7);
    }
}

#[test]
fn what_puts_a_plan_off_is_given_the_present_plan() {
    let (plan, held) = planned_at(7);
    assert_eq!(plan.put_off(&held, |tick| Some(tick + 1)), Change::Later(7));
    assert_planned_at(&plan, 8);
}
