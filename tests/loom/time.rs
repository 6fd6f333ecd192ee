//! The crate's own `time` files that the models need.

#[path = "../../src/time/due.rs"]
pub(crate) mod due;
#[path = "../../src/time/next_check.rs"]
pub(crate) mod next_check;
#[path = "../../src/time/tick.rs"]
pub(crate) mod tick;
#[path = "../../src/time/windows.rs"]
pub(crate) mod windows;
