//! What a [`DelayMap`] does to all of its keys, or to the first of them.
//!
//! - `drain` and `close` lock every part, so each of them is atomic against all keys.
//! - `keys`, `for_each`, `retain` and `expire_all` go through the parts, one locked at a time.
//! - `first` and `pop_first` compare the earliest ticks of all parts, and lock one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use tokio::time::Instant;

use super::DelayMap;
use super::stream::Expirations;

impl<K, V, S> DelayMap<K, V, S> {
    /// How many values are in the map, due or not.
    pub fn len(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether no value is in the map.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys, in no order. Each was in the map at some moment of the call.
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        let mut keys = Vec::with_capacity(self.inner.table.permits());
        for part in self.inner.table.lock_each() {
            keys.extend(part.indices().map(|index| part.item(index).key.clone()));
        }
        keys
    }

    /// Calls `act` with each key, its value, and the instant at which the value is to come out, in
    /// no order.
    ///
    /// It goes from part to part, under the lock of one at a time. What is in the map from the
    /// beginning of the call to its end is shown exactly once. What comes or goes meanwhile may be
    /// shown or not. A value that moves from one key to another may be shown twice, or not at all.
    ///
    /// `act` must not call the map: [the rule](DelayMap#closures). If it panics, nothing is changed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tickwheel::{DelayMap, Duration, Instant, Timer};
    ///
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", "to alice", Duration::from_secs(5))?;
    /// jobs.insert("push", "to bob", Duration::from_secs(90))?;
    ///
    /// let soon = Instant::now() + Duration::from_secs(60);
    /// let mut saved = Vec::new();
    /// jobs.for_each(|key, value, due| {
    ///     if due <= soon {
    ///         saved.push((*key, *value, due));
    ///     }
    /// });
    /// assert_eq!(saved.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_each(&self, mut act: impl FnMut(&K, &V, Instant)) {
        for part in self.inner.table.lock_each() {
            for item in part.indices().map(|index| part.item(index)) {
                let deadline = self.inner.clock().instant(item.deadline);
                act(&item.key, &item.value, deadline);
            }
        }
    }

    /// The key whose value is the next to come out, and the instant at which it is to. `None` if
    /// the map is empty.
    ///
    /// No value that is in the map and stays as it is during the call comes out before it. What
    /// other threads insert or reset meanwhile may.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tickwheel::{DelayMap, Duration, Instant, Timer};
    ///
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// jobs.insert("later", 1, Duration::from_secs(90))?;
    /// jobs.insert("sooner", 2, Duration::from_secs(5))?;
    /// if let Some((job, due)) = jobs.first() {
    ///     println!("next is {job} in {:?}", due - Instant::now());
    ///     assert_eq!(job, "sooner");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn first(&self) -> Option<(K, Instant)>
    where
        K: Clone,
    {
        let (part, index) = self.inner.lock_first()?;
        let item = part.item(index);
        let (key, deadline) = (item.key.clone(), item.deadline);
        drop(part);
        Some((key, self.inner.clock().instant(deadline)))
    }

    /// Takes out the value that is the next to come out, with its key and the time that it had
    /// left, zero for what was due. `None` if the map is empty.
    ///
    /// It is for a map at its limit that is to make room. What comes first is as in
    /// [`first`](DelayMap::first).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tickwheel::error::InsertError;
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let (cache, _expired) = DelayMap::with_limit(&Timer::current(), 2);
    /// cache.insert("old", 1, Duration::from_secs(20))?;
    /// cache.insert("older", 2, Duration::from_secs(10))?;
    ///
    /// let mut value = 3;
    /// while let Err(InsertError::AtCapacity(back)) = cache.insert("new", value, Duration::from_secs(30)) {
    ///     value = back;
    ///     let evicted = cache.pop_first();
    ///     assert_eq!(evicted, Some(("older", 2, Duration::from_secs(10))));
    /// }
    /// assert_eq!(cache.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pop_first(&self) -> Option<(K, V, Duration)> {
        let (part, index) = self.inner.lock_first()?;
        // Read under the lock, after the last reset.
        let now = self.inner.clock().now();
        let item = self.inner.take_out(part, index);
        let left = item.deadline.since(now);
        let (key, value) = item.into_pair();
        Some((key, value, left))
    }

    /// Another stream of what has expired, if there is none now: the one before it was dropped, say
    /// with a task that was aborted. `None` while there is one.
    ///
    /// The map keeps what becomes due meanwhile, and the new stream gives it first. A value that
    /// the former consumer has taken is its own. So a job that must not be lost is recorded before
    /// it is forgotten.
    ///
    /// A consumer that is to outlive its own panics takes a stream each time it begins:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// # std::panic::set_hook(Box::new(|_| {}));
    /// let (jobs, first_stream) = DelayMap::new(&Timer::current());
    /// drop(first_stream);
    /// for number in 1..=3 {
    ///     jobs.insert(number, "a job", Duration::from_secs(number))?;
    /// }
    /// let supervisor = tokio::spawn({
    ///     let jobs = jobs.clone();
    ///     async move {
    ///         while let Some(mut due) = jobs.expirations() {
    ///             let consumer = tokio::spawn(async move {
    ///                 while let Some(job) = due.recv().await {
    ///                     assert_ne!(job.key, 2, "this job kills its consumer");
    ///                     println!("job {} is done", job.key);
    ///                 }
    ///             });
    ///             match consumer.await {
    ///                 Ok(()) => break, // the stream has ended
    ///                 Err(died) => println!("the consumer is started again: {died}"),
    ///             }
    ///         }
    ///     }
    /// });
    /// tickwheel::sleep(Duration::from_secs(4)).await;
    /// assert!(jobs.is_empty(), "job 3 came to the second consumer");
    /// jobs.close();
    /// supervisor.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn expirations(&self) -> Option<Expirations<K, V>> {
        let inner = &self.inner;
        inner
            .try_acquire_stream()
            .then(|| Expirations::new(inner.clone()))
    }

    /// Keeps the values for which `keep` says so, due or not, and drops the rest. The delays go on.
    ///
    /// What it does not keep is dropped after the lock. `keep` must not call the map: [the
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
            part.shrink_if_due();
            self.inner.has_taken(part);
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
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let (jobs, _due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", "to alice", Duration::from_secs(5))?;
    /// tickwheel::sleep(Duration::from_secs(2)).await;
    /// assert_eq!(jobs.drain(), [("mail", "to alice", Duration::from_secs(3))]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(false)
    }

    /// Makes everything come out of the stream now. Returns how many values were pending.
    ///
    /// It is atomic for each key, and not against all of them: what is inserted meanwhile may be
    /// made due or not. It has one part of the map locked at a time.
    pub fn expire_all(&self) -> usize {
        self.inner.expire_all()
    }

    /// Drains the map, and ends the stream. Every later insert is an error. A second close finds
    /// nothing.
    pub fn close(&self) -> Vec<(K, V, Duration)> {
        self.inner.take_all(true)
    }
}
