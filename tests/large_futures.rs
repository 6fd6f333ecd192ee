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
];

tokio::task_local! { static DEADLINE: tickwheel::Instant; }

/// With tokio, a timeout that passes its deadline on is one in a scope. Where something is open
/// around the conversion of a future, the future is moved once more without optimisation.
const PASSED_ON: &[Way] = &[
    ("a timeout in a scope of tokio's", || {
        poll!(DEADLINE.scope(at(), tokios::timeout(MINUTE, large())));
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
    large_futures::a_large_future_needs_no_more_stack_than_with_tokio(&[WAYS, PASSED_ON]);
}
