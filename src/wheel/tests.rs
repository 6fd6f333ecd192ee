//! The unit tests of the wheel, and what they share.
//!
//! Invariant: a test that holds its wheel in [`Printed`] prints the wheel when it fails.

mod counting;
mod memory;
mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::slots::{Links, MAX_SLOTS};

use super::*;

impl<T> Wheel<T> {
    /// Asserts every invariant that the files of the wheel state.
    fn check(&self) {
        for (&(due, rank), &index) in &self.overdue {
            let node = &self.nodes[index as usize];
            assert_eq!(
                (node.due, node.links.to_rank(), node.home),
                (due, rank, Home::OVERDUE)
            );
        }
        let overdue = self.overdue.len();
        let in_levels: usize = self
            .levels
            .iter()
            .enumerate()
            .map(|(number, level)| level.check(&self.nodes, number))
            .sum();
        assert_eq!(
            overdue + in_levels,
            self.nodes.len(),
            "a node is in no list"
        );
        for (number, level) in self.levels.iter().enumerate() {
            assert_eq!(
                self.occupied >> number & 1 == 1,
                !level.is_empty(),
                "the bit of level {number}"
            );
        }
        for (_, node) in &self.nodes {
            if node.home == Home::OVERDUE {
                assert!(node.due < self.elapsed);
            } else if Some(node.home) != self.cascading {
                assert!(node.due >= self.elapsed);
                let shift = node.home.level() as u32 * self.digit_bits;
                let digit = node.due >> shift & ((1 << self.digit_bits) - 1);
                assert_eq!(
                    digit as usize,
                    node.home.slot(),
                    "a timer is not in the slot of its digit"
                );
                let above = u64::MAX.checked_shl(shift + self.digit_bits).unwrap_or(0);
                assert_eq!(
                    node.due & above,
                    self.elapsed & above,
                    "a timer is too low for its due"
                );
            }
        }
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
fn a_fine_level_does_not_hide_an_earlier_timer_of_a_coarser_one() {
    let mut wheel = Printed(Wheel::new());
    let wheel = &mut wheel.0;
    wheel.insert(300, ());
    assert_eq!(wheel.advance(250).count(), 0);
    wheel.insert(400, ());
    assert_eq!(wheel.next_turn(), Some(300));
    assert_eq!(dues(wheel.advance(300)), [300]);
    assert_eq!(dues(wheel.advance(400)), [400]);
}

#[test]
fn short_timers_fire_beside_an_endless_one_at_any_uptime() {
    for uptime in [
        0,
        1 << 30,
        1 << 36,
        1 << 42,
        3_155_760_000_000,
        u64::MAX - 10_000,
    ] {
        for before in 0..70 {
            let mut wheel = Printed(Wheel::new());
            let wheel = &mut wheel.0;
            let start = uptime.saturating_sub(before);
            assert_eq!(wheel.advance(start).count(), 0);
            let forever = wheel.insert(u64::MAX, 0);
            for delay in 1..=130 {
                wheel.insert(start + delay, delay);
            }
            for delay in 1..=130 {
                assert_eq!(wheel.next_turn(), Some(start + delay));
                assert_eq!(
                    wheel.advance(start + delay).collect::<Vec<_>>(),
                    [(start + delay, delay)]
                );
                wheel.check();
            }
            assert_eq!(wheel.remove(forever), Some(0));
        }
    }
}

#[test]
fn a_jump_over_any_distance_fires_everything_in_order() {
    const YEAR: u64 = 365 * 24 * 60 * 60 * 1000;
    for jump in (0..64)
        .map(|bit| 1 << bit)
        .chain([YEAR, 100 * YEAR, u64::MAX])
    {
        let mut wheel = Printed(Wheel::new());
        let wheel = &mut wheel.0;
        let mut due: Vec<u64> = (0..64)
            .map(|bit| 1 << bit)
            .filter(|due| *due <= jump)
            .collect();
        for due in due.iter().rev() {
            wheel.insert(*due, ());
        }
        due.sort_unstable();
        assert_eq!(dues(wheel.advance(jump)), due);
        wheel.check();
    }
}

#[test]
fn time_that_does_not_move_or_goes_back_fires_only_what_is_due() {
    let mut wheel = Printed(Wheel::new());
    let wheel = &mut wheel.0;
    assert_eq!(wheel.advance(100).count(), 0);
    wheel.insert(101, ());
    assert_eq!(wheel.advance(100).count(), 0);
    assert_eq!(wheel.advance(7).count(), 0);
    assert_eq!(wheel.now(), 100);
    wheel.insert(100, ());
    wheel.insert(3, ());
    assert_eq!(dues(wheel.advance(100)), [3, 100]);
    assert_eq!(dues(wheel.advance(101)), [101]);
}

#[test]
fn ties_from_different_levels_fire_in_insertion_order() {
    let mut wheel = Wheel::new();
    wheel.insert(5_000, 0);
    assert_eq!(wheel.advance(4_900).count(), 0);
    wheel.insert(5_000, 1);
    assert_eq!(wheel.advance(4_999).count(), 0);
    let moved = wheel.insert(5_000, 2);
    wheel.insert(5_000, 3);
    wheel.reset(moved, 5_000);
    let order: Vec<_> = wheel.advance(5_000).map(|(_, number)| number).collect();
    assert_eq!(order, [0, 1, 3, 2]);
}

#[test]
fn a_judged_timer_that_is_truly_due_later_is_linked_again() {
    let mut wheel = Wheel::new();
    wheel.insert(10, 1_000);
    wheel.insert(10, 10);
    let mut fired = Vec::new();
    for now in [10, 999, 1_000] {
        let finished = wheel.turn(now, 100, |_, truly_due| {
            if *truly_due > now {
                return Decision::Reschedule(*truly_due);
            }
            fired.push((now, *truly_due));
            Decision::Fire
        });
        assert!(finished);
        wheel.check();
    }
    assert_eq!(fired, [(10, 10), (1_000, 1_000)]);
}

#[test]
fn turns_at_the_earliest_ticks_find_every_timer_in_few_steps() {
    for slots in [2, 8, 64] {
        let mut wheel = Wheel::with_slots(slots);
        let mut expected: Vec<u64> = (0..200).map(|n| n * n * n % 100_003).collect();
        wheel.extend(expected.iter().map(|&due| (due, ())));
        expected.sort_unstable();
        let (mut fired, mut turns) = (Vec::new(), 0);
        let mut before = None;
        while let Some(tick) = wheel.next_turn_at_the_earliest() {
            assert!(before < Some(tick), "a turn at {tick} made no progress");
            assert!(wheel.iter().all(|(_, due, ())| due >= tick));
            fired.extend(dues(wheel.advance(tick)));
            (before, turns) = (Some(tick), turns + 1);
        }
        assert_eq!(fired, expected);
        // Each timer cascades at most once for each level, and fires.
        assert!(turns <= 200 * 18, "{turns} turns");
    }
}

#[test]
fn the_earliest_tick_is_the_due_or_the_start_of_a_coarse_slot() {
    let mut wheel = Wheel::new();
    wheel.insert(5_000, ());
    assert_eq!(wheel.next_turn(), Some(5_000));
    assert_eq!(wheel.next_turn_at_the_earliest(), Some(4_096));
    wheel.insert(63, ());
    assert_eq!(wheel.next_turn_at_the_earliest(), Some(63));
    assert_eq!(wheel.advance(63).count(), 1);
    wheel.insert(7, ());
    assert_eq!(wheel.next_turn_at_the_earliest(), Some(7));
}

#[test]
fn the_earliest_timer_of_a_coarse_slot_is_found_behind_others() {
    for others in 0..40 {
        let mut wheel = Wheel::new();
        wheel.extend((0..others).map(|_| (5_000, ())));
        wheel.insert(4_100, ());
        assert!(wheel.next_turn() <= Some(4_100), "behind {others} others");
    }
}

#[test]
fn a_timer_that_moves_any_distance_fires_once_at_its_new_due() {
    for slots in [2, 4, 64] {
        for phase in 0..70 {
            for delay in [1, 2, 3, 63, 64, 65, 127, 128, 129, 4096] {
                for moved_to in [0, 1, 2, 62, 63, 64, 65, 128, 4095, 4096, 4097] {
                    let mut wheel = Wheel::with_slots(slots);
                    assert_eq!(wheel.advance(phase).count(), 0);
                    let key = wheel.insert(phase + delay, ());
                    assert!(wheel.reset(key, phase + moved_to));
                    if moved_to > 0 {
                        assert_eq!(wheel.advance(phase + moved_to - 1).count(), 0);
                    }
                    assert_eq!(dues(wheel.advance(phase + moved_to)), [phase + moved_to]);
                    assert_eq!(wheel.advance(phase + moved_to + 10_000).count(), 0);
                }
            }
        }
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
    // The wheel adds the due, the sequence, two links and the home to a value. The slab's own tag
    // takes no room.
    assert!(size_of::<Option<Node<[u64; 3]>>>() <= 24 + 32);
}

#[test]
fn a_home_and_a_rank_give_back_what_they_were_made_of() {
    for level in 0..64 {
        for slot in 0..MAX_SLOTS {
            let home = Home::of_slot(level, slot);
            assert_eq!((home.level(), home.slot()), (level, slot));
            assert!(home != Home::OVERDUE);
        }
    }
    for rank in [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        assert_eq!(Links::of_rank(rank).to_rank(), rank);
    }
}

#[test]
fn an_unlinked_timer_may_change_a_plan_that_was_made_for_it() {
    let mut wheel = Wheel::new();
    let mut is_changed = |due, others: &[u64], expiries: [u64; 4]| {
        wheel.extend(others.iter().map(|&due| (due, ())));
        let key = wheel.insert(due, ());
        let (_, unlinked) = wheel.take(key).unwrap();
        wheel.clear();
        expiries.map(|expiry| unlinked.may_change(expiry))
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
    let (_, unlinked) = wheel.take(overdue).unwrap();
    assert!(
        unlinked.may_change(0),
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
fn a_wheel_that_starts_late_does_all_that_an_advanced_one_does() {
    for start in [1, 63, 64, 1 << 36, u64::MAX - 1, u64::MAX] {
        let mut wheel = Wheel::new().starting_at(start);
        assert_eq!((wheel.now(), wheel.levels()), (start, 1));
        wheel.insert(start.saturating_add(1), ());
        wheel.insert(start, ());
        wheel.insert(0, ());
        wheel.check();
        assert_eq!(wheel.next_turn(), Some(0));
        assert_eq!(dues(wheel.advance(start).take(2)), [0, start]);
        let last = start.saturating_add(1);
        assert_eq!(dues(wheel.advance(last)), [last]);
    }
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
    assert!(wheel.cascading.is_some());
    assert!(keys.into_iter().all(|key| wheel.remove(key).is_some()));
    let mut wheel = wheel.starting_at(1 << 20);
    // This due belongs to the slot that was being cascaded, one rotation or more later.
    let due = (1 << 20) + 70;
    wheel.insert(due, ());
    assert_eq!(wheel.next_turn(), Some(due));
    assert_eq!(dues(wheel.advance(due)), [due]);
}

#[test]
fn the_room_that_was_asked_for_is_there_at_once_and_stays() {
    for asked in [0, 1, 5_000] {
        let mut wheel = Wheel::with_capacity(asked);
        let made_with = wheel.capacity();
        assert!(made_with >= asked);
        for due in 0..asked as u64 {
            wheel.insert(due, ());
            assert_eq!(wheel.capacity(), made_with, "it grew");
        }
        for due in 0..100_000 {
            wheel.insert(due, ());
        }
        assert!(wheel.capacity() >= 100_000);
        wheel.insert(200_000, ());
        assert_eq!(wheel.advance(100_000).count(), 100_000 + asked);
        wheel.clear();
        assert_eq!(wheel.capacity(), made_with);
        // The storage shrinks step by step. It shrinks all at once if the last place is pinned
        // until the end.
        for is_pinned in [false, true] {
            let mut keys: Vec<_> = (0..100_000).map(|due| wheel.insert(due, ())).collect();
            keys.reverse();
            keys.rotate_left(usize::from(is_pinned));
            for key in keys {
                assert!(wheel.remove(key).is_some());
                assert!(wheel.capacity() >= made_with, "more was given back");
            }
            assert!(wheel.capacity() <= made_with.max(1024));
        }
        wheel.check();
    }
}

#[test]
#[should_panic(expected = "at most u32::MAX - 1 timers")]
fn room_for_more_timers_than_there_can_be_is_refused() {
    drop(Wheel::<()>::with_capacity(u32::MAX as usize));
}

#[test]
fn a_wheel_made_of_what_another_yields_fires_the_same() {
    let mut wheel: Wheel<_> = [(9, 'a'), (700, 'b'), (9, 'c')].into_iter().collect();
    let mut copy: Wheel<_> = wheel.advance(9).collect();
    copy.extend(wheel.advance(700));
    let fired: Vec<_> = copy.advance(700).collect();
    assert_eq!(fired, [(9, 'a'), (9, 'c'), (700, 'b')]);
}

#[test]
fn a_key_finds_its_timer_until_it_has_fired_and_no_other() {
    let mut wheel = Wheel::new();
    let key = wheel.insert(300, 'a');
    let other = wheel.insert(5, 'b');
    *wheel.get_mut(key).unwrap() = 'c';
    assert_eq!((wheel.get(key), wheel.due(key)), (Some(&'c'), Some(300)));
    assert_eq!((wheel.get(other), wheel.due(other)), (Some(&'b'), Some(5)));
    assert_eq!(wheel.advance(299).count(), 1);
    assert!(wheel.contains(key) && !wheel.contains(other));
    let later = wheel.insert(400, 'd');
    assert_eq!(later.index, other.index, "the place is used again");
    assert_eq!((wheel.get(other), wheel.due(other)), (None, None));
    assert_eq!(wheel.get_mut(other), None);
    assert!(!wheel.contains(other));
}

#[test]
fn a_timer_that_was_due_long_ago_is_armed_until_it_is_yielded() {
    let mut wheel = Wheel::new().starting_at(100);
    let overdue = wheel.insert(3, ());
    let due = wheel.insert(110, ());
    assert_eq!(wheel.advance(110).next(), Some((3, ())));
    assert_eq!((wheel.due(overdue), wheel.due(due)), (None, Some(110)));
    assert_eq!(wheel.iter().collect::<Vec<_>>(), [(due, 110, &())]);
}

#[test]
fn a_stale_key_never_finds_a_later_timer_in_the_same_place() {
    let mut wheel = Wheel::new();
    let first = wheel.insert(1, "first");
    assert_eq!(wheel.remove(first), Some("first"));
    let second = wheel.insert(1, "second");
    assert_eq!(first.index, second.index, "the place is used again");
    assert_eq!(wheel.remove(first), None);
    assert!(!wheel.reset(first, 9));
    assert_eq!(dues(wheel.advance(1)), [1]);
    assert_eq!(wheel.remove(second), None);
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
fn a_look_for_the_first_of_many_far_timers_is_paid_for_once() {
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
        wheel.check();
    }
    assert!(steps < 5_000, "{steps} steps");
    assert_eq!(wheel.find_first(&mut 1), Found::Nothing);
}

#[test]
fn what_is_inserted_before_the_first_waits_for_its_own_tick() {
    let mut wheel = Wheel::new();
    wheel.extend((0..100).map(|_| (5_000, 'b')));
    assert_eq!(wheel.find_first(&mut 1_000), Found::Due(0));
    assert!(wheel.elapsed > wheel.now);
    let earlier = wheel.insert_at(300, 'a');
    assert_eq!(wheel.find_first(&mut 1), Found::Due(earlier));
    assert_eq!(wheel.next_turn(), Some(300));
    assert_eq!(wheel.advance(299).next(), None);
    assert_eq!(dues(wheel.advance(300)), [300]);
    assert_eq!(wheel.advance(4_999).next(), None);
    assert_eq!(wheel.advance(5_000).count(), 100);
}

#[test]
fn a_look_at_far_timers_makes_no_tree_of_all_that_comes_later() {
    let mut wheel = Wheel::new();
    wheel.extend((0..1_000).map(|_| (1_000_000, 0)));
    assert_eq!(wheel.find_first(&mut 10_000), Found::Due(0));
    assert!(wheel.elapsed > wheel.now);
    wheel.extend((0..5_000).map(|number| (1_000 + number % 700, number)));
    wheel.check();
    assert!(wheel.overdue.is_empty() && wheel.elapsed == wheel.now);
    let fired: Vec<_> = wheel.advance(2_000).collect();
    assert!(fired.is_sorted() && fired.len() == 5_000);
    assert_eq!(wheel.advance(1_000_000).count(), 1_000);
}

#[test]
fn timers_that_are_moved_together_fire_as_they_would_have() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut wheel = Wheel::with_slots([2, 8, 64][seed as usize % 3]);
        let mut keys = Vec::new();
        for number in 0..random.u32(..3_000) {
            keys.push(wheel.insert(random.u64(..400), number));
        }
        // Somewhere within a cascade, and with some that are overdue.
        let _ = wheel.find_due(random.u64(..300), &mut random.usize(1..2_000));
        for _ in 0..random.u32(..20) {
            wheel.insert(random.u64(..400), u32::MAX);
        }
        random.shuffle(&mut keys);
        for key in keys.drain(random.usize(..=keys.len())..) {
            wheel.remove(key);
        }
        let mut wheel = Printed(wheel);
        let wheel = &mut wheel.0;
        let left: Vec<_> = wheel.iter().map(|(_, due, &value)| (due, value)).collect();
        wheel.move_together();
        wheel.check();
        assert_eq!(wheel.len(), left.len());
        assert!(wheel.capacity() <= left.len());
        // Ties of the first insertions keep the order of their numbers.
        let fired: Vec<_> = wheel.advance(1_000).collect();
        let mut sorted = left;
        sorted.sort();
        assert_eq!(fired, sorted, "seed {seed}");
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
    for timer in ["tick 10", "overdue: 5\n", "slot 20: 20#2", "slot 10: 700#3"] {
        assert!(drawing.contains(timer), "{timer:?} is not in:\n{drawing}");
    }
}
