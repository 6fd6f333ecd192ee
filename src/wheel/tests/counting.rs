//! Counting the timers of each slot in steps, between which the wheel changes.
//!
//! Invariant: a step passes a bounded number of places. A timer that stays armed is counted once.

use std::collections::HashMap;

use super::*;

/// Eight places at a step.
const BUDGET: usize = 1;

/// Counts all timers while nothing changes.
pub(super) fn of<T>(wheel: &Wheel<T>) -> SlotCounts {
    let mut counter = SlotCounter::with_budget(BUDGET);
    while !wheel.count_some(&mut counter) {
        counter.count();
    }
    counter.count();
    counter.into_counts()
}

fn sum(counts: &SlotCounts) -> usize {
    counts.levels.iter().flatten().sum::<usize>() + counts.overdue
}

#[test]
fn what_stays_armed_while_it_is_counted_counts_once() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut wheel = Wheel::with_slots(random.choice([2, 8, 64]).unwrap());
        let due = |random: &mut fastrand::Rng| {
            let bits = random.u32(1..30);
            random.u64(1..1 << bits)
        };
        let mut keys: Vec<_> = (0..random.usize(0..4_000))
            .map(|_| wheel.insert(due(&mut random), ()))
            .collect();
        // Some places are free.
        random.shuffle(&mut keys);
        for key in keys.drain(..random.usize(0..=keys.len())) {
            wheel.remove(key);
        }
        let position_of = |wheel: &Wheel<()>, key: &Key| wheel.node(*key).map(|node| node.position);
        let mut unmoved: HashMap<Key, _> = keys
            .iter()
            .map(|key| (*key, position_of(&wheel, key)))
            .collect();
        let (before, mut armed) = (wheel.len(), 0);
        let mut counter = SlotCounter::with_budget(BUDGET);
        while !wheel.count_some(&mut counter) {
            counter.count();
            for _ in 0..random.usize(0..40) {
                match (random.u8(0..4), keys.len()) {
                    (1, 1..) => {
                        wheel.remove(keys.swap_remove(random.usize(..keys.len())));
                    }
                    (2, 1..) => {
                        let key = keys[random.usize(..keys.len())];
                        wheel.reset(key, wheel.now() + due(&mut random));
                    }
                    (3, _) => drop(wheel.advance(wheel.now() + random.u64(0..50)).count()),
                    _ => {
                        armed += 1;
                        wheel.insert(wheel.now() + due(&mut random), ());
                    }
                }
            }
            unmoved.retain(|key, position| position_of(&wheel, key) == *position);
        }
        counter.count();
        let counts = counter.into_counts();
        let stayed = keys.iter().filter(|key| wheel.contains(**key)).count();
        let counted = sum(&counts);
        assert!(
            (stayed..=before + armed).contains(&counted),
            "{counted}, but {stayed} stayed of {before}, and {armed} came: seed {seed}"
        );
        let mut at_least = HashMap::<_, usize>::new();
        for position in unmoved.into_values().flatten() {
            *at_least
                .entry((position.level(), position.slot()))
                .or_default() += 1;
        }
        for ((level, slot), at_least) in at_least {
            assert!(counts.levels[level][slot] >= at_least, "seed {seed}");
        }
    }
}

#[test]
fn a_step_passes_a_bounded_number_of_places() {
    let mut wheel: Wheel<()> = (0..1_000).map(|due| (due, ())).collect();
    let mut counter = SlotCounter::with_budget(BUDGET);
    let mut steps = 0;
    while !wheel.count_some(&mut counter) {
        assert!(counter.seen.len() <= 8 && counter.seen.capacity() == 8);
        counter.count();
        steps += 1;
        assert!(steps < 1_008, "it goes on for as long as the wheel grows");
        // It grows as fast as it is counted, and yet there is an end.
        wheel.extend((0..8).map(|due| (due, ())));
    }
    assert_eq!(steps + 1, 1_008 / 8, "the places that there were at first");
}
