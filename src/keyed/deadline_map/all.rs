//! What a [`DeadlineMap`] does to all of its keys.
//!
//! - `drain` and `close` lock every part, take the tables out, and unlock. That takes as long for a
//!   million keys as for none. Only then do they settle what they took, deadline by deadline.
//! - `expire_all`, `keys`, `for_each`, `first` and `pop_first` walk. They copy one part at a time,
//!   under its lock, and use the copies after it.
//!
//! Invariant: every entry that a call takes out or sees is taken out or seen under the lock of its
//! part. Its deadline is settled, and its key is dropped, under no lock of the map.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *Drain or close against insert.* All parts are locked while their tables are taken, so an
//!   insert comes wholly before it or wholly after.
//! - *Drain against expiry, cancel, reset, restart.* Each of them settles or moves the deadline's
//!   word, one after the other. The result of a drain has what the drain settled, and nothing else.
//! - *Drain against a `KeyedDeadline` that is dropped.* An entry leaves its table once, and the
//!   call that takes it out gives its slot back. One of the two settles the word.
//! - *`pop_first` against expiry and restart.* It cancels the deadline, and only then takes its key
//!   out. So one that ends meanwhile keeps its key. One that its owner restarts between the two
//!   goes on as a deadline to which no key leads.
//! - *A walk against inserts and drops.* A key is in one part for ever, and a part is copied at one
//!   moment. So the walk sees an entry once that is there from its beginning to its end.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::DeadlineMap;
use super::inner::{Entry, Inner};
use crate::deadline::ResetHandle;
use crate::shard::Reported;
use crate::shard::word::{Outcome, Word};

impl<K, S> DeadlineMap<K, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    S: BuildHasher,
{
    /// Takes every key out and cancels what is pending,
    /// [drained](crate::error::Cancelled::is_drained). Returns the keys of what was pending, each
    /// with the time that it had left.
    ///
    /// It is atomic against all keys: an insert comes wholly before it or wholly after it. Each
    /// deadline that was pending comes out once, here or by expiring, unless its own
    /// [`KeyedDeadline`](crate::KeyedDeadline) or handle ends it meanwhile. A deadline that an
    /// insert is replacing at that moment is in the map no more, and that insert cancels it before
    /// it returns.
    ///
    /// Other calls wait for it only for a moment. It takes the keys out first. Then it cancels
    /// their deadlines one by one, while the map is in use again.
    pub fn drain(&self) -> Vec<(K, Duration)> {
        self.take_all(false)
    }

    /// Drains the map, and makes every later insert an error. A second close finds nothing to
    /// drain.
    pub fn close(&self) -> Vec<(K, Duration)> {
        self.take_all(true)
    }

    fn take_all(&self, close: bool) -> Vec<(K, Duration)> {
        let inner = &*self.inner;
        let now = inner.now();
        let mut parts = Vec::new();
        {
            let mut all = inner.table.lock_all();
            if close {
                all.close();
            }
            parts.extend(all.iter_mut().map(|(number, part)| {
                let taken = part.take();
                inner.table.release(number, taken.len());
                taken
            }));
        }
        let mut drained = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        // The keys of deadlines that were settled before.
        let mut over = Vec::new();
        for entry in parts.into_iter().flatten() {
            match inner.settle(&entry.word, now, Outcome::Drained) {
                Some(left) => drained.push((entry.key, left)),
                None => over.push(entry.key),
            }
        }
        // Last, because this is user code. By now every deadline is settled.
        drop(over);
        drained
    }

    /// Expires every deadline that is pending, and returns how many it expired. Their keys stay
    /// while the deadlines live.
    ///
    /// It is atomic for each key, and not against all of them. An insert or a reset of a key comes
    /// wholly before or wholly after the expiry of that key. It reaches every deadline that is in
    /// the map from the beginning of the call to its end. A key that is replaced meanwhile may keep
    /// its newer deadline.
    pub fn expire_all(&self) -> usize {
        let inner = &*self.inner;
        let now = inner.now();
        let mut expired = 0;
        inner.walk(
            |entry| entry.word.clone(),
            |word| {
                let left = inner.access(&word).settle_at(now, Outcome::Expired);
                expired += usize::from(left.is_some());
            },
        );
        expired
    }

    /// The keys of the map, their deadlines pending or not, in no order.
    ///
    /// The result has every key that is in the map from the beginning of the call to its end. It
    /// may have one that comes or goes meanwhile. `K::clone` is called with a part of the map
    /// locked, as in [`for_each`](DeadlineMap::for_each).
    pub fn keys(&self) -> Vec<K> {
        let mut keys = Vec::with_capacity(self.len());
        self.inner
            .walk(|entry| entry.key.clone(), |key| keys.push(key));
        keys
    }

    /// Calls `f` with each key of the map, its deadline pending or not, and with that deadline's
    /// handle, in no order.
    ///
    /// It shows every key once that is in the map from the beginning of the call to its end. It may
    /// show one that comes or goes meanwhile. No lock is held while `f` runs, so `f` may do
    /// anything to the map, and what it is shown may have changed since. `K::clone` is called with
    /// a part of the map locked, so it must not call the map.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tickwheel::{DeadlineMap, Duration, Timer};
    ///
    /// let sessions = DeadlineMap::new(&Timer::current());
    /// let _alice = sessions.insert("alice", Duration::from_secs(60))?;
    /// let _bob = sessions.insert("bob", Duration::from_secs(5))?;
    /// sessions.for_each(|user, session| {
    ///     if session.remaining() < Some(Duration::from_secs(10)) {
    ///         println!("{user} is about to be logged out");
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_each(&self, mut f: impl FnMut(&K, &ResetHandle)) {
        let inner = &*self.inner;
        inner.walk(
            |entry| (entry.key.clone(), entry.word.clone()),
            |(key, word)| f(&key, &inner.access(&word).handle()),
        );
    }

    /// The key whose deadline is the next to expire, and the instant at which it does if nothing
    /// resets it. `None` if no deadline is pending.
    ///
    /// No deadline that is in the map and stays as it is during the call comes before it. What
    /// other threads insert or reset meanwhile may.
    ///
    /// It looks at every key, because a reset costs next to nothing and sorts nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tickwheel::{DeadlineMap, Duration, Instant, Timer};
    ///
    /// let sessions = DeadlineMap::new(&Timer::current());
    /// let _alice = sessions.insert("alice", Duration::from_secs(60))?;
    /// let bob = sessions.insert("bob", Duration::from_secs(5))?;
    /// let in_five = Instant::now() + Duration::from_secs(5);
    /// assert_eq!(sessions.first(), Some(("bob", in_five)));
    ///
    /// assert_eq!(sessions.pop_first(), Some(("bob", Duration::from_secs(5))));
    /// assert!(bob.await.is_err(), "evicted");
    /// # Ok(())
    /// # }
    /// ```
    pub fn first(&self) -> Option<(K, Instant)> {
        let (key, _, told) = self.find_first()?;
        let clock = self.inner.timer.shard().clock();
        Some((key, clock.instant(told.deadline)))
    }

    /// Takes the key out whose deadline is the next to expire, and cancels that deadline. Returns
    /// the key and the time that was left. `None` if no deadline is pending.
    ///
    /// It is for a map at its limit that is to make room. What comes first is as in
    /// [`first`](DeadlineMap::first), and so is the cost: a map of very many keys better makes room
    /// for several at once. A reset from another thread may come too late to save its deadline.
    pub fn pop_first(&self) -> Option<(K, Duration)> {
        loop {
            let (key, word, _) = self.find_first()?;
            // Settled before it is taken out. A deadline that has ended meanwhile keeps its key.
            let settled = self
                .inner
                .access(&word)
                .settle_at(self.inner.now(), Outcome::Cancelled);
            if let Some(left) = settled {
                drop(self.inner.take_own(&word));
                return Some((key, left));
            }
        }
    }

    fn find_first(&self) -> Option<(K, Arc<Word>, Reported)> {
        let inner = &*self.inner;
        loop {
            let mut first: Option<(Arc<Word>, Reported)> = None;
            inner.walk(
                |entry| entry.word.clone(),
                |word| {
                    let told = inner.access(&word).reported();
                    let is_before = |told: &Reported| {
                        let first = first.as_ref();
                        first.is_none_or(|(_, first)| told.deadline < first.deadline)
                    };
                    if let Some(told) = told.filter(is_before) {
                        first = Some((word, told));
                    }
                },
            );
            let (word, told) = first?;
            if let Some(key) = inner.key_of(&word) {
                return Some((key, word, told));
            }
            // It has left the map since.
        }
    }
}

impl<K> Inner<K> {
    /// Shows every entry to `copy`, under the lock of its part, and gives the copies to `use_copy`,
    /// under no lock.
    fn walk<C>(&self, mut copy: impl FnMut(&Entry<K>) -> C, mut use_copy: impl FnMut(C)) {
        let mut copies = Vec::new();
        for number in 0..self.table.parts() {
            if let Some(part) = self.table.lock_made(number) {
                copies.extend(part.iter().map(&mut copy));
            }
            copies.drain(..).for_each(&mut use_copy);
        }
    }
}
