//! When a deadline may have been due, by the calls that have moved it.

use std::time::Duration;

use tickwheel_soak_model as model;

use crate::record::{Moment, Span};
use crate::world::MS;

pub type Act = model::Act<Moment>;
/// A call that has moved a deadline, or may have. The first one made it.
pub type Move = model::Move<Moment>;

pub fn after(delay: Duration) -> model::Due<Moment> {
    model::Due::After(delay)
}

pub fn earliest(moves: &[Move]) -> Duration {
    model::earliest_due(moves).at
}

pub fn latest(moves: &[Move]) -> Duration {
    model::latest_due(moves, MS).at
}

/// The moves as another call found them. Some may have come after it.
pub fn seen_by(moves: &[Move], seen: &Span) -> Vec<Move> {
    let call = seen.call();
    let seen = moves.iter().filter(|one| one.call.before <= call.after);
    seen.map(|&one| Move {
        is_sure: one.is_sure && one.call.after <= call.before,
        ..one
    })
    .collect()
}
