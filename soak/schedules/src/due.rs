//! When a deadline may have been due, by the calls that have moved it.

use std::time::Duration;

use crate::record::Span;

/// A call that has moved a deadline, or may have.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub span: Span,
    /// If it was the last one, the deadline was due from here on,
    pub from: Duration,
    /// and no later than this.
    pub to: Duration,
    /// It has moved this deadline, and no other one.
    pub is_sure: bool,
}

/// From when on, and until when, a deadline may have been due that `seen` found expired.
pub fn bounds(settings: &[Setting], seen: &Span) -> (Duration, Duration) {
    let may_be_last = settings.iter().filter(|setting| {
        let is_covered = |later: &Setting| {
            later.is_sure && setting.span.is_before(&later.span) && later.span.is_before(seen)
        };
        !seen.is_before(&setting.span) && !settings.iter().any(is_covered)
    });
    may_be_last.fold((Duration::MAX, Duration::ZERO), |(from, to), setting| {
        (from.min(setting.from), to.max(setting.to))
    })
}
