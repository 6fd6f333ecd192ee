//! The crate's own `clock` files that the models need.

#[path = "../../src/clock/next_check.rs"]
pub(crate) mod next_check;
#[path = "../../src/clock/stalls.rs"]
pub(crate) mod stalls;
#[path = "../../src/clock/tick.rs"]
pub(crate) mod tick;
