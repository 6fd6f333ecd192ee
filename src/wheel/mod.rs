//! The wheel alone: a hierarchy of timing wheels with no async, no clock and no lock.
//!
//! For simulations, for other runtimes, and for whoever wants to turn a wheel by hand. A [`Wheel`]
//! knows only *ticks*, which are whatever its owner counts: it is told the current tick and gives
//! back what is due.
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
//! This is scheme 7 of Varghese and Lauck (*Hashed and hierarchical timing wheels*, 1987) with the
//! overflow wheels made on demand, as Kafka's purgatory makes them. With 64 slots a level, a tick
//! is a number of 6-bit digits. Level `k` has one slot for each value of digit `k`, so level 0 has
//! one tick a slot, level 1 has 64, level 2 has 4096:
//!
//! ```text
//!   due = 70_000   digits   0 . 17 . 5 . 48          elapsed = 69_500   digits   0 . 16 . 61 . 60
//!                               ^ the highest digit in which they differ is digit 2, so:
//!   level 2   [ . . . . . . . . . . . . . . . . . X . . . ]   slot 17, 4096 ticks wide
//!   level 1   [ . . . ]       at tick 69_632 = 17 * 4096 the slot's time comes; the timer cascades to
//!                             level 1, slot 5, and at tick 69_952 on to level 0, slot 48, its exact tick
//! ```
//!
//! A timer lives at the level of the highest digit in which its due differs from `elapsed`, the
//! tick that the wheel has worked up to, in the slot of its own digit there. Three things follow,
//! and the code rests on them:
//!
//! 1. Every timer of level `k` is due before every timer of level `k + 1`: the earliest slot is the
//!    first occupied one of the lowest occupied level. No finer level can hide an earlier timer of
//!    a coarser one.
//! 2. `elapsed` may jump to any tick up to the start of the earliest slot and every timer still
//!    lies where it should. Advancing over a year or over a century is one step if nothing is due.
//! 3. A timer can be linked into a fine slot directly only after the coarse slot around it was
//!    cascaded, so each list is in insertion order also across levels, and ties fire in that order.
//!
//! With 64 slots, eleven levels span every `u64`; there is no largest delay. Storage is one slab of
//! nodes, linked by `u32` indices. A [`Key`] holds its timer's place and its number in the order of
//! all insertions.

mod access;
mod debug;
mod detach;
mod level;
mod link;
mod list;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use slab::Slab;

use crate::shrinking::Shrinking;
pub(crate) use debug::SlotCounts;
use level::{Level, MAX_SLOTS};
pub(crate) use link::Unlinked;
use list::{Home, Node};
use turn::Step;
pub(crate) use turn::Verdict;

const TOO_MANY: &str = "a wheel holds at most u32::MAX - 1 timers";

/// A hierarchy of timing wheels over `u64` ticks, each timer carrying a `T`.
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
/// These are amortised over the growing and shrinking of the storage. Timers that are inserted
/// after their due has passed are kept in order in a map of their own: O(log n) in the number of
/// those.
///
/// A timer takes `size_of::<T>()` and about 32 bytes more. Its place is used again once it was
/// removed or has fired; the storage shrinks when an eighth of it or less is in use, as far as the
/// timers that are left in it allow. See the [module's documentation](self) for an example and for
/// how it works.
pub struct Wheel<T> {
    nodes: Slab<Node<T>>,
    levels: Vec<Level>,
    /// Bit `k` is set exactly while level `k` holds a timer.
    occupied: u64,
    /// A level's digit is this many bits wide.
    digit_bits: u32,
    /// The level whose digit holds bit `i` of a tick: a table, because it saves the hot path a
    /// division.
    level_of_bit: [u8; 64],
    /// What the wheel has worked up to: no timer of the levels is due before it.
    elapsed: u64,
    /// What the owner has said; ahead of `elapsed` only while an advance is not finished.
    now: u64,
    /// Timers whose due `elapsed` had already left behind when they were linked, by due and by
    /// rank.
    overdue: BTreeMap<(u64, u64), u32>,
    /// A number for each timer that was linked as overdue, so that ties keep their order.
    next_rank: u64,
    /// The coarse slot that is being cascaded; its start is `elapsed`.
    cascading: Option<Home>,
    next_sequence: NonZeroU64,
    shrinking: Shrinking,
}

/// Names one timer of a [`Wheel`], also long after that timer has gone: no later timer ever answers
/// to it.
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

    /// What `new` was given, for who keeps the two apart.
    #[inline]
    pub(crate) fn into_halves(self) -> (u32, Option<NonZeroU64>) {
        (self.index, Some(self.sequence))
    }

    pub(crate) fn to_parts(self) -> (u32, u64) {
        (self.index, self.sequence.get())
    }

    /// The key that `to_parts` was given; `None` for a sequence of zero, which no key has.
    pub(crate) fn from_parts((index, sequence): (u32, u64)) -> Option<Key> {
        NonZeroU64::new(sequence).map(|sequence| Key { index, sequence })
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
    /// Fewer slots mean more levels and so more cascading; there is seldom a reason not to use 64.
    pub fn with_slots(slots: usize) -> Self {
        Self::with_capacity_and_slots(0, slots)
    }

    /// An empty wheel at tick 0 with room for so many timers, before which its storage need not
    /// grow.
    ///
    /// This room is never given back while the wheel lives: neither when the storage shrinks nor by
    /// [`clear`](Wheel::clear).
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
    /// If asked for about four billion timers or more.
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_slots(capacity, MAX_SLOTS)
    }

    /// Both [`with_capacity`](Wheel::with_capacity) and [`with_slots`](Wheel::with_slots).
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
    /// If asked for about four billion timers or more.
    pub fn with_capacity_and_slots(capacity: usize, slots: usize) -> Self {
        assert!(capacity < u32::MAX as usize, "{TOO_MANY}");
        let digit_bits = slots
            .clamp(2, MAX_SLOTS)
            .next_power_of_two()
            .trailing_zeros();
        let mut level_of_bit = [0; 64];
        for (level, bit) in level_of_bit.iter_mut().zip(0_u32..) {
            // At most 63, as a digit is at least one bit wide.
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

    /// The wheel at this tick, for who counts from elsewhere than 0: it fires nothing.
    ///
    /// For a wheel that was just made. One that holds timers fires those that are due by then at
    /// the next [`advance`](Wheel::advance). A tick that lies before [`now`](Wheel::now) counts as
    /// that.
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

    /// Arms a timer that is due at tick `due`. One whose due has passed fires at the next
    /// [`advance`](Wheel::advance).
    ///
    /// # Panics
    ///
    /// With about four billion timers at once, for which some 200 GB of memory would be needed
    /// first.
    #[inline]
    pub fn insert(&mut self, due: u64, value: T) -> Key {
        self.insert_mut(due, value).0
    }

    /// Disarms a timer and gives its value back, or `None` if it has fired or was removed before.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.take(key).map(|(value, _)| value)
    }

    /// Moves a timer to another due, earlier or later; `false` if it has fired or was removed
    /// before.
    ///
    /// Among timers of the same due it comes last, as if it were inserted now.
    pub fn reset(&mut self, key: Key, due: u64) -> bool {
        self.relink(key, due).is_some()
    }

    /// Moves the wheel to tick `now` and yields what is due by then, in order of due, ties in
    /// insertion order.
    ///
    /// Each item is the due that the timer was armed for and its value. Dropping the iterator early
    /// leaves the rest due: the next advance yields it. A `now` that lies before [`Wheel::now`]
    /// counts as that.
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
    #[must_use = "due timers stay in the wheel until the iterator takes them out"]
    pub fn advance(&mut self, now: u64) -> impl Iterator<Item = (u64, T)> + '_ {
        self.now = self.now.max(now);
        std::iter::from_fn(move || {
            loop {
                match self.step() {
                    Step::Due(index) => {
                        let due = self.nodes[index as usize].due;
                        return Some((due, self.remove_node(index).0));
                    }
                    Step::Cascaded => {}
                    Step::Finished => return None,
                }
            }
        })
    }

    /// The tick of the next turn that may find a timer due: no timer is due before it. `None` if
    /// the wheel is empty.
    ///
    /// It is the earliest due itself, unless that lies in a coarse slot that holds many timers or
    /// is being cascaded; then it is that slot's start.
    pub fn next_turn(&self) -> Option<u64> {
        let at_the_earliest = self.next_turn_at_the_earliest()?;
        Some(self.look_through().unwrap_or(at_the_earliest))
    }

    /// A tick before which no timer is due, told without a look at any timer. `None` if the wheel
    /// is empty.
    ///
    /// It is never later than [`next_turn`](Wheel::next_turn), and earlier only in a coarse slot. A
    /// turn at that tick makes progress: once it has finished, this is later, or nothing is left.
    pub(crate) fn next_turn_at_the_earliest(&self) -> Option<u64> {
        if let Some((&(due, _), _)) = self.overdue.first_key_value() {
            return Some(due);
        }
        if self.next_to_cascade().is_some() {
            return Some(self.elapsed);
        }
        self.earliest_slot().map(|(.., start)| start)
    }

    /// The earliest due in the coarse slot whose time comes next, if it holds few timers.
    fn look_through(&self) -> Option<u64> {
        /// So many timers are looked through. Bounded, since a turn too many costs little.
        const LOOKED_THROUGH: usize = 16;
        if !self.overdue.is_empty() || self.next_to_cascade().is_some() {
            return None;
        }
        let (level, slot, _) = self.earliest_slot().filter(|&(level, ..)| level > 0)?;
        let mut timers = self.levels[level].slot(slot).iter(&self.nodes);
        let earliest = timers
            .by_ref()
            .take(LOOKED_THROUGH)
            .map(|(_, node)| node.due)
            .min();
        // All of them, or the earliest may be among the rest.
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

    /// How many timers fit before the storage grows.
    ///
    /// It falls as timers go: when less than an eighth of it is in use, as far as the timers that
    /// are left allow. A wheel made with [`with_capacity`](Wheel::with_capacity) keeps that much.
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

    /// How many levels there are now: 1 when fresh, more on overflow, fewer when the top ones have
    /// emptied.
    pub fn levels(&self) -> usize {
        (u64::BITS - self.occupied.leading_zeros()).max(1) as usize
    }

    /// How many timers were ever armed.
    pub(crate) fn inserted(&self) -> u64 {
        self.next_sequence.get() - 1
    }

    /// Arms a timer, whose value can still be changed.
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

    /// Disarms a timer and gives its value, and what its leaving means for the next turn.
    #[inline]
    pub(crate) fn take(&mut self, key: Key) -> Option<(T, Unlinked)> {
        self.get_mut(key)?;
        Some(self.remove_node(key.index))
    }

    /// Disarms a timer, swapping its value for one that needs no drop, and says what its leaving
    /// means for the next turn. So nothing but the value is copied out of the slab.
    #[inline]
    pub(crate) fn swap_out(&mut self, key: Key, value: &mut T) -> Option<Unlinked> {
        let node = self.node_mut(key)?;
        std::mem::swap(&mut node.value, value);
        let (due, home, links) = (node.due, node.home, node.links);
        let unlinked = self.unlink_from(home, links, due);
        std::mem::forget(self.nodes.remove(key.index as usize));
        self.shrink_if_due();
        Some(unlinked)
    }

    /// Moves a timer to another due, and says what its leaving means for the next turn.
    pub(crate) fn relink(&mut self, key: Key, due: u64) -> Option<Unlinked> {
        self.get_mut(key)?;
        let unlinked = self.unlink(key.index);
        self.link(key.index, due);
        Some(unlinked)
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
        // Doubles, as the slab itself would.
        self.nodes
            .reserve((2 * self.nodes.len()).max(4) - self.nodes.len());
        assert!(self.nodes.capacity() < u32::MAX as usize, "{TOO_MANY}");
        self.shrinking.grown(self.nodes.capacity());
    }

    #[inline]
    pub(super) fn shrink_if_due(&mut self) {
        if self.shrinking.is_due(self.nodes.len()) {
            self.shrink();
        }
    }

    /// For the end of a turn: what the removals did not give back may have come free since.
    pub(super) fn shrink_if_worth_a_look(&mut self) {
        let (left, capacity) = (self.nodes.len(), self.nodes.capacity());
        if self.shrinking.is_worth_a_look(left, capacity) {
            self.shrink();
        }
    }

    /// Gives memory back, as far as the timers that are left allow.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        self.shrinking.shrink(&mut self.nodes);
    }
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}
