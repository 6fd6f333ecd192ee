//! The crate's own `driver` file that the models need.

#[path = "../../src/driver/requests.rs"]
pub(crate) mod requests;
