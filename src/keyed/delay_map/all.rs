//! The calls of a [`DelayMap`] on all of its keys.
//!
//! `drain` and `close` lock every part, so each of them is atomic against all keys. The others go
//! through the parts, one locked at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use tokio::time::Instant;

use super::DelayMap;
use super::stream::Expirations;
use crate::metrics::DelayMapMetrics;

impl<K, V, S> DelayMap<K, V, S> {
    /// How many values are in the map, due or not. It takes no lock, and reads one count for each
    /// part. While other threads change the map, the sum may be of no one moment.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether no value is in the map, at one moment of the call. It takes no lock unless the map
    /// seems empty, and then those of all parts.
    pub fn is_empty(&self) -> bool {
        self.inner.table.is_empty()
    }

    /// The keys, in no order. Each was in the map at some moment of the call.
    ///
    /// The keys of one part at a time are cloned under its lock, so a `Clone` of a key must not
    /// call the map.
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        let mut keys = Vec::with_capacity(self.inner.table.len());
        for part in self.inner.table.lock_each() {
            keys.extend(part.indices().map(|index| part.item(index).key.clone()));
        }
        keys
    }

    /// Calls `act` with each key, its value, and the instant at which the value is to come out, in
    /// no order.
    ///
    /// It goes from part to part, under the lock of one at a time. A key that is in the map from
    /// the beginning of the call to its end is shown exactly once. One that comes or goes meanwhile
    /// may be shown or not. A value that moves from one key to another may be shown twice, or not
    /// at all.
    ///
    /// `act` must not call the map: [the rule](DelayMap#closures). If it panics, nothing is
    /// changed.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Timer};
    /// # tokio_test::block_on(async {
    /// let (jobs, _due) = DelayMap::<&str, u64>::new(&Timer::current());
    /// let mut saved = Vec::new();
    /// jobs.for_each(|key, value, due| saved.push((*key, *value, due)));
    /// # });
    /// ```
    pub fn for_each(&self, mut act: impl FnMut(&K, &V, Instant)) {
        for part in self.inner.table.lock_each() {
            for item in part.indices().map(|index| part.item(index)) {
                let deadline = self.inner.clock().instant(item.deadline);
                act(&item.key, &item.value, deadline);
            }
        }
    }

    /// Another stream of what has expired, if there is none now: the one before it was dropped, say
    /// with a task that was aborted. `None` while there is one.
    ///
    /// The map keeps what becomes due meanwhile, and the new stream gives it first. A value that
    /// the former consumer has taken is its own. So a job that must not be lost is recorded before
    /// it is forgotten. A consumer that is to outlive its own panics takes a stream each time it
    /// begins:
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (jobs, first_stream) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, Duration::from_secs(1))?;
    /// drop(first_stream); // its consumer has panicked
    /// let mut due = jobs.expirations().expect("there is no other");
    /// assert_eq!(due.recv().await.map(|job| job.key), Some("mail"));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn expirations(&self) -> Option<Expirations<K, V>> {
        let is_ours = self.inner.try_acquire_stream();
        is_ours.then(|| Expirations::new(self.inner.clone()))
    }

    /// Keeps the values for which `keep` says so, due or not, and drops the rest. The delays go on.
    ///
    /// A value that it does not keep is dropped after the lock. `keep` must not call the map: [the
    /// rule](DelayMap#closures). If it panics, no further value is dropped.
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for mut part in self.inner.table.lock_each() {
            let mut removed = Vec::new();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let indices: Vec<_> = part.indices().collect();
                for index in indices {
                    let item = part.item_mut(index);
                    if !keep(&item.key, &mut item.value) {
                        removed.push(part.remove(index));
                        part.release(1);
                    }
                }
            }));
            self.inner.finish_take(part);
            // After the lock, because these drops are user code.
            drop(removed);
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
        }
    }

    /// Takes everything out, in no order: each value with its key and the time that it had left,
    /// zero for what was due. So it can be saved, and put into another map.
    ///
    /// It is atomic: an insert comes wholly before it or wholly after it.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// assert_eq!(jobs.insert("mail", 1, Duration::from_secs(5)), Ok(None));
    /// assert_eq!(jobs.drain(), [("mail", 1, Duration::from_secs(5))]);
    /// # });
    /// ```
    pub fn drain(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(false)
    }

    /// Makes everything come out of the stream now. Returns how many values were pending.
    ///
    /// It is atomic for each key, and not against all of them: a key that is inserted meanwhile may
    /// be made due or not. It has one part of the map locked at a time.
    pub fn expire_all(&self) -> usize {
        let mut pending = 0;
        for mut part in self.inner.table.lock_each() {
            pending += part.make_all_due(self.inner.set_now(|now| now));
            self.inner.finish_change(part);
        }
        pending
    }

    /// Drains the map, and ends the stream. Every later insert is an error. A second close finds
    /// nothing.
    pub fn close(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(true)
    }

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
