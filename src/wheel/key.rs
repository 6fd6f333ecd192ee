//! The key of a timer.
//!
//! Invariant: no two timers of a wheel have the same key, whenever they are armed.

use std::num::NonZeroU64;

/// Names one timer of a [`Wheel`](super::Wheel), also long after that timer has gone: a key never
/// finds a later timer.
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
