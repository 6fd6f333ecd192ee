//! What a [`DelayMap`] does to the value of one key.
//!
//! Invariant: each call looks the key up once, and acts on what it finds under the same hold of the
//! part's lock.

use std::borrow::Borrow;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::DelayMap;
use super::inner::LockedPart;
use super::part::Item;
use crate::time::tick::Moment;

impl<K: Hash + Eq, V> DelayMap<K, V> {
    /// Makes the value of a key come out when `delay` has passed from now, earlier or later than
    /// before, but no later than its life. `false` for a key that is not in the map.
    pub fn reset<Q>(&self, key: &Q, delay: Duration) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.reset_due(key, |now| now.after(delay.into()))
    }

    /// Makes the value of a key come out at `deadline`. All else is as in
    /// [`reset`](DelayMap::reset).
    pub fn reset_at<Q>(&self, key: &Q, deadline: Instant) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let deadline = self.inner.clock().moment(deadline);
        self.reset_due(key, |_| deadline)
    }

    fn reset_due<Q>(&self, key: &Q, deadline: impl FnOnce(Moment) -> Moment) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = &*self.inner;
        let Some((mut locked, index)) = self.find(key) else {
            return false;
        };
        let end = locked.part.end_of(index);
        let setting = inner.due_now(|now| deadline(now).min(end));
        locked.part.set(index, setting);
        inner.plan_for(locked, setting);
        true
    }

    /// Makes the value of a key come out of the stream now. `false` for a key that is not in the
    /// map, or whose value is due already.
    pub fn expire<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some((mut locked, index)) = self.find(key) else {
            return false;
        };
        let is_pending = locked.part.expire(index, self.inner.clock().now());
        self.inner.plan_again(locked);
        is_pending
    }

    /// Takes the value of a key out. `None` for a key that is not in the map.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut locked, index) = self.find(key)?;
        let item = locked.part.remove(index);
        locked.part.shrink_if_due();
        self.inner.table.give_back(locked.number, 1);
        self.inner.plan_without(locked);
        let Item { key, value, .. } = item;
        // After the lock. If this panics, the value is dropped and not lost.
        drop(key);
        Some(value)
    }

    /// Whether a key is in the map, because its value has not come out yet.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key).is_some()
    }

    /// When the value of a key is to come out. `None` for a key that is not in the map.
    pub fn deadline<Q>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (locked, index) = self.find(key)?;
        let at = locked.part.due_at(index);
        drop(locked);
        Some(self.inner.clock().instant(at))
    }

    /// The time that is left until the value of a key comes out, or zero if it is due. `None` for a
    /// key that is not in the map.
    pub fn remaining<Q>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (locked, index) = self.find(key)?;
        let at = locked.part.due_at(index);
        // The clock is read under the lock, after the last reset. So this tells no more than was
        // set.
        Some(at.since(self.inner.clock().now()))
    }

    /// Looks at the value of a key, due or not. `None` for a key that is not in the map. The delay
    /// of the value goes on.
    ///
    /// `look` is called under the lock of a part, so it must not call the map. If it panics,
    /// nothing is changed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let (map, _expired) = DelayMap::new(&Timer::current());
    /// map.insert("key", vec![1, 2], Duration::from_secs(60)).unwrap();
    /// assert_eq!(map.update("key", |value| value.push(3)), Some(()));
    /// assert_eq!(map.with_value("key", Vec::len), Some(3));
    /// # }
    /// ```
    pub fn with_value<Q, R>(&self, key: &Q, look: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (locked, index) = self.find(key)?;
        Some(look(&locked.part.item(index).value))
    }

    /// Changes the value of a key, due or not. `None` for a key that is not in the map. The delay
    /// of the value goes on.
    ///
    /// `change` is called under the lock of a part, so it must not call the map. If it panics, the
    /// value stays as `change` left it.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut locked, index) = self.find(key)?;
        Some(change(locked.part.value_mut(index)))
    }

    /// Looks at the value of a key or changes it, and starts its delay anew, in one step. `None`
    /// for a key that is not in the map.
    ///
    /// `act` is called under the lock of a part, so it must not call the map. If it panics, the
    /// delay goes on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tickwheel::{DelayMap, Duration, Timer};
    ///
    /// let minute = Duration::from_secs(60);
    /// let (cache, _expired) = DelayMap::new(&Timer::current());
    /// cache.insert("page", "text", minute).unwrap();
    /// tickwheel::sleep(minute / 2).await;
    /// assert_eq!(cache.touch("page", minute, |text| *text), Some("text"));
    /// assert_eq!(cache.remaining("page"), Some(minute));
    /// # }
    /// ```
    pub fn touch<Q, R>(&self, key: &Q, delay: Duration, act: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (mut locked, index) = self.find(key)?;
        let result = act(locked.part.value_mut(index));
        let end = locked.part.end_of(index);
        let setting = self.inner.due_now(|now| now.after(delay.into()).min(end));
        locked.part.set(index, setting);
        self.inner.plan_for(locked, setting);
        Some(result)
    }

    fn find<Q>(&self, key: &Q) -> Option<(LockedPart<'_, K, V>, u32)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.inner.table.hash(key);
        let locked = self.inner.lock(hash);
        let index = locked.part.find(hash, key)?;
        Some((locked, index))
    }
}
