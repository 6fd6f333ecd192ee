//! The [`DelayMap`]: delayed values by key, and one stream of what has expired.
//!
//! The map has wheels of its own, one in each part of its table, and its stream advances them. A
//! timer wakes the stream at the earliest due of all parts. So a value costs no waker and no entry
//! in the timer's wheels. Everything about a key is under the one lock of its part.
//!
//! ```text
//!   insert --> waiting: in its part's wheel --(stream: advance)--> due: in its part's list of what is due, in order
//!                |  ^                                                |  |
//!                |  +---------- reset, insert under the key ---------+  +--(stream, remove, drain, ...)--> out
//!                +--(remove, drain, close)--> out
//! ```
//!
//! Invariants:
//!
//! - An item is in its part from its insert until it comes out, due or not. Whoever takes it out
//!   does so under the part's lock, so it comes out once, one way.
//! - The stream takes the first of all that is due, once all parts have been searched up to the
//!   present tick. What is set to be due at once goes straight among what is due. So the search has
//!   an end, whatever other calls do meanwhile.
//! - No wake-up is lost. The argument is at the head of `inner/handshake.rs`.
//! - On the system's clock, the stream's timer may be too early after its item was removed. That
//!   costs one empty look. On a clock that can be paused, a call that removes an item puts the
//!   stream's timer off. Otherwise the removed item would pull time along.
//!
//! The rules for locks are at the head of `inner/handshake.rs` too. Under a part's lock the only
//! user code is: a key's `Eq` during a look-up, its `Clone` in `keys` and `for_each`, and what the
//! user gives to `with_value`, `update`, `touch` or `retain`. Values, keys and wakers are dropped
//! after all locks.
//!
//! | file | what |
//! |---|---|
//! | `insert`, `by_key`, `all` | the calls: putting a value in, one key, all keys |
//! | `weak` | a handle that does not keep the stream open |
//! | `inner` | what the handles and the stream share, and their hand-shake |
//! | `part`, `due_queue`, `marks` | one part, the order of what is due in it, `expire_all` |
//! | `stream`, `merge` | the stream, and the order of what is due in all parts |
//! | `states`, `lookout`, `stream_timer` | how a change makes the stream look, and only when it must |

mod all;
mod by_key;
mod due_queue;
mod inner;
mod insert;
mod lookout;
#[cfg(test)]
mod lookout_tests;
mod marks;
mod merge;
mod part;
mod states;
mod stream;
mod stream_timer;
mod weak;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use crate::timer::Timer;
use inner::Inner;
pub use stream::{Expirations, Expired};
pub use weak::WeakDelayMap;

/// Delayed values by key, which come out of one stream when their delay has passed.
///
/// Any number of clones insert, reset and remove from any task or thread, by `&self`. The one
/// [`Expirations`] is the stream, and its consumer may use the map from its own loop.
///
/// - A value never comes out early. It is late by at most two ticks of the timer, besides tokio's
///   rounding and scheduling.
/// - Each value comes out once, one way: by the stream, [`remove`](DelayMap::remove),
///   [`drain`](DelayMap::drain), [`close`](DelayMap::close), or replaced by an
///   [`insert`](DelayMap::insert). What is due but not yet taken from the stream can still be
///   removed, reset or drained.
/// - Values come out in the order of their deadlines.
/// - The stream ends when the map is closed and empty, or when every handle of the map is dropped
///   and the map is empty. It also ends when the timer's runtime has shut down. Dropping the stream
///   closes the map and drops what the map holds.
///
/// | call | cost |
/// |---|---|
/// | insert, reset, remove and the others by key | a hash and the lock of one part of the map |
/// | [`drain`](DelayMap::drain), [`expire_all`](DelayMap::expire_all), [`close`](DelayMap::close) | the locks of all parts at once, for a moment; O(keys) after them (`expire_all`: O(what is due) under them) |
///
/// Every look-up takes any borrowed form of the key, like the look-ups of a `HashMap`. The map
/// calls a key's `Hash` with no lock held, and its `Eq` under the lock of a part. It drops keys and
/// values after all locks. If one of them panics, that call panics and no other key is harmed. `Eq`
/// must not call the map.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures::StreamExt;
/// use tickwheel::{DelayMap, Duration, Timer};
///
/// let (sessions, mut expired) = DelayMap::new(&Timer::current());
/// sessions.insert("alice", 1, Duration::from_secs(60))?;
/// sessions.insert("bob", 2, Duration::from_secs(30))?;
/// sessions.reset("bob", Duration::from_secs(90));
///
/// let first = expired.next().await.expect("the map is open");
/// assert_eq!((first.key, first.value), ("alice", 1));
/// assert_eq!(sessions.remove("bob"), Some(2));
/// drop(sessions);
/// assert!(expired.next().await.is_none());
/// # Ok(())
/// # }
/// ```
pub struct DelayMap<K, V> {
    inner: Arc<Inner<K, V>>,
}

impl<K: Hash + Eq, V> DelayMap<K, V> {
    /// An empty map on `timer`, and its stream.
    pub fn new(timer: &Timer) -> (Self, Expirations<K, V>) {
        Self::with_limit(timer, usize::MAX)
    }

    /// An empty map that holds at most `max` keys, and its stream.
    pub fn with_limit(timer: &Timer, max: usize) -> (Self, Expirations<K, V>) {
        Self::with_limit_and_capacity(timer, max, 0)
    }

    /// An empty map with room for about `capacity` keys, and its stream.
    pub fn with_capacity(timer: &Timer, capacity: usize) -> (Self, Expirations<K, V>) {
        Self::with_limit_and_capacity(timer, usize::MAX, capacity)
    }

    fn with_limit_and_capacity(
        timer: &Timer,
        max: usize,
        capacity: usize,
    ) -> (Self, Expirations<K, V>) {
        let inner = Arc::new(Inner::new(timer, max, capacity));
        (
            DelayMap {
                inner: inner.clone(),
            },
            Expirations::new(inner),
        )
    }
}

impl<K, V> DelayMap<K, V> {
    /// A handle that does not keep the stream from ending.
    pub fn downgrade(&self) -> WeakDelayMap<K, V> {
        WeakDelayMap::new(&self.inner)
    }
}

impl<K, V> Clone for DelayMap<K, V> {
    fn clone(&self) -> Self {
        // This is a handle itself, so the count is not zero and grows.
        self.inner.add_handle();
        DelayMap {
            inner: self.inner.clone(),
        }
    }
}

impl<K, V> Drop for DelayMap<K, V> {
    fn drop(&mut self) {
        self.inner.drop_handle();
    }
}

impl<K, V> fmt::Debug for DelayMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayMap")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
