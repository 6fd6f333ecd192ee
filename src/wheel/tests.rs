//! The unit tests of the wheel, and their helpers.

mod even;
mod memory;
mod model;

use std::cell::Cell;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::segments::NONE;
use super::slots::{FEW, MAX_LEVELS, Position, SLOTS, shift};
use super::turn::EARLY;
use super::*;

thread_local! {
    /// How many nodes the operations of this thread have touched.
    pub(super) static VISITS: Cell<usize> = const { Cell::new(0) };
}

impl<T> Wheel<T> {
    /// Every armed timer, in the order of the storage: its key, its due and its value.
    fn iter(&self) -> impl Iterator<Item = (Key, u64, &T)> {
        let after = |&index: &u32| self.nodes.next_index(index + 1);
        let indices = std::iter::successors(self.nodes.next_index(0), after);
        indices.map(|index| {
            let node = &self.nodes[index];
            (Key::new(index, node.sequence), node.due, &node.value)
        })
    }

    /// Asserts every invariant that the files of the wheel state.
    fn check(&self) {
        self.nodes.check();
        assert!(self.elapsed <= self.now);
        let mut linked = 0;
        for (number, list) in self.lists().enumerate() {
            let (level, slot) = (number / SLOTS, (number % SLOTS) as u64);
            let bit = self.rotations[number / 64].occupied >> (slot % 64) & 1 == 1;
            assert_eq!(bit, list.len() > 0, "slot {slot} of level {level}");
            linked += self.check_list(list, Position::new(level, slot), |due| {
                let number = due >> shift(level);
                let ahead = number - (self.elapsed >> shift(level));
                due >= self.elapsed && ahead < SLOTS as u64 && number % SLOTS as u64 == slot
            });
        }
        for (&due, list) in &self.overdue {
            assert!(due < self.elapsed && list.len() > 0);
            linked += self.check_list(list, Position::OVERDUE, |other| other == due);
        }
        assert_eq!(linked, self.len(), "a node is in no list");
    }

    /// Asserts that a list links its nodes in both directions and counts them, and that they know
    /// it. Returns how many they are.
    fn check_list(&self, list: &List, position: Position, is_its: impl Fn(u64) -> bool) -> usize {
        let (mut previous, mut length) = (NONE, 0);
        for (index, node) in list.iter(&self.nodes) {
            assert_eq!(node.links.previous, previous, "node {index}");
            assert_eq!(node.position, position, "node {index}");
            assert!(is_its(node.due), "node {index}, due at {}", node.due);
            (previous, length) = (index, length + 1);
        }
        assert_eq!((list.tail, list.len()), (previous, length));
        length
    }
}

/// The dues that an advance yields.
fn dues<T>(fired: impl Iterator<Item = (u64, T)>) -> Vec<u64> {
    fired.map(|(due, _)| due).collect()
}

/// Takes out what is due by `now` within the budget, as the driver does. Returns whether that is
/// all.
fn turn<T>(wheel: &mut Wheel<T>, now: u64, mut budget: usize, mut fired: impl FnMut(u64)) -> bool {
    loop {
        match wheel.find_due(now, &mut budget) {
            Found::Due(index) => {
                fired(wheel.due_at(index));
                wheel.remove_at(index);
            }
            found => return found == Found::Nothing,
        }
    }
}

/// An owner puts them on the line of its lock. See `Wheel`.
#[test]
fn what_a_call_writes_in_a_small_wheel_comes_first() {
    type Any = Wheel<u64>;
    let written = [
        ("next_sequence", offset_of!(Any, next_sequence), 0),
        ("filling", offset_of!(Any, nodes.filling), WRITTEN - 8),
    ];
    for (field, offset, expected) in written {
        assert_eq!(offset, expected, "{field}");
    }
}

#[test]
fn the_next_turn_is_the_due_or_the_start_of_a_crowded_slot() {
    for others in 0..40 {
        let mut wheel = Wheel::new();
        wheel.extend((0..others).map(|_| (12_500, ())));
        wheel.insert(12_300, ());
        let turns = 2 * (others + 1_u64).div_ceil(EARLY as u64);
        let expected = if others < FEW as u64 {
            12_300
        } else {
            3 * 4_096 - turns
        };
        assert_eq!(wheel.next_turn(), Some(expected), "behind {others} others");
        wheel.insert(63, ());
        assert_eq!(wheel.next_turn(), Some(63));
    }
}

#[test]
fn a_search_up_to_an_earlier_tick_moves_nothing_back() {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.pop_due(100), None);
    wheel.insert(227, ());
    assert_eq!(wheel.pop_due(50), None);
    assert_eq!((wheel.now(), wheel.pop_due(99)), (100, None));
}

#[test]
fn of_two_due_at_the_start_of_a_slot_the_older_is_first() {
    let mut wheel = Wheel::new();
    let older = wheel.insert(128, ());
    assert_eq!(wheel.advance(1).count(), 0);
    wheel.insert(128, ());
    assert_eq!(wheel.first(), Some(older));
}

/// The older one lies in a coarse slot, which starts at their due.
#[test]
fn of_two_due_at_the_start_of_a_slot_the_older_fires_first() {
    let mut wheel = Wheel::new();
    wheel.insert(3 * 64, "older");
    assert_eq!(wheel.advance(100).next(), None);
    wheel.insert(3 * 64, "newer");
    let fired = wheel.advance(3 * 64).map(|(_, name)| name);
    assert_eq!(fired.collect::<Vec<_>>(), ["older", "newer"]);
}

#[test]
fn levels_are_made_on_overflow_and_dropped_once_empty() {
    let (mut wheel, mut keys) = (Wheel::new(), Vec::new());
    assert_eq!(wheel.levels(), 1);
    for (due, levels) in [(127, 1), (128, 2), (u64::MAX, MAX_LEVELS)] {
        keys.push(wheel.insert(due, ()));
        assert_eq!(wheel.levels(), levels, "with {due}");
    }
    for (key, levels) in keys.into_iter().rev().zip([2, 1, 1]) {
        wheel.remove(key);
        assert_eq!(wheel.levels(), levels);
    }
    assert_eq!(wheel.advance(1).count(), 0);
    assert_eq!(
        wheel.rotations.len(),
        2,
        "the memory of an emptied level is given back at the next turn"
    );
}

#[test]
fn a_node_is_no_larger_than_it_must_be() {
    // The wheel adds the due, the sequence, two links and the position. The tag of a place is free.
    assert!(size_of::<Option<Node<[u64; 3]>>>() <= 24 + 32);
}

#[test]
fn a_wheel_is_cleared_also_when_the_drop_of_a_value_panics() {
    struct Panics(Rc<()>);
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(Rc::strong_count(&self.0) != 2, "the drop panics");
        }
    }
    let count = Rc::new(());
    let mut wheel = Wheel::new();
    wheel.extend((0..3).map(|due| (due, Panics(Rc::clone(&count)))));
    assert!(catch_unwind(AssertUnwindSafe(|| wheel.clear())).is_err());
    assert_eq!(Rc::strong_count(&count), 1, "the others were dropped");
    assert!(wheel.is_empty());
    wheel.check();
}

#[test]
fn an_empty_wheel_is_advanced_to_any_tick_in_one_step() {
    for tick in [1, 127, 1 << 40, u64::MAX] {
        let mut wheel = Wheel::new();
        wheel.extend([(0, ()), (5_000, ()), (tick, ())]);
        wheel.clear();
        let before = VISITS.get();
        assert_eq!(wheel.find_due(tick, &mut 1), Found::Nothing);
        assert_eq!(VISITS.get(), before);
        // As a new wheel that counts from there.
        assert_eq!((wheel.elapsed, wheel.now, wheel.levels()), (tick, tick, 1));
        wheel.insert(tick.saturating_add(127), ());
        wheel.insert(tick - 1, ());
        assert_eq!((wheel.levels(), wheel.overdue.len()), (1, 1));
        wheel.check();
    }
}

#[test]
fn a_wheel_that_was_emptied_in_a_cascade_can_be_advanced_to_any_tick() {
    let mut wheel = Wheel::new();
    let keys: Vec<_> = (134..160).map(|due| wheel.insert(due, ())).collect();
    assert!(!turn(&mut wheel, 128, 1, |_| ()));
    assert!(keys.into_iter().all(|key| wheel.remove(key).is_some()));
    assert_eq!(wheel.pop_due(1 << 20), None);
    // This due belongs to the slot that was being cascaded, one rotation or more later.
    let due = (1 << 20) + 134;
    wheel.insert(due, ());
    assert_eq!(wheel.next_turn(), Some(due));
    assert_eq!(dues(wheel.advance(due)), [due]);
}
