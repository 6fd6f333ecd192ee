//! The table of the maps: parts by the hash of the key, each behind a lock of its own.
//!
//! A library's concurrent map has no atomic `drain` and `close`, and runs a key's `Hash` and `Drop`
//! within its locks. Here all parts can be locked at once. A part is made when it is first needed.
//!
//! Each key has a permit. A count that many threads write is slow, so there is one for all keys
//! only in a map with a capacity. Otherwise each part counts its own.
//!
//! A part has a count of its own for those who hold it without its table, such as a deadline under
//! a key. They write no count that all parts share.
//!
//! Invariants:
//!
//! - Parts are locked one at a time, or all of them in their order. User code runs under a part's
//!   lock only where a panic leaves the part whole, so poison is ignored.
//! - Making a part locks `making`, and so does locking all parts. So one comes wholly before the
//!   other.
//! - A key has a permit while it is in its part. One hold of the part's lock takes the permit and
//!   inserts the key, and one removes the key and returns the permit.

use std::hash::{BuildHasher, DefaultHasher, Hash, RandomState};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::available_parallelism;

use crate::sync::lock;
use crate::timer::Timer;

/// All calls read it. Threads write only `making` and `closed`, and both seldom.
pub(crate) struct Table<P, S = ()> {
    /// A power of two.
    parts: Box<[Lazy<P, S>]>,
    make: fn() -> P,
    /// Locked while a part is made, and while all parts are locked.
    making: Mutex<()>,
    /// Written with all parts locked, never cleared.
    closed: AtomicBool,
    common: Arc<Common<S>>,
}

/// A part that is made when it is first needed.
type Lazy<P, S> = OnceLock<Arc<Part<P, S>>>;

/// What all parts of a table read, and no call writes. On a cache line of its own.
#[repr(align(64))]
struct Common<S> {
    /// What the owner of a part needs of the table's.
    own: S,
    /// How many keys there may be, `usize::MAX` for any number.
    capacity: usize,
    /// The permits of all parts, if there is a capacity.
    permits: Option<Box<Permits>>,
}

/// On cache lines of its own, because each insert and each removal writes it.
#[repr(align(128))]
struct Permits(AtomicUsize);

/// On cache lines of its own, so that threads with different parts do not disturb each other. The
/// count of its references lies on another one. What a call changes comes first, on one line with
/// the lock, which it writes before: so it asks for that line once. A line that is read and then
/// written is asked for twice. What is never changed follows, on another line.
#[repr(C, align(128))]
pub(crate) struct Part<P, S = ()> {
    /// The permits of its keys, if the table has no capacity.
    permits: AtomicUsize,
    contents: Mutex<P>,
    constants: Constants<S>,
}

#[repr(align(64))]
struct Constants<S> {
    common: Arc<Common<S>>,
    /// That of the table, one step nearer.
    capacity: usize,
    index: usize,
}

/// A locked part, which alone takes and releases permits.
pub(crate) struct PartGuard<'a, P> {
    contents: MutexGuard<'a, P>,
    permits: &'a AtomicUsize,
    capacity: usize,
    index: usize,
    _reentry: Reentry,
}

/// How far into a part its contents begin.
#[cfg(test)]
pub(crate) const BEFORE_CONTENTS: usize = size_of::<usize>() + size_of::<Mutex<()>>();

impl<P, S: Clone> Table<P, S> {
    /// A table of parts made by `make`, some for each core.
    pub(crate) fn new(capacity: usize, own: S, make: fn() -> P) -> Table<P, S> {
        // Asked once, because it takes tens of microseconds on Linux.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| available_parallelism().map_or(1, |cores| cores.get()));
        let parts = (4 * cores).next_power_of_two().min(256);
        Table::with_parts(parts, capacity, own, make)
    }

    /// A table of this many parts, a power of two.
    pub(crate) fn with_parts(
        parts: usize,
        capacity: usize,
        own: S,
        make: fn() -> P,
    ) -> Table<P, S> {
        Table {
            parts: (0..parts).map(|_| OnceLock::new()).collect(),
            make,
            making: Mutex::new(()),
            closed: AtomicBool::new(false),
            common: Arc::new(Common {
                own,
                capacity,
                permits: (capacity < usize::MAX).then(|| Box::new(Permits(AtomicUsize::new(0)))),
            }),
        }
    }
}

impl<P, S> Table<P, S> {
    #[inline]
    pub(crate) fn part_of(&self, hash: u32) -> usize {
        // The highest bits, by a product, because a shift by all bits is not allowed.
        ((u64::from(hash) * self.parts() as u64) >> u32::BITS) as usize
    }

    /// A part, made if it was not.
    #[inline]
    pub(crate) fn part(&self, index: usize) -> &Arc<Part<P, S>> {
        self.parts[index].get().unwrap_or_else(|| self.make(index))
    }

    #[inline]
    pub(crate) fn lock_part(&self, index: usize) -> PartGuard<'_, P> {
        self.part(index).lock()
    }

    /// Locks a part. `None` if it was not made.
    #[inline]
    pub(crate) fn lock_made(&self, index: usize) -> Option<PartGuard<'_, P>> {
        Some(self.made(index)?.lock())
    }

    /// The existing parts, in their order, one locked at a time.
    pub(crate) fn lock_each(&self) -> impl Iterator<Item = PartGuard<'_, P>> {
        (0..self.parts()).filter_map(|index| self.lock_made(index))
    }

    /// All parts, locked, and the lock under which none is made.
    fn lock_all(&self) -> (MutexGuard<'_, ()>, Vec<PartGuard<'_, P>>) {
        self.check_reentry();
        let making = lock(&self.making);
        let lock = |index| Some(self.made(index)?.lock_unchecked());
        (making, (0..self.parts()).filter_map(lock).collect())
    }

    /// # Panics
    ///
    /// In debug builds, if this thread has a part of the table locked.
    #[inline]
    pub(crate) fn check_reentry(&self) {
        Reentry::check(&*self.common);
    }

    /// Applies `take` to all parts, with all of them locked, and closes the table for ever if
    /// `close`, including the parts that are made later.
    pub(crate) fn take_all<T>(
        &self,
        close: bool,
        take: impl FnMut(&mut PartGuard<'_, P>) -> T,
    ) -> Vec<T> {
        let (_making, mut parts) = self.lock_all();
        let taken = parts.iter_mut().map(take).collect();
        // Release: pairs with `is_closed`, and carries the removals.
        self.closed.fetch_or(close, Ordering::Release);
        taken
    }

    /// Whether the table was closed. The answer is exact while a part is locked.
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: pairs with `take_all`, for a reader that has no part locked.
        self.closed.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The number of permits taken, without a lock. Under changes the sum may mix moments.
    pub(crate) fn len(&self) -> usize {
        // Acquire: pairs with `release`, so that the reader sees the counted removals.
        if let Some(permits) = &self.common.permits {
            return permits.0.load(Ordering::Acquire);
        }
        let made = self.parts.iter().filter_map(OnceLock::get);
        made.map(|part| part.permits.load(Ordering::Acquire)).sum()
    }

    /// Whether no permit is taken, at one moment of the call. A non-zero count is conclusive. A
    /// zero sum is not, because the parts are read one after another.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && {
            let _all = self.lock_all();
            self.len() == 0
        }
    }

    /// A part. `None` if it was not made, and so is empty.
    #[inline]
    pub(crate) fn made(&self, index: usize) -> Option<&Part<P, S>> {
        self.parts[index].get().map(|part| &**part)
    }

    #[cold]
    fn make(&self, index: usize) -> &Arc<Part<P, S>> {
        let _making = lock(&self.making);
        self.parts[index].get_or_init(|| {
            Arc::new(Part {
                permits: AtomicUsize::new(0),
                contents: Mutex::new((self.make)()),
                constants: Constants {
                    common: self.common.clone(),
                    capacity: self.common.capacity,
                    index,
                },
            })
        })
    }
}

impl<P, S> Part<P, S> {
    #[inline]
    pub(crate) fn lock(&self) -> PartGuard<'_, P> {
        Reentry::check(&*self.constants.common);
        self.lock_unchecked()
    }

    #[inline]
    fn lock_unchecked(&self) -> PartGuard<'_, P> {
        let Constants {
            common,
            capacity,
            index,
        } = &self.constants;
        let permits = match *capacity {
            usize::MAX => &self.permits,
            _ => common.permits.as_ref().map_or(&self.permits, |all| &all.0),
        };
        PartGuard {
            contents: lock(&self.contents),
            permits,
            capacity: *capacity,
            index: *index,
            _reentry: Reentry::new(&**common),
        }
    }

    /// Whether this thread has a part of the same table locked, as far as the build records it.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        Reentry::is_held(&*self.constants.common)
    }

    /// What the owner of a part needs of the table's.
    #[inline]
    pub(crate) fn own(&self) -> &S {
        &self.constants.common.own
    }
}

impl<P> PartGuard<'_, P> {
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Takes the permit of one key. `false` if all are taken.
    #[inline]
    pub(crate) fn try_acquire(&mut self) -> bool {
        if self.capacity == usize::MAX {
            // The part's own count, under its lock: a store is enough, and costs less.
            let taken = self.permits.load(Ordering::Relaxed);
            self.permits.store(taken + 1, Ordering::Release);
            return true;
        }
        let take = |taken| (taken < self.capacity).then_some(taken + 1);
        // Acquire: pairs with `release`, so that it comes after the removals whose permits it
        // takes. On failure, nothing depends on the value.
        self.permits
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, take)
            .is_ok()
    }

    #[inline]
    pub(crate) fn release(&mut self, permits: usize) {
        // Release: pairs with `try_acquire` and with `Table::len`, and carries the removals.
        if self.capacity == usize::MAX {
            let taken = self.permits.load(Ordering::Relaxed);
            self.permits.store(taken - permits, Ordering::Release);
        } else {
            self.permits.fetch_sub(permits, Ordering::Release);
        }
    }
}

impl<P> Deref for PartGuard<'_, P> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        &self.contents
    }
}

impl<P> DerefMut for PartGuard<'_, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut P {
        &mut self.contents
    }
}

/// In debug builds, panics if a map is called under one of its own locks. In a release build such a
/// call may hang.
struct Reentry {
    table: usize,
}

std::thread_local! {
    /// The addresses of the tables of which this thread has a part locked.
    static TABLES: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Reentry {
    #[inline]
    fn new<T>(table: &T) -> Reentry {
        if cfg!(not(debug_assertions)) {
            return Reentry { table: 0 };
        }
        let table = std::ptr::from_ref(table).addr();
        // It fails on a thread about to end, which has run all closures by then.
        let _ = TABLES.try_with(|tables| tables.borrow_mut().push(table));
        Reentry { table }
    }

    /// Whether this thread has a part of the table locked, as far as the build records it.
    #[inline]
    fn is_held<T>(table: &T) -> bool {
        let table = std::ptr::from_ref(table).addr();
        let is_held = || TABLES.try_with(|tables| tables.borrow().contains(&table));
        cfg!(debug_assertions) && is_held().unwrap_or(false)
    }

    /// # Panics
    ///
    /// If this thread has a part of the table locked.
    #[inline]
    fn check<T>(table: &T) {
        assert!(
            !Reentry::is_held(table),
            "a map was called from a closure that was given to it, or from the `Eq` or `Borrow` of \
             its key: these run under a lock of the map, and the call would wait for ever"
        );
    }
}

impl Drop for Reentry {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            let _ = TABLES.try_with(|tables| {
                let mut tables = tables.borrow_mut();
                let last = tables.iter().rposition(|&table| table == self.table);
                last.map(|last| tables.swap_remove(last))
            });
        }
    }
}

/// The hash bits that an entry keeps. This runs the key's code: call it under no lock.
#[inline]
pub(crate) fn hash_of(hash_builder: &impl BuildHasher, key: &(impl Hash + ?Sized)) -> u32 {
    // A hasher may vary only some of its bits. Here each of them affects all bits of the result.
    let hash = hash_builder.hash_one(key);
    let product = u128::from(hash ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64 ^ product) as u32
}

/// The default hasher of both maps: the standard library's hash, keyed at random for each map, so
/// that keys cannot be chosen to collide. If the clock is or was paused when the map is made, the
/// hash is fixed, so that equal runs are equal.
///
/// A type that holds a map names it only if it leaves the hasher open:
///
/// ```
/// use tickwheel::{DeadlineMap, DefaultHashBuilder, Timer};
///
/// struct Sessions<S = DefaultHashBuilder> {
///     by_name: DeadlineMap<String, S>,
/// }
///
/// # tokio_test::block_on(async {
/// let sessions: Sessions = Sessions { by_name: DeadlineMap::new(&Timer::current()) };
/// assert!(sessions.by_name.is_empty());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct DefaultHashBuilder(Option<RandomState>);

impl DefaultHashBuilder {
    pub(crate) fn of(timer: &Timer) -> DefaultHashBuilder {
        let is_virtual = timer.clock().is_virtual();
        DefaultHashBuilder((!is_virtual).then(RandomState::new))
    }
}

impl BuildHasher for DefaultHashBuilder {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        let random = self.0.as_ref().map(RandomState::build_hasher);
        random.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, Hasher};
    use std::time::Duration;
    use std::{ptr, thread};

    use super::*;
    use crate::lines::{LINE, lines};

    fn table(parts: usize) -> Table<Vec<u32>> {
        Table::with_parts(parts, usize::MAX, (), Vec::new)
    }

    #[test]
    fn parts_are_made_when_they_are_first_needed() {
        for parts in [1, 8, 16, 256] {
            let table = table(parts);
            assert!((0..parts).all(|index| table.lock_made(index).is_none()));
            let last = parts - 1;
            table.lock_part(last).push(7);
            assert_eq!(*table.lock_made(last).unwrap(), [7]);
            assert_eq!(table.take_all(false, |part| part.index()), [last]);
            assert_eq!(table.lock_each().count(), 1);
        }
    }

    #[test]
    fn without_a_capacity_each_part_counts_its_own_permits() {
        let table = table(4);
        for (part, keys) in [(0, 5), (2, 2)] {
            assert!((0..keys).all(|_| table.lock_part(part).try_acquire()));
        }
        table.lock_part(0).release(4);
        assert_eq!((table.len(), table.common.permits.is_none()), (3, true));
    }

    /// The sum of the counts mixes moments. So the answer waits for a call that has a part locked.
    #[test]
    fn a_table_is_empty_only_at_a_moment_at_which_no_part_is_locked() {
        let table = table(4);
        thread::scope(|scope| {
            let mut part = table.lock_part(0);
            let asks = scope.spawn(|| table.is_empty());
            thread::sleep(Duration::from_millis(50));
            assert!(part.try_acquire());
            drop(part);
            assert!(!asks.join().unwrap());
        });
    }

    /// What a call writes lies on the line of the lock, and what it only reads on another one. The
    /// counts of an `Arc` stand before the contents, as far away as these are aligned.
    #[test]
    fn each_call_on_a_part_writes_one_line_and_the_count_of_its_holders_another() {
        type HalfALine = [usize; LINE / 2 / size_of::<usize>()];
        type Whole = Part<HalfALine, Timer>;
        assert!(align_of::<Whole>() >= 2 * LINE && size_of::<Whole>() == 2 * LINE);
        let expected = [
            ("permits", [0, 0]),
            ("contents", [0, 0]),
            ("constants", [1, 1]),
        ];
        assert_eq!(lines!(Whole: permits, contents, constants), expected);

        let table: Table<HalfALine> = Table::with_parts(1, usize::MAX, (), HalfALine::default);
        let (part, contents) = (table.part(0), table.lock_part(0));
        let before = ptr::from_ref(&*contents).addr() - ptr::from_ref(&**part).addr();
        assert_eq!(before, BEFORE_CONTENTS, "after the permits and the lock");
        assert!(align_of::<Common<Timer>>() >= LINE && align_of::<Permits>() >= 2 * LINE);
    }

    #[derive(Clone, Copy, Default)]
    struct Identity(u64);

    impl Hasher for Identity {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, key: &[u8]) {
            self.0 = u64::from_ne_bytes(key.try_into().unwrap());
        }
    }

    #[test]
    fn keys_that_differ_in_any_one_bit_of_their_hash_are_told_apart() {
        let hash = |key: u64| hash_of(&BuildHasherDefault::<Identity>::default(), &key);
        for key in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let mut hashes: Vec<_> = (0..64).map(|bit| hash(key ^ 1 << bit)).collect();
            hashes.sort_unstable();
            hashes.dedup();
            assert_eq!(hashes.len(), 64, "{key:#x}");
        }
    }

    /// Otherwise an attacker who chooses the keys could make them collide.
    #[test]
    fn the_hash_of_each_map_is_random_unless_the_clock_is_paused() {
        for is_paused in [false, true] {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(is_paused).build();
            runtime.unwrap().block_on(async {
                let hash = || DefaultHashBuilder::of(&Timer::current()).hash_one(7);
                assert_eq!(hash() == hash(), is_paused);
            });
        }
    }

    /// Even by a hasher that returns numbers unchanged.
    #[test]
    fn the_keys_are_spread_evenly_over_the_parts() {
        let hash_builder = BuildHasherDefault::<Identity>::default();
        for (parts, shift) in [(16, 0), (16, 20), (16, 50), (256, 0), (256, 40)] {
            let (table, mut keys) = (table(parts), vec![0; parts]);
            for key in 0..parts as u64 * 100 {
                let hash = hash_of(&hash_builder, &(key << shift));
                keys[table.part_of(hash)] += 1;
            }
            let (fewest, most) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
            assert!(*fewest >= 50 && *most <= 200, "{fewest} to {most} of 100");
        }
    }
}
