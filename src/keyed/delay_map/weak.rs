//! [`WeakDelayMap`]: a handle for a task that only watches a map.

use std::fmt;
use std::sync::Weak;

use super::DelayMap;
use super::inner::Handles;
use crate::keyed::table::DefaultHashBuilder;

/// A handle of a [`DelayMap`] that does not keep its stream alive: [`DelayMap::downgrade`].
pub struct WeakDelayMap<K, V, S = DefaultHashBuilder> {
    pub(super) handles: Weak<Handles<K, V>>,
    pub(super) hash_builder: S,
}

impl<K, V, S: Clone> WeakDelayMap<K, V, S> {
    /// A handle of the map. `None` if the last one was dropped.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async {
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// let watched = jobs.downgrade();
    /// jobs.insert("mail", 1, Duration::from_secs(60))?;
    /// assert_eq!(watched.upgrade().map(|jobs| jobs.len()), Some(1));
    /// drop(jobs);
    /// assert!(watched.upgrade().is_none());
    /// # Ok::<(), tickwheel::error::InsertError<(&str, u64)>>(()) }).unwrap();
    /// ```
    pub fn upgrade(&self) -> Option<DelayMap<K, V, S>> {
        let handles = self.handles.upgrade()?;
        Some(DelayMap {
            inner: handles.0.clone(),
            handles,
            hash_builder: self.hash_builder.clone(),
        })
    }
}

impl<K, V, S: Clone> Clone for WeakDelayMap<K, V, S> {
    fn clone(&self) -> Self {
        WeakDelayMap {
            handles: self.handles.clone(),
            hash_builder: self.hash_builder.clone(),
        }
    }
}

impl<K, V, S> fmt::Debug for WeakDelayMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakDelayMap").finish_non_exhaustive()
    }
}
