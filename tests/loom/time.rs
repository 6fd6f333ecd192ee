//! The crate's own `time` files that the models need.

#[path = "../../src/time/next_check.rs"]
pub(crate) mod next_check;
#[path = "../../src/time/stalls.rs"]
pub(crate) mod stalls;
#[path = "../../src/time/tick.rs"]
pub(crate) mod tick;
