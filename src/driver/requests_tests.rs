//! The requests on one thread.
//!
//! Not in the file itself, because `tests/loom` compiles that one against loom's atomics, which
//! work in a model alone.

use super::requests::{Request, Requests};
use crate::clock::tick::Tick;

#[test]
fn the_first_to_submit_runs_and_serves_the_others_requests() {
    let requests = Requests::new();
    let mut running = requests.submit(Request::SetAlarm).unwrap();
    assert!(requests.submit(Request::Turn).is_none(), "somebody runs");
    let taken = running.take();
    assert!(taken.has(Request::SetAlarm) && taken.has(Request::Turn));
    assert!(!taken.has(Request::Fired));
    assert!(running.release().is_none());
    assert!(requests.submit(Request::SetAlarm).is_some(), "nobody runs");
}

#[test]
fn a_running_thread_cannot_stop_before_it_took_each_request() {
    let requests = Requests::new();
    let running = requests.submit(Request::Turn).unwrap();
    let mut running = running.release().expect("a request is left");
    assert!(running.take().has(Request::Turn));
    assert!(requests.submit(Request::Fired).is_none());
    let mut running = running.release().expect("a request is left");
    assert!(running.take().has(Request::Fired));
    assert!(running.release().is_none());
}

#[test]
fn the_earliest_tick_that_was_asked_for_is_taken_once() {
    let requests = Requests::new();
    let mut running = requests.submit(Request::SetAlarm).unwrap();
    requests.ask_for(Tick::new(7));
    requests.ask_for(Tick::new(5));
    requests.ask_for(Tick::new(9));
    assert_eq!(running.take_asked_for(), Tick::new(5));
    assert_eq!(running.take_asked_for(), Tick::NEVER);
    requests.ask_for(Tick::new(5));
    running.begin_to_read();
    let asked_for = running.take_asked_for();
    assert_eq!(asked_for, Tick::NEVER, "the next expiries have it");
}

#[test]
fn a_turn_comes_by_each_tick_from_that_of_the_alarm_on() {
    let requests = Requests::new();
    assert!(!requests.is_set_by(Tick::LAST));
    let mut running = requests.submit(Request::SetAlarm).unwrap();
    running.set_for(Tick::new(10));
    assert!(!requests.is_set_by(Tick::new(9)));
    assert!(requests.is_set_by(Tick::new(10)) && requests.is_set_by(Tick::new(11)));
    running.begin_to_read();
    assert!(
        !requests.is_set_by(Tick::new(11)),
        "a thread that arms has to tell"
    );
}
