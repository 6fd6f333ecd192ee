//! The next expiry of a shard, with one thread.
//!
//! Invariant: each test holds the lock's token, and so is the only writer.

use super::next_expiry::{ExpiryChange, NextExpiry};
use super::word::LockHeld;
use crate::clock::tick::NEVER;

fn expiring_at(tick: u64) -> (NextExpiry, LockHeld) {
    let (expiry, held) = (NextExpiry::never(), LockHeld::by_lock_of_shard());
    expiry.set(tick, &held);
    (expiry, held)
}

fn assert_expires_at(expiry: &NextExpiry, tick: u64) {
    assert_eq!((expiry.tick(), expiry.tick_about()), (tick, tick));
}

#[test]
fn a_new_plan_is_for_never() {
    assert_expires_at(&NextExpiry::never(), NEVER);
}

#[test]
fn an_earlier_due_lowers_the_plan_and_tells() {
    let (expiry, held) = (NextExpiry::never(), LockHeld::by_lock_of_shard());
    assert_eq!(expiry.lower_to(50, &held), ExpiryChange::Earlier(50));
    assert_expires_at(&expiry, 50);
    assert_eq!(expiry.lower_to(7, &held), ExpiryChange::Earlier(7));
    assert_expires_at(&expiry, 7);
}

#[test]
fn a_due_at_the_plan_or_later_changes_nothing() {
    let (expiry, held) = expiring_at(7);
    for due in [7, 8, NEVER] {
        assert_eq!(expiry.lower_to(due, &held), ExpiryChange::None);
        assert_expires_at(&expiry, 7);
    }
}

#[test]
fn a_plan_that_is_put_off_tells_where_it_was() {
    let (expiry, held) = expiring_at(7);
    assert_eq!(expiry.defer(&held, |_| Some(9)), ExpiryChange::Later(7));
    assert_expires_at(&expiry, 9);
    assert_eq!(expiry.defer(&held, |_| Some(NEVER)), ExpiryChange::Later(9));
    assert_expires_at(&expiry, NEVER);
}

#[test]
fn a_plan_is_never_put_off_to_an_earlier_tick() {
    let (expiry, held) = expiring_at(7);
    for next in [None, Some(0), Some(6), Some(7)] {
        assert_eq!(expiry.defer(&held, |_| next), ExpiryChange::None);
        assert_expires_at(&expiry, 7);
    }
}

#[test]
fn what_puts_a_plan_off_is_given_the_present_plan() {
    let (expiry, held) = expiring_at(7);
    assert_eq!(
        expiry.defer(&held, |tick| Some(tick + 1)),
        ExpiryChange::Later(7)
    );
    assert_expires_at(&expiry, 8);
}
