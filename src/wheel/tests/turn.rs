//! Turning with a judge, and the ticks at which the next turn may find a timer due.
//!
//! Invariant: no timer is due before the tick that the wheel tells for its next turn.

use super::*;

#[test]
fn a_judged_timer_that_is_truly_due_later_is_linked_again() {
    let mut wheel = Wheel::new();
    wheel.insert(10, 1_000);
    wheel.insert(10, 10);
    let mut fired = Vec::new();
    for now in [10, 999, 1_000] {
        let finished = wheel.turn(now, 100, |_, truly_due| {
            if *truly_due > now {
                return Verdict::Later(*truly_due);
            }
            fired.push((now, *truly_due));
            Verdict::Fire
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
