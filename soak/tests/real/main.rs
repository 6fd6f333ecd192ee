//! What needs the system's clock: threads that race, runtimes that end, workers that are blocked,
//! and sockets.

#[path = "../../../tests/common/mod.rs"]
mod common;
mod isolation;
mod map_threads;
#[cfg(feature = "test-util")]
#[path = "../../../tests/common/paused_clock.rs"]
mod paused_clock;
mod shutdown;
mod sleep;
mod sockets;
mod wall_clock;
mod wandering;
