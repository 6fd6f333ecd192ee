//! Timers by their index, and what moving them together leaves as it was.

use super::*;

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
