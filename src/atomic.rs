//! The atomics that race-checked files use.
//!
//! One place to import them from, so that `tests/loom.rs` can compile those files against loom's instead.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
