//! The idioms with tokio's timers.

use tokio::time;

#[path = "idioms.rs"]
pub(crate) mod idioms;
