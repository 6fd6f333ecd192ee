//! The key of a timer.
//!
//! Invariant: no two timers of a wheel have the same key, whenever they are armed.

use std::num::NonZeroU64;

/// Names one timer of a [`Wheel`], also long after that timer has gone: no later timer ever answers
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub(super) index: u32,
    pub(super) sequence: NonZeroU64,
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
