//! The next expiry of a shard, with one thread.
//!
//! Invariant: each test holds the lock's token, and so is the only writer.

use super::next_expiry::{ExpiryChange, NextExpiry};
use super::word::LockHeld;
use crate::clock::tick::Tick;

fn expiring_at(tick: Tick) -> (NextExpiry, LockHeld) {
    let (expiry, held) = (NextExpiry::never(), LockHeld::by_lock_of_shard());
    expiry.set(tick, &held);
    (expiry, held)
}

fn assert_expires_at(expiry: &NextExpiry, tick: Tick) {
    assert_eq!((expiry.tick(), expiry.tick_about()), (tick, tick));
}

#[test]
fn a_new_expiry_is_never() {
    assert_expires_at(&NextExpiry::never(), Tick::NEVER);
}

#[test]
fn an_earlier_due_lowers_the_expiry_and_tells() {
    let (expiry, held) = (NextExpiry::never(), LockHeld::by_lock_of_shard());
    assert_eq!(
        expiry.lower_to(Tick::new(50), &held),
        ExpiryChange::Earlier(Tick::new(50))
    );
    assert_expires_at(&expiry, Tick::new(50));
    assert_eq!(
        expiry.lower_to(Tick::new(7), &held),
        ExpiryChange::Earlier(Tick::new(7))
    );
    assert_expires_at(&expiry, Tick::new(7));
}

#[test]
fn a_due_at_the_expiry_or_later_changes_nothing() {
    let (expiry, held) = expiring_at(Tick::new(7));
    for due in [Tick::new(7), Tick::new(8), Tick::NEVER] {
        assert_eq!(expiry.lower_to(due, &held), ExpiryChange::None);
        assert_expires_at(&expiry, Tick::new(7));
    }
}

#[test]
fn a_deferred_expiry_reports_where_it_was() {
    let (expiry, held) = expiring_at(Tick::new(7));
    assert_eq!(
        expiry.defer(&held, |_| Some(Tick::new(9))),
        ExpiryChange::Later(Tick::new(7))
    );
    assert_expires_at(&expiry, Tick::new(9));
    assert_eq!(
        expiry.defer(&held, |_| Some(Tick::NEVER)),
        ExpiryChange::Later(Tick::new(9))
    );
    assert_expires_at(&expiry, Tick::NEVER);
}

#[test]
fn an_expiry_is_never_deferred_to_an_earlier_tick() {
    let (expiry, held) = expiring_at(Tick::new(7));
    for next in [None, Some(0), Some(6), Some(7)].map(|tick| tick.map(Tick::new)) {
        assert_eq!(expiry.defer(&held, |_| next), ExpiryChange::None);
        assert_expires_at(&expiry, Tick::new(7));
    }
}

#[test]
fn what_defers_an_expiry_is_given_the_present_one() {
    let (expiry, held) = expiring_at(Tick::new(7));
    assert_eq!(
        expiry.defer(&held, |tick| Some(tick.next())),
        ExpiryChange::Later(Tick::new(7))
    );
    assert_expires_at(&expiry, Tick::new(8));
}
