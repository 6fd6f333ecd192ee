//! The crate's own `keyed` files that the models need.

#[path = "../../src/keyed/delay_map/lookout.rs"]
pub(crate) mod lookout;
