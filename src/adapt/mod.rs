//! The adapters: this crate's timers behind the traits of other crates.
//!
//! Invariant: an adapter, behind the feature of its name, uses only public items, and no module
//! below knows of it.

#[cfg(any(
    feature = "http-body",
    feature = "io",
    feature = "stream",
    feature = "tower"
))]
mod budget;
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
