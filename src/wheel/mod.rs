//! The wheel alone: a hierarchy of timing wheels with no async, no clock and no lock.
//!
//! It is for simulations, for other runtimes, and for whoever wants to advance a wheel by hand. A
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
//! Invariant: `elapsed` is never later than `now`, and no timer of a level is due before `elapsed`.

mod access;
mod by_index;
mod debug;
mod key;
mod level;
mod link;
mod list;
mod make;
mod storage;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use slab::Slab;

use crate::shrinking::Shrinking;
pub(crate) use by_index::Found;
pub(crate) use debug::SlotCounts;
pub use key::Key;
use level::Level;
pub(crate) use link::Unlinked;
use list::{Home, Node};
use turn::Step;
pub(crate) use turn::Verdict;

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
    /// The tick that the owner told. It is ahead of `elapsed` only while an advance is unfinished.
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

    /// Disarms a timer and gives its value back. `None` if it has fired or was removed before.
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

    /// The tick of the next turn that may find a timer due. No timer is due before it. `None` if
    /// the wheel is empty.
    ///
    /// It is the earliest due itself, with one exception. If the earliest due lies in a coarse slot
    /// that holds many timers or is being cascaded, it is the start of that slot.
    pub fn next_turn(&self) -> Option<u64> {
        let at_the_earliest = self.next_turn_at_the_earliest()?;
        Some(self.look_through().unwrap_or(at_the_earliest))
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

    /// The earliest due in the coarse slot whose time comes next, if it holds few timers.
    fn look_through(&self) -> Option<u64> {
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
            .map(|(_, node)| node.due)
            .min();
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

    /// Disarms a timer. Gives its value, and what it means for the next turn that it was unlinked.
    #[inline]
    pub(crate) fn take(&mut self, key: Key) -> Option<(T, Unlinked)> {
        self.get_mut(key)?;
        Some(self.remove_node(key.index))
    }

    /// Disarms a timer whose value `take` empties: what it leaves is forgotten, so it must need no
    /// drop. Then nothing is copied out of the slab. Gives what `take` gives, and what it means for
    /// the next turn that the timer was unlinked.
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

    /// Moves a timer to another due. Gives what it means for the next turn that it was unlinked
    /// from its old slot.
    pub(crate) fn relink(&mut self, key: Key, due: u64) -> Option<Unlinked> {
        self.get_mut(key)?;
        let unlinked = self.unlink(key.index);
        self.link(key.index, due);
        Some(unlinked)
    }
}
