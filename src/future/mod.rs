//! The futures that wait: a sleep, a timeout around another future, an interval.
//!
//! Invariant: each has the names and the semantics of tokio's, and waits by at most one armed
//! timer.

mod first_poll;
pub(crate) mod interval;
pub(crate) mod limit;
pub(crate) mod sleep;
pub(crate) mod timeout;
