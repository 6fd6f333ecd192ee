//! The crate's own `driver` files that the models need.

#[path = "../../src/driver/requests.rs"]
pub(crate) mod requests;
#[path = "../../src/driver/stalls.rs"]
pub(crate) mod stalls;
