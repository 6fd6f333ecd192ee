//! When a store that has grown gives memory back.
//!
//! A store is shrunk when less than an eighth of its places is in use. A slab can drop only the
//! free places behind its last entry: that entry pins all places before it. So after a shrink the
//! last entry is watched, and the slab is shrunk again once half of its places lie behind the last
//! one.
//!
//! Invariant: shrinking costs a constant share of the removals and turns. The first shrink after a
//! growth is paid for by the removals that emptied seven eighths. Each later one comes after a look
//! at half of the places, and those looks are paid for: by what the shrink before gave back, and by
//! a fixed number of places at each removal or turn that looks.

use slab::Slab;

/// A store of so few places is not worth the trouble; it would grow again at the next burst.
const KEPT: usize = 1024;

/// So many places may each look pass at its own cost.
const PASSED: usize = 32;

/// Watches one store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shrinking {
    /// When fewer than this are left, it is time. Zero for a small store.
    below: usize,
    /// So many places were asked for when the store was made, and are never given back.
    asked: usize,
    /// What was the last entry of a slab when it was shrunk.
    pin: Option<Pin>,
    /// How many places were passed, dropped or moved so far.
    #[cfg(test)]
    cost: usize,
}

/// The entry that keeps a slab from being shrunk.
#[derive(Clone, Copy, Debug)]
struct Pin {
    /// No place behind this one was taken when it was last looked for.
    place: usize,
    /// The capacity of the slab when it was shrunk. With another one the slab has grown since.
    capacity: usize,
    /// So many places may still be passed that are paid for already.
    paid: usize,
}

impl Shrinking {
    /// For a store that was made with so many places and keeps them.
    pub(crate) fn keeping(asked: usize) -> Shrinking {
        Shrinking {
            asked,
            ..Shrinking::default()
        }
    }

    /// So many places were asked for when the store was made.
    pub(crate) fn asked(&self) -> usize {
        self.asked
    }

    /// The store may have grown.
    #[inline]
    pub(crate) fn grown(&mut self, capacity: usize) {
        self.below = if capacity > KEPT.max(self.asked) {
            capacity / 8
        } else {
            0
        };
    }

    /// Whether it is time to shrink.
    #[inline]
    pub(crate) fn is_due(self, left: usize) -> bool {
        left < self.below
    }

    /// Whether a slab in which this many are left may be worth another look.
    ///
    /// It is due only when fewer are left than ever since the last shrink. A slab that was filled
    /// again in the meantime needs to be looked at now and then.
    #[inline]
    pub(crate) fn is_worth_a_look(&self, left: usize, capacity: usize) -> bool {
        self.below > 0 && left < capacity / 8
    }

    /// The store was shrunk as far as it could be.
    pub(crate) fn shrunk(&mut self, left: usize, capacity: usize) {
        self.grown(capacity);
        // At least one, so that it is tried again when the last has gone.
        self.below = self.below.min(left / 2 + 1);
    }

    /// Shrinks a slab, or looks whether it could be shrunk. For when it is due or worth a look.
    pub(crate) fn shrink<T>(&mut self, slab: &mut Slab<T>) {
        let capacity = slab.capacity();
        if slab.is_empty() {
            *slab = Slab::with_capacity(self.asked);
            self.spend(capacity);
            self.grown(slab.capacity());
            return;
        }
        let mut pin = self.pin.filter(|pin| pin.capacity == capacity);
        let passed = pin.as_mut().map(|pin| pin.pass_free_places(slab));
        self.spend(passed.unwrap_or(0));
        self.pin = if pin.is_none_or(|pin| pin.leaves_half()) {
            let is_first = pin.is_none();
            self.shrink_to_fit(slab);
            let left = slab.capacity();
            Some(Pin {
                place: left.saturating_sub(1),
                capacity: left,
                // One that was filled behind the pin may do so again, and has to pay first.
                paid: if is_first || left <= capacity / 2 {
                    left
                } else {
                    0
                },
            })
        } else {
            pin
        };
        // Whenever fewer are left than now, the one that has gone may be the last entry.
        self.below = self.below.min(slab.len());
    }

    fn shrink_to_fit<T>(&mut self, slab: &mut Slab<T>) {
        self.spend(slab.capacity());
        slab.shrink_to_fit();
        if slab.capacity() < self.asked {
            slab.reserve_exact(self.asked - slab.len());
        }
        self.grown(slab.capacity());
    }

    fn spend(&mut self, _places: usize) {
        #[cfg(test)]
        {
            self.cost += _places;
        }
    }

    /// How many places were passed, dropped or moved so far.
    #[cfg(test)]
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }
}

impl Pin {
    /// Looks for the last entry, as far as that is paid for. Gives the number of places passed.
    fn pass_free_places<T>(&mut self, slab: &Slab<T>) -> usize {
        let before = self.place;
        let allowed = self.paid + PASSED;
        while !self.leaves_half() && !slab.contains(self.place) && before - self.place < allowed {
            self.place -= 1;
        }
        let passed = before - self.place;
        self.paid = self.paid.saturating_sub(passed);
        passed
    }

    /// Whether half of the slab's places lie behind the last entry.
    fn leaves_half(&self) -> bool {
        self.place < self.capacity / 2
    }
}
