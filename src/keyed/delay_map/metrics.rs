//! [`DelayMapMetrics`]: counts of a map's values, past and present.

use super::DelayMap;

/// Counts of a map's values: [`DelayMap::metrics`].
///
/// The values of a [`DelayMap`] are no timers of its [`Timer`](crate::Timer), whose
/// [`Metrics`](crate::Metrics) have no more than the one timer of the map's stream.
///
/// ```
/// # use tickwheel::{DelayMap, Duration, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let (jobs, mut due) = DelayMap::new(&Timer::current());
/// jobs.insert("mail", 1, Duration::from_secs(1))?;
/// jobs.insert("report", 2, Duration::from_secs(60))?;
/// due.recv().await;
/// let metrics = jobs.metrics();
/// assert_eq!((metrics.len, metrics.inserted, metrics.expired), (1, 2, 1));
/// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(::serde::Serialize, ::serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct DelayMapMetrics {
    /// Values that are in the map now, due or not.
    pub len: usize,
    /// Values that were ever put in, also in the place of another.
    pub inserted: u64,
    /// Values that came out of the stream. While `len` grows and this does not, nobody takes them.
    pub expired: u64,
}

impl<K, V, S> DelayMap<K, V, S> {
    /// The counts of the map. It locks one part at a time.
    ///
    /// What was put in and is neither in the map nor has expired was removed, replaced or drained.
    /// While other threads change the map, the counts may be of no one moment.
    pub fn metrics(&self) -> DelayMapMetrics {
        let mut metrics = DelayMapMetrics::default();
        for part in self.inner.table.lock_each() {
            metrics.len += part.len();
            metrics.inserted += part.inserted;
            metrics.expired += part.expired;
        }
        metrics
    }
}
