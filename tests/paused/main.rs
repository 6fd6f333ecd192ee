//! What needs tokio's paused clock, or none: the timer and its maps, what it shares with tokio,
//! deadlines that are passed on, and the idle timeout. One program, so that it is linked once.

#[path = "../common/mod.rs"]
mod common;
mod fused;
#[cfg(feature = "hyper")]
mod hyper;
mod io;
mod maps;
mod parity;
#[path = "../common/paused_clock.rs"]
mod paused_clock;
#[cfg(feature = "serde")]
mod serde;
mod timer;
mod wall_clock;
mod with_deadline;
