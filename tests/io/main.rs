//! The timeouts for I/O: under the paused clock on tokio's duplex and on a stream made by hand, and
//! in real time on sockets.
#![cfg(feature = "io")]

mod budget;
mod goodbye;
mod idle_timeout;
mod scripted;
mod sockets;
mod timeout_stream;
mod two_tasks;

use std::fmt::Debug;
use std::io::{self, ErrorKind};

use tickwheel::error::Cancelled;
use tickwheel::{Duration, Timer};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[track_caller]
fn assert_nothing_armed() {
    assert_eq!(Timer::current().metrics().pending, 0, "timers are armed");
}

#[track_caller]
fn assert_timed_out<R: Debug>(result: io::Result<R>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(error.raw_os_error(), None, "not the system's own");
}

#[track_caller]
fn assert_cancelled<R: Debug>(result: io::Result<R>) -> Cancelled {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    *error.get_ref().unwrap().downcast_ref().unwrap()
}
