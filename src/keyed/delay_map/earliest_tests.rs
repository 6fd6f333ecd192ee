//! Unit tests of `earliest.rs`, which `tests/loom` compiles too.

use super::earliest::{Earliest, First, HeldPart};
use crate::clock::tick::Tick;

const BY: Tick = Tick::new(9);

impl HeldPart for usize {
    fn index(&self) -> usize {
        *self
    }
}

fn first(earliest: &Earliest, remembered: Option<First>) -> Option<(usize, u64)> {
    let first = earliest.first(BY, remembered)?;
    Some((first.part, first.limit.get()))
}

#[test]
fn the_first_part_has_the_smallest_tick_and_the_lowest_number() {
    let earliest = Earliest::new(4);
    assert_eq!(first(&earliest, None), None);
    for (part, tick, expected) in [
        (2, 10, None),
        (2, 9, Some((2, 9))),
        (1, 5, Some((1, 9))),
        (3, 5, Some((1, 5))),
        (0, 7, Some((1, 5))),
        // The later of two parts comes before the other only up to the tick before.
        (1, 8, Some((3, 6))),
        (3, 9, Some((0, 8))),
    ] {
        earliest.write(&part, Tick::new(tick));
        assert_eq!(first(&earliest, None), expected, "{part} at {tick}");
    }
    assert_eq!(earliest.of_all(), Tick::new(7));
}

#[test]
fn parts_are_compared_again_only_after_a_tick_was_lowered() {
    let earliest = Earliest::new(4);
    assert!(earliest.lower(&2, Tick::new(5)) && !earliest.lower(&2, Tick::new(6)));
    let remembered = earliest.first(BY, None);
    earliest.write(&2, Tick::new(8));
    assert_eq!(first(&earliest, remembered), Some((2, 9)), "as it was");
    earliest.lower(&1, Tick::new(6));
    assert_eq!(first(&earliest, remembered), Some((1, 8)));
    earliest.write(&0, Tick::new(3));
    let remembered = earliest.first(BY, remembered);
    assert_eq!(first(&earliest, remembered), Some((0, 6)));
}
