//! Making wheels of every kind, filling them, and emptying them as a whole.
//!
//! Invariant: a wheel that was made or emptied, in whatever way, does all that a fresh one does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::*;

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
    assert!(!wheel.turn(64, 1, |_, ()| Verdict::Fire));
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
