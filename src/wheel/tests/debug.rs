//! What a wheel looks like to a person who debugs.
//!
//! Invariant: each timer is in the drawing once, in its slot or among the overdue.

use super::*;

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
