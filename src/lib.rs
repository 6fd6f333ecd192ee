//! tickwheel
#![forbid(unsafe_code)]

mod tick;
pub mod wheel;
