//! What timers leave behind, and how their errors look.

use std::fmt::Debug;
use std::io::{self, ErrorKind};

use tickwheel::Timer;
use tickwheel::error::Cancelled;

/// On the current runtime's own timer.
#[track_caller]
pub(crate) fn assert_nothing_armed() {
    assert_eq!(Timer::current().metrics().pending(), 0, "timers are armed");
}

#[track_caller]
pub(crate) fn assert_timed_out<R: Debug>(result: io::Result<R>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(error.raw_os_error(), None, "not the system's own");
}

#[track_caller]
pub(crate) fn assert_cancelled<R: Debug>(result: io::Result<R>) -> Cancelled {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    *error.get_ref().unwrap().downcast_ref().unwrap()
}
