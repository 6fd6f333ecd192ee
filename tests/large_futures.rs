//! Large futures: what bounds one takes no more of the stack than tokio's timeout does.

mod common;
#[path = "common/large_futures.rs"]
mod large_futures;

use tickwheel::Timer;
use tokio::time as tokios;

use crate::large_futures::{MINUTE, Way, at, large, poll};

const WAYS: &[Way] = &[
    ("tokio::time::timeout", || {
        poll!(tokios::timeout(MINUTE, large()));
    }),
    ("timeout", || poll!(tickwheel::timeout(MINUTE, large()))),
    ("timeout_at", || poll!(tickwheel::timeout_at(at(), large()))),
    ("Timer::timeout", || {
        poll!(Timer::current().timeout(MINUTE, large()));
    }),
    ("Timer::timeout_at", || {
        poll!(Timer::current().timeout_at(at(), large()));
    }),
    ("with_deadline", || {
        poll!(tickwheel::with_deadline(at(), large()));
    }),
    ("Timer::with_deadline", || {
        poll!(Timer::current().with_deadline(at(), large()));
    }),
];

#[test]
fn a_large_future_needs_no_more_stack_than_with_tokio() {
    large_futures::a_large_future_needs_no_more_stack_than_with_tokio(WAYS);
}
