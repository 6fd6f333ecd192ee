//! The unit tests of the wheel, and their helpers.
//!
//! Invariant: a test that holds its wheel in [`Printed`] prints the wheel when it fails.

mod even;
mod memory;
mod model;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::slots::FEW;
use super::slots::{MAX_LEVELS, Position, SLOTS, slot_of_number};
use super::turn::EARLY;
use super::*;

impl<T> Wheel<T> {
    /// Asserts every invariant that the files of the wheel state.
    fn check(&self) {
        self.nodes.check();
        assert!(self.elapsed <= self.now);
        let mut overdue = 0;
        for (&due, list) in &self.overdue {
            assert!(due < self.elapsed && list.first().is_some());
            assert!(list.iter(&self.nodes).all(|(_, node)| node.due == due));
            overdue += list.check(&self.nodes, Position::OVERDUE);
        }
        let in_levels: usize = self
            .levels
            .iter()
            .enumerate()
            .map(|(number, level)| level.check(&self.nodes, number))
            .sum();
        assert_eq!(overdue + in_levels, self.len(), "a node is in no list");
        for (number, level) in self.levels.iter().enumerate() {
            let bit = self.occupied >> number & 1 == 1;
            assert_eq!(bit, !level.is_empty(), "the bit of level {number}");
        }
        for (_, node) in self.nodes() {
            if node.position == Position::OVERDUE {
                continue;
            }
            assert!(node.due >= self.elapsed);
            let (level, slot) = (node.position.level(), node.position.slot());
            let shift = level as u32 * DIGIT_BITS;
            let number = node.due >> shift;
            assert_eq!(slot_of_number(number), slot, "its slot");
            let ahead = number - (self.elapsed >> shift);
            assert!(ahead < SLOTS as u64, "a timer is two rotations behind");
        }
    }

    fn nodes(&self) -> impl Iterator<Item = (u32, &Node<T>)> {
        let indices = 0..self.nodes.end();
        indices.filter_map(|index| Some((index, self.nodes.get(index)?)))
    }

    /// How many segments hold a timer.
    fn segments_in_use(&self) -> usize {
        let numbers = self
            .nodes()
            .map(|(index, _)| index as usize / Segments::<Node<T>>::PLACES);
        numbers.collect::<HashSet<_>>().len()
    }
}

struct Printed<T>(Wheel<T>);

impl<T> Drop for Printed<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#?}", self.0);
        }
    }
}

/// The dues that an advance yields.
fn dues<T>(fired: impl Iterator<Item = (u64, T)>) -> Vec<u64> {
    fired.map(|(due, _)| due).collect()
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
fn a_timer_that_cascades_by_two_levels_stays_before_its_tie() {
    let mut wheel = Wheel::new();
    wheel.insert(8_260, "on level 2");
    assert_eq!(wheel.advance(128).count(), 0);
    wheel.insert(8_260, "on level 1");
    assert_eq!(wheel.advance(8_200).count(), 0);
    wheel.insert(8_260, "on level 0");
    let fired = wheel.advance(9_000).map(|(_, value)| value);
    let expected = ["on level 2", "on level 1", "on level 0"];
    assert_eq!(fired.collect::<Vec<_>>(), expected);
}

#[test]
fn the_first_of_ties_on_two_levels_is_the_one_that_fires_first() {
    let mut wheel = Wheel::new();
    // On level 1, at the start of its slot.
    let first = wheel.insert(256, "armed first");
    assert_eq!(wheel.advance(200).count(), 0);
    wheel.insert(256, "armed later, on level 0");
    assert_eq!(wheel.first(), Some(first));
    let fired = wheel.advance(256).map(|(_, value)| value);
    assert!(fired.eq(["armed first", "armed later, on level 0"]));
}

#[test]
fn ties_on_three_levels_that_cascade_at_one_tick_stay_in_order() {
    let mut wheel = Wheel::new();
    let (start, due) = (1 << 19, (1 << 19) + 10);
    wheel.insert(due, "on level 3");
    assert_eq!(wheel.advance(300_000).count(), 0);
    wheel.insert(due, "on level 2");
    assert_eq!(wheel.advance(start - 288).count(), 0);
    wheel.insert(due, "on level 1");
    let fired = wheel.advance(due).map(|(_, value)| value);
    let expected = ["on level 3", "on level 2", "on level 1"];
    assert_eq!(fired.collect::<Vec<_>>(), expected);
}

#[test]
fn levels_are_made_on_overflow_and_dropped_once_empty() {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.levels(), 1);
    let near = wheel.insert(127, ());
    assert_eq!(wheel.levels(), 1);
    let far = wheel.insert(128, ());
    assert_eq!(wheel.levels(), 2);
    let farther = wheel.insert(u64::MAX, ());
    assert_eq!(wheel.levels(), MAX_LEVELS);
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
    // The wheel adds the due, the sequence, two links and the position. The slab's tag is free.
    assert!(size_of::<Option<Node<[u64; 3]>>>() <= 24 + 32);
}

#[test]
fn a_position_gives_back_what_it_was_made_of() {
    for level in 0..MAX_LEVELS {
        for slot in 0..SLOTS {
            let position = Position::of_slot(level, slot);
            assert_eq!((position.level(), position.slot()), (level, slot));
            assert!(position != Position::OVERDUE);
        }
    }
}

#[test]
fn cleared_timers_are_dropped_and_their_keys_stay_stale() {
    let mut wheel = Wheel::new().starting_at(1_000);
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
    let keys: Vec<_> = (134..160).map(|due| wheel.insert(due, ())).collect();
    assert!(!wheel.turn(128, 1, |_, ()| Decision::Fire));
    assert!(keys.into_iter().all(|key| wheel.remove(key).is_some()));
    let mut wheel = wheel.starting_at(1 << 20);
    // This due belongs to the slot that was being cascaded, one rotation or more later.
    let due = (1 << 20) + 134;
    wheel.insert(due, ());
    assert_eq!(wheel.next_turn(), Some(due));
    assert_eq!(dues(wheel.advance(due)), [due]);
}

#[test]
fn due_timers_are_found_within_a_budget_and_stay_until_taken() {
    let mut wheel = Wheel::new();
    let late = wheel.insert_at(140, 'c');
    let (first, second) = (wheel.insert_at(130, 'a'), wheel.insert_at(130, 'b'));
    let mut budget = 2;
    // All three cascade first.
    assert_eq!(wheel.find_due(130, &mut budget), Found::Unfinished);
    let mut budget = 10;
    for _ in 0..2 {
        assert_eq!(wheel.find_due(130, &mut budget), Found::Due(first));
    }
    assert_eq!((budget, wheel.len()), (7, 3));
    assert_eq!(wheel.remove_at(first), 'a');
    wheel.relink_at(late, 130);
    assert_eq!(wheel.find_due(130, &mut budget), Found::Due(second));
    assert_eq!((wheel.remove_at(second), *wheel.at(late)), ('b', 'c'));
    wheel.relink_at(late, 131);
    assert_eq!(wheel.find_due(130, &mut budget), Found::Nothing);
    wheel.check();
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
    for timer in [
        "tick 10",
        "overdue: 5#1\n",
        "slot 20: 20#2",
        "slot 10: 700#3",
    ] {
        assert!(drawing.contains(timer), "{timer:?} is not in:\n{drawing}");
    }
}
