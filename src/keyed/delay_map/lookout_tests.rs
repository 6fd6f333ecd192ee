//! The lookout in one thread. `tests/loom` has the races.
//!
//! The tests are not in `lookout.rs`, because `tests/loom` compiles that file against loom's lock,
//! which works only within a model.

use std::sync::Arc;
use std::task::{Wake, Waker};

use super::lookout::Lookout;
use crate::time::tick::NEVER;

struct Nothing;

impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

fn waker() -> Waker {
    Waker::from(Arc::new(Nothing))
}

/// A lookout whose stream waits until a tick.
fn waiting_until(tick: u64) -> Lookout {
    let lookout = Lookout::new();
    lookout.begins_to_wait();
    lookout.waits_until(tick);
    lookout
}

#[test]
fn a_stream_that_looks_by_itself_is_not_called() {
    let lookout = Lookout::new();
    assert!(
        [0, 1, NEVER]
            .iter()
            .all(|&tick| !lookout.is_called_for(tick))
    );
    let lookout = waiting_until(5);
    lookout.stops_waiting();
    assert!(
        [0, 1, NEVER]
            .iter()
            .all(|&tick| !lookout.is_called_for(tick))
    );
}

#[test]
fn a_stream_that_waits_is_called_for_what_is_earlier_only() {
    let lookout = waiting_until(5);
    assert!([0, 4].iter().all(|&tick| lookout.is_called_for(tick)));
    assert!(
        [5, 6, NEVER]
            .iter()
            .all(|&tick| !lookout.is_called_for(tick))
    );
}

#[test]
fn a_stream_that_begins_to_wait_is_called_for_any_tick() {
    let lookout = Lookout::new();
    lookout.begins_to_wait();
    assert!(
        [0, 5, NEVER - 1]
            .iter()
            .all(|&tick| lookout.is_called_for(tick))
    );
    assert!(!lookout.is_called_for(NEVER), "never is no tick to look at");
}

#[test]
fn a_stream_that_is_put_off_waits_until_the_new_tick() {
    let lookout = waiting_until(3);
    assert!(lookout.put_off_look());
    assert!(lookout.is_called_for(9), "nobody has looked yet");
    lookout.waits_on_until(7);
    assert!(lookout.is_called_for(6));
    assert!(!lookout.is_called_for(7));
}

#[test]
fn a_stream_that_looks_by_itself_cannot_be_put_off() {
    let lookout = Lookout::new();
    assert!(!lookout.put_off_look());
    assert!(!lookout.is_called_for(0));
}

#[test]
fn what_the_stream_says_counts_more_than_a_put_off() {
    let lookout = waiting_until(3);
    assert!(lookout.put_off_look());
    lookout.stops_waiting();
    lookout.waits_on_until(7);
    assert!(!lookout.is_called_for(0), "it looks by itself");

    let lookout = waiting_until(3);
    assert!(lookout.put_off_look());
    lookout.waits_until(4);
    lookout.waits_on_until(7);
    assert!(!lookout.is_called_for(4), "it waits until 4");
}

#[test]
fn a_call_takes_the_waker_once() {
    let lookout = Lookout::new();
    assert!(lookout.call().is_none());
    let waker = waker();
    assert!(lookout.leave(waker.clone()).is_none());
    assert!(lookout.has(&waker));
    assert!(
        lookout
            .call()
            .is_some_and(|called| called.will_wake(&waker))
    );
    assert!(!lookout.has(&waker));
    assert!(lookout.call().is_none());
}

#[test]
fn a_waker_replaces_the_one_before_and_gives_it_back() {
    let lookout = Lookout::new();
    let (first, second) = (waker(), waker());
    assert!(lookout.leave(first.clone()).is_none());
    let replaced = lookout.leave(second.clone());
    assert!(replaced.is_some_and(|replaced| replaced.will_wake(&first)));
    assert!(lookout.has(&second) && !lookout.has(&first));
}
