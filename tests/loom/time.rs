//! The crate's own `time` files that the models need.

#[path = "../../src/time/due.rs"]
pub(crate) mod due;
#[path = "../../src/time/tick.rs"]
pub(crate) mod tick;
