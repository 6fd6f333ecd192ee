//! The unit tests of the wheel, and what they share.
//!
//! Invariant: a test that holds its wheel in [`Printed`] prints the wheel when it fails.

mod counting;
mod memory;
mod model;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::segments::PLACES;
use super::slots::{Links, MAX_SLOTS, Position};
use super::*;

impl<T> Wheel<T> {
    /// Asserts every invariant that the files of the wheel state.
    fn check(&self) {
        self.nodes.check();
        assert!(self.elapsed <= self.now);
        for (&(due, rank), &index) in &self.sorted {
            let node = &self.nodes[index];
            assert_eq!(
                (node.due, node.links.to_rank(), node.position),
                (due, rank, Position::SORTED)
            );
        }
        let in_levels: usize = self
            .levels
            .iter()
            .enumerate()
            .map(|(number, level)| level.check(&self.nodes, number))
            .sum();
        let listed = self.sorted.len() + in_levels;
        assert_eq!(listed, self.len(), "a node is in no list");
        for (number, level) in self.levels.iter().enumerate() {
            let bit = self.occupied >> number & 1 == 1;
            assert_eq!(bit, !level.is_empty(), "the bit of level {number}");
        }
        for (_, node) in self.nodes() {
            if node.position == Position::SORTED {
                continue;
            }
            assert!(node.due >= self.elapsed);
            let (level, slot) = (node.position.level(), node.position.slot());
            let shift = level as u32 * self.digit_bits;
            let ahead = (node.due >> shift) - (self.elapsed >> shift);
            assert_eq!(node.due >> shift & self.slot_mask, slot as u64, "its slot");
            assert!(ahead <= self.slot_mask, "a timer is a rotation behind");
        }
    }

    fn nodes(&self) -> impl Iterator<Item = (u32, &Node<T>)> {
        let indices = 0..self.nodes.end();
        indices.filter_map(|index| Some((index, self.nodes.get(index)?)))
    }

    /// How many segments hold a timer.
    fn segments_in_use(&self) -> usize {
        let numbers = self.nodes().map(|(index, _)| index / PLACES as u32);
        numbers.collect::<HashSet<_>>().len()
    }
}

/// Prints the wheel when the test that holds it fails.
struct Printed<T>(Wheel<T>);

impl<T> Drop for Printed<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#?}", self.0);
        }
    }
}

/// The dues of what an advance yields.
fn dues<T>(fired: impl Iterator<Item = (u64, T)>) -> Vec<u64> {
    fired.map(|(due, _)| due).collect()
}

#[test]
fn the_next_turn_is_the_due_or_the_start_of_a_coarse_slot_of_many() {
    for others in 0..40 {
        let mut wheel = Wheel::new();
        wheel.extend((0..others).map(|_| (5_000, ())));
        wheel.insert(4_100, ());
        let expected = if others < 16 { 4_100 } else { 4_096 };
        assert_eq!(wheel.next_turn(), Some(expected), "behind {others} others");
        wheel.insert(63, ());
        assert_eq!(wheel.next_turn(), Some(63));
    }
}

#[test]
fn levels_are_made_on_overflow_and_dropped_once_empty() {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.levels(), 1);
    let near = wheel.insert(63, ());
    assert_eq!(wheel.levels(), 1);
    let far = wheel.insert(64, ());
    assert_eq!(wheel.levels(), 2);
    let farther = wheel.insert(u64::MAX, ());
    assert_eq!(wheel.levels(), 11);
    wheel.remove(farther);
    assert_eq!(wheel.levels(), 2);
    wheel.remove(far);
    assert_eq!(wheel.levels(), 1);
    wheel.remove(near);
    assert_eq!(wheel.levels(), 1);
    assert_eq!(wheel.advance(1).count(), 0);
    assert_eq!(
        wheel.levels.len(),
        1,
        "the memory of an emptied level is given back at the next turn"
    );
}

#[test]
fn a_node_is_no_larger_than_it_must_be() {
    // The wheel adds the due, the sequence, two links and the position to a value. The slab's own
    // tag takes no room.
    assert!(size_of::<Option<Node<[u64; 3]>>>() <= 24 + 32);
}

#[test]
fn a_position_and_a_rank_give_back_what_they_were_made_of() {
    for level in 0..64 {
        for slot in 0..MAX_SLOTS {
            let position = Position::of_slot(level, slot);
            assert_eq!((position.level(), position.slot()), (level, slot));
            assert!(position != Position::SORTED);
        }
    }
    for rank in [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        assert_eq!(Links::of_rank(rank).to_rank(), rank);
    }
}

#[test]
fn an_unlinked_timer_may_change_an_expiry_that_was_set_for_it() {
    let mut wheel = Wheel::new();
    let mut is_changed = |due, others: &[u64], expiries: [u64; 4]| {
        wheel.extend(others.iter().map(|&due| (due, ())));
        let key = wheel.insert(due, ());
        let ((), unlinked) = wheel.disarm(key, |()| ()).unwrap();
        wheel.clear();
        expiries.map(|expiry| wheel.may_change(unlinked, expiry))
    };
    let expiries = [4_095, 4_096, 4_999, 5_000];
    // An expiry may name the start of a coarse slot only for the last timer in it.
    assert_eq!(is_changed(5_000, &[], expiries), [false, true, true, true]);
    assert_eq!(
        is_changed(5_000, &[4_100], expiries),
        [false, false, false, true]
    );
    assert_eq!(
        is_changed(5_000, &[9_000], expiries),
        [false, true, true, true]
    );
    assert_eq!(is_changed(5, &[], [0, 4, 5, 6]), [false, false, true, true]);
    assert_eq!(
        is_changed(5, &[5], [0, 4, 5, 6]),
        [false, false, true, true]
    );
    assert!(wheel.advance(100).next().is_none());
    let overdue = wheel.insert(5, ());
    let ((), unlinked) = wheel.disarm(overdue, |()| ()).unwrap();
    assert!(
        wheel.may_change(unlinked, 0),
        "an expiry for what is overdue may be any tick"
    );
}

#[test]
fn what_was_cleared_is_dropped_and_its_keys_stay_stale() {
    let mut wheel = Wheel::with_slots(8).starting_at(1_000);
    let value = Rc::new(());
    let keys: Vec<_> = [3, 1_001, 5_000, u64::MAX]
        .map(|due| wheel.insert(due, Rc::clone(&value)))
        .into();
    wheel.clear();
    assert_eq!(Rc::strong_count(&value), 1);
    assert_eq!((wheel.now(), wheel.len(), wheel.levels()), (1_000, 0, 1));
    assert_eq!(wheel.next_turn(), None);
    for _ in &keys {
        wheel.insert(2_000, Rc::clone(&value));
    }
    assert!(!keys.iter().any(|&key| wheel.contains(key)));
    assert_eq!(wheel.levels(), 4, "it has 8 slots a level as before");
    assert_eq!(dues(wheel.advance(u64::MAX)), [2_000; 4]);
    wheel.check();
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
    for due in 0..3 {
        wheel.insert(due, Panics(Rc::clone(&count)));
    }
    assert!(catch_unwind(AssertUnwindSafe(|| wheel.clear())).is_err());
    assert_eq!(Rc::strong_count(&count), 1, "the others were dropped");
    assert!(wheel.is_empty());
    wheel.check();
}

#[test]
fn a_wheel_that_is_set_to_a_tick_with_timers_in_it_keeps_them() {
    let mut wheel = Wheel::new();
    wheel.extend([(700, ()), (70, ()), (71, ())]);
    let mut wheel = wheel.starting_at(500).starting_at(7);
    assert_eq!(wheel.now(), 500);
    wheel.insert(90, ());
    wheel.check();
    assert_eq!(dues(wheel.advance(0)), [70, 71, 90]);
    assert_eq!(dues(wheel.advance(700)), [700]);
}

#[test]
fn a_wheel_that_was_emptied_in_a_cascade_can_be_set_to_any_tick() {
    let mut wheel = Wheel::new();
    let keys: Vec<_> = (70..100).map(|due| wheel.insert(due, ())).collect();
    assert!(!wheel.turn(64, 1, |_, ()| Decision::Fire));
    assert!(keys.into_iter().all(|key| wheel.remove(key).is_some()));
    let mut wheel = wheel.starting_at(1 << 20);
    // This due belongs to the slot that was being cascaded, one rotation or more later.
    let due = (1 << 20) + 70;
    wheel.insert(due, ());
    assert_eq!(wheel.next_turn(), Some(due));
    assert_eq!(dues(wheel.advance(due)), [due]);
}

#[test]
fn what_is_due_is_found_within_a_budget_and_stays_until_it_is_taken() {
    let mut wheel = Wheel::new();
    let late = wheel.insert_at(70, 'c');
    let (first, second) = (wheel.insert_at(65, 'a'), wheel.insert_at(65, 'b'));
    let mut budget = 2;
    // All three cascade first.
    assert_eq!(wheel.find_due(65, &mut budget), Found::Unfinished);
    let mut budget = 10;
    for _ in 0..2 {
        assert_eq!(wheel.find_due(65, &mut budget), Found::Due(first));
    }
    assert_eq!((budget, wheel.len()), (7, 3));
    assert_eq!(wheel.remove_at(first), 'a');
    wheel.relink_at(late, 65);
    assert_eq!(wheel.find_due(65, &mut budget), Found::Due(second));
    assert_eq!((wheel.remove_at(second), *wheel.at(late)), ('b', 'c'));
    wheel.relink_at(late, 66);
    assert_eq!(wheel.find_due(65, &mut budget), Found::Nothing);
    wheel.check();
}

#[test]
fn the_search_for_the_first_of_many_far_timers_is_paid_for_once() {
    let mut wheel = Wheel::new();
    for number in 0..1_000_u32 {
        wheel.insert(1_000_000 + u64::from(number) * 7 % 1_000, number);
    }
    let mut steps = 0;
    for expected in 1_000_000..1_001_000 {
        let mut budget = 5_000;
        let Found::Due(first) = wheel.find_first(&mut budget) else {
            panic!("it is not found");
        };
        steps += 5_000 - budget;
        assert_eq!(wheel.due_at(first), expected);
        wheel.remove_at(first);
        // A timer that comes meanwhile is not sorted, and so as cheap as ever.
        let earlier = wheel.insert(70, 0);
        assert!(wheel.sorted.len() < 1_000 && wheel.remove(earlier).is_some());
    }
    assert!(steps <= 2_000, "{steps} steps");
    assert_eq!(wheel.find_first(&mut 1), Found::Nothing);
}

#[test]
fn of_two_slots_that_start_at_a_tick_the_coarser_one_has_the_older_timer() {
    let mut wheel = Wheel::with_slots(4);
    let older = wheel.insert_at(16, "on level 2");
    assert_eq!(wheel.advance(4).count(), 0);
    let newer = wheel.insert_at(16, "on level 1");
    for first in [older, newer] {
        assert_eq!(wheel.find_first(&mut 10), Found::Due(first));
        wheel.remove_at(first);
    }
}

#[test]
fn a_wheel_prints_as_one_line_or_as_a_drawing() {
    let mut wheel = Wheel::new().starting_at(10);
    wheel.extend([(5, ()), (20, ()), (700, ())]);
    assert_eq!(
        format!("{wheel:?}"),
        "Wheel { now: 10, len: 3, levels: 2, next_turn: Some(5), .. }"
    );
    let drawing = format!("{wheel:#?}");
    for timer in ["tick 10", "sorted: 5\n", "slot 20: 20#2", "slot 10: 700#3"] {
        assert!(drawing.contains(timer), "{timer:?} is not in:\n{drawing}");
    }
}
