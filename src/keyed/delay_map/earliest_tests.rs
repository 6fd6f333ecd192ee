//! Unit tests of `earliest.rs` and `stream_waker.rs`, which `tests/loom` compiles too.

use super::earliest::{Earliest, First};
use super::stream_waker::StreamWaker;
use crate::clock::tick::Tick;
use crate::lines::lines;

fn first(earliest: &Earliest, remembered: Option<First>) -> (Option<First>, Option<(usize, u64)>) {
    let first = earliest.first(Tick::new(9), remembered);
    (first, first.map(|first| (first.part, first.up_to.get())))
}

#[test]
fn the_first_part_is_looked_for_again_once_a_tick_was_lowered() {
    let earliest = Earliest::new(4);
    let mut remembered = None;
    for (part, tick, found, expected) in [
        (2, 10, None, None),
        (2, 9, Some((2, 9)), Some((2, 9))),
        (1, 5, Some((1, 9)), Some((1, 9))),
        (3, 5, Some((1, 5)), Some((1, 5))),
        (0, 7, Some((1, 5)), Some((1, 5))),
        // The later of two parts comes before the other only up to the tick before.
        (1, 8, Some((1, 5)), Some((3, 6))),
        (3, 9, Some((1, 5)), Some((0, 8))),
        (2, 8, Some((0, 8)), Some((0, 8))),
    ] {
        earliest.write(part, Tick::new(tick));
        let shown;
        (remembered, shown) = first(&earliest, remembered);
        assert_eq!(shown, found, "remembered, {part} at {tick}");
        assert_eq!(first(&earliest, None).1, expected, "{part} at {tick}");
    }
    assert!(earliest.lower(2, Tick::new(6)) && !earliest.lower(2, Tick::new(7)));
    assert_eq!(earliest.of_all(), Tick::new(6));
}

/// Otherwise each poll of the stream would slow the next call of each thread.
#[test]
fn what_the_stream_writes_lies_on_no_line_that_a_call_reads() {
    let [(_, earliest), (_, stream)] = lines!(StreamWaker: earliest, stream);
    assert!(stream[0] > earliest[1] || stream[1] < earliest[0]);
    let [(_, parts), (_, was_lowered)] = lines!(Earliest: parts, was_lowered);
    assert_ne!(parts, was_lowered);
}
