//! The bell on one thread.
//!
//! Not in the bell's own file, because `tests/loom` compiles that one against loom's atomics, which
//! work in a model alone.

use super::bell::{Bell, Request};
use crate::time::tick::NEVER;

#[test]
fn the_first_to_ring_attends_and_serves_the_others_requests() {
    let bell = Bell::new();
    assert!(bell.ring(Request::Plan));
    assert!(!bell.ring(Request::Tick), "somebody attends");
    let requests = bell.take_requests();
    assert!(requests.has(Request::Plan) && requests.has(Request::Tick));
    assert!(!requests.has(Request::Turn) && !requests.has(Request::Fired));
    assert!(bell.leave());
    assert!(bell.ring(Request::Plan), "nobody attends");
}

#[test]
fn an_attendant_cannot_leave_before_it_took_each_request() {
    let bell = Bell::new();
    assert!(bell.ring(Request::Turn));
    assert!(!bell.leave());
    assert!(bell.take_requests().has(Request::Turn));
    assert!(!bell.ring(Request::Fired));
    assert!(!bell.leave());
    assert!(bell.take_requests().has(Request::Fired));
    assert!(bell.leave());
}

#[test]
fn the_earliest_tick_that_was_asked_for_is_taken_once() {
    let bell = Bell::new();
    bell.ask_for(7);
    bell.ask_for(5);
    bell.ask_for(9);
    assert_eq!(bell.take_asked_for(), 5);
    assert_eq!(bell.take_asked_for(), NEVER);
    bell.ask_for(5);
    bell.begin_to_read_plans();
    assert_eq!(bell.take_asked_for(), NEVER, "the plans have it");
}

#[test]
fn a_turn_comes_by_each_tick_from_that_of_the_alarm_on() {
    let bell = Bell::new();
    assert!(!bell.is_set_by(NEVER - 1));
    bell.set_for(10);
    assert!(!bell.is_set_by(9));
    assert!(bell.is_set_by(10) && bell.is_set_by(11));
    bell.begin_to_read_plans();
    assert!(!bell.is_set_by(11), "a thread that arms now has to ring");
}
