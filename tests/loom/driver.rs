//! The crate's own `driver` files that the models need.

#[path = "../../src/driver/bell.rs"]
pub(crate) mod bell;
