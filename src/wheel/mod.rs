//! The wheel alone: a hierarchy of timing wheels with no async, no clock and no lock.
//!
//! It is for simulations, for other runtimes, and for code that advances a wheel by hand. A
//! [`Wheel`] knows only *ticks*, and its owner decides what a tick is. The owner tells it the
//! current tick, and it gives back what is due.
//!
//! ```
//! use tickwheel::wheel::Wheel;
//!
//! let mut wheel = Wheel::new();
//! let keepalive = wheel.insert(300, "keepalive");
//! let request = wheel.insert(20, "request");
//! wheel.insert(20, "another request");
//!
//! assert_eq!(wheel.next_turn(), Some(20));
//! assert_eq!(wheel.remove(request), Some("request")); // it completed in time
//! assert!(wheel.reset(keepalive, 1_000)); // a heartbeat came
//! assert_eq!(wheel.advance(500).collect::<Vec<_>>(), [(20, "another request")]);
//! assert_eq!(wheel.advance(1_000).collect::<Vec<_>>(), [(1_000, "keepalive")]);
//! ```
//!
//! # How it works
//!
//! This is scheme 7 of Varghese and Lauck (*Hashed and hierarchical timing wheels*, 1987). The
//! wheel makes its overflow levels on demand, as Kafka's purgatory does. With 64 slots a level, a
//! tick is a number of 6-bit digits. Level `k` has one slot for each value of digit `k`. So level 0
//! has one tick a slot, level 1 has 64, and level 2 has 4096:
//!
//! ```text
//!   due = 70_000   digits   0 . 17 . 5 . 48          elapsed = 69_500   digits   0 . 16 . 61 . 60
//!                               ^ the highest digit in which they differ is digit 2, so:
//!   level 2   [ . . . . . . . . . . . . . . . . . X . . . ]   slot 17, 4096 ticks wide
//!   level 1   [ . . . ]       at tick 69_632 = 17 * 4096 the slot's time comes; the timer cascades to
//!                             level 1, slot 5, and at tick 69_952 on to level 0, slot 48, its exact tick
//! ```
//!
//! The tick that the wheel has worked up to is called `elapsed`. A timer lives at the level of the
//! highest digit in which its due differs from `elapsed`, in the slot of its own digit there. The
//! code rests on three things that follow:
//!
//! 1. Every timer of level `k` is due before every timer of level `k + 1`. So the earliest slot is
//!    the first occupied one of the lowest occupied level. No finer level can hide an earlier timer
//!    of a coarser one.
//! 2. `elapsed` may jump to any tick up to the start of the earliest slot, and every timer still
//!    lies in its right slot. To advance over a year or a century is one step if nothing is due.
//! 3. A timer can be linked into a fine slot directly only after the cascade of the coarse slot
//!    around it. So each list is in insertion order also across levels, and ties fire in that
//!    order.
//!
//! With 64 slots, eleven levels span every `u64`, so there is no largest delay. The storage is one
//! slab of nodes, linked by `u32` indices. A [`Key`] holds the place of its timer in the slab, and
//! the timer's number in the order of all insertions.
//!
//! Invariants:
//!
//! - No timer of a level is due before `elapsed`. It is later than `now` only where the owner has
//!   looked for the first timer of all.
//! - No two timers of a wheel have the same key, whenever they are armed.
//! - Every place of the slab has an index below `u32::MAX`. So no index is mistaken for the link
//!   that leads nowhere.

mod debug;
mod slots;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::BTreeMap;
use std::fmt;
use std::iter::FusedIterator;
use std::num::NonZeroU64;

use slab::Slab;

use crate::shrinking::Shrinking;
pub(crate) use debug::{SlotCounter, SlotCounts};
pub(crate) use slots::Unlinked;
use slots::{Home, Level, MAX_SLOTS, Node};
pub(crate) use turn::Decision;
use turn::Step;

/// A hierarchy of timing wheels over `u64` ticks. Each timer carries a `T`.
///
/// | operation | cost |
/// |---|---|
/// | [`insert`](Wheel::insert) | O(levels) to grow, else a few instructions |
/// | [`remove`](Wheel::remove), [`reset`](Wheel::reset) | O(1) |
/// | [`advance`](Wheel::advance) | the timers that fire or cascade and the slots that hold them; not the ticks passed |
/// | [`next_turn`](Wheel::next_turn) | O(1) |
/// | [`get`](Wheel::get), [`get_mut`](Wheel::get_mut), [`contains`](Wheel::contains), [`due`](Wheel::due) | O(1) |
/// | [`iter`](Wheel::iter), [`clear`](Wheel::clear) | O([`capacity`](Wheel::capacity)) |
///
/// These costs are amortised over the growing and shrinking of the storage. Timers that are
/// inserted after their due has passed wait in an ordered map of their own. There each operation is
/// O(log n) in the number of such timers.
///
/// A timer takes `size_of::<T>()` and about 32 bytes more. Once it was removed or has fired,
/// another timer may use its place. The storage shrinks when less than an eighth of it is in use,
/// as far as the timers that are left in it allow. See the [module's documentation](self) for an
/// example and for how it works.
pub struct Wheel<T> {
    nodes: Slab<Node<T>>,
    levels: Vec<Level>,
    /// Bit `k` is set exactly while level `k` holds a timer.
    occupied: u64,
    /// A level's digit is this many bits wide.
    digit_bits: u32,
    /// Entry `i` is the level whose digit holds bit `i` of a tick. This table saves the hot path a
    /// division.
    level_of_bit: [u8; 64],
    /// The tick that the wheel has worked up to. No timer of the levels is due before it.
    elapsed: u64,
    /// The tick that the owner told. It is ahead of `elapsed` only while an advance is unfinished,
    /// and behind it after a look for the first timer.
    now: u64,
    /// The indices of timers whose due lay before `elapsed` when they were linked, by due and by
    /// rank.
    overdue: BTreeMap<(u64, u64), u32>,
    /// The rank of the next timer that is linked as overdue. By ranks, ties keep their order.
    next_rank: u64,
    /// The coarse slot that is being cascaded. Its start is `elapsed`.
    cascading: Option<Home>,
    next_sequence: NonZeroU64,
    shrinking: Shrinking,
}

impl<T> Wheel<T> {
    /// Arms a timer that is due at tick `due`. If its due has passed, it fires at the next
    /// [`advance`](Wheel::advance).
    ///
    /// # Panics
    ///
    /// If the wheel would hold about four billion timers. They would need some 200 GB of memory
    /// first.
    #[inline]
    pub fn insert(&mut self, due: u64, value: T) -> Key {
        self.insert_mut(due, value).0
    }

    /// Disarms a timer and returns its value. `None` if it has fired or was removed before.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.take(key).map(|(value, _)| value)
    }

    /// Moves a timer to another due, earlier or later. `false` if it has fired or was removed
    /// before.
    ///
    /// Among timers of the same due it comes last, as if you had inserted it now.
    pub fn reset(&mut self, key: Key, due: u64) -> bool {
        self.relink(key, due).is_some()
    }

    /// Moves the wheel to tick `now`, and yields what is due by then. Timers come in order of due,
    /// and ties in insertion order.
    ///
    /// Each item is the due that the timer was armed for, and its value. If you drop the iterator
    /// early, the rest stays due, and the next advance yields it. A `now` before
    /// [`Wheel::now`] counts as [`Wheel::now`].
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// for due in [3, 1, 2] {
    ///     wheel.insert(due, ());
    /// }
    /// assert_eq!(wheel.advance(9).next(), Some((1, ())));
    /// assert_eq!(wheel.advance(9).map(|(due, ())| due).collect::<Vec<_>>(), [2, 3]);
    /// ```
    pub fn advance(&mut self, now: u64) -> Advance<'_, T> {
        self.now = self.now.max(now);
        Advance(self)
    }

    /// The tick of the next turn that may find a timer due. No timer is due before it. `None` if
    /// the wheel is empty.
    ///
    /// It is the earliest due itself, with one exception. If the earliest due lies in a coarse slot
    /// that holds many timers or is being cascaded, it is the start of that slot.
    pub fn next_turn(&self) -> Option<u64> {
        let at_the_earliest = self.next_turn_at_the_earliest()?;
        let looked_through = self.look_through();
        Some(looked_through.map_or(at_the_earliest, |(due, _)| due))
    }

    /// A tick before which no timer is due, found without a look at the timers of a slot. `None` if
    /// the wheel is empty.
    ///
    /// It is never later than [`next_turn`](Wheel::next_turn), and earlier only in a coarse slot. A
    /// turn at that tick makes progress. After it has finished, this tick is later, or no timer is
    /// left.
    pub(crate) fn next_turn_at_the_earliest(&self) -> Option<u64> {
        if let Some((&(due, _), _)) = self.overdue.first_key_value() {
            return Some(due);
        }
        if self.next_to_cascade().is_some() {
            return Some(self.elapsed);
        }
        self.earliest_slot().map(|(.., start)| start)
    }

    /// The earliest timer in the coarse slot whose time comes next, if it holds few: its due and
    /// its index.
    fn look_through(&self) -> Option<(u64, u32)> {
        /// At most this many timers are looked through. The look has a bound because a turn too
        /// many costs little.
        const LOOKED_THROUGH: usize = 16;
        if !self.overdue.is_empty() || self.next_to_cascade().is_some() {
            return None;
        }
        let (level, slot, _) = self.earliest_slot().filter(|&(level, ..)| level > 0)?;
        let mut timers = self.levels[level].slot(slot).iter(&self.nodes);
        let earliest = timers
            .by_ref()
            .take(LOOKED_THROUGH)
            .map(|(index, node)| (node.due, index))
            // Of several, the one that was linked first.
            .min_by_key(|&(due, _)| due);
        // Only if these were all. Otherwise the earliest may be among the rest.
        timers.next().is_none().then_some(earliest)?
    }

    /// The tick that the wheel was last advanced to.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many timers are armed.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many levels there are now: 1 when fresh, more on overflow, and fewer when the top ones
    /// are empty again.
    pub fn levels(&self) -> usize {
        (u64::BITS - self.occupied.leading_zeros()).max(1) as usize
    }

    /// How many timers were ever armed.
    pub(crate) fn inserted(&self) -> u64 {
        self.next_sequence.get() - 1
    }

    /// Arms a timer, and lets the caller change its value.
    #[inline]
    pub(crate) fn insert_mut(&mut self, due: u64, value: T) -> (Key, &mut T) {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.saturating_add(1);
        if self.nodes.len() == self.nodes.capacity() {
            self.grow_nodes();
        }
        let (index, value) = self.insert_node(due, sequence, value);
        (Key { index, sequence }, value)
    }

    /// Disarms a timer. Returns its value, and what it means for the next turn that it was
    /// unlinked.
    #[inline]
    pub(crate) fn take(&mut self, key: Key) -> Option<(T, Unlinked)> {
        self.get_mut(key)?;
        Some(self.remove_node(key.index))
    }

    /// Disarms a timer whose value `take` empties: what it leaves is forgotten, so it must need no
    /// drop. Then nothing is copied out of the slab. Returns what `take` returns, and what it means
    /// for the next turn that the timer was unlinked.
    #[inline]
    pub(crate) fn remove_with<R>(
        &mut self,
        key: Key,
        take: impl FnOnce(&mut T) -> R,
    ) -> Option<(R, Unlinked)> {
        let node = self.node_mut(key)?;
        let taken = take(&mut node.value);
        let (due, home, links) = (node.due, node.home, node.links);
        let unlinked = self.unlink_from(home, links, due);
        std::mem::forget(self.nodes.remove(key.index as usize));
        self.shrink_if_due();
        Some((taken, unlinked))
    }

    /// Moves a timer to another due. Returns what it means for the next turn that it was unlinked
    /// from its old slot.
    pub(crate) fn relink(&mut self, key: Key, due: u64) -> Option<Unlinked> {
        self.get_mut(key)?;
        let unlinked = self.unlink(key.index);
        self.link(key.index, due);
        Some(unlinked)
    }
}

impl<T> Wheel<T> {
    /// An empty wheel at tick 0, with 64 slots a level.
    pub fn new() -> Self {
        Self::with_slots(MAX_SLOTS)
    }

    /// An empty wheel at tick 0, with this many slots a level, rounded up to a power of two in
    /// `2..=64`.
    ///
    /// Fewer slots mean more levels, and so more cascading. There is seldom a reason not to use 64.
    pub fn with_slots(slots: usize) -> Self {
        Self::with_capacity_and_slots(0, slots)
    }

    /// An empty wheel at tick 0 with room for this many timers. Its storage need not grow before
    /// it holds more.
    ///
    /// The wheel keeps this room as long as it lives. Neither shrinking nor
    /// [`clear`](Wheel::clear) gives it back.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::with_capacity(10_000);
    /// let key = wheel.insert(20, ());
    /// wheel.remove(key);
    /// assert!(wheel.capacity() >= 10_000);
    /// ```
    ///
    /// # Panics
    ///
    /// If you ask for room for about four billion timers or more.
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_slots(capacity, MAX_SLOTS)
    }

    /// What [`with_capacity`](Wheel::with_capacity) and [`with_slots`](Wheel::with_slots) do, in
    /// one.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::with_capacity_and_slots(100, 8).starting_at(5_000);
    /// wheel.insert(5_008, ());
    /// assert_eq!(wheel.levels(), 2);
    /// ```
    ///
    /// # Panics
    ///
    /// If you ask for room for about four billion timers or more.
    pub fn with_capacity_and_slots(capacity: usize, slots: usize) -> Self {
        assert!(capacity < u32::MAX as usize, "{TOO_MANY}");
        let digit_bits = slots
            .clamp(2, MAX_SLOTS)
            .next_power_of_two()
            .trailing_zeros();
        let mut level_of_bit = [0; 64];
        for (level, bit) in level_of_bit.iter_mut().zip(0_u32..) {
            // At most 63, because a digit is at least one bit wide.
            *level = (bit / digit_bits) as u8;
        }
        Wheel {
            nodes: Slab::with_capacity(capacity),
            levels: Vec::new(),
            occupied: 0,
            digit_bits,
            level_of_bit,
            elapsed: 0,
            now: 0,
            overdue: BTreeMap::new(),
            next_rank: 0,
            cascading: None,
            next_sequence: NonZeroU64::MIN,
            shrinking: Shrinking::keeping(capacity),
        }
    }

    /// The wheel at this tick, for an owner that does not count from 0. It fires nothing.
    ///
    /// This is for a wheel that was just made. One that holds timers fires those that are due by
    /// this tick at the next [`advance`](Wheel::advance). A tick before [`now`](Wheel::now) counts
    /// as `now`.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new().starting_at(1_000_000);
    /// assert_eq!(wheel.now(), 1_000_000);
    /// wheel.insert(1_000_020, "request");
    /// wheel.insert(7, "due long ago");
    /// assert_eq!(wheel.advance(1_000_000).next(), Some((7, "due long ago")));
    /// ```
    #[must_use = "the wheel is taken and given back"]
    pub fn starting_at(mut self, tick: u64) -> Self {
        self.now = self.now.max(tick);
        if self.is_empty() {
            (self.elapsed, self.cascading) = (self.now, None);
        }
        self
    }

    /// Drops every timer without firing it. O([`capacity`](Wheel::capacity)).
    ///
    /// [`now`](Wheel::now) stays, and a key from before never finds a later timer. The wheel gives
    /// its memory back, except the room that [`with_capacity`](Wheel::with_capacity) was asked for.
    ///
    /// If the drop of a value panics, the wheel is empty and usable all the same.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new().starting_at(500);
    /// let key = wheel.insert(520, ());
    /// wheel.clear();
    /// assert!(wheel.is_empty() && !wheel.contains(key));
    /// assert_eq!(wheel.now(), 500);
    /// ```
    pub fn clear(&mut self) {
        drop(self.take_all());
    }

    /// Takes everything out at once. The wheel is then empty, of the same kind and at the same
    /// tick.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        let slots = 1 << self.digit_bits;
        let empty = Wheel {
            next_sequence: self.next_sequence,
            ..Wheel::with_capacity_and_slots(self.shrinking.asked(), slots).starting_at(self.now)
        };
        let full = std::mem::replace(self, empty);
        full.nodes.into_iter().map(|(_, node)| node.value)
    }
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Arms a timer for each due and value, as [`Wheel::insert`] does. It is for timers that need no
/// key.
///
/// So one wheel can take what [`Wheel::advance`] yields of another.
///
/// ```
/// # use tickwheel::wheel::Wheel;
/// let mut wheel = Wheel::new();
/// wheel.extend([(20, "late"), (10, "early")]);
/// assert_eq!(wheel.advance(15).next(), Some((10, "early")));
/// ```
impl<T> Extend<(u64, T)> for Wheel<T> {
    fn extend<I: IntoIterator<Item = (u64, T)>>(&mut self, timers: I) {
        for (due, value) in timers {
            self.insert(due, value);
        }
    }
}

/// A wheel at tick 0, with a timer for each due and value.
///
/// ```
/// # use tickwheel::wheel::Wheel;
/// let mut wheel: Wheel<_> = [(20, "late"), (10, "early")].into_iter().collect();
/// assert_eq!(wheel.next_turn(), Some(10));
/// ```
impl<T> FromIterator<(u64, T)> for Wheel<T> {
    fn from_iter<I: IntoIterator<Item = (u64, T)>>(timers: I) -> Self {
        let mut wheel = Wheel::new();
        wheel.extend(timers);
        wheel
    }
}

impl<T> Wheel<T> {
    /// The value of a timer, or `None` if it has fired or was removed. O(1).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, "request");
    /// assert_eq!(wheel.get(key), Some(&"request"));
    /// wheel.remove(key);
    /// assert_eq!(wheel.get(key), None);
    /// ```
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.node(key).map(|node| &node.value)
    }

    /// The value of a timer, for you to change, or `None` if it has fired or was removed. O(1).
    ///
    /// This does not change when the timer is due. [`reset`](Wheel::reset) does.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, 1);
    /// if let Some(tries) = wheel.get_mut(key) {
    ///     *tries += 1;
    /// }
    /// assert_eq!(wheel.advance(20).next(), Some((20, 2)));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.node_mut(key).map(|node| &mut node.value)
    }

    /// Whether a timer is still armed: it has not fired, and nobody removed it. O(1).
    ///
    /// A timer whose due has passed stays armed until [`advance`](Wheel::advance) yields it.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, ());
    /// assert!(wheel.contains(key));
    /// assert_eq!(wheel.advance(20).count(), 1);
    /// assert!(!wheel.contains(key));
    /// ```
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        self.node(key).is_some()
    }

    /// The tick at which a timer is due, or `None` if it has fired or was removed. O(1).
    ///
    /// It is the due that you gave to [`insert`](Wheel::insert) or to the last
    /// [`reset`](Wheel::reset), even if it lies before [`now`](Wheel::now).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, ());
    /// assert_eq!(wheel.due(key), Some(20));
    /// wheel.reset(key, 300);
    /// assert_eq!(wheel.due(key), Some(300));
    /// ```
    #[inline]
    pub fn due(&self, key: Key) -> Option<u64> {
        self.node(key).map(|node| node.due)
    }

    /// Every timer that is armed: its key, its due and its value. They come in no order.
    ///
    /// The iterator looks at every place of the storage, used or not:
    /// O([`capacity`](Wheel::capacity)).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let request = wheel.insert(20, "request");
    /// wheel.insert(300, "keepalive");
    ///
    /// let later = wheel.iter().filter(|(_, due, _)| *due > 100);
    /// assert_eq!(later.map(|(_, _, value)| *value).collect::<Vec<_>>(), ["keepalive"]);
    /// assert!(wheel.iter().any(|(key, ..)| key == request));
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.nodes.iter())
    }

    /// The value of every timer. They come in no order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().map(|(_, node)| &mut node.value)
    }
}

/// Takes out what is due: [`Wheel::advance`].
///
/// ```
/// use tickwheel::wheel::Wheel;
///
/// let mut wheel: Wheel<_> = [(1, "one"), (2, "two"), (9, "nine")].into_iter().collect();
/// for (due, name) in wheel.advance(5) {
///     println!("{name} was due at {due}");
/// }
/// assert_eq!(wheel.len(), 1);
/// ```
#[derive(Debug)]
#[must_use = "due timers stay in the wheel until the iterator takes them out"]
pub struct Advance<'a, T>(&'a mut Wheel<T>);

impl<T> Iterator for Advance<'_, T> {
    type Item = (u64, T);

    fn next(&mut self) -> Option<(u64, T)> {
        let wheel = &mut *self.0;
        loop {
            match wheel.step(wheel.now) {
                Step::Due(index) => {
                    let due = wheel.nodes[index as usize].due;
                    return Some((due, wheel.remove_node(index).0));
                }
                Step::Cascaded => {}
                Step::Finished => return None,
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.0.len()))
    }
}

impl<T> FusedIterator for Advance<'_, T> {}

/// Shows every timer: [`Wheel::iter`].
///
/// ```
/// use tickwheel::wheel::Wheel;
///
/// let wheel: Wheel<_> = [(1, "one"), (9, "nine")].into_iter().collect();
/// for (_key, due, name) in &wheel {
///     println!("{name} is due at {due}");
/// }
/// assert_eq!(wheel.iter().len(), 2);
/// ```
pub struct Iter<'a, T>(slab::Iter<'a, Node<T>>);

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (Key, u64, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        let (index, node) = self.0.next()?;
        // No timer has the sequence zero.
        let key = Key::from_parts((index as u32, node.sequence))?;
        Some((key, node.due, &node.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<T> FusedIterator for Iter<'_, T> {}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.len()).finish()
    }
}

impl<'a, T> IntoIterator for &'a Wheel<T> {
    type Item = (Key, u64, &'a T);
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Names one timer of a [`Wheel`], also long after that timer has gone: a key never
/// finds a later timer.
///
/// ```
/// use tickwheel::wheel::Wheel;
///
/// let mut wheel = Wheel::new();
/// let key = wheel.insert(5, "request");
/// assert_eq!(wheel.remove(key), Some("request"));
/// wheel.insert(5, "another, in the same place");
/// assert_eq!(wheel.remove(key), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    sequence: NonZeroU64,
}

impl Key {
    #[inline]
    pub(crate) fn new(index: u32, sequence: NonZeroU64) -> Key {
        Key { index, sequence }
    }

    /// What `new` was given, for an owner that stores the two apart.
    #[inline]
    pub(crate) fn into_halves(self) -> (u32, Option<NonZeroU64>) {
        (self.index, Some(self.sequence))
    }

    /// The key as two numbers.
    pub(crate) fn to_parts(self) -> (u32, u64) {
        (self.index, self.sequence.get())
    }

    /// The key of which `to_parts` gave these numbers. `None` for a sequence of zero, because no
    /// key has it.
    pub(crate) fn from_parts((index, sequence): (u32, u64)) -> Option<Key> {
        NonZeroU64::new(sequence).map(|sequence| Key { index, sequence })
    }
}

/// What [`Wheel::find_due`] finds, for an owner that has an index of its own over the timers.
///
/// Such an owner keeps no [`Key`]: an index is half of one, and is good as long as its timer is in
/// the wheel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The first timer that is due. It is still in the wheel.
    Due(u32),
    Nothing,
    /// The budget was spent before the search had an end.
    Unfinished,
}

impl<T> Wheel<T> {
    /// Arms a timer, and returns its index.
    pub(crate) fn insert_at(&mut self, due: u64, value: T) -> u32 {
        self.insert(due, value).index
    }

    /// Moves a timer that is there to another due.
    pub(crate) fn relink_at(&mut self, index: u32, due: u64) {
        self.unlink(index);
        self.link(index, due);
    }

    /// Takes out a timer that is there.
    pub(crate) fn remove_at(&mut self, index: u32) -> T {
        self.remove_node(index).0
    }

    /// One more than the largest index that a timer may have.
    pub(crate) fn end_of_indices(&self) -> u32 {
        self.nodes.capacity() as u32
    }

    /// Whether there is a timer with that index.
    pub(crate) fn contains_index(&self, index: u32) -> bool {
        self.nodes.contains(index as usize)
    }

    /// The tick at which a timer that is there is due.
    pub(crate) fn due_at(&self, index: u32) -> u64 {
        self.nodes[index as usize].due
    }

    /// The value of a timer that is there.
    pub(crate) fn at(&self, index: u32) -> &T {
        &self.nodes[index as usize].value
    }

    /// The value of a timer that is there.
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.nodes[index as usize].value
    }

    /// Finds the first timer that is due by `now`, in at most `budget` steps, which are taken from
    /// the budget.
    pub(crate) fn find_due(&mut self, now: u64, budget: &mut usize) -> Found {
        self.now = self.now.max(now);
        while *budget > 0 {
            *budget -= 1;
            match self.step(self.now) {
                Step::Due(index) => return Found::Due(index),
                Step::Cascaded => {}
                Step::Finished => return Found::Nothing,
            }
        }
        Found::Unfinished
    }

    /// Finds the first timer, due or not, in at most `budget` steps, which are taken from the
    /// budget.
    ///
    /// The timers of a coarse slot are in no order. So where they are many, they are cascaded
    /// before their time, which each of them pays for once. What is then linked before them waits
    /// among the overdue, where it takes O(log n).
    pub(crate) fn find_first(&mut self, budget: &mut usize) -> Found {
        while *budget > 0 {
            *budget -= 1;
            if self.is_empty() {
                return Found::Nothing;
            }
            let at_hand = self.first_at_hand().or_else(|| self.look_through());
            if let Some((_, index)) = at_hand {
                return Found::Due(index);
            }
            self.step(u64::MAX);
        }
        Found::Unfinished
    }

    /// The first timer, if it is among the overdue or in a slot of one tick.
    fn first_at_hand(&self) -> Option<(u64, u32)> {
        if let Some((&(due, _), &index)) = self.overdue.first_key_value() {
            return Some((due, index));
        }
        if self.next_to_cascade().is_some() {
            return None;
        }
        let (level, slot, due) = self.earliest_slot()?;
        let first = self.levels[level].slot(slot).first();
        Some((due, first.filter(|_| level == 0)?))
    }

    /// Moves all timers together, into a store that is as large as they need. After it, their
    /// indices are those from zero on. Their order stays, and no key of before is good.
    pub(crate) fn move_together(&mut self) {
        let mut order = Vec::with_capacity(self.len());
        for level in &mut self.levels {
            for slot in level.occupied_slots() {
                order.extend(level.slot(slot).iter(&self.nodes).map(|(index, _)| index));
            }
            *level = Level::EMPTY;
        }
        let overdue = std::mem::take(&mut self.overdue);
        let store = Slab::with_capacity(self.nodes.len());
        let mut old = std::mem::replace(&mut self.nodes, store);
        let mut moved =
            |from: u32, nodes: &mut Slab<Node<T>>| nodes.insert(old.remove(from as usize)) as u32;
        for from in order {
            let index = moved(from, &mut self.nodes);
            let home = self.nodes[index as usize].home;
            let links = self.levels[home.level()].append(&mut self.nodes, index, home);
            self.nodes[index as usize].links = links;
        }
        let overdue = overdue.into_iter();
        self.overdue = overdue
            .map(|(rank, from)| (rank, moved(from, &mut self.nodes)))
            .collect::<BTreeMap<_, _>>();
        self.shrinking = Shrinking::default();
        self.shrinking.grown(self.nodes.capacity());
    }
}

const TOO_MANY: &str = "a wheel holds at most u32::MAX - 1 timers";

impl<T> Wheel<T> {
    /// How many timers fit before the storage grows.
    ///
    /// The capacity falls when timers go and less than an eighth of it is in use, as far as the
    /// timers that are left allow. A wheel from [`with_capacity`](Wheel::with_capacity) never falls
    /// below the room that it was asked for.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel: Wheel<()> = (0..100_000).map(|due| (due, ())).collect();
    /// assert!(wheel.capacity() >= 100_000);
    /// assert_eq!(wheel.advance(100_000).count(), 100_000);
    /// assert!(wheel.capacity() < 10_000);
    /// ```
    pub fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    #[inline]
    fn node(&self, key: Key) -> Option<&Node<T>> {
        self.nodes
            .get(key.index as usize)
            .filter(|node| node.sequence == key.sequence.get())
    }

    #[inline]
    fn node_mut(&mut self, key: Key) -> Option<&mut Node<T>> {
        self.nodes
            .get_mut(key.index as usize)
            .filter(|node| node.sequence == key.sequence.get())
    }

    #[cold]
    #[inline(never)]
    fn grow_nodes(&mut self) {
        // Doubles, just like the slab itself would.
        self.nodes
            .reserve((2 * self.nodes.len()).max(4) - self.nodes.len());
        assert!(self.nodes.capacity() < u32::MAX as usize, "{TOO_MANY}");
        self.shrinking.grown(self.nodes.capacity());
    }

    #[inline]
    fn shrink_if_due(&mut self) {
        if self.shrinking.is_due(self.nodes.len()) {
            self.shrink();
        }
    }

    /// For the end of a turn. Memory that the removals did not give back may have come free since.
    fn shrink_if_worth_a_look(&mut self) {
        let (left, capacity) = (self.nodes.len(), self.nodes.capacity());
        if self.shrinking.is_worth_a_look(left, capacity) {
            self.shrink();
        }
    }

    /// Gives memory back, as far as the timers that are left allow it.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        self.shrinking.shrink(&mut self.nodes);
    }
}
