//! What needs tokio's paused clock, or none: the timer and its maps, what it shares with tokio,
//! scopes, and the adapters. One program, so that it is linked once.

#[path = "../common/mod.rs"]
mod common;
mod fused;
#[cfg(feature = "http-body")]
mod http_body;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "io")]
mod io;
mod maps;
mod parity;
#[path = "../common/paused_clock.rs"]
mod paused_clock;
mod scope;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "stream")]
mod stream;
mod timer;
#[cfg(feature = "tower")]
mod tower;
mod wall_clock;
