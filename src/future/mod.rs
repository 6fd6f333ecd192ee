//! The futures that wait: a sleep, a timeout around another future, an interval. The futures
//! themselves are at the crate's root, and here is what goes with them: [`FutureExt`].
//!
//! Invariant: each has the names and the semantics of tokio's, and waits by at most one armed
//! timer.

pub(crate) mod interval;
pub(crate) mod scope;
pub(crate) mod sleep;
pub(crate) mod timeout;

pub use crate::current::FutureExt;
