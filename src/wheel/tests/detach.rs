//! Timers that are in no slot: how they get there, and how an owner finds them.
//!
//! Invariant: a detached timer never fires, and its index finds it until it goes out of the wheel.

use super::*;

#[test]
fn a_detached_timer_never_fires_and_its_index_finds_it() {
    let mut wheel = Printed(Wheel::new());
    let wheel = &mut wheel.0;
    let made = wheel.insert_detached('a');
    wheel.insert(5, 'b');
    wheel.insert(900, 'c');
    let mut detached = Vec::new();
    let is_finished =
        wheel.detach_due(899, &mut 100, |index, value| detached.push((index, *value)));
    assert!(is_finished);
    let &[(due, 'b')] = &detached[..] else {
        panic!("{detached:?} were detached");
    };
    wheel.check();
    assert_eq!(wheel.next_turn(), Some(900));
    assert_eq!(dues(wheel.advance(u64::MAX)), [900]);
    assert_eq!(
        (wheel.at(made), wheel.at(due), wheel.len()),
        (&'a', &'b', 2)
    );
    assert_eq!(wheel.tick_at(due), Some(5));
    assert!(wheel.is_detached(made) && wheel.is_detached(due));
    assert!(wheel.is_detached_as(due, |&value| value == 'b'));
    assert!(!wheel.is_detached_as(due, |&value| value == 'a'));
    wheel.check();
}

#[test]
fn each_timer_that_is_detached_takes_a_step_of_the_budget() {
    let mut wheel = Wheel::new();
    wheel.extend([(1, ()), (1, ()), (2, ())]);
    let (mut detached, mut budget) = (0, 2);
    assert!(!wheel.detach_due(2, &mut budget, |_, ()| detached += 1));
    assert_eq!((detached, budget), (2, 0));
    assert!(!wheel.detach_due(2, &mut budget, |_, ()| detached += 1));
    assert_eq!(
        (detached, budget),
        (2, 0),
        "nothing is done without a budget"
    );
    budget = 10;
    assert!(wheel.detach_due(2, &mut budget, |_, ()| detached += 1));
    assert_eq!((detached, budget), (3, 8), "the last step finds nothing");
    wheel.check();
}

#[test]
fn a_timer_is_attached_at_any_tick_from_either_state() {
    let mut wheel = Wheel::new().starting_at(100);
    let detached = wheel.insert_detached('d');
    let (attached, _) = wheel.insert(200, 'a').into_halves();
    wheel.attach(detached, 5_000);
    wheel.attach(attached, 3);
    assert!(!wheel.is_detached(detached) && !wheel.is_detached(attached));
    wheel.check();
    assert_eq!(wheel.advance(100).next(), Some((3, 'a')));
    assert_eq!(wheel.advance(4_999).count(), 0);
    assert_eq!(wheel.advance(5_000).next(), Some((5_000, 'd')));
}

#[test]
fn an_index_takes_its_timer_out_attached_or_detached() {
    let mut wheel = Wheel::new();
    let detached = wheel.insert_detached('d');
    let (attached, _) = wheel.insert(200, 'a').into_halves();
    assert!(
        wheel
            .indices(0..wheel.end_of_indices())
            .eq([detached, attached])
    );
    assert_eq!(wheel.remove_at(attached), 'a');
    assert_eq!(wheel.next_turn(), None);
    *wheel.at_mut(detached) = 'e';
    assert_eq!(wheel.remove_at(detached), 'e');
    assert_eq!(wheel.tick_at(detached), None);
    assert!(!wheel.is_detached_as(detached, |_| true));
    assert!(wheel.is_empty());
    wheel.check();
}
