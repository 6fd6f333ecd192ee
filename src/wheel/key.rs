//! Naming a timer: by its key, or by its index alone.
//!
//! An owner with its own index over the timers, such as a map, stores no [`Key`]. The index alone
//! is half a key, and valid while the timer is in the wheel.
//!
//! Invariant: in its own wheel a key finds its own timer or none, because its sequence is never
//! used again.

use std::num::NonZeroU64;

use super::Wheel;
use super::segments::NONE;
use super::slots::Node;

/// Names one timer of a [`Wheel`]. Once that has gone, the key never finds a later timer of its
/// wheel. In another wheel it may find any timer.
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
    /// Of its node, in the storage.
    index: u32,
    /// How many timers the wheel had ever armed with this one.
    sequence: NonZeroU64,
}

impl Key {
    #[inline]
    pub(crate) fn new(index: u32, sequence: NonZeroU64) -> Key {
        Key { index, sequence }
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// Whether it is the key of this node, which lies at its index.
    #[inline]
    pub(super) fn is_of<T>(self, node: &Node<T>) -> bool {
        node.sequence == self.sequence
    }

    /// The key as two numbers, for storage in atomics.
    pub(crate) fn to_parts(self) -> (u32, u64) {
        (self.index, self.sequence.get())
    }

    /// The inverse of `to_parts`. `None` for a sequence of zero, which no key has.
    pub(crate) fn from_parts((index, sequence): (u32, u64)) -> Option<Key> {
        NonZeroU64::new(sequence).map(|sequence| Key { index, sequence })
    }
}

/// A key as it is stored, in 12 bytes. A [`Key`] takes 16, and travels in two registers.
#[repr(Rust, packed(4))]
#[derive(Clone, Copy)]
pub(crate) struct PackedKey {
    /// As in [`Key`].
    index: u32,
    /// As in [`Key`].
    sequence: NonZeroU64,
}

impl From<Key> for PackedKey {
    #[inline]
    fn from(Key { index, sequence }: Key) -> PackedKey {
        PackedKey { index, sequence }
    }
}

impl From<PackedKey> for Key {
    #[inline]
    fn from(PackedKey { index, sequence }: PackedKey) -> Key {
        Key { index, sequence }
    }
}

impl<T> Wheel<T> {
    #[inline]
    pub(super) fn node(&self, key: Key) -> Option<&Node<T>> {
        let node = self.nodes.get(key.index)?;
        key.is_of(node).then_some(node)
    }
}

/// By the index of a timer that is in the wheel.
impl<T> Wheel<T> {
    /// The index of the first timer from this index on.
    pub(crate) fn next_index(&self, from: u32) -> Option<u32> {
        self.nodes.next_index(from)
    }

    pub(crate) fn due_at(&self, index: u32) -> u64 {
        self.nodes[index].due
    }

    /// Whether a present timer is the last of its slot.
    #[inline]
    pub(crate) fn is_last_at(&self, index: u32) -> bool {
        self.nodes[index].links.next == NONE
    }

    pub(crate) fn at(&self, index: u32) -> &T {
        &self.nodes[index].value
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.nodes[index].value
    }
}
