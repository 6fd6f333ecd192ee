//! What the picture shows at one moment. The terminal and the SVG draw nothing else.
//!
//! Invariant: a moment is a copy. The counts of its slots add up to what is pending, but for the
//! timers that were overdue.

use std::time::Duration;

use tickwheel::LevelSnapshot;

/// What is shown at one moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The tick that it is.
    pub now: u64,
    pub tick: Duration,
    /// The finest first.
    pub levels: Vec<LevelSnapshot>,
    /// Timers in no slot, since their due had passed when they were armed.
    pub overdue: usize,
    pub counts: Counts,
    pub is_paused: bool,
    /// How late the driver came within the last ten seconds.
    pub worst_lateness: Duration,
    pub load: Rates,
    /// The timers that a key has added.
    pub own: Vec<Own>,
    /// What moved since the moment before, where each timer is followed.
    pub moves: Vec<Move>,
}

/// What the load is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub name: &'static str,
    pub heartbeats_a_second: f64,
    pub requests_a_second: f64,
}

/// How many timers there are, and what has become of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pending: u64,
    pub armed: u64,
    /// Resets of pending timers.
    pub pushed_back: u64,
    pub cancelled: u64,
    pub fired: u64,
}

/// A timer that a key has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub number: usize,
    pub timeout: Duration,
    /// `None` once it has fired.
    pub remaining: Option<Duration>,
    pub is_selected: bool,
}

/// Where a timer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub level: usize,
    pub slot: usize,
}

/// What has become of one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub timer: u64,
    pub from: Option<Place>,
    pub to: Option<Place>,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Armed,
    Cascaded,
    /// Its slot has come, and it was reset meanwhile.
    PushedBack,
    Cancelled,
    Fired,
}
