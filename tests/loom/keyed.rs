//! The crate's own `keyed` files that the models need.

#[path = "../../src/keyed/delay_map/earliest.rs"]
pub(crate) mod earliest;
#[path = "../../src/keyed/delay_map/stream_waker.rs"]
pub(crate) mod stream_waker;
