//! When a store that has grown gives memory back.
//!
//! A store shrinks when less than an eighth of its places is in use. A slab can drop only the free
//! places behind its last entry, because that entry pins all places before it. So after a shrink
//! the last entry is watched. The slab shrinks again once half of its places lie behind the last
//! entry.
//!
//! Invariant: shrinking adds a constant cost to each removal and each turn. The removals that
//! emptied seven eighths pay for the first shrink after a growth. Each later shrink comes after a
//! look at half of the places. Two things pay for these looks: what the shrink before gave back,
//! and a fixed number of places at each removal or turn that looks.

use slab::Slab;

/// A store of at most this many places does not shrink. It would grow again at the next burst.
const KEPT: usize = 1024;

/// Each look may pass this many places at its own cost.
const PASSED: usize = 32;

/// Watches one store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shrinking {
    /// When fewer entries than this are left, it is time to shrink. Zero for a small store.
    below: usize,
    /// How many places were asked for when the store was made. They are never given back.
    asked: usize,
    /// The last entry of a slab when it was shrunk.
    pin: Option<Pin>,
    /// How many places the shrinks and looks have passed, dropped or moved so far.
    #[cfg(test)]
    cost: usize,
}

/// The entry that keeps a slab from shrinking.
#[derive(Clone, Copy, Debug)]
struct Pin {
    /// No place behind this one was taken when it was last looked for.
    place: usize,
    /// The capacity of the slab when it was shrunk. If the slab has another one, it has grown
    /// since.
    capacity: usize,
    /// How many places may still be passed that are paid for already.
    paid: usize,
}

impl Shrinking {
    /// For a store that was made with `asked` places and keeps them.
    pub(crate) fn keeping(asked: usize) -> Shrinking {
        Shrinking {
            asked,
            ..Shrinking::default()
        }
    }

    /// How many places were asked for when the store was made.
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

    /// Shrinks a slab, or looks whether it could be shrunk. Call this when that is due or worth
    /// a look.
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
                // A slab that was filled behind the pin may be filled so again. It has to pay
                // first.
                paid: if is_first || left <= capacity / 2 {
                    left
                } else {
                    0
                },
            })
        } else {
            pin
        };
        // Whenever fewer are left than now, the entry that was removed may be the last one.
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

    /// How many places the shrinks and looks have passed, dropped or moved so far.
    #[cfg(test)]
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }
}

impl Pin {
    /// Looks for the last entry, as far as the look is paid for. Gives the number of places that it
    /// passed.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(places: usize) -> (Slab<usize>, Shrinking) {
        let slab: Slab<usize> = (0..places).map(|place| (place, place)).collect();
        let mut shrinking = Shrinking::default();
        shrinking.grown(slab.capacity());
        (slab, shrinking)
    }

    #[test]
    fn a_store_is_due_once_an_eighth_is_left_but_no_small_one() {
        let mut shrinking = Shrinking::default();
        shrinking.grown(8 * KEPT);
        assert!(!shrinking.is_due(KEPT));
        assert!(shrinking.is_due(KEPT - 1));
        shrinking.grown(KEPT);
        assert!(!shrinking.is_due(0));
    }

    #[test]
    fn what_was_asked_for_is_never_given_back() {
        let mut shrinking = Shrinking::keeping(4 * KEPT);
        shrinking.grown(4 * KEPT);
        assert!(!shrinking.is_due(0));
        let mut slab: Slab<usize> = (0..16 * KEPT).map(|place| (place, place)).collect();
        slab.clear();
        shrinking.shrink(&mut slab);
        assert!((4 * KEPT..8 * KEPT).contains(&slab.capacity()));
    }

    #[test]
    fn a_slab_shrinks_behind_its_last_entry() {
        let (mut slab, mut shrinking) = filled(8 * KEPT);
        slab.retain(|place, _| place < KEPT / 2);
        assert!(shrinking.is_due(slab.len()));
        shrinking.shrink(&mut slab);
        assert!(slab.capacity() < KEPT);
        assert_eq!(slab.len(), KEPT / 2);
    }

    #[test]
    fn a_last_entry_pins_the_slab_until_it_is_removed() {
        let last = 8 * KEPT - 1;
        let (mut slab, mut shrinking) = filled(8 * KEPT);
        slab.retain(|place, _| place == 0 || place == last);
        shrinking.shrink(&mut slab);
        assert!(slab.capacity() > last);
        slab.remove(last);
        let looks = (0..).take_while(|_| {
            shrinking.shrink(&mut slab);
            slab.capacity() > last
        });
        assert!(looks.count() <= 8 * KEPT / PASSED, "each look passes some");
        assert_eq!(slab.capacity(), 1);
    }
}
