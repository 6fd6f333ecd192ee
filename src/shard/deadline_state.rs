//! The states of a deadline, and how each is packed into one word.
//!
//! | tag | the other 62 bits | the deadline is |
//! |---|---|---|
//! | `COUNTING` | the moment of the last reset | pending, due its timeout after that moment |
//! | `STAMPED` | the stamp of the last reset | pending, due its timeout after the stamp's window |
//! | `ONCE` | a moment | pending, due then (after `reset_after`, `reset_at`) |
//! | `OTHER` | a stamp and some ticks | pending, due these ticks after the stamp's window |
//! | `OTHER` | an outcome | settled: it has come to its end, as the outcome tells |
//!
//! A `reset_after` sets the stamp and ticks. The outcomes are: the deadline has expired, or was
//! cancelled, replaced or drained, or its runtime has shut down.
//!
//! Invariant: of two words with the tag `COUNTING`, or two with `STAMPED`, the later one is the
//! greater. An outcome is less than any stamp with its ticks, because no stamp is zero there.

use crate::time::due::{Due, Stamp, StampedDue, Start};
use crate::time::tick::Moment;

const TAG_BITS: u32 = 2;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const COUNTING: u64 = 0;
const ONCE: u64 = 1;
const OTHER: u64 = 2;
const STAMPED: u64 = 3;

/// The number of bits for the ticks beside a stamp. The stamp has the rest.
const TICKS_BITS: u32 = 20;
const STAMP_BITS: u32 = u64::BITS - TAG_BITS - TICKS_BITS;

/// How a deadline came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Expired,
    Cancelled,
    Replaced,
    Drained,
    ShutDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its timeout counts from here.
    Counting(Start),
    /// It is due then, once. A stamped one must be one that [`fits`](State::fits).
    Once(Due),
    Settled(Outcome),
}

impl State {
    /// Whether a due that is this many ticks after a stamp's window can be packed.
    pub(crate) fn fits(stamp: Stamp, ticks: u64) -> bool {
        (1..1 << STAMP_BITS).contains(&stamp.tick()) && ticks < 1 << TICKS_BITS
    }

    /// Whether the due was set for once.
    pub(crate) fn is_once(self) -> bool {
        matches!(self, State::Once(_))
    }
}

/// A state in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Packed(pub(crate) u64);

impl Packed {
    #[inline]
    pub(crate) fn counting_from(start: Start) -> Packed {
        match start {
            Start::At(moment) => pack(COUNTING, moment.to_bits()),
            Start::Stamp(stamp) => pack(STAMPED, stamp.tick()),
        }
    }

    /// Whether both count from a moment, or both from a stamp. Then the greater one is the later
    /// one.
    #[inline]
    pub(crate) fn can_be_compared(self, other: Packed) -> bool {
        self.tag() == other.tag() && matches!(self.tag(), COUNTING | STAMPED)
    }

    /// Whether it counts from a stamp.
    #[inline]
    pub(crate) fn is_stamped(self) -> bool {
        self.tag() == STAMPED
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0 & TAG_MASK
    }

    /// All but the tag.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0 >> TAG_BITS
    }
}

#[inline]
fn pack(tag: u64, bits: u64) -> Packed {
    Packed(bits << TAG_BITS | tag)
}

impl From<State> for Packed {
    fn from(state: State) -> Packed {
        match state {
            State::Counting(start) => Packed::counting_from(start),
            State::Once(Due::At(due)) => pack(ONCE, due.to_bits()),
            State::Once(Due::Stamped(due)) => {
                pack(OTHER, due.stamp.tick() << TICKS_BITS | due.ticks())
            }
            State::Settled(outcome) => pack(OTHER, outcome as u64),
        }
    }
}

impl From<Packed> for State {
    #[inline]
    fn from(packed: Packed) -> State {
        let bits = packed.bits();
        match packed.tag() {
            COUNTING => State::Counting(Start::At(Moment::from_bits(bits))),
            STAMPED => State::Counting(Start::Stamp(Stamp::of(bits))),
            ONCE => State::Once(Due::At(Moment::from_bits(bits))),
            _ => match bits {
                0 => State::Settled(Outcome::Expired),
                1 => State::Settled(Outcome::Cancelled),
                2 => State::Settled(Outcome::Replaced),
                3 => State::Settled(Outcome::Drained),
                4 => State::Settled(Outcome::ShutDown),
                _ => State::Once(Due::Stamped(StampedDue::new(
                    Stamp::of(bits >> TICKS_BITS),
                    bits & ((1 << TICKS_BITS) - 1),
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = State> {
        let moment = || (0..=Moment::MAX.to_bits()).prop_map(Moment::from_bits);
        prop_oneof![
            moment().prop_map(|moment| State::Counting(Start::At(moment))),
            (0..1_u64 << 60).prop_map(|stamp| State::Counting(Start::Stamp(Stamp::of(stamp)))),
            moment().prop_map(|due| State::Once(Due::At(due))),
            (1..1_u64 << STAMP_BITS, 0..1_u64 << TICKS_BITS).prop_map(|(stamp, ticks)| {
                State::Once(Due::Stamped(StampedDue::new(Stamp::of(stamp), ticks)))
            }),
            prop_oneof![
                Just(Outcome::Expired),
                Just(Outcome::Cancelled),
                Just(Outcome::Replaced),
                Just(Outcome::Drained),
                Just(Outcome::ShutDown),
            ]
            .prop_map(State::Settled),
        ]
    }

    proptest! {
        #[test]
        fn every_state_comes_out_of_its_word_again(state in state()) {
            prop_assert_eq!(State::from(Packed::from(state)), state);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_packed() {
        let fits = |stamp, ticks| State::fits(Stamp::of(stamp), ticks);
        assert!(!fits(0, 5));
        assert!(!fits(1 << STAMP_BITS, 5));
        assert!(!fits(7, 1 << TICKS_BITS));
        assert!(fits((1 << STAMP_BITS) - 1, (1 << TICKS_BITS) - 1));
    }
}
