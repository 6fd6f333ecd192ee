//! What a [`DeadlineMap`] does to all of its keys.
//!
//! - `drain` and `close` lock every part, take the tables out and let go: that takes as long for a
//!   million keys as for none. Only then do they settle what they took, deadline by deadline.
//! - `expire_all`, `keys` and `for_each` walk: a part's lock at a time, for some hundred entries,
//!   and then let go.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *Drain or close against insert.* All parts are locked while their tables are taken, so an
//!   insert comes wholly before it or wholly after.
//! - *Drain against expiry, cancel, reset, restart.* Each settles or moves the deadline's word, in
//!   one order. What drain settled, and nothing else, is in its result.
//! - *Drain against a `KeyedDeadline` that is dropped.* An entry leaves its table once, and who
//!   takes it out gives its place back. The word is settled by one of the two.
//! - *A walk against inserts and drops.* See `segments`: whoever is there all the time is seen
//!   once.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::DeadlineMap;
use super::inner::{Entry, Inner};
use crate::deadline::ResetHandle;
use crate::deadline::handle::finish;
use crate::keyed::segments::Walk;
use crate::shard::word::Outcome;

impl<K, S> DeadlineMap<K, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    S: BuildHasher,
{
    /// Takes every key out and cancels what is pending,
    /// [drained](crate::error::Cancelled::is_drained). Gives those keys, each with the time that it
    /// had left.
    ///
    /// Atomic against all keys: an insert comes wholly before it or wholly after. Each deadline
    /// that was pending comes out once, here or by expiring, unless its own
    /// [`KeyedDeadline`](crate::KeyedDeadline) or handle ends it meanwhile.
    ///
    /// No other call waits for it but for a moment: the keys are taken out first, and their
    /// deadlines are cancelled one by one thereafter, while the map is in use again.
    pub fn drain(&self) -> Vec<(K, Duration)> {
        self.take_all(false)
    }

    /// Drains the map, and every later insert is an error. A second close finds nothing to drain.
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
                inner.table.give_back(number, taken.len());
                taken
            }));
        }
        let mut drained = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        // Keys whose deadline had come to its end before.
        let mut over = Vec::new();
        for entry in parts.into_iter().flat_map(|part| part.into_entries()) {
            match finish(inner.access(&entry.word).settle_at(now, Outcome::Drained)) {
                Some(left) => drained.push((entry.key, left)),
                None => over.push(entry.key),
            }
        }
        // Last, as it is user code: by now every deadline is settled.
        drop(over);
        drained
    }

    /// Expires every deadline that is pending, and says how many it expired. Their keys stay while
    /// the deadlines live.
    ///
    /// Atomic for each key, not against all of them: an insert or a reset comes wholly before it or
    /// wholly after, for its key. Every key is reached that is there from its beginning to its end.
    pub fn expire_all(&self) -> usize {
        let inner = &*self.inner;
        let now = inner.now();
        let mut expired = 0;
        inner.walk(
            |entry| entry.word.clone(),
            |word| {
                let left = finish(inner.access(&word).settle_at(now, Outcome::Expired));
                expired += usize::from(left.is_some());
            },
        );
        expired
    }

    /// The keys that are there, their deadlines pending or not, in no order.
    ///
    /// Every key is in it that is there from the beginning of the call to its end. One that comes
    /// or goes meanwhile may be. `K::clone` is called with a part of the map locked, as in
    /// [`for_each`](DeadlineMap::for_each).
    pub fn keys(&self) -> Vec<K> {
        let mut keys = Vec::with_capacity(self.len());
        self.inner
            .walk(|entry| entry.key.clone(), |key| keys.push(key));
        keys
    }

    /// Calls `f` with each key that is there, its deadline pending or not, and with that deadline's
    /// handle; in no order.
    ///
    /// Every key is shown once that is there from the beginning of the call to its end. One that
    /// comes or goes meanwhile may be. No lock is held while `f` runs, so it may do anything to the
    /// map; and what it is shown may have changed since. `K::clone` is called with a part of the
    /// map locked: it must not call the map.
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
}

impl<K> Inner<K> {
    /// Has `copy` see every entry, under the lock of its part, and `use_copy` what it gave, under
    /// no lock.
    fn walk<C>(&self, mut copy: impl FnMut(&Entry<K>) -> C, mut use_copy: impl FnMut(C)) {
        let mut copies = Vec::new();
        for number in 0..self.table.parts() {
            let mut walking = Walking::begin(self, number);
            while let Some(walking) = &mut walking {
                if !walking.go_on(|entry| copies.push(copy(entry))) {
                    break;
                }
                copies.drain(..).for_each(&mut use_copy);
            }
        }
    }
}

/// A walk through a part, ended also by a panic in the code that it calls.
struct Walking<'a, K> {
    inner: &'a Inner<K>,
    part: usize,
    walk: Walk,
}

impl<'a, K> Walking<'a, K> {
    fn begin(inner: &'a Inner<K>, part: usize) -> Option<Walking<'a, K>> {
        let walk = inner.table.lock_made(part)?.begin_walk();
        Some(Walking { inner, part, walk })
    }

    fn go_on(&mut self, see: impl FnMut(&Entry<K>)) -> bool {
        let part = self.inner.table.lock_part(self.part);
        part.walk_on(&mut self.walk, see)
    }
}

impl<K> Drop for Walking<'_, K> {
    fn drop(&mut self) {
        self.inner.table.lock_part(self.part).end_walk();
    }
}
