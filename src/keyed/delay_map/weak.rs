//! The [`WeakDelayMap`]: a handle that does not keep the stream from ending.
//!
//! Invariant: it is upgraded only while there is another handle. Once the last one was dropped,
//! there is none again.

use std::fmt;
use std::sync::{Arc, Weak};

use super::DelayMap;
use super::inner::Inner;

/// A handle of a [`DelayMap`] that does not keep its stream from ending. See
/// [`DelayMap::downgrade`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{DelayMap, Duration, Timer};
///
/// let (map, mut expired) = DelayMap::new(&Timer::current());
/// let weak = map.downgrade();
/// weak.upgrade().unwrap().insert("key", 1, Duration::from_secs(1)).unwrap();
/// drop(map);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(expired.recv().await.unwrap().key, "key");
/// assert!(expired.recv().await.is_none());
/// # }
/// ```
pub struct WeakDelayMap<K, V> {
    inner: Weak<Inner<K, V>>,
}

impl<K, V> WeakDelayMap<K, V> {
    pub(super) fn new(inner: &Arc<Inner<K, V>>) -> Self {
        WeakDelayMap {
            inner: Arc::downgrade(inner),
        }
    }

    /// A handle of the map, or `None` if the last one was dropped.
    pub fn upgrade(&self) -> Option<DelayMap<K, V>> {
        let inner = self.inner.upgrade()?;
        inner.add_handle().then(|| DelayMap { inner })
    }
}

impl<K, V> Clone for WeakDelayMap<K, V> {
    fn clone(&self) -> Self {
        WeakDelayMap {
            inner: self.inner.clone(),
        }
    }
}

impl<K, V> fmt::Debug for WeakDelayMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakDelayMap").finish_non_exhaustive()
    }
}
