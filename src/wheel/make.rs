//! Making a wheel, filling it, and emptying it as a whole.
//!
//! Invariant: when the tick of an empty wheel is set, the wheel has worked up to that tick, and no
//! cascade is under way.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use slab::Slab;

use super::Wheel;
use super::level::MAX_SLOTS;
use super::storage::TOO_MANY;
use crate::shrinking::Shrinking;

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
