//! The crate's own files of `driver` that the models need.

#[path = "../../src/driver/alarm.rs"]
pub(crate) mod alarm;
#[path = "../../src/driver/waits.rs"]
pub(crate) mod waits;
