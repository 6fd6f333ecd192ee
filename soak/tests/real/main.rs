//! What needs the system's clock: threads that race, runtimes that end, and workers that are
//! blocked.

mod coarse;
#[path = "../../../tests/common/mod.rs"]
mod common;
mod isolation;
mod map_threads;
#[cfg(feature = "test-util")]
#[path = "../../../tests/common/paused_clock.rs"]
mod paused_clock;
mod shutdown;
mod sleep;
mod wall_clock;
