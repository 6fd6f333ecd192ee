//! Idle timeouts that are written by hand around `tokio::time`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

/// An atomic holds when something was last seen. A task sleeps, looks, and sleeps again.
pub struct LastSeen {
    start: Instant,
    millis: AtomicU64,
}

impl LastSeen {
    pub fn new() -> LastSeen {
        LastSeen {
            start: Instant::now(),
            millis: AtomicU64::new(0),
        }
    }

    pub fn touch(&self) {
        let millis = self.start.elapsed().as_millis() as u64;
        self.millis.store(millis, Ordering::Relaxed);
    }

    pub async fn expire(self: Arc<Self>, after: Duration) {
        loop {
            let seen = Duration::from_millis(self.millis.load(Ordering::Relaxed));
            let due = self.start + seen + after;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// A task that waits with a timeout to be notified, over and over. Each notification wakes it.
#[derive(Default)]
pub struct NotifyLoop {
    seen: Notify,
    turns: AtomicU64,
}

impl NotifyLoop {
    pub fn touch(&self) {
        self.seen.notify_one();
    }

    /// How often the task has run its loop.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub async fn expire(self: Arc<Self>, after: Duration) {
        while timeout(after, self.seen.notified()).await.is_ok() {
            self.turns.fetch_add(1, Ordering::Relaxed);
        }
    }
}
