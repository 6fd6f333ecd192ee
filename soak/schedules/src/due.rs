//! When a deadline may have been due, by the calls that have moved it.

use std::time::Duration;

use tickwheel_soak_model as model;

use crate::record::{Moment, Span};

/// A call that has moved a deadline, or may have. If it was the last one, the deadline was due
/// between these times.
pub type Setting = model::Setting<Moment, [Duration; 2]>;

/// From when on, and until when, a deadline may have been due that `seen` found expired.
pub fn bounds(settings: &[Setting], seen: &Span) -> [Duration; 2] {
    let none = [Duration::MAX, Duration::ZERO];
    model::standing(settings, seen.call()).fold(none, |[from, to], one| {
        [from.min(one.to[0]), to.max(one.to[1])]
    })
}
