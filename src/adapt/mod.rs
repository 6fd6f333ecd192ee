//! The adapters: this crate's timers behind the traits that other crates ask for.
//!
//! Each file is one adapter, behind the feature of its name. Only `countdown` is shared: `io` and
//! `http_body` bound a wait with it.
//!
//! Invariant: an adapter uses only what the crate offers to anybody, and no room below knows of it.

#[cfg(any(feature = "http-body", feature = "io"))]
mod countdown;
#[cfg(feature = "http-body")]
pub mod http_body;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "io")]
pub mod io;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "tower")]
pub mod tower;
