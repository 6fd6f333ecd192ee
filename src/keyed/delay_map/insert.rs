//! How a value is put into a [`DelayMap`].
//!
//! Invariant: under one hold of the part's lock, a call finds out whether it can put the value in,
//! and puts it in. A value that it does not put in goes back to the caller.

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::DelayMap;
use super::inner::LockedPart;
use crate::error::InsertError;
use crate::time::tick::Moment;

impl<K: Hash + Eq, V> DelayMap<K, V> {
    /// Puts a value under a key, to come out of the stream when `delay` has passed. A value that
    /// was under the key is replaced and given back, and the delay starts anew.
    ///
    /// # Errors
    ///
    /// Both give the value back. [`InsertError::Closed`] when the map is closed, its stream was
    /// dropped, or the timer's runtime has shut down. [`InsertError::AtCapacity`] if the key is new
    /// and the map holds as many keys as it may.
    pub fn insert(&self, key: K, value: V, delay: Duration) -> Result<Option<V>, InsertError<V>> {
        self.insert_due(key, value, |now| now.after(delay.into()))
    }

    /// Puts a value under a key, to come out of the stream at `deadline`. All else is as in
    /// [`insert`](DelayMap::insert).
    ///
    /// # Errors
    ///
    /// As for [`insert`](DelayMap::insert).
    pub fn insert_at(
        &self,
        key: K,
        value: V,
        deadline: Instant,
    ) -> Result<Option<V>, InsertError<V>> {
        let deadline = self.inner.clock().moment(deadline);
        self.insert_due(key, value, |_| deadline)
    }

    /// As [`insert`](DelayMap::insert), with a life. However often the delay starts anew, the value
    /// comes out when `life` has passed from now, at the latest. So a value has a time to live
    /// beside its time to idle.
    ///
    /// # Errors
    ///
    /// As for [`insert`](DelayMap::insert).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Instant, Timer};
    ///
    /// let (cache, mut expired) = DelayMap::new(&Timer::current());
    /// let (idle, life) = (Duration::from_secs(10), Duration::from_secs(25));
    /// let start = Instant::now();
    /// cache.insert_with_life("page", 1, idle, life).unwrap();
    /// for _use in 0..3 {
    ///     tickwheel::sleep(Duration::from_secs(8)).await;
    ///     cache.reset("page", idle);
    /// }
    /// assert_eq!(expired.recv().await.unwrap().deadline, start + life);
    /// # }
    /// ```
    pub fn insert_with_life(
        &self,
        key: K,
        value: V,
        delay: Duration,
        life: Duration,
    ) -> Result<Option<V>, InsertError<V>> {
        self.insert_until(
            key,
            value,
            |now| now.after(delay.into()),
            |now| now.after(life.into()),
        )
    }

    /// Puts a value under a key that is not in the map. If the key is in the map, nothing changes,
    /// and `Some` gives the value back.
    ///
    /// # Errors
    ///
    /// As for [`insert`](DelayMap::insert).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let (map, _expired) = DelayMap::new(&Timer::current());
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(map.insert_if_absent("key", 1, minute), Ok(None));
    /// assert_eq!(map.insert_if_absent("key", 2, minute), Ok(Some(2)), "not inserted");
    /// assert_eq!(map.remove("key"), Some(1));
    /// # }
    /// ```
    pub fn insert_if_absent(
        &self,
        key: K,
        value: V,
        delay: Duration,
    ) -> Result<Option<V>, InsertError<V>> {
        let inner = &*self.inner;
        let hash = inner.table.hash(&key);
        let mut locked = inner.lock(hash);
        if self.is_closed(&locked) {
            let_go(locked, key);
            return Err(InsertError::Closed(value));
        }
        if locked.part.find(hash, &key).is_some() {
            let_go(locked, key);
            return Ok(Some(value));
        }
        if !inner.table.take_place(locked.number) {
            let_go(locked, key);
            return Err(InsertError::AtCapacity(value));
        }
        let setting = inner.due_now(|now| now.after(delay.into()));
        locked.part.insert(key, hash, value, setting, Moment::MAX);
        inner.plan_for(locked, setting);
        Ok(None)
    }

    fn insert_due(
        &self,
        key: K,
        value: V,
        deadline: impl FnOnce(Moment) -> Moment,
    ) -> Result<Option<V>, InsertError<V>> {
        self.insert_until(key, value, deadline, |_| Moment::MAX)
    }

    fn insert_until(
        &self,
        key: K,
        value: V,
        deadline: impl FnOnce(Moment) -> Moment,
        end: impl FnOnce(Moment) -> Moment,
    ) -> Result<Option<V>, InsertError<V>> {
        let inner = &*self.inner;
        let hash = inner.table.hash(&key);
        let mut locked = inner.lock(hash);
        if self.is_closed(&locked) {
            let_go(locked, key);
            return Err(InsertError::Closed(value));
        }
        let found = locked.part.find(hash, &key);
        if found.is_none() && !inner.table.take_place(locked.number) {
            let_go(locked, key);
            return Err(InsertError::AtCapacity(value));
        }
        let mut until = Moment::MAX;
        let setting = inner.due_now(|now| {
            until = end(now);
            deadline(now).min(until)
        });
        let replaced = match found {
            Some(index) => {
                locked.part.set_end(index, until);
                locked.part.set(index, setting);
                Some(locked.part.replace_value(index, value))
            }
            None => {
                locked.part.insert(key, hash, value, setting, until);
                inner.plan_for(locked, setting);
                return Ok(None);
            }
        };
        inner.plan_for(locked, setting);
        // Before anything is given back, as in `let_go`.
        drop(key);
        Ok(replaced)
    }

    /// To be asked with a part locked, because a call that closes the map has all of them locked.
    fn is_closed(&self, _locked: &LockedPart<'_, K, V>) -> bool {
        self.inner.table.is_closed() || self.inner.timer.has_ended()
    }
}

/// Unlocks the part, and then drops a key that is not needed. The value that is to be given back is
/// not on its way yet. So if the drop panics, the value is dropped and not lost.
fn let_go<K, V>(locked: LockedPart<'_, K, V>, key: K) {
    drop(locked);
    drop(key);
}
