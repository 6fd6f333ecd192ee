//! How a [`DeadlineMap`] is made: with a limit, with room made ahead, with a hasher.
//!
//! Invariant: a map is made with no part, unless room is made ahead.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::DeadlineMap;
use super::inner::Inner;
use crate::keyed::hashing::DefaultHashBuilder;
use crate::timer::Timer;

/// Making a map.
impl<K> DeadlineMap<K>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    /// An empty map whose deadlines are on `timer`.
    pub fn new(timer: &Timer) -> Self {
        Self::with_limit(timer, usize::MAX)
    }

    /// An empty map that holds at most `max` keys.
    pub fn with_limit(timer: &Timer, max: usize) -> Self {
        Self::with_limit_and_hasher(timer, max, hash_builder(timer))
    }

    /// An empty map with room for `capacity` keys made ahead, so that the first `capacity` keys
    /// grow no table.
    ///
    /// That room stays when the keys go, until the map is drained. It is shared out evenly over the
    /// map. Keys spread unevenly by chance, so in some share of the map there may be too little
    /// room. Room for less than a thousand keys is made as they come.
    pub fn with_capacity(timer: &Timer, capacity: usize) -> Self {
        Self::with_capacity_and_hasher(timer, capacity, hash_builder(timer))
    }
}

/// Making a map with a hasher of the user's.
impl<K, S> DeadlineMap<K, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    S: BuildHasher,
{
    /// An empty map that hashes its keys with what `hash_builder` makes.
    ///
    /// The default withstands keys that somebody has chosen to collide. A hasher that does not
    /// withstand them is faster. It is good for keys that nobody can choose, such as the program's
    /// own numbers.
    pub fn with_hasher(timer: &Timer, hash_builder: S) -> Self {
        Self::with_limit_and_hasher(timer, usize::MAX, hash_builder)
    }

    /// As [`with_limit`](DeadlineMap::with_limit), with a hasher.
    pub fn with_limit_and_hasher(timer: &Timer, max: usize, hash_builder: S) -> Self {
        DeadlineMap {
            inner: Arc::new(Inner::new(timer, max)),
            hash_builder,
        }
    }

    /// As [`with_capacity`](DeadlineMap::with_capacity), with a hasher.
    pub fn with_capacity_and_hasher(timer: &Timer, capacity: usize, hash_builder: S) -> Self {
        let map = Self::with_hasher(timer, hash_builder);
        map.inner.reserve(capacity);
        map
    }
}

fn hash_builder(timer: &Timer) -> DefaultHashBuilder {
    DefaultHashBuilder::new(timer.shard().clock())
}
