//! `Sleep`, `Timeout` and `Interval` under the paused clock: the semantics of tokio's, and the
//! bugs that other timers shipped.

mod clock;
#[path = "../common/mod.rs"]
mod common;
mod interval;
mod sleep;
mod timeout;
