//! Counts that the server's tasks add to, for anybody to read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) served: Count,
    pub(crate) open: Count,
    pub(crate) heartbeats: Count,
    pub(crate) resets: Count,
    pub(crate) closed_by_deadline: Count,
    pub(crate) closed_by_client: Count,
    /// Deadlines that the admin has cancelled one by one.
    pub(crate) kicked: Count,
    /// Deadlines that the admin has cancelled all at once.
    pub(crate) drained: Count,
    /// How often the admin has allowed a connection a longer silence.
    pub(crate) extended: Count,
    pub(crate) accept_errors: Count,
    pub(crate) connection_errors: Count,
}

/// One of the [`Counters`].
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, count: usize) {
        self.0.store(count as u64, Ordering::Relaxed);
    }
}
