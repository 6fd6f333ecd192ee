//! What needs the system's clock: threads that race, runtimes that end, workers that are blocked,
//! and sockets.

#[path = "../common/mod.rs"]
mod common;
mod isolation;
mod map_threads;
mod shutdown;
#[cfg(feature = "io")]
mod sockets;
mod wall_clock;
mod wandering;
