//! The crate's own files of `driver` that the models need.

#[path = "../../src/driver/alarm_tick.rs"]
pub(crate) mod alarm_tick;
#[path = "../../src/driver/requests.rs"]
pub(crate) mod requests;
