//! The [`KeyedDeadline`]: the future that a [`DeadlineMap`](super::DeadlineMap) gives for a key.
//!
//! Invariant: the entry of a `KeyedDeadline` is in the map no longer than the `KeyedDeadline`
//! lives.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::inner::Inner;
use crate::deadline::access::Access;
use crate::deadline::{self, ResetHandle};
use crate::error::Cancelled;
use crate::shard::word::Word;

/// A [`Deadline`](crate::Deadline) that is in a [`DeadlineMap`](crate::DeadlineMap) under a key.
///
/// It is the same future, with the same guarantees. Dropping it takes its key out of the map,
/// unless a newer one is under the key by now.
///
/// After it was replaced, removed, drained or closed, it is no longer in the map. It can still be
/// restarted, as a deadline to which no key leads.
#[must_use = "a deadline is cancelled and its key taken out when it is dropped; `.await` it"]
pub struct KeyedDeadline<K> {
    pub(super) word: Arc<Word>,
    pub(super) key: K,
    pub(super) inner: Arc<Inner<K>>,
}

impl<K> KeyedDeadline<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// As [`Deadline::handle`](crate::Deadline::handle).
    pub fn handle(&self) -> ResetHandle {
        self.access().handle()
    }

    /// As [`Deadline::restart`](crate::Deadline::restart).
    pub fn restart(&mut self) {
        let Access { shard, word } = self.access();
        shard.restart_word(word);
    }

    fn access(&self) -> Access<'_> {
        self.inner.access(&self.word)
    }
}

/// The key is never pinned.
impl<K> Unpin for KeyedDeadline<K> {}

impl<K> Future for KeyedDeadline<K> {
    type Output = Result<(), Cancelled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Access { shard, word } = self.access();
        deadline::poll(shard, word, cx)
    }
}

impl<K> Drop for KeyedDeadline<K> {
    fn drop(&mut self) {
        let own = self.inner.take(&self.word);
        let Access { shard, word } = self.access();
        deadline::cancel_unawaited(shard, word);
        // The key of the entry is dropped here, after the locks. The key of `self` is dropped next.
        drop(own);
    }
}

impl<K: fmt::Debug> fmt::Debug for KeyedDeadline<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedDeadline")
            .field("key", &self.key)
            .field("timeout", &self.word.timeout_set())
            .field("status", &self.word.status())
            .finish_non_exhaustive()
    }
}
