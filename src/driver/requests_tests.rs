//! The requests on one thread.
//!
//! Not in the file itself, because `tests/loom` compiles that one against loom's atomics, which
//! work in a model alone.

use super::requests::{Request, Requests};
use crate::time::tick::NEVER;

#[test]
fn the_first_to_submit_runs_and_serves_the_others_requests() {
    let requests = Requests::new();
    assert!(requests.submit(Request::SetAlarm));
    assert!(!requests.submit(Request::Tick), "somebody runs");
    let submitted = requests.take_submitted();
    assert!(submitted.has(Request::SetAlarm) && submitted.has(Request::Tick));
    assert!(!submitted.has(Request::Turn) && !submitted.has(Request::Fired));
    assert!(requests.release());
    assert!(requests.submit(Request::SetAlarm), "nobody runs");
}

#[test]
fn a_running_thread_cannot_stop_before_it_took_each_request() {
    let requests = Requests::new();
    assert!(requests.submit(Request::Turn));
    assert!(!requests.release());
    assert!(requests.take_submitted().has(Request::Turn));
    assert!(!requests.submit(Request::Fired));
    assert!(!requests.release());
    assert!(requests.take_submitted().has(Request::Fired));
    assert!(requests.release());
}

#[test]
fn the_earliest_tick_that_was_asked_for_is_taken_once() {
    let requests = Requests::new();
    requests.ask_for(7);
    requests.ask_for(5);
    requests.ask_for(9);
    assert_eq!(requests.take_asked_for(), 5);
    assert_eq!(requests.take_asked_for(), NEVER);
    requests.ask_for(5);
    requests.begin_to_read();
    assert_eq!(
        requests.take_asked_for(),
        NEVER,
        "the next expiries have it"
    );
}

#[test]
fn a_turn_comes_by_each_tick_from_that_of_the_alarm_on() {
    let requests = Requests::new();
    assert!(!requests.is_set_by(NEVER - 1));
    requests.set_for(10);
    assert!(!requests.is_set_by(9));
    assert!(requests.is_set_by(10) && requests.is_set_by(11));
    requests.begin_to_read();
    assert!(
        !requests.is_set_by(11),
        "a thread that arms now has to ring"
    );
}
