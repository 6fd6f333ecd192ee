//! The crate's own `driver` files that the models need.

#[path = "../../src/driver/bell.rs"]
pub(crate) mod bell;
#[path = "../../src/driver/stalls.rs"]
pub(crate) mod stalls;
