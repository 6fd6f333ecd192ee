//! The stream of a [`DelayMap`](super::DelayMap), and what comes out of it.
//!
//! Invariants:
//!
//! - The queue holds names of items that are due. Its first is given out only once nothing is left in the parts that is
//!   due at an earlier tick; so values come out in the order of their deadlines, though the parts are looked through
//!   one after another, and a bounded number of items at a time.
//! - The stream waits only when its queue is empty and no part has anything due; whatever changes that before its
//!   alarm goes off wakes it. Of two polls the later one's waker counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::{FusedStream, Stream};
use tokio::task::coop;
use tokio::time::Instant;

use super::inner::{Closed, Inner};
use super::part::DueItem;

/// So many names are looked at for one poll, found or passed over; then other tasks have their turn.
const BATCH: usize = 512;

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
    queue: BinaryHeap<Reverse<DueItem>>,
    ended: bool,
}

impl<K, V> Expirations<K, V> {
    pub(super) fn new(inner: Arc<Inner<K, V>>) -> Self {
        Expirations {
            inner,
            queue: BinaryHeap::new(),
            ended: false,
        }
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<K, V>>> {
        self.inner.stop_waiting();
        loop {
            if self.inner.timer.has_ended() {
                return Poll::Ready(None);
            }
            if let Some(expired) = ready!(self.poll_queue(cx)) {
                return Poll::Ready(Some(expired));
            }
            self.forget_a_large_queue();
            self.inner.start_waiting(cx.waker());
            if self.inner.is_finished() {
                return Poll::Ready(None);
            }
            match self.inner.poll_alarm(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Closed)) => return Poll::Ready(None),
            }
        }
    }

    /// The first of what is due, `None` if nothing is; pending if that was not found out within a batch.
    fn poll_queue(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<K, V>>> {
        let now = self.inner.clock().current_tick();
        let mut found_until = self.inner.found_until();
        let mut looked_at = 0;
        while looked_at < BATCH {
            let is_first = |due: &DueItem| found_until > now || due.tick < found_until;
            match self.queue.peek() {
                Some(Reverse(due)) if is_first(due) => {
                    let due = *due;
                    self.queue.pop();
                    looked_at += 1;
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
                None if found_until > now => return Poll::Ready(None),
                _ => {
                    looked_at += BATCH / 4;
                    let queue = &mut self.queue;
                    found_until = self
                        .inner
                        .find_due(now, BATCH / 4, |due| queue.push(Reverse(due)));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// A queue that has been large gives its memory back when it is empty.
    fn forget_a_large_queue(&mut self) {
        if self.queue.capacity() > 2 * BATCH {
            self.queue = BinaryHeap::new();
        }
    }
}

impl<K, V> Stream for Expirations<K, V> {
    type Item = Expired<K, V>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let coop = ready!(coop::poll_proceed(cx));
        let expired = ready!(self.poll_expired(cx));
        coop.made_progress();
        if expired.is_none() {
            self.ended = true;
            self.inner.stop_alarm();
        }
        Poll::Ready(expired)
    }
}

impl<K, V> FusedStream for Expirations<K, V> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

/// Keys and values are never pinned.
impl<K, V> Unpin for Expirations<K, V> {}

impl<K, V> Drop for Expirations<K, V> {
    fn drop(&mut self) {
        self.inner.stop_alarm();
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
