//! What needs the system's clock: threads that race, runtimes that end, workers that are blocked,
//! and sockets. The package `soak` runs it too, without tokio's `test-util`.

#[path = "../common/mod.rs"]
mod common;
mod isolation;
mod map_threads;
#[cfg(feature = "test-util")]
#[path = "../common/paused_clock.rs"]
mod paused_clock;
mod shutdown;
#[cfg(feature = "io")]
mod sockets;
mod wall_clock;
mod wandering;
