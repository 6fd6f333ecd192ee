//! When a store that has grown gives memory back.
//!
//! Invariant: what it costs is a constant share of the removals. A store is tried to be shrunk when an eighth of its
//! places is left in use, and if that could not give enough back, each time that half of the rest has gone.

/// A store of so few places is not worth the trouble; it would grow again at the next burst.
const KEPT: usize = 1024;

/// Watches one store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shrinking {
    /// When fewer than this are left, it is time. Zero for a small store.
    below: usize,
}

impl Shrinking {
    /// The store may have grown.
    #[inline]
    pub(crate) fn grown(&mut self, capacity: usize) {
        self.below = if capacity > KEPT { capacity / 8 } else { 0 };
    }

    /// Whether it is time to shrink.
    #[inline]
    pub(crate) fn is_due(self, left: usize) -> bool {
        left < self.below
    }

    /// The store was shrunk as far as it could be.
    pub(crate) fn shrunk(&mut self, left: usize, capacity: usize) {
        self.grown(capacity);
        // At least one, so that it is tried again when the last has gone.
        self.below = self.below.min(left / 2 + 1);
    }
}
