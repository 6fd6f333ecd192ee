//! Looking at timers by their keys.
//!
//! Invariant: a key answers for its own timer while that is armed, and for no other timer ever.

use super::*;

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
