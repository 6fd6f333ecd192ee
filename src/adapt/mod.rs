//! The adapters: this crate's timers behind the traits of other crates.
//!
//! Invariants:
//!
//! - An adapter, behind the feature of its name, uses timers, and nothing below them. No module
//!   below knows of it.
//! - It polls its inner value first, and a time only if that has to wait. A task without budget
//!   gets `Pending` from tokio's I/O without a try, so `Sleep::poll_after_inner` is told of the
//!   budget.

#[cfg(feature = "http-body")]
pub mod http_body;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "io")]
pub mod io;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(any(feature = "http-body", feature = "io"))]
mod wait_timeout;
