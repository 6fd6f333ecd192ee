//! Linking: the slots and levels that timers lie in, and what it means that one was unlinked.
//!
//! Invariant: a timer that is linked again, at any distance, fires once and at its new due.

use super::*;

#[test]
fn every_phase_delay_and_gap_of_a_move_fires_once_at_its_new_due() {
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
fn levels_are_made_on_overflow_and_dropped_when_the_top_ones_have_emptied() {
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
    // What the wheel adds to a value: due, sequence, two links and the home, with the slab's own
    // tag for free.
    assert!(size_of::<Option<Node<[u64; 3]>>>() <= 24 + 32);
}
