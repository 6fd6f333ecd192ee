//! The storage of a wheel: finding a node by its key, and growing and shrinking the slab.
//!
//! Invariant: every place of the slab has an index below `u32::MAX`. So no index is mistaken for
//! the link that leads nowhere.

use super::list::Node;
use super::{Key, Wheel};

pub(super) const TOO_MANY: &str = "a wheel holds at most u32::MAX - 1 timers";

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
    pub(super) fn node(&self, key: Key) -> Option<&Node<T>> {
        self.nodes
            .get(key.index as usize)
            .filter(|node| node.sequence == key.sequence.get())
    }

    #[inline]
    pub(super) fn node_mut(&mut self, key: Key) -> Option<&mut Node<T>> {
        self.nodes
            .get_mut(key.index as usize)
            .filter(|node| node.sequence == key.sequence.get())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn grow_nodes(&mut self) {
        // Doubles, just like the slab itself would.
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

    /// For the end of a turn. Memory that the removals did not give back may have come free since.
    pub(super) fn shrink_if_worth_a_look(&mut self) {
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
