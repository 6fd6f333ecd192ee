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

use crate::time::due::{Stamp, Start};
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
    /// It is due once, at this time.
    Once(Once),
    Settled(Outcome),
}

/// When a deadline is due that was set for once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Once {
    At(Moment),
    /// This many ticks after the window of this stamp.
    Stamped {
        stamp: Stamp,
        ticks: u64,
    },
}

impl Once {
    /// `None` for what does not fit a word.
    pub(crate) fn stamped(stamp: Stamp, ticks: u64) -> Option<Once> {
        let fits = (1..1 << STAMP_BITS).contains(&stamp.tick()) && ticks < 1 << TICKS_BITS;
        fits.then_some(Once::Stamped { stamp, ticks })
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

    /// The stamp from which a deadline counts, if it counts from one.
    #[inline]
    pub(crate) fn counts_from_stamp(self) -> Option<Stamp> {
        (self.tag() == STAMPED).then_some(Stamp::of(self.bits()))
    }

    /// Whether both count from a moment, or both from a stamp. Then the greater one is the later
    /// one.
    pub(crate) fn can_be_compared(self, other: Packed) -> bool {
        self.tag() == other.tag() && matches!(self.tag(), COUNTING | STAMPED)
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0 & TAG_MASK
    }

    #[inline]
    fn bits(self) -> u64 {
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
            State::Once(Once::At(due)) => pack(ONCE, due.to_bits()),
            State::Once(Once::Stamped { stamp, ticks }) => {
                pack(OTHER, stamp.tick() << TICKS_BITS | ticks)
            }
            State::Settled(outcome) => pack(OTHER, outcome as u64),
        }
    }
}

impl From<Packed> for State {
    fn from(packed: Packed) -> State {
        let bits = packed.bits();
        match packed.tag() {
            COUNTING => State::Counting(Start::At(Moment::from_bits(bits))),
            STAMPED => State::Counting(Start::Stamp(Stamp::of(bits))),
            ONCE => State::Once(Once::At(Moment::from_bits(bits))),
            _ => match bits {
                0 => State::Settled(Outcome::Expired),
                1 => State::Settled(Outcome::Cancelled),
                2 => State::Settled(Outcome::Replaced),
                3 => State::Settled(Outcome::Drained),
                4 => State::Settled(Outcome::ShutDown),
                _ => State::Once(Once::Stamped {
                    stamp: Stamp::of(bits >> TICKS_BITS),
                    ticks: bits & ((1 << TICKS_BITS) - 1),
                }),
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
            moment().prop_map(|due| State::Once(Once::At(due))),
            (1..1_u64 << STAMP_BITS, 0..1_u64 << TICKS_BITS).prop_map(
                |(stamp, ticks)| State::Once(Once::Stamped {
                    stamp: Stamp::of(stamp),
                    ticks
                })
            ),
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
        let stamped = |stamp, ticks| Once::stamped(Stamp::of(stamp), ticks);
        assert_eq!(stamped(0, 5), None);
        assert_eq!(stamped(1 << STAMP_BITS, 5), None);
        assert_eq!(stamped(7, 1 << TICKS_BITS), None);
        assert!(stamped((1 << STAMP_BITS) - 1, (1 << TICKS_BITS) - 1).is_some());
    }
}
