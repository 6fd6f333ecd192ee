//! What needs tokio's paused clock, or none: the adapters, and `DelayQueue` beside tokio-util's.
//! One program, so that it is linked once.

#[path = "../../../tests/common/mod.rs"]
mod common;
#[cfg(feature = "time")]
mod delay_queue;
#[cfg(feature = "time")]
mod future;
#[cfg(feature = "http-body")]
mod http_body;
#[cfg(feature = "io")]
mod io;
#[path = "../../../tests/common/paused_clock.rs"]
mod paused_clock;
mod places;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "tower")]
mod tower;
