//! Where the maps keep what they hold: parts by the hash of the key, each behind a lock of its own.
//!
//! A concurrent map of a library would do for look-ups, but not for what the maps promise besides: `drain`,
//! `expire_all` and `close` are atomic against all keys, so all parts must be lockable at once; and a key's `Hash`
//! is called before any lock, its `Drop` after it, so that a panic in it finds no lock held and no table half
//! changed. The tables within the parts are hashbrown's, which take a hash and let `Eq` be asked of the caller.
//!
//! Invariant: parts are locked one at a time, or all of them in their order. Under a part's lock the only user code
//! is a key's `Eq`, during a look-up that changes nothing; so poison tells nothing and is ignored.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::available_parallelism;

use crate::clock::Clock;

pub(crate) struct Table<P> {
    /// A power of two of them.
    parts: Box<[Part<P>]>,
    hashing: Hashing,
}

enum Hashing {
    /// Keyed at random, so that nobody can choose keys that collide.
    Random(RandomState),
    /// For a clock that is paused: equal runs are to be equal.
    Fixed(BuildHasherDefault<DefaultHasher>),
}

/// On cache lines of its own, so that threads that use different parts do not disturb each other.
#[repr(align(128))]
struct Part<P>(Mutex<P>);

impl<P> Table<P> {
    /// A table of parts that `make` makes, some for each core.
    pub(crate) fn new(clock: &Clock, make: impl Fn() -> P) -> Table<P> {
        // Asked once: on Linux it takes tens of microseconds.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| available_parallelism().map_or(1, |cores| cores.get()));
        let parts = (4 * cores).next_power_of_two().min(256);
        let hashing = if clock.is_virtual() {
            Hashing::Fixed(BuildHasherDefault::default())
        } else {
            Hashing::Random(RandomState::new())
        };
        Table {
            parts: (0..parts).map(|_| Part(Mutex::new(make()))).collect(),
            hashing,
        }
    }

    /// The hash of a key. Calls the key's own code, so it is to be called with no part locked.
    pub(crate) fn hash(&self, key: &(impl Hash + ?Sized)) -> u64 {
        match &self.hashing {
            Hashing::Random(random) => random.hash_one(key),
            Hashing::Fixed(fixed) => fixed.hash_one(key),
        }
    }

    /// Locks the part that holds what has this hash.
    pub(crate) fn lock(&self, hash: u64) -> MutexGuard<'_, P> {
        self.lock_part(self.part_of(hash))
    }

    /// The number of the part that holds what has this hash.
    pub(crate) fn part_of(&self, hash: u64) -> usize {
        // hashbrown uses the lowest bits and the highest seven; these are others.
        (hash >> 40) as usize & (self.parts.len() - 1)
    }

    pub(crate) fn lock_part(&self, part: usize) -> MutexGuard<'_, P> {
        self.parts[part]
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks every part.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, P>> {
        (0..self.parts.len())
            .map(|part| self.lock_part(part))
            .collect()
    }

    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }
}
