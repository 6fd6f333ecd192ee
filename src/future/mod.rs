//! The futures that wait: a sleep, a timeout around another future, an interval. The futures
//! themselves are at the crate's root, and here is what goes with them: [`FutureExt`].
//!
//! Invariant: each has the names and the semantics of tokio's, and waits by at most one armed
//! timer.

pub(crate) mod ended;
pub(crate) mod first_poll;
mod future_ext;
pub(crate) mod interval;
pub(crate) mod limit;
#[cfg(feature = "hyper")]
mod outlast;
pub(crate) mod sleep;
pub(crate) mod timeout;

pub use future_ext::FutureExt;
