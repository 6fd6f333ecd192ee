//! Where the maps keep what they hold: parts by the hash of the key, each behind a lock of its own.
//!
//! A concurrent map of a library would do for look-ups, but not for what else the maps promise.
//! `drain` and `close` are atomic against all keys, so it must be possible to lock all parts at
//! once. A key's `Hash` is called before any lock, and its `Drop` after it. So a panic in one of
//! them finds no lock held and no table half changed.
//!
//! ```text
//!   table --> groups, made when first needed --> 16 parts each, made when first needed --> lock --> what it holds
//! ```
//!
//! So an empty map costs what its list of groups costs, however many cores there are to make parts
//! for.
//!
//! Invariants:
//!
//! - Parts are locked one at a time, or all of them in their order. The maps call user code under a
//!   part's lock only where a panic leaves the part whole. So poison means nothing and is ignored.
//! - A part is made with `making` locked. A call that locks all parts locks `making` first and
//!   unlocks it last. So no part is made meanwhile, and a later part is made after all that this
//!   call does, `close` included.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::available_parallelism;

use crate::timer::Timer;

pub(crate) struct Table<P> {
    groups: Box<[OnceLock<Group<P>>]>,
    /// How many parts there can be: a power of two, like the number of groups.
    parts: usize,
    make: fn() -> P,
    /// Locked while a part is made, and while all parts are locked.
    making: Mutex<()>,
    /// Written with all parts locked, never cleared.
    closed: AtomicBool,
    limit: Capacity,
}

/// How many parts a group has. It has all of them if there are fewer.
const GROUP: usize = 16;

type Group<P> = Box<[OnceLock<Box<Part<P>>>]>;

/// On cache lines of its own, so that threads that use different parts do not disturb each other.
#[repr(align(128))]
struct Part<P> {
    holds: Mutex<P>,
    slots: Slots,
}

/// All parts, locked. Those that were not made are empty, and nobody makes one meanwhile.
pub(crate) struct All<'a, P> {
    parts: Vec<(usize, MutexGuard<'a, P>)>,
    closed: &'a AtomicBool,
    /// Unlocked last, because fields are dropped in their order.
    _making: MutexGuard<'a, ()>,
}

impl<P> Table<P> {
    /// A table of parts that `make` makes, some for each core.
    pub(crate) fn new(limit: usize, make: fn() -> P) -> Table<P> {
        // Asked once, because it takes tens of microseconds on Linux.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| available_parallelism().map_or(1, |cores| cores.get()));
        let parts = (4 * cores).next_power_of_two().min(256);
        Table::with_parts(parts, limit, make)
    }

    /// A table of this many parts, a power of two.
    pub(crate) fn with_parts(parts: usize, limit: usize, make: fn() -> P) -> Table<P> {
        Table {
            groups: (0..parts.div_ceil(GROUP))
                .map(|_| OnceLock::new())
                .collect(),
            parts,
            make,
            making: Mutex::new(()),
            closed: AtomicBool::new(false),
            limit: Capacity::new(limit),
        }
    }

    /// The number of the part that holds what has this hash.
    pub(crate) fn part_of(&self, hash: u64) -> usize {
        // hashbrown uses the lowest bits and the highest seven. These are others.
        (hash >> 40) as usize & (self.parts - 1)
    }

    /// Locks a part, and makes it first if it was not made.
    #[inline]
    pub(crate) fn lock_part(&self, number: usize) -> MutexGuard<'_, P> {
        match self.made(number) {
            Some(part) => part.lock(),
            None => self.make(number).lock(),
        }
    }

    /// Locks a part. `None` if it was not made, and so is empty.
    #[inline]
    pub(crate) fn lock_made(&self, number: usize) -> Option<MutexGuard<'_, P>> {
        Some(self.made(number)?.lock())
    }

    /// Locks every part.
    pub(crate) fn lock_all(&self) -> All<'_, P> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = |number| Some((number, self.lock_made(number)?));
        All {
            parts: (0..self.parts).filter_map(lock).collect(),
            closed: &self.closed,
            _making: making,
        }
    }

    /// Whether the table was closed. The answer is exact for a part that is locked.
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: whoever closes has the lock of the part, or the lock under which it is made.
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// Takes a slot for a key, with its part locked. `false` if all slots are taken.
    #[inline]
    pub(crate) fn try_acquire(&self, part: usize) -> bool {
        let part = self.made(part).unwrap_or_else(|| self.make(part));
        self.limit.take(&part.slots)
    }

    /// Gives back the slots of some keys, with their part locked.
    #[inline]
    pub(crate) fn release(&self, part: usize, slots: usize) {
        if let Some(part) = self.made(part) {
            self.limit.release(&part.slots, slots);
        }
    }

    /// How many slots are taken, at one moment.
    pub(crate) fn len(&self) -> usize {
        if !self.limit.is_none() {
            return self.taken();
        }
        let all = self.lock_all();
        let taken = self.taken();
        drop(all);
        taken
    }

    /// How many slots are taken, without a lock. While other threads change the table, this is the
    /// sum of what each part had at some moment of the call.
    pub(crate) fn taken(&self) -> usize {
        let made = (0..self.parts).filter_map(|part| self.made(part));
        self.limit.taken(made.map(|part| &part.slots))
    }

    #[inline]
    fn made(&self, number: usize) -> Option<&Part<P>> {
        let part = self.groups[number / GROUP].get()?[number % GROUP].get()?;
        Some(part)
    }

    #[cold]
    fn make(&self, number: usize) -> &Part<P> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let group = self.groups[number / GROUP].get_or_init(|| {
            let slots = self.parts.min(GROUP);
            (0..slots).map(|_| OnceLock::new()).collect()
        });
        let part = group[number % GROUP].get_or_init(|| {
            Box::new(Part {
                holds: Mutex::new((self.make)()),
                slots: Slots::default(),
            })
        });
        drop(making);
        part
    }
}

impl<P> Part<P> {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, P> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> All<'_, P> {
    /// Each part that was made, with its number.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut P)> {
        self.parts
            .iter_mut()
            .map(|(number, part)| (*number, &mut **part))
    }

    /// Closes the table, for what it holds now and for all parts that are made later.
    pub(crate) fn close(&mut self) {
        // Relaxed: the locks that `self` holds carry it to `is_closed`.
        self.closed.store(true, Ordering::Relaxed);
    }
}

// How many keys a map has, and how many it may have.
//
// When many threads write one count, each write costs more. So a map without a limit has no count
// for all its keys: each part counts its own. Only a limit needs one count for all parts.
//
// Invariant: no more slots are taken than the limit allows. A key has its slot from before it is
// put into the map until after it was taken out.

/// How many keys a map may have.
#[derive(Debug)]
pub(crate) struct Capacity {
    /// How many slots are taken in all parts, if there is a limit.
    taken: AtomicUsize,
    /// `usize::MAX` is no limit.
    limit: usize,
}

/// How many slots of one part are taken, if there is no limit. It is changed under the lock of
/// that part.
#[derive(Debug, Default)]
pub(crate) struct Slots(AtomicUsize);

impl Capacity {
    pub(crate) fn new(limit: usize) -> Capacity {
        Capacity {
            taken: AtomicUsize::new(0),
            limit,
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.limit == usize::MAX
    }

    /// Takes a slot in a part, which is locked. `false` if all slots are taken.
    #[inline]
    pub(crate) fn take(&self, part: &Slots) -> bool {
        if self.is_none() {
            part.set(part.taken() + 1);
            return true;
        }
        let take = |taken| (taken < self.limit).then_some(taken + 1);
        // AcqRel: pairs with `release`, so that it comes after the removals whose slots it
        // takes. When it fails, nothing hangs on what it has read.
        self.taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_ok()
    }

    /// Gives back the slots of some keys of a part, which is locked.
    #[inline]
    pub(crate) fn release(&self, part: &Slots, slots: usize) {
        if self.is_none() {
            part.set(part.taken() - slots);
        } else {
            // Release: pairs with the loads in `take` and `taken`, and carries the removals. The
            // Acquire half carries nothing that is needed here.
            self.taken.fetch_sub(slots, Ordering::AcqRel);
        }
    }

    /// How many slots are taken in all parts. This is exact while all parts are locked, or while
    /// nobody changes them.
    pub(crate) fn taken<'a>(&self, parts: impl Iterator<Item = &'a Slots>) -> usize {
        if self.is_none() {
            parts.map(Slots::taken).sum()
        } else {
            // Acquire: pairs with `release`, so that the reader sees the removals behind the
            // count.
            self.taken.load(Ordering::Acquire)
        }
    }
}

impl Slots {
    #[inline]
    fn taken(&self) -> usize {
        // Acquire: pairs with the store in `set`, so that a reader without the lock sees the
        // removals behind the count. Under the lock of the part, Relaxed would do.
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, taken: usize) {
        // A store is enough, because every writer has the lock of the part. Release: pairs with the
        // load in `taken`.
        self.0.store(taken, Ordering::Release);
    }
}

/// The hash of a key. Call this with no part locked, because it calls the key's own code.
#[inline]
pub(crate) fn hash_of(hash_builder: &impl BuildHasher, key: &(impl Hash + ?Sized)) -> u64 {
    // A hasher may vary only some of its bits. Here each bit of the hash comes to affect all bits
    // of the result.
    let hash = hash_builder.hash_one(key);
    let product = u128::from(hash ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64 ^ product) as u64
}

// How the maps hash keys, unless the user gives a hasher.
//
// Invariant: on the system's clock the hash is keyed at random, so that nobody can choose keys
// that collide. If the clock is paused when the map is made, the hash is fixed, so that equal runs
// are equal.

/// What a [`DeadlineMap`](crate::DeadlineMap) and a [`DelayMap`](crate::DelayMap) hash their keys
/// with, unless they are made [`with_hasher`](crate::DeadlineMap::with_hasher).
///
/// It is the standard library's hash, keyed at random for each map, so that nobody can choose keys
/// that collide. If the clock is paused when the map is made, the hash is fixed, so that equal runs
/// are equal.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{DeadlineMap, DefaultHashBuilder, Timer};
///
/// // The hasher is a parameter of the type, which nobody has to name.
/// struct Sessions {
///     map: DeadlineMap<u64>,
///     same: DeadlineMap<u64, DefaultHashBuilder>,
/// }
/// let timer = Timer::current();
/// let sessions = Sessions { map: DeadlineMap::new(&timer), same: DeadlineMap::new(&timer) };
/// assert!(sessions.map.is_empty() && sessions.same.is_empty());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DefaultHashBuilder(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Random(RandomState),
    Fixed(BuildHasherDefault<DefaultHasher>),
}

impl DefaultHashBuilder {
    /// For a map on this timer.
    pub(crate) fn of(timer: &Timer) -> DefaultHashBuilder {
        DefaultHashBuilder(if timer.shard().clock().is_virtual() {
            Kind::Fixed(BuildHasherDefault::default())
        } else {
            Kind::Random(RandomState::new())
        })
    }
}

impl BuildHasher for DefaultHashBuilder {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        match &self.0 {
            Kind::Random(random) => random.build_hasher(),
            Kind::Fixed(fixed) => fixed.build_hasher(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(parts: usize) -> Table<Vec<u32>> {
        Table::with_parts(parts, usize::MAX, Vec::new)
    }

    #[test]
    fn parts_are_made_when_they_are_first_needed() {
        for parts in [1, 8, 16, 256] {
            let table = table(parts);
            assert!((0..parts).all(|number| table.lock_made(number).is_none()));
            let last = parts - 1;
            table.lock_part(last).push(7);
            assert_eq!(*table.lock_made(last).unwrap(), [7]);
            let mut all = table.lock_all();
            let made: Vec<_> = all.iter_mut().map(|(number, _)| number).collect();
            assert_eq!(made, [last]);
        }
    }

    #[test]
    fn a_part_that_is_made_after_a_close_is_closed_too() {
        let table = table(256);
        table.lock_part(3).push(1);
        table.lock_all().close();
        for number in [3, 200] {
            let _part = table.lock_part(number);
            assert!(table.is_closed());
        }
    }

    #[test]
    fn no_part_is_made_while_all_are_locked() {
        let table = table(256);
        let mut all = table.lock_all();
        std::thread::scope(|scope| {
            let maker = scope.spawn(|| {
                let _part = table.lock_part(9);
                assert!(table.is_closed(), "it was made after the close");
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!maker.is_finished());
            all.close();
            drop(all);
        });
    }
}

#[cfg(test)]
mod capacity_tests {
    use super::*;

    fn slots(parts: usize) -> Vec<Slots> {
        (0..parts).map(|_| Slots::default()).collect()
    }

    #[test]
    fn a_limit_counts_the_places_of_all_parts_together() {
        let (limit, parts) = (Capacity::new(3), slots(2));
        assert!(limit.take(&parts[0]));
        assert!(limit.take(&parts[1]));
        assert!(limit.take(&parts[1]));
        assert_eq!(limit.taken(parts.iter()), 3);
        assert!(!limit.take(&parts[0]));
        assert!(!limit.take(&parts[1]));
        assert_eq!(limit.taken(parts.iter()), 3, "a refusal takes nothing");
    }

    #[test]
    fn a_place_that_was_given_back_can_be_taken_in_any_part() {
        let (limit, parts) = (Capacity::new(2), slots(2));
        assert!(limit.take(&parts[0]));
        assert!(limit.take(&parts[0]));
        limit.release(&parts[0], 1);
        assert_eq!(limit.taken(parts.iter()), 1);
        assert!(limit.take(&parts[1]));
        assert!(!limit.take(&parts[1]));
        limit.release(&parts[0], 2);
        assert_eq!(limit.taken(parts.iter()), 0);
    }

    #[test]
    fn a_limit_of_zero_has_no_place() {
        let (limit, parts) = (Capacity::new(0), slots(1));
        assert!(!limit.is_none());
        assert!(!limit.take(&parts[0]));
        limit.release(&parts[0], 0);
        assert_eq!(limit.taken(parts.iter()), 0);
    }

    #[test]
    fn without_a_limit_each_part_counts_its_own_places() {
        let (limit, parts) = (Capacity::new(usize::MAX), slots(3));
        assert!(limit.is_none());
        for (part, keys) in parts.iter().zip([5, 0, 2]) {
            assert!((0..keys).all(|_| limit.take(part)));
        }
        assert_eq!(limit.taken(parts.iter()), 7);
        assert_eq!(limit.taken(parts[..1].iter()), 5);
        limit.release(&parts[0], 4);
        limit.release(&parts[2], 2);
        assert_eq!(limit.taken(parts.iter()), 1);
        assert_eq!(limit.taken.load(Ordering::Relaxed), 0, "the shared count");
    }

    #[test]
    fn threads_that_race_take_as_many_places_as_there_are() {
        let (limit, parts) = (Capacity::new(1_000), slots(4));
        let taken: usize = std::thread::scope(|scope| {
            let takers: Vec<_> = parts
                .iter()
                .map(|part| scope.spawn(|| (0..500).filter(|_| limit.take(part)).count()))
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(taken, 1_000);
        assert_eq!(limit.taken(parts.iter()), 1_000);
    }
}
