//! Linking: the slots and levels that timers lie in, and what it means that one was unlinked.
//!
//! Invariant: a timer that is linked again, at any distance, fires once and at its new due.

use super::level::MAX_SLOTS;
use super::list::Links;
use super::*;

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
    let mut is_changed = |due, others: &[u64], plans: [u64; 4]| {
        wheel.extend(others.iter().map(|&due| (due, ())));
        let key = wheel.insert(due, ());
        let (_, unlinked) = wheel.take(key).unwrap();
        wheel.clear();
        plans.map(|plan| unlinked.may_change(plan))
    };
    let plans = [4_095, 4_096, 4_999, 5_000];
    // A plan may name the start of a coarse slot only for the last timer in it.
    assert_eq!(is_changed(5_000, &[], plans), [false, true, true, true]);
    assert_eq!(
        is_changed(5_000, &[4_100], plans),
        [false, false, false, true]
    );
    assert_eq!(
        is_changed(5_000, &[9_000], plans),
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
        "a plan for what is overdue may be any tick"
    );
}
