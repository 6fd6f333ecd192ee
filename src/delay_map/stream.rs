//! The stream of a [`DelayMap`](super::DelayMap), and what comes out of it.
//!
//! Invariant: it waits only when its queue is empty and no part has anything due; whatever changes that before its
//! alarm goes off wakes it. Of two polls the later one's waker counts.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::{FusedStream, Stream};
use tokio::task::coop;
use tokio::time::Instant;

use super::inner::Inner;
use super::part::DueItem;
use crate::alarm::Alarm;
use crate::shard::Closed;

/// A value whose delay has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<K, V> {
    /// Its key.
    pub key: K,
    /// The value.
    pub value: V,
    /// The instant at which it was due; never later than when it came out. For one that
    /// [`expire_all`](super::DelayMap::expire_all) made come before its time, the instant of that call.
    pub deadline: Instant,
}

/// The stream of what has expired in a [`DelayMap`](super::DelayMap).
///
/// It ends when the map is closed and empty, or every handle of the map is gone and it is empty, or the timer's
/// runtime has shut down; what is then left in the map can still be drained. Dropping it closes the map and drops
/// what that holds.
///
/// # Cancel safety
///
/// Dropping a future of its next item, as in a `select!`, loses nothing: a value leaves the map in the moment in
/// which the stream gives it.
#[must_use = "values come out only when the stream is polled, and dropping it closes the map"]
pub struct Expirations<K, V> {
    inner: Arc<Inner<K, V>>,
    queue: VecDeque<DueItem>,
    alarm: Alarm,
}

impl<K, V> Expirations<K, V> {
    pub(super) fn new(inner: Arc<Inner<K, V>>) -> Self {
        let alarm = Alarm::new(inner.shard.clone());
        Expirations {
            inner,
            queue: VecDeque::new(),
            alarm,
        }
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<K, V>>> {
        self.inner.stop_waiting();
        loop {
            while let Some(due) = self.queue.pop_front() {
                if let Some(item) = self.inner.take_due(due) {
                    let deadline = self.inner.clock().instant(item.due_at());
                    let (key, value) = (item.key, item.value);
                    return Poll::Ready(Some(Expired {
                        key,
                        value,
                        deadline,
                    }));
                }
            }
            if self.inner.timer.has_ended() {
                return Poll::Ready(None);
            }
            self.find_due();
            if !self.queue.is_empty() {
                continue;
            }
            let plan = self.inner.start_waiting(cx.waker());
            if self.inner.is_finished() {
                return Poll::Ready(None);
            }
            match self.alarm.poll_at(plan, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Closed)) => return Poll::Ready(None),
            }
        }
    }

    fn find_due(&mut self) {
        let now = self.inner.clock().current_tick();
        let mut due = std::mem::take(&mut self.queue).into();
        self.inner.find_due(now, &mut due);
        self.queue = due.into();
    }
}

impl<K, V> Stream for Expirations<K, V> {
    type Item = Expired<K, V>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let coop = ready!(coop::poll_proceed(cx));
        let expired = ready!(self.poll_expired(cx));
        coop.made_progress();
        Poll::Ready(expired)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

impl<K, V> FusedStream for Expirations<K, V> {
    fn is_terminated(&self) -> bool {
        self.inner.is_finished()
    }
}

/// Keys and values are never pinned.
impl<K, V> Unpin for Expirations<K, V> {}

impl<K, V> Drop for Expirations<K, V> {
    fn drop(&mut self) {
        drop(self.inner.take_all(true));
    }
}

impl<K, V> fmt::Debug for Expirations<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expirations")
            .field("left", &self.inner.places.taken())
            .finish_non_exhaustive()
    }
}
