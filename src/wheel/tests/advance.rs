//! Advancing: what fires, when and in which order.
//!
//! Invariant: each timer fires at the first advance to its due or later, in order of due, and ties
//! in insertion order.

use super::*;

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
